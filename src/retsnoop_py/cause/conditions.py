# SPDX-License-Identifier: BSD-2-Clause
"""A value of the caller that the kernel compared and rejected: out of range, or an unknown flag.

The condition and its values were recorded when the call failed. Only comparisons of the caller's
data are explained: an argument of the call, or a member of a struct that the call reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.value import Value

__all__ = ["rejected_value"]

_NAME = r"[A-Za-z_]\w*(?:(?:->|\.)\w+)*"
_COMPARED = re.compile(rf"\(?({_NAME})\)? (!=|==|<=|>=|<|>) (-?\w+|{_NAME})")
_MASKED = re.compile(rf"\(({_NAME}) & (0x[0-9a-f]+|\d+)\) != 0")
#: Variables of the kernel that hold a struct which the caller passed.
_COPIES = frozenset(("attr", "uattr", "args", "kargs", "params", "how"))
#: The required value, by the comparison that caused the error: its text, and a number to add.
_ALLOWED = {
    "!=": ("must be", 0),
    "==": ("must not be", 0),
    ">": ("may be at most", 0),
    ">=": ("may be at most", -1),
    "<": ("must be at least", 0),
    "<=": ("must be at least", 1),
}
#: The same for two values that both have a name.
_RELATION = {
    "!=": "it must be equal to",
    "==": "it must differ from",
    ">": "it may not be larger than",
    ">=": "it must be smaller than",
    "<": "it may not be smaller than",
    "<=": "it must be larger than",
}


class _Side(Value):
    """One side of a comparison: its name for people, and its value."""

    name: str
    value: int


def rejected_value(scene: Scene) -> Reason | None:
    """Return the argument that the deciding condition rejected; None for any other condition."""
    if scene.condition is None:
        return None
    values = dict(scene.values)
    masked = _MASKED.fullmatch(scene.condition)
    if masked is not None and _is_of_caller(scene, masked[1], values):
        return _flags(scene, masked[1], values[masked[1]] & int(masked[2], 0))
    compared = _COMPARED.fullmatch(scene.condition)
    if compared is None or not _is_of_caller(scene, compared[1], values):
        return None
    left = _Side(_plain(compared[1]), values[compared[1]])
    other, limit = compared[3], values.get(compared[3])
    if limit is None:
        if not re.fullmatch(r"-?(?:0x[0-9a-f]+|\d+)", other):
            return None
        limit, other = int(other, 0), ""
    is_mask = not other and compared[2] == ">" and "flag" in left.name and not limit & limit + 1
    if is_mask:
        # compilers write `flags & ~7` as `flags > 7`
        return _flags(scene, compared[1], left.value & ~limit)
    return _range(left, compared[2], other, limit)


def _is_of_caller(scene: Scene, name: str, values: Mapping[str, int]) -> bool:
    """Return whether the caller chose the value of this expression."""
    if values.get(name) is None:
        return False
    base, *members = re.split(r"->|\.", name)
    if members:
        return base in _COPIES
    given = {one & 0xFFFFFFFF for one in scene.call.arguments}
    return values[name] != 0 and values[name] & 0xFFFFFFFF in given


def _plain(name: str) -> str:
    """``attr->key_size`` as ``key_size``."""
    return re.split(r"->|\.", name)[-1]


def _range(left: _Side, operator: str, other: str, limit: int) -> Reason:
    if other:
        words = f"{_RELATION[operator]} {_plain(other)}, which is {limit}"
        text = f"{left.name} is {left.value}, and {words}."
        change = f"change {left.name} or {_plain(other)}"
    else:
        words, step = _ALLOWED[operator]
        text = f"{left.name} is {left.value}. The value {words} {limit + step} here."
        change = f"set {left.name} to {limit}" if operator == "!=" else f"change {left.name}"
    return Reason("out-of-range", text, (change,), is_seen_later=False)


def _flags(scene: Scene, name: str, unknown: int) -> Reason | None:
    """Flags that this kernel does not know, or does not allow in this call, by their bits."""
    bits = [str(bit) for bit in range(64) if unknown >> bit & 1]
    if not bits:
        return None
    listed = f"the bit {bits[0]}" if len(bits) == 1 else f"the bits {', '.join(bits)}"
    text = (
        f"{_plain(name)} of {scene.call.name}() has {listed} set (value {unknown}). This kernel "
        "does not accept that there."
    )
    advice = f"remove {listed} from {_plain(name)}, or use a newer kernel"
    return Reason("unsupported", text, (advice,), is_seen_later=False)
