# SPDX-License-Identifier: BSD-2-Clause
"""The meaning of an error for the user: the rows of ``decisions.toml`` and of ``usual.toml``.

The rows of ``decisions.toml`` are about the kernel's deciding condition. It was recorded with its
values when the call failed. A row without a condition is for an error with only one meaning in its
call. The rows of ``usual.toml`` apply if no other reason was found.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from retsnoop_py.cause.denied import denials
from retsnoop_py.cause.operation import described, object_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.tables import read_table
from retsnoop_py.kernel.capabilities import capability_name
from retsnoop_py.kernel.errno import errno_name

__all__ = ["Meaning", "decision", "decisions", "usual", "usual_meanings"]


class Meaning(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the heads of the files explain each field."""

    calls: tuple[str, ...]
    errors: tuple[str, ...]
    kind: str
    text: str
    advice: tuple[str, ...]
    given: tuple[tuple[int, ...], ...] = ()
    between: tuple[tuple[int, int, int], ...] = ()
    unaligned: tuple[tuple[int, int], ...] = ()
    families: tuple[int, ...] = ()
    functions: tuple[str, ...] = ()
    condition: str = ""
    denied: tuple[str, ...] = ()
    several: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    decision: tuple[Meaning, ...] = ()
    usual: tuple[Meaning, ...] = ()


@lru_cache(1)
def decisions() -> tuple[Meaning, ...]:
    """Return all rows about deciding conditions."""
    return read_table("decisions.toml", _File).decision


@lru_cache(1)
def usual_meanings() -> tuple[Meaning, ...]:
    """Return all rows for calls without a more special reason."""
    return read_table("usual.toml", _File).usual


def decision(scene: Scene) -> Reason | None:
    """Return the meaning of the first row that fits; None if no row does."""
    for row in decisions():
        if _call_fits(row, scene):
            values = _values(row, scene)
            if values is not None:
                text = row.text.format(*values)
                return Reason(row.kind, text, row.advice, False, is_inferred=row.several)
    return None


def usual(scene: Scene) -> Reason | None:
    """Return the usual meaning of the error in this call; None if no row fits."""
    for row in usual_meanings():
        if _call_fits(row, scene):
            call, place = scene.call, scene.call.place(0)
            text = row.text.format(
                address=show(object_of(call)) if object_of(call) else "the address",
                argument=[one & 0xFFFFFFFF for one in call.arguments],
                file=(described(place) if place is not None else "") or "its file",
            )
            return Reason(row.kind, text, row.advice, False, is_inferred=row.several)
    return None


def _call_fits(row: Meaning, scene: Scene) -> bool:
    call = scene.call
    if errno_name(call.error) not in row.errors:
        return False
    if not any(fnmatchcase(call.name, one) for one in row.calls):
        return False
    if any(call.arguments[at] & 0xFFFFFFFF not in values for at, *values in row.given):
        return False
    if any(not low <= call.arguments[at] & 0xFFFFFFFF <= high for at, low, high in row.between):
        return False
    if any(call.arguments[at] % size == 0 for at, size in row.unaligned):
        return False
    if row.families and (call.address is None or call.address.family not in row.families):
        return False
    return not row.functions or any(one in scene.chain for one in row.functions)


def _values(row: Meaning, scene: Scene) -> list[int] | None:
    """Return the values in the condition, in the order of its groups; None if it does not fit."""
    if not row.condition:
        return []
    if row.denied and {capability_name(one.capability) for one in denials(scene)} & {*row.denied}:
        return []
    found = re.search(row.condition, scene.condition or "")
    if found is None:
        return None
    known = dict(scene.values)
    values = [known.get(one) for one in found.groups()]
    return [one for one in values if one is not None] if None not in values else None
