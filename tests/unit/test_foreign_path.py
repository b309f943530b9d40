# SPDX-License-Identifier: BSD-2-Clause
"""Paths that come from input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retsnoop_py.cause import busy, cgroups
from retsnoop_py.cause.files import attributes, interpreter_of
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular, read_below, read_of_kernel

MOST = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the user gave, next to a secret."""
    (tmp_path / "secret").write_text("key")
    made = tmp_path / "given"
    (made / "src").mkdir(parents=True)
    (made / "src/a.c").write_bytes(b"int a;\n\xff")
    return made


def test_a_file_below_the_folder_is_read(folder: Path) -> None:
    assert read_below(folder, "src/a.c", MOST) == "int a;\n\ufffd"
    (folder / "link.c").symlink_to("src/a.c")
    (folder.parent / "alias").symlink_to(folder)
    assert read_below(folder.parent / "alias", "link.c", MOST) == "int a;\n\ufffd"


def test_nothing_else_is_read_whatever_the_name_is(folder: Path) -> None:
    secret = folder.parent / "secret"
    (folder / "link").symlink_to(secret)
    (folder / "up").symlink_to("..")
    (folder.parent / "given-too").write_text("key")
    for name in ("../secret", "src/../../secret", str(secret), "link", "up/secret"):
        assert read_below(folder, name, MOST) is None
    for name in ("../given-too", "", "src", "none", "a\0b", "\ud800"):
        assert read_below(folder, name, MOST) is None


def test_fifos_devices_and_large_files_are_not_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "large").write_bytes(b"x" * (MOST + 1))
    assert [read_below(folder, name, MOST) for name in ("fifo", "zero", "large")] == [None] * 3
    assert read_below(Path("/dev"), "zero", MOST) is None
    assert read_below(folder, "large", MOST + 1) == "x" * (MOST + 1)


def test_without_proc_a_file_is_opened_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    really = os.open

    def without_proc(name: str | Path, flags: int, *rest: int) -> int:
        return really(str(name).replace("/proc/", "/nonexistent/"), flags, *rest)

    monkeypatch.setattr(os, "open", without_proc)
    fd = open_regular(path)
    try:
        assert os.read(fd, 100) == b"content"
    finally:
        os.close(fd)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError, match="not a regular file"):
        open_regular(tmp_path / "fifo")


#: Regular files by their mode: reading the first waits and takes messages, the second never ends.
OF_KERNEL = ("/proc/kmsg", "/proc/self/mem", "/proc/self/status", "/sys/kernel/uevent_seqnum")


@pytest.mark.parametrize("name", OF_KERNEL)
def test_a_link_to_a_file_of_the_kernel_is_not_opened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(name)
    really, opened = os.open, []

    def noted(path: str | Path, flags: int, *rest: int, **more: int) -> int:
        opened.extend([str(path)] if not flags & os.O_PATH else [])
        return really(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", noted)
    with pytest.raises(DataError, match="a file of the kernel"):
        open_regular(tmp_path / "link")
    assert read_below(Path("/"), name, MOST) is None
    assert interpreter_of(str(tmp_path / "link")) is None
    assert attributes(name) == ()
    assert opened == []


def test_files_of_other_file_systems_are_opened(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "empty", Path("/proc/self/exe"), Path(__file__)):
        os.close(open_regular(path))


def test_a_setting_is_read_wherever_a_link_to_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/sys/kernel/ostype")
    assert read_of_kernel("/proc/sys/kernel/ostype") == "Linux"
    assert read_of_kernel(tmp_path / "link") == "Linux"
    assert read_of_kernel("/sys/kernel/uevent_seqnum").isdigit()


@pytest.mark.parametrize(
    "name",
    ["/proc/kmsg", "/proc/self/mem", "/proc/sys/../self/status", "none", "a\0b", "/proc/sys"],
)
def test_no_other_file_is_a_setting(name: str, tmp_path: Path) -> None:
    assert read_of_kernel(name) == ""
    (tmp_path / "file").write_text("x")
    assert read_of_kernel(tmp_path / "file") == ""


def test_a_folder_with_files_like_those_of_a_cgroup_does_not_stop_why(tmp_path: Path) -> None:
    """A FIFO without a writer, and a file of a terabyte that fills the memory."""
    os.mkfifo(tmp_path / "cgroup.subtree_control")
    (tmp_path / "cgroup.procs").touch()
    os.truncate(tmp_path / "cgroup.procs", 1 << 40)
    assert cgroups._members(tmp_path, "/a", "EBUSY") is None
    assert busy._cgroup(str(tmp_path)) is None
    (tmp_path / "cgroup.procs").unlink()
    (tmp_path / "cgroup.procs").symlink_to("/proc/self/status")
    assert busy._cgroup(str(tmp_path)) is None
