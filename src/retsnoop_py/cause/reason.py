# SPDX-License-Identifier: BSD-2-Clause
"""The reason why a call failed, and the data about the call that a finder gets."""

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

    ``kind`` is a kind of docs/why.md. ``text`` is one or more sentences. ``advice`` lists changes,
    each a sentence or a command. ``is_seen_later``: the finding was read after the command ended.
    ``is_inferred``: the error has several causes, and the text names them.
    """

    kind: str
    text: str
    advice: tuple[str, ...] = ()
    is_seen_later: bool = True
    is_inferred: bool = False


class Scene(Value):
    """The failing call, with other data of the run.

    ``who`` is the process's identity, ``said`` the kernel messages during the call. ``chain``: the
    kernel functions that failed in the call, outermost first; empty if unknown. ``condition``: the
    deciding comparison in C, ``values`` its values by expression. ``again``: the arguments of the
    call in the run that observed them, because addresses differ; empty for the run of ``call``.
    ``given``: the operands of the condition that are arguments of the call, by its code.
    ``untold``: the number of tests that belong to the condition, but are missing in it.
    ``is_case``: the kernel compared the same value with other numbers before.
    """

    call: SystemCall
    witnessed: Witnessed
    who: Identity
    said: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    condition: str | None = None
    values: tuple[tuple[str, int], ...] = ()
    again: tuple[int, ...] = ()
    given: frozenset[str] = frozenset()
    untold: int = 0
    is_case: bool = False

    @property
    def path(self) -> str | None:
        """Return the absolute path of the call."""
        return path_of(self.call)

    @property
    def target(self) -> str | None:
        """Return the changed path: the second path of a call with two paths, as rename(2)."""
        has_two = fnmatchcase(self.call.name, "rename*") or fnmatchcase(self.call.name, "*link*")
        if has_two and len(self.call.texts) > 1:
            return path_of(self.call, 1)
        return self.path


Finder = Callable[[Scene], Reason | None]
