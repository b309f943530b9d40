# SPDX-License-Identifier: BSD-2-Clause
"""The list of functions that are never traced, see ``deny_list.py``."""

from __future__ import annotations

from retsnoop_py.value import Value

__all__ = ["Deny", "load"]


class Deny(Value):
    """One glob of the list; ``group`` is a kind of reason, see the head of the list."""

    glob: str
    reason: str
    group: str


def load() -> tuple[Deny, ...]:
    """The whole list, in the order of the file."""
    from retsnoop_py.selection.deny_list import DENY

    return tuple([Deny(glob, reason, group) for group, reason, globs in DENY for glob in globs])
