# SPDX-License-Identifier: BSD-2-Clause
"""Find the case of a ``switch`` from the tests that chose it.

Compilers turn a ``switch`` into a tree of tests: ``mode > 8``, ``mode == 8``, a bit in a mask of
cases. One test does not tell the case, but all tests of the value together may leave one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from retsnoop_py.path.deduce import holds
from retsnoop_py.path.insn import INT, Insn
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.otherwise import with_nothing
from retsnoop_py.path.values import Flags, Node
from retsnoop_py.value import replace

__all__ = ["is_case", "named_cases"]

_MAX_DEPTH = 6
#: A mask of more bits has too many values to try.
_MOST_BITS = 10

#: Return a number for a value: equal values have the same number.
Number = Callable[[Node], int]


def named_cases(
    found: Sequence[Decided], passed: Sequence[Decided], decided: Decided, number: Number
) -> list[Decided]:
    """Return ``found`` with one ``value == case`` in place of the tests that chose a case.

    ``passed`` are all tests directly before ``decided``, in the order of execution, also those in
    ``found``. The tests of a value stay if they leave more than one number, or if ``decided`` tests
    the same value.
    """
    subjects = {id(one): _number_of(one, number) for one in (*found, *passed, decided)}
    made: list[Decided] = []
    done = {None, subjects[id(decided)]}
    for test in found:
        subject = subjects[id(test)]
        if subject in done:
            made += [test] if subject in (None, subjects[id(decided)]) else []
            continue
        tests = [one for one in passed if subjects[id(one)] == subject]
        case = _case(tests, subject, number)
        if case is None:
            made.append(test)
        else:
            done.add(subject)
            made.append(case)
    return made


def is_case(passed: Sequence[Decided], decided: Decided, number: Number) -> bool:
    """Return True if ``decided`` is ``value != case``, and tests before it excluded other cases.

    ``passed`` are the earlier tests that are no part of the condition.
    """
    subject = _number_of(decided, number)
    if subject is None or decided.condition != "ne":
        return False
    return any(_number_of(one, number) == subject for one in passed)


def _number_of(test: Decided, number: Number) -> int | None:
    node = _subject(test.flags) if test.flags is not None else None
    return None if node is None else number(node)


def _subject(flags: Flags) -> Node | None:
    """Return the value that a test compares with constants."""
    if flags.op == "bt" and flags.left.kind == "const":
        return flags.right
    tested, _ = with_nothing(flags)
    if tested is None:
        is_compared = flags.op in ("cmp", "sub") and flags.right.kind == "const"
        return flags.left if is_compared else None
    for one in tested.args if tested.kind == "op" and tested.name == "&" else ():
        if one.kind == "op" and one.name == "<<" and one.args[0].kind == "const":
            return one.args[1]  # 1 << value & mask
    return tested


def _case(tests: Sequence[Decided], subject: int | None, number: Number) -> Decided | None:
    """Return the test of the only number that passes all tests, or None."""
    if len(tests) < 2 or not any(one.condition in ("e", "ne", "b", "ae") for one in tests):
        return None
    chooser = _comparison_in(tests, subject, number)
    flags = chooser.flags
    assert flags is not None
    fits = [
        value
        for value in _candidates(flags, tests)
        if all(_passes(one, subject, number, value) for one in tests)
    ]
    if len(fits) != 1:
        return None
    case = flags._replace(right=Node("const", value=fits[0], size=flags.size))
    return replace(chooser, flags=case, condition="e")


def _comparison_in(tests: Sequence[Decided], subject: int | None, number: Number) -> Decided:
    """Return a comparison of the subject, one that ran if possible."""
    for one in reversed(tests):
        flags = one.flags
        if flags is not None and flags.op in ("cmp", "sub") and number(flags.left) == subject:
            return one
    last = tests[-1]
    assert last.flags is not None
    node = _subject(last.flags)
    assert node is not None
    insn = Insn(last.flags.insn.address, 0, "cmp", "cmp")
    return replace(last, flags=Flags(insn, "cmp", node, node, max(node.size, INT)))


def _candidates(flags: Flags, tests: Iterable[Decided]) -> set[int]:
    """Return numbers of which only one passes the tests if only one number at all passes them.

    Comparisons change their outcome only at their constants, or where the sign changes.
    """
    node, bits = flags.left, 8 * flags.size
    if node.kind == "op" and node.name == "&" and node.args[1].kind == "const":
        mask = node.args[1].value & (1 << bits) - 1
        if mask.bit_count() > _MOST_BITS:
            return set()
        return {0, *_parts(mask)}
    ends = {0, 1 << bits - 1, *range(64)}
    ends |= {
        side.value
        for one in tests
        if one.flags is not None
        for side in (one.flags.left, one.flags.right)
        if side.kind == "const"
    }
    near = {end + by for end in ends for by in (-1, 0, 1)}
    return {_signed(one, bits) for one in near}


def _parts(mask: int) -> Iterable[int]:
    """Yield the numbers other than 0 with no bits outside ``mask``."""
    part = mask
    while part:
        yield part
        part = (part - 1) & mask


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _passes(test: Decided, subject: int | None, number: Number, value: int) -> bool:
    """Return True unless ``value`` in place of the subject would change the outcome of a test."""
    flags = test.flags
    assert flags is not None
    known = Node("const", value=value, size=flags.size)
    tested, _ = with_nothing(flags)
    if tested is not None and number(tested) == subject:
        left = right = known
        flags = flags._replace(op="test")
    else:
        left, right = (_with(one, subject, number, known) for one in (flags.left, flags.right))
    return holds(flags._replace(left=left, right=right), test.condition, {}) is not False


def _with(node: Node, subject: int | None, number: Number, known: Node, depth: int = 0) -> Node:
    """Return an expression with ``known`` in place of the subject."""
    if number(node) == subject:
        return known
    if node.kind != "op" or depth > _MAX_DEPTH:
        return node
    args = tuple(_with(one, subject, number, known, depth + 1) for one in node.args)
    return Node("op", name=node.name, args=args, size=node.size)
