# SPDX-License-Identifier: BSD-2-Clause
"""JSON and MessagePack from recordings, guests and processes without rights: never a crash.

msgspec raises three unrelated kinds of errors for damaged data: its own, UnicodeDecodeError in
names of fields, and RecursionError for a thousand brackets. ``tests/unit/test_foreign_json.py``
fails if other code catches only some of them.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from retsnoop_py.errors import DataError

__all__ = ["decode"]

_T_co = TypeVar("_T_co", covariant=True)


class _Decoder(Protocol[_T_co]):
    """A decoder of msgspec, of either format."""

    def decode(self, data: bytes, /) -> _T_co: ...


def decode(decoder: _Decoder[_T_co], data: bytes) -> _T_co:
    """Return what ``decoder`` makes of ``data``. Raises DataError for any damage."""
    import msgspec

    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise DataError(str(error)) from None
