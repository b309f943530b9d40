# SPDX-License-Identifier: BSD-2-Clause
"""A captured value as a tree, for text in one line or many, and for JSON.

Numbers and text use the notation of kernel programmers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from retsnoop_py.kernel.errno import ERRNO_NAMES, MAX_ERRNO
from retsnoop_py.text import display_width

#: The JSON form of a value: numbers, text, and these nested.
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

#: Marks data that was not captured.
CUT = "…"
#: The key of an object's name in data for programs; not a valid name in C.
LABEL = "@name"
_STEP = "    "
_EXACT = 1 << 53


class Leaf(NamedTuple):
    """A value without parts: as text for people, and as data for programs."""

    text: str
    plain: Plain


class Group(NamedTuple):
    """A struct, a union or an array: its members by name; array members have empty names.

    ``prefix`` is printed before it. ``is_cut``: it continues after the captured bytes. ``label`` is
    the name of a kernel object, for example of a file.
    """

    members: tuple[tuple[str, Node], ...]
    is_array: bool = False
    is_cut: bool = False
    prefix: str = ""
    label: str = ""


Node = Leaf | Group


def inline(node: Node) -> str:
    """Return the value in one line: ``{.a=1,.b=[2,3]}``."""
    if isinstance(node, Leaf):
        return node.text
    parts = [f".{name}={inline(member)}" if name else inline(member) for name, member in node[0]]
    if node.is_cut:
        parts.append(CUT)
    opening, closing = "[]" if node.is_array else "{}"
    return f"{node.prefix}{opening}{','.join(parts)}{closing}"


def block(node: Node, level: int = 0) -> list[str]:
    """Return the value on several lines, the first one without indentation."""
    if isinstance(node, Leaf):
        return [node.text]
    opening, closing = "[]" if node.is_array else "{}"
    rows = list(_rows(node, level + 1))
    if not rows:
        return [f"{node.prefix}{opening}{closing}"]
    return [f"{node.prefix}{opening}", *rows, f"{_STEP * level}{closing}"]


def _rows(node: Group, level: int) -> Iterator[str]:
    last = len(node.members) - 1
    for position, (name, member) in enumerate(node.members):
        lines = block(member, level)
        lines[0] = f"{_STEP * level}{f'.{name} = ' if name else ''}{lines[0]}"
        if position < last or node.is_cut:
            lines[-1] += ","
        yield from lines
    if node.is_cut:
        yield _STEP * level + CUT


def plain_of(node: Node) -> Plain:
    """Return the value for a program; members of anonymous members belong to the struct.

    Numbers that do not fit a ``double`` are texts.
    """
    if isinstance(node, Leaf):
        plain = node.plain
        return str(plain) if isinstance(plain, int) and abs(plain) > _EXACT else plain
    if node.is_array:
        listed = [plain_of(member) for _, member in node.members]
        return [*listed, CUT] if node.is_cut else listed
    found: dict[str, Plain] = {LABEL: node.label} if node.label else {}
    for name, member in node.members:
        value = plain_of(member)
        if name:
            found[name] = value
        elif isinstance(value, dict):
            found.update(value)
    if node.is_cut:
        found[CUT] = True
    return found


#: Larger numbers are probably bit patterns or addresses.
_DECIMAL_END = 1 << 22
_WORD = 1 << 64
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
#: Bytes that are not UTF-8 are decoded to these characters (PEP 383).
_FIRST_STRAY, _LAST_STRAY, _STRAY = "\udc80", "\udcff", 0xDC00


def number(value: int, bits: int = 64) -> str:
    """Return a small or negative number in decimal, others in hexadecimal."""
    if value < _DECIMAL_END:
        return str(value)
    return f"{value & ((1 << bits) - 1):#x}"


def pointer(value: int) -> str:
    """Return ``NULL``, an error pointer's error, or the address."""
    if not value:
        return "NULL"
    if value >= _WORD - MAX_ERRNO:
        name = ERRNO_NAMES.get(_WORD - value)
        return f"ERR_PTR(-{name or _WORD - value})"
    return f"{value:#x}"


def quoted(data: bytes, *, is_cut: bool = False) -> str:
    r"""Return text in quotes, with escapes for unprintable characters and a mark if truncated."""
    text = data.decode("utf-8", "surrogateescape")
    if not text.isprintable() or "'" in text or "\\" in text:
        text = "".join(map(_escaped, text))
    return f"'{text}'{CUT if is_cut else ''}"


def plain_text(data: bytes, *, is_cut: bool = False) -> str:
    r"""Return text for a program; invalid UTF-8 becomes ``\xNN``, and a cut is marked."""
    return data.decode("utf-8", "backslashreplace") + (CUT if is_cut else "")


def cut_to(text: str, width: int, mark: str = CUT) -> str:
    """Return ``text`` cut to at most ``width`` columns, including the mark; 0: no limit.

    A mark that is wider than ``width`` is cut, too.
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
