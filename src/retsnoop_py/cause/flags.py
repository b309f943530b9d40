# SPDX-License-Identifier: BSD-2-Clause
"""The names of the bits of flags that callers pass to system calls: the rows of ``flags.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from retsnoop_py.cause.tables import read_table

__all__ = ["Bits", "FlagRow", "bits_of", "flag_rows", "is_copy"]

#: A bit by its name.
Bits = Mapping[str, int]


class FlagRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the head of the file explains each field."""

    calls: tuple[str, ...]
    names: tuple[str, ...]
    bits: dict[str, int]
    copies: tuple[str, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    flags: tuple[FlagRow, ...]


@lru_cache(1)
def flag_rows() -> tuple[FlagRow, ...]:
    """Return all rows."""
    return read_table("flags.toml", _File).flags


def bits_of(call: str, name: str) -> Bits:
    """Return the bits of the expression ``name`` in a system call; empty if they are unknown."""
    for row in flag_rows():
        known = (*row.names, *row.copies)
        if name in known and any(fnmatchcase(call, one) for one in row.calls):
            return row.bits
    return {}


def is_copy(call: str, expression: str) -> bool:
    """Return True if the kernel sets the expression to flags that the caller passed."""
    return any(
        expression in row.copies
        for row in flag_rows()
        if any(fnmatchcase(call, one) for one in row.calls)
    )
