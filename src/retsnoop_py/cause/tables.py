# SPDX-License-Identifier: BSD-2-Clause
"""Read the tables of this package: TOML files with rows of data."""

from __future__ import annotations

from importlib.resources import files
from typing import TypeVar

from msgspec import Struct

__all__ = ["read_table"]

_T = TypeVar("_T", bound=Struct)


def read_table(name: str, kind: type[_T]) -> _T:
    """Return the file ``name`` of this package as a ``kind``. A field without a place is an error.

    Raises msgspec.ValidationError and tomllib.TOMLDecodeError, which a test would see.
    """
    import tomllib

    from msgspec import convert

    return convert(tomllib.loads(files(__package__).joinpath(name).read_text("utf-8")), kind)
