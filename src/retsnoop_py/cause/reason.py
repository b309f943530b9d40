# SPDX-License-Identifier: BSD-2-Clause
"""What a reason is, and what is known of the call that it is for."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.operation import path_of
from retsnoop_py.value import Value

__all__ = [
    "Finder",
    "Reason",
    "Scene",
]


class Reason(Value):
    """Why a call failed.

    ``kind`` is one of docs/why.md. ``text`` is one or more sentences; ``advice`` what to change,
    each a sentence or a command. ``is_seen_later``: it was read after the command ended.
    """

    kind: str
    text: str
    advice: tuple[str, ...] = ()
    is_seen_later: bool = True


class Scene(Value):
    """The call in question, with what else was seen of the run.

    ``who`` is the process's identity, ``said`` the kernel's own words during the call. ``chain``:
    the kernel's functions that failed in it, outermost first; none where none was seen.
    ``condition``: the comparison in C that decided, ``values`` what it compared, by expression.
    """

    call: SystemCall
    witnessed: Witnessed
    who: Identity
    said: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    condition: str | None = None
    values: tuple[tuple[str, int], ...] = ()

    @property
    def path(self) -> str | None:
        """The absolute path that the call is about."""
        return path_of(self.call)

    @property
    def target(self) -> str | None:
        """The path that is changed: the second one of a call that has two, as rename(2)."""
        has_two = fnmatchcase(self.call.name, "rename*") or fnmatchcase(self.call.name, "*link*")
        if has_two and len(self.call.texts) > 1:
            return path_of(self.call, 1)
        return self.path


Finder = Callable[[Scene], Reason | None]
