# SPDX-License-Identifier: BSD-2-Clause
"""Why a host name has no address, by what programs write and which calls failed."""

from __future__ import annotations

import errno
import socket

import pytest
from tests.unit.cause.test_reasons import call

from retsnoop_py.cause.events import Address, SystemCall, Witnessed, Written
from retsnoop_py.cause.names import unresolved

SERVER = Address(socket.AF_INET, "192.0.2.53", 53)


def wrote(text: str, *calls: SystemCall) -> Witnessed:
    return Witnessed(calls=calls, written=(Written(9, 7, 7, 2, text + "\n"),))


@pytest.mark.parametrize(
    "text",
    [
        "curl: (6) Could not resolve host: db.example",
        "ping: db.example: Name or service not known",
        "wget: unable to resolve host address \u2018db.example\u2019",
        "ssh: Could not resolve hostname db.example: Temporary failure in name resolution",
        "wget: bad address 'db.example'",
        "dial tcp: lookup db.example: no such host",
    ],
)
def test_the_name_is_that_of_the_text(text: str) -> None:
    unreachable = call("connect", errno.ENETUNREACH, address=SERVER)
    found = unresolved(wrote(text, unreachable))
    assert found is not None
    assert found.kind == "name"
    assert found.text == (
        "The host name db.example could not be resolved: there is no route to the name server "
        "192.0.2.53."
    )


def test_a_name_server_that_does_not_know_the_name() -> None:
    found = unresolved(wrote("ping: db.example: Name or service not known"))
    assert found is not None
    assert found.text.startswith(
        "The host name db.example does not exist, as far as the name server"
    )


def test_other_texts_are_about_other_things() -> None:
    assert unresolved(wrote("cat: db.example: No such file or directory")) is None
    assert unresolved(wrote("read: Bad address")) is None
    warning = "sudo: unable to resolve host shop: Temporary failure in name resolution"
    assert unresolved(wrote(warning)) is None
    assert unresolved(wrote("FileNotFoundError: [Errno 2] No such file or directory: 'x'")) is None
    assert unresolved(wrote("Error: getaddrinfo ENOTFOUND db.example")) is not None
