# SPDX-License-Identifier: BSD-2-Clause
"""The tests from which a result was computed without a jump: setcc, sbb, a sign bit as a mask.

A test has the value 0 or 1, like a bit. A sign that is shifted over all bits is 0 or -1. The
outcome of each test follows from the result: only some combinations compute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from retsnoop_py.path.deduce import known_value
from retsnoop_py.path.insn import INT
from retsnoop_py.path.values import Node

__all__ = ["is_bit", "is_sign", "numbers", "outcomes"]

#: Maximum number of tests in a result, and maximum depth of such an expression.
_MOST, _MAX_DEPTH = 6, 12
_SIGN_SHIFTS = (31, 63)


def outcomes(node: Node, result: int) -> list[tuple[Node, bool]] | None:
    """Return the tests in ``node`` with their outcomes, in the order of execution.

    Tests with either outcome possible are skipped. Return None if no outcome explains ``result``,
    or if an unknown value is part of the result.
    """
    tests, values = _values(node)
    fits = [held for held, value in values.items() if value == result & 0xFFFFFFFF]
    if not tests or not fits:
        return None
    known = []
    for number, one in enumerate(tests):
        sides = {held[number] for held in fits}
        if len(sides) == 1:
            known.append((one, sides.pop()))
    return sorted(known, key=lambda row: row[0].step)


def numbers(node: Node) -> set[int] | None:
    """Return the numbers that a value may be, unsigned; None if an unknown value is part of it."""
    found = set(_values(node)[1].values())
    return None if None in found or not found else {one for one in found if one is not None}


def _values(node: Node) -> tuple[list[Node], dict[tuple[bool, ...], int | None]]:
    """Return the tests in an expression, and its value for each combination of their outcomes."""
    tests: list[Node] = []
    _collect(node, tests)
    if len(tests) > _MOST:
        return [], {}
    found: dict[tuple[bool, ...], int | None] = {}
    for held in product((False, True), repeat=len(tests)):
        made = _with(node, {id(one): is_held for one, is_held in zip(tests, held, strict=True)})
        found[held] = known_value(made, {}, INT) if made is not None else None
    return tests, found


def is_sign(node: Node) -> bool:
    """Return True if all bits of a value are the sign of another value."""
    return (
        node.kind == "op"
        and node.name == "sar"
        and node.args[1].kind == "const"
        and node.args[1].value in _SIGN_SHIFTS
    )


def is_bit(node: Node) -> bool:
    """Return True if a value is the lowest bit of another value."""
    return (
        node.kind == "op"
        and node.name == "&"
        and node.args[1].kind == "const"
        and node.args[1].value == 1
    )


def _collect(node: Node, tests: list[Node], depth: int = 0) -> None:
    if depth > _MAX_DEPTH or any(node is one for one in tests):
        return
    if node.kind == "cond" or is_sign(node) or is_bit(node):
        tests.append(node)
    elif node.kind == "op":
        for one in node.args:
            _collect(one, tests, depth + 1)


def _with(node: Node, held: Mapping[int, bool], depth: int = 0) -> Node | None:
    """Return the expression with numbers in place of its tests."""
    if depth > _MAX_DEPTH:
        return None
    if id(node) in held:
        true = -1 if is_sign(node) else 1
        return Node("const", value=true if held[id(node)] else 0)
    if node.kind != "op":
        return node
    args = [_with(one, held, depth + 1) for one in node.args]
    known = tuple(one for one in args if one is not None)
    if len(known) < len(args):
        return None
    return Node("op", name=node.name, args=known, size=node.size)
