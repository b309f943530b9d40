# SPDX-License-Identifier: BSD-2-Clause
"""Numbers and text of the kernel as C programmers write them."""

from __future__ import annotations

from itertools import accumulate

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.render.args.node import CUT
from retsnoop_py.session.results import MAX_ERRNO
from retsnoop_py.text import display_width

__all__ = ["cut_to", "number", "plain_text", "pointer", "quoted"]

#: From here on a number is rather a bit pattern or an address.
_DECIMAL_END = 1 << 22
_WORD = 1 << 64
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
#: Bytes that are not UTF-8 are decoded to these (PEP 383).
_FIRST_STRAY, _LAST_STRAY, _STRAY = "\udc80", "\udcff", 0xDC00


def number(value: int, bits: int = 64) -> str:
    """Decimal while it is small or negative, else hexadecimal."""
    if value < _DECIMAL_END:
        return str(value)
    return f"{value & ((1 << bits) - 1):#x}"


def pointer(value: int) -> str:
    """``NULL``, an error in place of an address, or the address."""
    if not value:
        return "NULL"
    if value >= _WORD - MAX_ERRNO:
        name = ERRNO_NAMES.get(_WORD - value)
        return f"ERR_PTR(-{name or _WORD - value})"
    return f"{value:#x}"


def quoted(data: bytes, *, is_cut: bool = False) -> str:
    r"""Text in quotes; what is not printable or not UTF-8 is escaped, and a cut marked."""
    text = data.decode("utf-8", "surrogateescape")
    if not text.isprintable() or "'" in text or "\\" in text:
        text = "".join(map(_escaped, text))
    return f"'{text}'{CUT if is_cut else ''}"


def plain_text(data: bytes, *, is_cut: bool = False) -> str:
    r"""Text for a program; bytes that are not UTF-8 as ``\xNN``, and a cut marked."""
    return data.decode("utf-8", "backslashreplace") + (CUT if is_cut else "")


def cut_to(text: str, width: int, mark: str = CUT) -> str:
    """``text``, of which no more than ``width`` columns are shown, the mark included; 0: all.

    Of a mark that is wider than that, as much as there is room for.
    """
    if not width or display_width(text) <= width:
        return text
    room = width - display_width(mark)
    if room < 0:
        return cut_to(mark, width, "")
    ends = accumulate(map(display_width, text))
    return text[: next(index for index, end in enumerate(ends) if end > room)] + mark


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if _FIRST_STRAY <= char <= _LAST_STRAY:
        return f"\\x{ord(char) - _STRAY:02x}"
    return char.encode("unicode_escape").decode()
