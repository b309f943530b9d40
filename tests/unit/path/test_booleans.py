# SPDX-License-Identifier: BSD-2-Clause
"""Truth values that are computed without jumps, as C."""

from __future__ import annotations

import pytest

from retsnoop_py.path.booleans import truth_of
from retsnoop_py.path.insn import Insn
from retsnoop_py.path.values import Flags, Node

ONE = Node("const", value=1)


def compared(condition: str, name: str) -> Node:
    """Return the outcome of a comparison of a parameter with 9."""
    flags = Flags(
        Insn(0, 0, "cmp", "cmp"), "cmp", Node("param", name=name), Node("const", value=9), 4
    )
    return Node("cond", name=condition, flags=flags)


def op(sign: str, left: Node, right: Node) -> Node:
    return Node("op", name=sign, args=(left, right), size=4)


def text(flags: Flags, condition: str) -> str:
    return f"{flags.left.name} {condition} {flags.right.value}"


A, B, C = compared("g", "a"), compared("e", "b"), compared("l", "c")
BIT = op("&", op(">>", Node("param", name="x"), Node("const", value=3)), ONE)


@pytest.mark.parametrize(
    ("node", "held", "found"),
    [
        (op("|", A, B), True, "a g 9 || b e 9"),
        (op("|", A, B), False, "a le 9 && b ne 9"),
        (op("&", A, B), True, "a g 9 && b e 9"),
        (op("&", A, B), False, "a le 9 || b ne 9"),
        (op("&", op("|", A, B), ONE), True, "a g 9 || b e 9"),
        (op("^", A, ONE), True, "a le 9"),
        (op("&", op("|", A, B), C), True, "(a g 9 || b e 9) && c l 9"),
        (op("|", A, BIT), True, "a g 9 || x ne 8"),
        (op("+", A, B), True, None),
        (BIT, True, None),
        (Node("param", name="x"), True, None),
    ],
)
def test_truth_values_have_the_operators_of_c(node: Node, held: bool, found: str | None) -> None:
    assert truth_of(node, held, text) == found
