# SPDX-License-Identifier: BSD-2-Clause
"""A captured value taken apart: one tree for text, in one line or many, and for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["CUT", "LABEL", "Group", "Leaf", "Node", "Plain", "block", "inline", "plain_of"]

#: What a program gets of a value: numbers, text, and these nested.
Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

#: Stands for what was not captured.
CUT = "…"
#: The key of an object's name in what programs get; no member in C can be called that.
LABEL = "@name"
_STEP = "    "
_EXACT = 1 << 53


class Leaf(NamedTuple):
    """A value without parts: as people write it, and as a program wants it."""

    text: str
    plain: Plain


class Group(NamedTuple):
    """A struct, a union or an array: its members with their names, empty for an array's.

    ``prefix`` stands before it. ``is_cut``: it goes on behind what was captured. ``label`` is the
    name of a kernel object, of a file for instance.
    """

    members: tuple[tuple[str, Node], ...]
    is_array: bool = False
    is_cut: bool = False
    prefix: str = ""
    label: str = ""


Node = Leaf | Group


def inline(node: Node) -> str:
    """The value in one line: ``{.a=1,.b=[2,3]}``."""
    if isinstance(node, Leaf):
        return node.text
    parts = [f".{name}={inline(member)}" if name else inline(member) for name, member in node[0]]
    if node.is_cut:
        parts.append(CUT)
    opening, closing = "[]" if node.is_array else "{}"
    return f"{node.prefix}{opening}{','.join(parts)}{closing}"


def block(node: Node, level: int = 0) -> list[str]:
    """The value over several lines, the first one without indentation."""
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
    """The value for a program; members of anonymous members are the struct's own, as in C.

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
