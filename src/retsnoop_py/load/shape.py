# SPDX-License-Identifier: BSD-2-Clause
"""Shapes: values of read-only data, which affect the path that the verifier follows.

Data in .rodata is frozen before programs are loaded, and the verifier evaluates branches with these
values. A load with one shape does not show whether a load with another shape works.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.libbpf.object import BpfObject
    from retsnoop_py.load.object_file import ObjectFile

__all__ = ["Shape", "parse_shapes"]

_SETTING = re.compile(r"^(?:([\w.-]+):)?(\w+)=(.+)")
_WORDS = {"true": 1, "false": 0, "y": 1, "n": 0}


class Shape(Value):
    """A name, and variables with their values."""

    name: str
    values: tuple[tuple[str, int], ...]

    def check(self, targets: Sequence[ObjectFile]) -> None:
        """Raise InputError for an unknown variable, UsageError for a variable that is too small."""
        for name, value in self.values:
            owners = [known[name] for one in targets if name in (known := _variables(one))]
            if not owners:
                names = ", ".join(sorted({each for one in targets for each in _variables(one)}))
                raise InputError(
                    f"--set {name}: no object has such a read-only variable",
                    f"there are: {names or 'none'} (const volatile globals)",
                )
            bits = 8 * min(size for _, size in owners)
            if not -(1 << (bits - 1)) <= value < 1 << bits:
                raise UsageError(f"--set {name}={value}: it has {bits} bits only")

    def apply(self, opened: BpfObject, target: ObjectFile) -> None:
        """Set the variables that ``target`` has, before it is loaded."""
        known = _variables(target)
        for name, value in self.values:
            if name in known:
                section, size = known[name]
                opened.set_global(section, name, value & ((1 << 8 * size) - 1))


def _variables(target: ObjectFile) -> dict[str, tuple[str, int]]:
    return {
        name: (section, size)
        for section, names in target.data_sections().items()
        if section.startswith(".rodata")
        for name, (_, size, _) in names.items()
        if size in (1, 2, 4, 8)
    }


def parse_shapes(words: Sequence[str]) -> tuple[Shape, ...]:
    """Return the shapes of ``--set [NAME:]VAR=VALUE``; values without a name are in all shapes.

    Raise UsageError for other words.
    """
    common: list[tuple[str, int]] = []
    named: dict[str, list[tuple[str, int]]] = {}
    for word in words:
        found = _SETTING.fullmatch(word)
        value = _number(found[3]) if found else None
        if found is None or value is None:
            raise UsageError(f"--set {word}: not of the form [NAME:]VAR=NUMBER")
        row = (found[2], value)
        if found[1]:
            named.setdefault(found[1], []).append(row)
        else:
            common.append(row)
    if not named:
        return (Shape("", tuple(common)),)
    return tuple(Shape(name, (*common, *rows)) for name, rows in named.items())


def _number(text: str) -> int | None:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return int(text, 0)
    except ValueError:
        return None
