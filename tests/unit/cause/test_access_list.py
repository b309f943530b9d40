# SPDX-License-Identifier: BSD-2-Clause
"""Which entry of an access control list decides, on real files and lists."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory

import pytest
from tests.unit.cause.test_reasons import OTHER, call, reason

from retsnoop_py.cause.access_list import access_list, deciding_entry
from retsnoop_py.cause.files import Identity

USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHERS = 1, 2, 4, 8, 16, 32
NONE = 0xFFFFFFFF


@pytest.fixture
def file() -> Iterator[Path]:
    """A file that everybody can reach."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        path = Path(name) / "file"
        path.write_text("secret")
        yield path


def give(path: Path, *entries: tuple[int, int, int]) -> None:
    raw = pack("<I", 2) + b"".join(pack("<HHI", *one) for one in entries)
    os.setxattr(path, "system.posix_acl_access", raw)


def with_user(path: Path, rights: int, mask: int) -> None:
    give(
        path,
        *((USER_OBJ, 6, NONE), (USER, rights, OTHER), (GROUP_OBJ, 4, NONE)),
        *((MASK, mask, NONE), (OTHERS, 4, NONE)),
    )


def test_a_file_without_a_list(file: Path) -> None:
    assert access_list(str(file)) is None
    assert access_list(f"{file}/nosuch") is None


def test_the_entry_of_a_user_denies_what_the_mode_allows(file: Path) -> None:
    with_user(file, 0, 7)
    found = reason(call("openat", errno.EACCES, (1, str(file)), uid=OTHER, gid=OTHER))
    assert found.kind == "file-mode"
    assert f"The access control list (ACL) has the entry user:{OTHER}:---." in found.text
    assert found.advice[1] == f"or setfacl -m user:{OTHER}:r {file}"


def test_the_mask_takes_a_right_away(file: Path) -> None:
    with_user(file, 6, 4)
    written = call(
        "openat", errno.EACCES, (1, str(file)), uid=OTHER, gid=OTHER, arguments=(0, 0, 1, 0, 0, 0)
    )
    found = reason(written)
    assert f"the entry user:{OTHER}:rw-, which the mask of the list limits." in found.text
    assert found.advice[1] == f"or setfacl -m mask::w {file}"


def test_any_group_of_the_list_may_give_the_right(file: Path) -> None:
    give(
        file,
        *((USER_OBJ, 6, NONE), (GROUP_OBJ, 0, NONE), (GROUP, 0, 70), (GROUP, 4, 71)),
        *((MASK, 7, NONE), (OTHERS, 0, NONE)),
    )
    entries, status = access_list(str(file)), file.stat()
    assert entries is not None
    both = deciding_entry(entries, status, Identity(OTHER, OTHER, (70, 71)), os.R_OK)
    assert (both.number, both.rights) == (71, 4)
    one = deciding_entry(entries, status, Identity(OTHER, OTHER, (70,)), os.R_OK)
    assert (one.number, one.rights) == (70, 0)
    none = deciding_entry(entries, status, Identity(OTHER, OTHER), os.R_OK)
    assert none.words == "other::---"


def test_a_list_that_is_cut_or_huge_is_no_error(file: Path) -> None:
    give(
        file,
        (USER_OBJ, 6, NONE),
        *((USER, 6, 100_000 + number) for number in range(300)),
        *((GROUP_OBJ, 0, NONE), (MASK, 6, NONE), (OTHERS, 0, NONE)),
    )
    entries = access_list(str(file))
    assert entries is not None
    assert len(entries) == 303
    assert deciding_entry((), file.stat(), Identity(OTHER, OTHER), os.R_OK).rights == 0
