# SPDX-License-Identifier: BSD-2-Clause
"""The meaning of the kernel's deciding condition for the user: the rows of ``decisions.toml``.

The condition and its values were recorded when the call failed. A row without a condition is for
an error with only one meaning in its call.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.tables import read_table
from retsnoop_py.kernel.errno import errno_name

__all__ = ["Meaning", "decision", "decisions"]


class Meaning(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the head of the file explains each field."""

    calls: tuple[str, ...]
    errors: tuple[str, ...]
    kind: str
    text: str
    advice: tuple[str, ...]
    given: tuple[tuple[int, ...], ...] = ()
    functions: tuple[str, ...] = ()
    condition: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    decision: tuple[Meaning, ...]


@lru_cache(1)
def decisions() -> tuple[Meaning, ...]:
    """Return all rows."""
    return read_table("decisions.toml", _File).decision


def decision(scene: Scene) -> Reason | None:
    """Return the meaning of the first row that fits; None if no row does."""
    for row in decisions():
        if _call_fits(row, scene):
            values = _values(row, scene)
            if values is not None:
                text = row.text.format(*values)
                return Reason(row.kind, text, row.advice, is_seen_later=False)
    return None


def _call_fits(row: Meaning, scene: Scene) -> bool:
    call = scene.call
    if errno_name(call.error) not in row.errors:
        return False
    if not any(fnmatchcase(call.name, one) for one in row.calls):
        return False
    if any(call.arguments[at] & 0xFFFFFFFF not in values for at, *values in row.given):
        return False
    return not row.functions or any(one in scene.chain for one in row.functions)


def _values(row: Meaning, scene: Scene) -> list[int] | None:
    """Return the values in the condition, in the order of its groups; None if it does not fit."""
    if not row.condition:
        return []
    found = re.search(row.condition, scene.condition or "")
    if found is None:
        return None
    known = dict(scene.values)
    values = [known.get(one) for one in found.groups()]
    return [one for one in values if one is not None] if None not in values else None
