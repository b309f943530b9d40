# SPDX-License-Identifier: BSD-2-Clause
"""System V IPC and keys: which object is missing, there already, or another user's."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import OTHER, call, reason

from retsnoop_py.cause import ipc

SHM = """\
       key      shmid perms                  size  cpid  lpid nattch   uid   gid
        17          3  1600                  4096     7     7      0     0     0
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shm").write_text(SHM)
    (tmp_path / "msg").write_text("key msqid perms cbytes qnum lspid lrpid uid gid\n")
    monkeypatch.setattr(ipc, "_TABLES", tmp_path)


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("name", "error", "number", "words", "advice"),
    [
        ("shmctl", errno.EINVAL, 4242, "no shared memory segment with the id 4242.", "ipcs -m"),
        ("msgctl", errno.EINVAL, 5, "There is no message queue with the id 5.", "ipcs -q"),
        ("shmget", errno.ENOENT, 18, "segment with the key 0x12.", "start the program"),
        ("shmget", errno.EEXIST, 17, "segment with the key 0x11 already.", "ipcrm -m 3"),
        ("shmctl", errno.EPERM, 3, "belongs to root, mode 1600.", "run it as root"),
    ],
)
def test_an_object_of_system_v(name: str, error: int, number: int, words: str, advice: str) -> None:
    found = reason(call(name, error, arguments=(number, 0, 0, 0, 0, 0), uid=OTHER))
    assert words in found.text
    assert any(advice in one for one in found.advice)


@pytest.mark.usefixtures("listed")
def test_a_segment_that_is_smaller() -> None:
    found = reason(call("shmget", errno.EINVAL, arguments=(17, 8192, 0, 0, 0, 0)))
    assert "with the key 0x11 has 4 KiB, and 8 KiB were requested." in found.text


def test_a_key_that_no_keyring_has() -> None:
    texts = (0, "user"), (1, "shop")
    found = reason(call("request_key", errno.ENOKEY, *texts))
    assert found.text.startswith("There is no key shop of the type user in the keyrings")
    expired = reason(call("request_key", errno.EKEYEXPIRED, *texts))
    assert expired.text == "The key shop of the type user has expired."
