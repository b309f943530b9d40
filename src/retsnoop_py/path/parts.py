# SPDX-License-Identifier: BSD-2-Clause
"""Find the parts of a condition that held, if the values that it tests are known.

Compilers compute ``A || B`` without a jump: ``((a > 61) | b) != 0``. If ``b`` is known to be 0,
only ``a > 61`` held.
"""

from __future__ import annotations

from retsnoop_py.path.computed import is_bit
from retsnoop_py.path.deduce import Known, holds
from retsnoop_py.path.insn import INT, OPPOSITE, Insn
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.otherwise import with_nothing
from retsnoop_py.path.values import Flags, Node
from retsnoop_py.value import replace

__all__ = ["held_parts"]

_MAX_DEPTH = 8
_JOINING = frozenset({"&", "|"})


def held_parts(test: Decided, known: Known) -> tuple[Decided, ...]:
    """Return the parts of a test that held, in the order of execution.

    Return only ``test`` itself if it has no parts, or if more than one of the parts of an ``A ||
    B`` may have held.
    """
    tested = with_nothing(test.flags)[0] if test.flags is not None else None
    if tested is None or test.condition not in ("e", "ne") or not _has_test(tested):
        return (test,)
    found = _parts(test, tested, test.condition == "ne", known)
    return tuple(sorted(found, key=lambda one: one.step)) if found else (test,)


def _has_test(node: Node, depth: int = 0) -> bool:
    """Return True if an expression contains the outcome of a comparison."""
    if node.kind == "cond":
        return True
    return (
        node.kind == "op"
        and depth < _MAX_DEPTH
        and any(_has_test(one, depth + 1) for one in node.args)
    )


def _parts(
    test: Decided, node: Node, held: bool, known: Known, depth: int = 0
) -> list[Decided] | None:
    """Return the tests in a truth value that make it ``held``; None if they are not known."""
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "cond" and node.flags is not None:
        condition = node.name or ""
        condition = condition if held else OPPOSITE.get(condition, "")
        return [_part(test, node, node.flags, condition)] if condition else None
    left, right = (*node.args, node, node)[:2]
    if node.kind == "op" and node.name in _JOINING and not is_bit(node):
        sides = [_parts(test, one, held, known, depth + 1) for one in node.args]
        return _joined(sides, known, are_all=(node.name == "&") == held)
    if is_bit(node) and _has_test(left):
        return _parts(test, left, held, known, depth + 1)
    if node.kind == "op" and node.name == "^" and right.kind == "const" and right.value == 1:
        return _parts(test, left, not held, known, depth + 1)
    return [_part(test, node, _with_zero(node), "ne" if held else "e")]


def _joined(
    sides: list[list[Decided] | None], known: Known, *, are_all: bool
) -> list[Decided] | None:
    """Return the parts of both sides if all of them held, else those of the only side that did."""
    if are_all:
        return None if None in sides else [one for side in sides if side for one in side]
    outcomes = [_outcome(side, known) for side in sides]
    if outcomes in ([True, False], [False, True]):
        return sides[outcomes.index(True)]
    return None


def _outcome(parts: list[Decided] | None, known: Known) -> bool | None:
    """Return True if all tests hold, False if one does not, None if that is not known."""
    if parts is None:
        return None
    each = [None if one.flags is None else holds(one.flags, one.condition, known) for one in parts]
    return False if False in each else None if None in each else True


def _part(test: Decided, node: Node, flags: Flags, condition: str) -> Decided:
    """Return a part of ``test`` as a test of its own; the part is where its comparison is."""
    return replace(
        test,
        address=flags.insn.address,
        step=node.step,
        condition=condition,
        flags=flags,
        moment=None,
        also=(),
    )


def _with_zero(node: Node) -> Flags:
    size = max(node.size, INT)
    return Flags(Insn(node.at, 0, "test", "test"), "test", node, node, size)
