# SPDX-License-Identifier: BSD-2-Clause
"""Read the tables of this package: TOML files with rows of data."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec import Struct, convert

from retsnoop_py.package import read

__all__ = ["read_table"]

_T = TypeVar("_T", bound=Struct)


def read_table(name: str, kind: type[_T]) -> _T:
    """Return the file ``name`` of this package as a ``kind``. A field without a place is an error.

    Raises msgspec.ValidationError and tomllib.TOMLDecodeError, which a test would see.
    """
    import tomllib

    return convert(tomllib.loads(read(Path(__file__).with_name(name)).decode()), kind)
