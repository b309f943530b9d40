# SPDX-License-Identifier: BSD-2-Clause
"""Paths that come from input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular, read_below

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
