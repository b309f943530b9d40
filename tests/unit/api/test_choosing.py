# SPDX-License-Identifier: BSD-2-Clause
"""When a killed process is the answer, and when a failing call is."""

from __future__ import annotations

import errno
import signal

import pytest

from retsnoop_py.api.choosing import Chosen, Survey
from retsnoop_py.api.failing import FailingCalls
from retsnoop_py.cause.events import Ended, Signalled, SystemCall, Witnessed, Written

SHELL, NOISE, MOUNT, OUTSIDER = 1, 2, 3, 99
CALL = SystemCall(
    *(1, MOUNT, MOUNT, "mount", "mount", errno.ENOTBLK, (0,) * 6),
    *(((0, "/dev/null"), (1, "/mnt")), None, 0, 0, "/", False),
)


def survey(text: str, sender: int) -> tuple[Survey, Chosen | None]:
    """`sh -c 'while ...; do ...; done & mount ...; kill $!'`: a call that fails, then a kill."""
    witnessed = Witnessed(
        calls=(CALL,),
        written=(Written(2, MOUNT, MOUNT, 2, text),),
        ends=(
            Ended(3, MOUNT, "mount", 32, 0),
            Ended(5, NOISE, "sh", 0, signal.SIGTERM),
            Ended(6, SHELL, "sh", 32, 0),
        ),
        signals=(Signalled(4, NOISE, signal.SIGTERM, 0, 0, sender, "sender"),),
        parents={NOISE: SHELL, MOUNT: SHELL},
    )
    made = Survey(FailingCalls((), ()), witnessed, is_named=False)
    return made, made.chosen(failed=True)


@pytest.mark.parametrize(
    ("text", "sender", "status", "is_kill"),
    [
        ("mount: /mnt: Block device required\n", OUTSIDER, 32, False),  # the error is in the text
        ("mount: /mnt: /dev/null is not one.\n", SHELL, 32, False),  # the shell ended its helper
        ("mount: /mnt: /dev/null is not one.\n", SHELL, 128 + signal.SIGTERM, True),
        ("mount: /mnt: /dev/null is not one.\n", OUTSIDER, 32, True),
        ("it failed\n", SHELL, 32, True),  # as timeout(1) does
    ],
)
def test_a_kill_is_the_answer_unless_the_command_reports_a_call(
    text: str, sender: int, status: int, *, is_kill: bool
) -> None:
    made, chosen = survey(text, sender)
    assert chosen is not None
    reason = made.end_reason(chosen, status)
    assert (reason is not None) is is_kill
    if reason is not None:
        assert "SIGTERM killed sh" in reason.text
