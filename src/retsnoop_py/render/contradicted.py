# SPDX-License-Identifier: BSD-2-Clause
"""Find the tests of a condition that the recorded values contradict.

A value is recorded by a probe before the kernel's own comparison, and the condition is derived from
the code. If both disagree, one of them is wrong: the probe changed the value, or the expression is
not what the code compares.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

__all__ = ["contradicted"]

_SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_NUMBER = re.compile(r"(~?)(-?(?:0x[0-9a-f]+|\d+))")
#: A condition with more parentheses is not examined: a recording may have any text.
_MOST_PARENTHESES = 64
#: The widths and kinds of numbers that a comparison may use.
_KINDS = tuple(product((32, 64), (False, True)))
#: Compilers write 255 in a comparison of a byte as -1.
_NARROW = tuple(product((8, 16), (False, True)))


def contradicted(condition: str, values: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the tests in ``condition``, joined by ``&&``, that do not hold for ``values``.

    ``values`` has all recorded values of each expression: a loop may read one several times.
    """
    if condition.count("(") > _MOST_PARENTHESES:
        return []
    return [one for one in _split(condition, " && ") if not _may_hold(one, values)]


def _may_hold(test: str, values: Mapping[str, Sequence[int]]) -> bool:
    """Return False if a test holds for none of the recorded values, of any width."""
    inner = _without_parentheses(test)
    either = _split(inner, " || ")
    if len(either) > 1:
        return any(_may_hold(one, values) for one in either)
    if inner != test:
        return not contradicted(inner, values)
    for sign, holds in _SIGNS.items():
        left, *right = _split(test, f" {sign} ")
        if len(right) == 1:
            sides = _numbers(left, values), _numbers(right[0], values)
            return _any_holds(holds, *sides)
    return True


def _any_holds(
    holds: Callable[[int, int], bool], left: Sequence[int] | None, right: Sequence[int] | None
) -> bool:
    if left is None or right is None:
        return True  # not recorded
    return any(
        holds(_as(one, *kind), _as(other, *kind))
        for one, other in product(left, right)
        for kind in (*_KINDS, *(_NARROW if one < 0 or other < 0 else ()))
    )


def _numbers(text: str, values: Mapping[str, Sequence[int]]) -> Sequence[int] | None:
    """Return the values of one side of a comparison; None if they are not known."""
    text = _without_parentheses(text)
    if text in values:
        return values[text]
    if text == "NULL":
        return (0,)
    number = _NUMBER.fullmatch(text)
    if number is not None:
        return (~int(number[2], 0) if number[1] else int(number[2], 0),)
    name, *mask = _split(text, " & ")
    bits = _NUMBER.fullmatch(mask[0]) if len(mask) == 1 else None
    if bits is None or name not in values:
        return None
    by = ~int(bits[2], 0) if bits[1] else int(bits[2], 0)
    return [one & by for one in values[name]]


def _split(text: str, sign: str) -> list[str]:
    """Return the parts of a text that ``sign`` separates outside of all parentheses."""
    parts, start = [], 0
    for at in _outside(text):
        if at >= start and text.startswith(sign, at):
            parts.append(text[start:at])
            start = at + len(sign)
    return [*parts, text[start:]]


def _outside(text: str) -> Iterator[int]:
    """Yield the positions outside of all parentheses."""
    depth = 0
    for at, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if not depth:
            yield at


def _without_parentheses(text: str) -> str:
    """Return ``a & b`` for ``(a & b)``."""
    if text.startswith("(") and list(_outside(text)) == [len(text) - 1]:
        return text[1:-1]
    return text


def _as(value: int, bits: int, is_signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed and value >> (bits - 1) else value
