# SPDX-License-Identifier: BSD-2-Clause
"""Write truth values that compilers compute without jumps as C: ``(a > 1 | b) & 1`` is ``||``."""

from __future__ import annotations

from collections.abc import Callable

from retsnoop_py.path.computed import is_bit
from retsnoop_py.path.insn import OPPOSITE, Insn
from retsnoop_py.path.values import Flags, Node

__all__ = ["truth_of"]

_MAX_DEPTH = 8
_OPPOSITE = {"&": "|", "|": "&"}

#: Return a comparison as C.
Compare = Callable[[Flags, str], "str | None"]


def truth_of(node: Node, held: bool, compare: Compare) -> str | None:
    """Return the C condition that is true if a computed truth value is ``held``.

    Return None for other values, such as numbers.
    """
    found = _truth(node, held, compare, 0) if _has_test(node) else None
    return None if found is None else found[0]


def _has_test(node: Node, depth: int = 0) -> bool:
    """Return True if an expression contains the outcome of a comparison."""
    if node.kind == "cond" or depth > _MAX_DEPTH:
        return True
    return node.kind == "op" and any(_has_test(one, depth + 1) for one in node.args)


def _truth(node: Node, held: bool, compare: Compare, depth: int) -> tuple[str, str] | None:
    """Return the text, and the operator that joins its parts: & or |, or nothing."""
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "cond" and node.flags is not None:
        text = compare(node.flags, _condition(node.name or "", held))
        return None if text is None else (text, "")
    if node.kind != "op":
        return None
    left, right = (*node.args, node.args[0])[:2]
    if is_bit(node):
        return _truth(left, held, compare, depth + 1) or _bit(node, held, compare)
    if node.name == "^" and right.kind == "const" and right.value == 1:
        return _truth(left, not held, compare, depth + 1)
    if node.name not in _OPPOSITE:
        return None
    sign = node.name if held else _OPPOSITE[node.name]
    parts = [_truth(one, held, compare, depth + 1) for one in (left, right)]
    texts = [
        f"({one[0]})" if one[1] not in ("", sign) else one[0] for one in parts if one is not None
    ]
    return (f" {2 * sign} ".join(texts), sign) if len(texts) == len(parts) else None


def _condition(condition: str, held: bool) -> str:
    return condition if held else OPPOSITE.get(condition, "")


def _bit(node: Node, held: bool, compare: Compare) -> tuple[str, str] | None:
    """Return the test of one bit: ``(x >> 3) & 1`` is ``x & 8``."""
    inner, mask = node.args[0], 1
    if _has_test(inner):
        return None
    if inner.kind == "op" and inner.name == ">>" and inner.args[1].kind == "const":
        inner, mask = inner.args[0], 1 << (inner.args[1].value & 63)
    bit = Node("const", node.step, node.at, value=mask, size=node.size)
    flags = Flags(Insn(node.at, 0, "and", "and"), "test", inner, bit, node.size)
    text = compare(flags, "ne" if held else "e")
    return None if text is None else (text, "")
