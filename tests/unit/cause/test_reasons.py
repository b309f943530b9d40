# SPDX-License-Identifier: BSD-2-Clause
"""What a failing call means for the user, by what the file system and /proc say."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from retsnoop_py.cause.events import Address, SystemCall, Witnessed
from retsnoop_py.cause.files import Identity, missing_part, mount_of, near
from retsnoop_py.cause.operation import operation, path_of
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of, reason_of_start

#: Somebody who is not the owner of what a test makes.
OTHER = 54321


def call(name: str, error: int, *texts: tuple[int, str], **changes: object) -> SystemCall:
    given = {
        "time": 1,
        "tid": 7,
        "pid": 7,
        "process": "tool",
        "name": name,
        "error": error,
        "arguments": (0xFFFFFF9C, 0, 0, 0, 0, 0),
        "texts": texts,
        "address": None,
        "uid": 0,
        "gid": 0,
        "cwd": "/",
        "is_filtered": False,
    }
    return SystemCall(**given | changes)  # type: ignore[arg-type]


def reason(one: SystemCall, *others: SystemCall, said: tuple[str, ...] = ()) -> Reason:
    groups = Identity(one.uid, one.gid)
    found = reason_of(Scene(one, Witnessed((*others, one)), groups, said))
    assert found is not None
    return found


def test_which_part_of_a_path_is_missing(tmp_path: Path) -> None:
    (tmp_path / "settings.conf").touch()
    found = reason(call("openat", errno.ENOENT, (1, f"{tmp_path}/setings.conf")))
    assert found.kind == "not-found"
    assert found.text.startswith(f"{tmp_path}/setings.conf does not exist.")
    assert found.advice == (f"check the spelling: {tmp_path}/settings.conf exists",)
    deep = reason(call("mkdir", errno.ENOENT, (0, f"{tmp_path}/a/b/c")))
    assert deep.text.startswith(f"The directory {tmp_path}/a does not exist")
    assert deep.advice == (f"create it: mkdir -p {tmp_path}/a/b",)


def test_the_source_of_a_mount_without_a_device_is_no_path() -> None:
    one = call("mount", errno.ENOENT, (0, "none"), (1, "/nosuch/mnt"), (2, "tmpfs"), (4, ""))
    assert reason(one).text.startswith("The directory /nosuch does not exist")


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/nowhere/at/all")
    found = reason(call("openat", errno.ENOENT, (1, str(link))))
    assert "is a symbolic link to /nowhere/at/all" in found.text


def test_what_is_there_by_now_is_no_reason(tmp_path: Path) -> None:
    there = call("openat", errno.ENOENT, (1, str(tmp_path)))
    assert reason_of(Scene(there, Witnessed((there,)), Identity(0, 0))) is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own are not."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_directory_on_the_way_that_nobody_else_may_enter(open_folder: Path) -> None:
    inner = open_folder / "inner"
    inner.mkdir()
    (inner / "file").touch()
    inner.chmod(0o700)
    found = reason(call("openat", errno.EACCES, (1, f"{inner}/file"), uid=OTHER, gid=OTHER))
    assert found.kind == "file-mode"
    assert f"may not enter the directory {inner}: owner " in found.text
    assert "mode 0700" in found.text
    assert f"chmod o+x {inner}" in found.advice[1]


def test_the_right_that_is_missing_is_that_of_the_flags(tmp_path: Path) -> None:
    status = os.stat_result((0o100644, 0, 0, 0, 5, 5, 0, 0, 0, 0))
    assert Identity(OTHER, OTHER).may(status, os.R_OK)
    assert not Identity(OTHER, OTHER).may(status, os.W_OK)
    assert Identity(5, OTHER).may(status, os.R_OK | os.W_OK)
    assert not Identity(OTHER, OTHER, (5,)).may(status, os.W_OK)
    assert Identity(0, 0).may(status, os.W_OK)
    assert not Identity(0, 0).may(status, os.X_OK)


def test_the_same_name_in_many_folders_is_a_search() -> None:
    tried = [
        call("newfstatat", errno.ENOENT, (1, f"{folder}/nosuch")) for folder in ("/bin", "/usr/bin")
    ]
    found = reason(tried[-1], *tried[:-1])
    assert found.text == "nosuch is in none of the folders /bin, /usr/bin."
    assert not found.is_seen_later


def test_a_library_that_is_nowhere() -> None:
    tried = [
        call("openat", errno.ENOENT, (1, f"{folder}/libx.so.1"))
        for folder in ("/nosuch/glibc-hwcaps", "/lib", "/usr/lib")
    ]
    found = reason(tried[-1], *tried[:-1])
    assert found.text.endswith("It looked in /lib, /usr/lib.")


def test_a_script_without_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/nosuch/python3 -E\n")
    found = reason_of_start(str(script), errno.ENOENT, 0, 0)
    assert found is not None
    assert "the interpreter /nosuch/python3 does not exist" in found.text
    script.write_text("#!/bin/sh\r\necho\r\n")
    found = reason_of_start(str(script), errno.ENOENT, 0, 0)
    assert found is not None
    assert "carriage return" in found.text
    assert found.advice == (f"sed -i 's/\\r$//' {script}",)


def test_what_is_no_program(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("echo hi\n")
    found = reason_of_start(str(text), errno.ENOEXEC, 0, 0)
    assert found is not None
    assert found.kind == "format"
    text.write_bytes(b"\x7fELF" + bytes(60))
    found = reason_of_start(str(text), errno.ENOEXEC, 0, 0)
    assert found is not None
    assert "another architecture" in found.text


def test_what_is_there_already(tmp_path: Path) -> None:
    found = reason(call("mkdirat", errno.EEXIST, (1, str(tmp_path))))
    assert found.text.startswith(f"There is a directory {tmp_path} already: owner ")
    link = call("symlinkat", errno.EEXIST, (0, "target"), (2, str(tmp_path)))
    assert f"There is a directory {tmp_path}" in reason(link).text


def test_who_has_the_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        address = Address(socket.AF_INET, "0.0.0.0", port)
        found = reason(call("bind", errno.EADDRINUSE, address=address))
    assert f"(PID {os.getpid()}) listens on port {port} (tcp)" in found.text


def test_a_low_port_needs_a_capability() -> None:
    address = Address(socket.AF_INET, "0.0.0.0", 1)
    found = reason(call("bind", errno.EACCES, address=address, uid=OTHER))
    assert "CAP_NET_BIND_SERVICE" in found.text


def test_who_holds_what_is_busy(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w"):
        found = list(_holders(tmp_path))
    assert not found, "we are not told of"
    pid = os.fork()
    if not pid:
        os.chdir(tmp_path)
        os.kill(os.getpid(), 19)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    try:
        assert any(f"(PID {pid}): its current folder is" in one for one in _holders(tmp_path))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _holders(path: Path) -> list[str]:
    from retsnoop_py.cause import present

    return list(present._holders(str(path)))


def test_the_kernels_own_words_come_first() -> None:
    one = call("mount", errno.EINVAL, (0, "none"), (1, "/proc"), (2, "tmpfs"))
    found = reason(one, said=("tmpfs: Unknown parameter 'sise'",))
    assert found.text == "The kernel reported: \"tmpfs: Unknown parameter 'sise'\""
    assert found.advice == ("remove the option sise, or check its spelling",)


def test_what_is_no_mount_point(tmp_path: Path) -> None:
    flags = (0, 0, 0, 1 << 20, 0, 0)
    one = call("mount", errno.EINVAL, (0, "none"), (1, str(tmp_path)), arguments=flags)
    assert operation(one) == f"changing the mount {tmp_path}"
    assert "is not a mount point" in reason(one).text


def test_operations_in_words() -> None:
    assert operation(call("openat", 2, (1, "/a b"))) == "opening '/a b'"
    assert operation(call("renameat2", 2, (1, "x"), (3, "y"))) == "renaming x to y"
    assert operation(call("bpf", 22)) == "bpf()"
    assert operation(call("unlinkat", 2, (1, ""))) == "unlinkat()"


def test_relative_paths_are_those_of_the_process() -> None:
    assert path_of(call("openat", 2, (1, "x"), cwd="/srv")) == "/srv/x"
    assert path_of(call("openat", 2, (1, "x"), cwd=None)) is None
    beneath = call("openat", 2, (1, "x"), cwd="/srv", arguments=(5, 0, 0, 0, 0, 0))
    assert path_of(beneath) is None, "below a descriptor that we do not know"
    assert path_of(call("mkdir", 2, (0, "x"), cwd="/srv", arguments=(5,) * 6)) == "/srv/x"


def test_paths(tmp_path: Path) -> None:
    assert missing_part(f"{tmp_path}/x/y") == (f"{tmp_path}/x", None)
    assert missing_part(str(tmp_path)) is None
    (tmp_path / "README").touch()
    assert near(f"{tmp_path}/readme") == f"{tmp_path}/README"
    assert near(f"{tmp_path}/something") is None
    proc = mount_of("/proc/self/status")
    assert proc is not None
    assert (proc.point, proc.kind) == ("/proc", "proc")
