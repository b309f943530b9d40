# SPDX-License-Identifier: BSD-2-Clause
"""JSON and MessagePack from and with foreign data: never a crash, and always valid UTF-8.

msgspec raises three unrelated kinds of errors for damaged data: its own, UnicodeDecodeError in
names of fields, and RecursionError for a thousand brackets. ``tests/unit/test_foreign_json.py``
fails if other code catches only some of them.

Names of files, processes and symbols are bytes. In Python's text, a byte that is not UTF-8 is a
surrogate, which msgspec does not write. The same test fails if other code writes JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from retsnoop_py.errors import DataError

__all__ = ["decode", "encode", "encode_msgpack", "valid_text"]

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


def encode(value: object, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    r"""Return ``value`` as JSON in UTF-8; a byte of a text that is not UTF-8 becomes ``\\xff``."""
    import msgspec

    try:
        return msgspec.json.encode(value, enc_hook=enc_hook)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook)
        return msgspec.json.encode(_valid(plain))


def encode_msgpack(value: object) -> bytes:
    """Return ``value`` as MessagePack, with texts as :func:`encode` writes them."""
    import msgspec

    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_valid(msgspec.to_builtins(value)))


def valid_text(text: str) -> str:
    r"""Return ``text`` with each surrogate as the bytes that it stands for, as ``\xff``."""
    try:
        data = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # another surrogate than one of a byte
        data = text.encode(errors="surrogatepass")
    return data.decode(errors="backslashreplace")


def _valid(value: Any) -> Any:
    """Return plain data with valid texts."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {_valid(name): _valid(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_valid(one) for one in value]
    return value
