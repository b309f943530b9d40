# SPDX-License-Identifier: BSD-2-Clause
"""Arguments behind a format: how many there are, and what each is, its conversions tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from retsnoop_py.render.args.node import Leaf, Node
from retsnoop_py.render.args.text import number, plain_text, pointer, quoted
from retsnoop_py.session.model import CapturedValue

__all__ = ["conversions", "vararg"]

_CONVERSION = re.compile(
    r"%(?P<percent>%)|%[-+ #0]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|-?\d*))?"
    r"(?P<length>hh|h|ll|l|z|t|j|L|q)?(?P<type>p[A-Za-z0-9]*|[a-zA-Z])"
)
_BITS = {"hh": 8, "h": 16, "": 32}
_STAR = "d"


def conversions(text: str) -> list[str]:
    """One entry for each argument a format takes: length and type of its conversion, ``ld``.

    A width or a precision of ``*`` takes an argument of its own.
    """
    return [one for match in _CONVERSION.finditer(text) for one in _takes(match)]


def _takes(match: re.Match[str]) -> Iterator[str]:
    if match["percent"]:
        return
    for given in (match["width"], match["precision"]):
        if given == "*":
            yield _STAR
    kind = match["type"]
    yield (match["length"] or "") + ("p" if kind.startswith("p") else kind)


def vararg(value: CapturedValue, conversion: str) -> Node:
    """One such argument; an unknown ``conversion`` (empty) shows the whole register."""
    raw = int.from_bytes(value.value, "little")
    kind, length = conversion[-1:], conversion[:-1]
    if kind == "s" or (not kind and value.data):
        return text_of(value.data, raw)
    bits = _BITS.get(length, 64) if kind else 64
    cut = raw & ((1 << bits) - 1)
    if kind == "p":
        return Leaf(pointer(raw), f"{raw:#x}" if raw else None)
    if kind in ("d", "i") and cut >> (bits - 1):
        cut -= 1 << bits
    if kind in ("x", "X"):
        return Leaf(f"{cut:#x}", cut)
    if kind == "c" and chr(cut & 0x7F).isprintable() and cut == cut & 0x7F:
        return Leaf(quoted(bytes([cut])), cut)
    return Leaf(number(cut, bits), cut)


def text_of(data: bytes, address: int) -> Node:
    """Text that was captured with its NUL; without one it was cut. Else where it is."""
    if not data:
        return Leaf(pointer(address), f"{address:#x}" if address else None)
    is_cut = not data.endswith(b"\0")
    text = data if is_cut else data[:-1]
    return Leaf(quoted(text, is_cut=is_cut), plain_text(text, is_cut=is_cut))


def known_conversions(previous: Sequence[CapturedValue]) -> list[str] | None:
    """What the format, the last of the arguments before, takes; None if it was not captured."""
    if not previous or not previous[-1].data:
        return None
    return conversions(previous[-1].data.rstrip(b"\0").decode("latin-1"))
