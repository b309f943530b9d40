# SPDX-License-Identifier: BSD-2-Clause
"""Listeners: they receive messages for the user and the progress of long operations.

A library does not write to the terminal. The packages send their messages and progress to the
listener of :func:`current`. The default listener ignores them. The command line sets one that
prints them, and ``on_message`` of :func:`retsnoop_py.trace` sets another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Listener", "Progress", "current", "listening"]


class Progress(Protocol):
    """The progress of one operation."""

    def update(self, done: int, total: int = 0, what: str = "") -> None:
        """Report that ``done`` of ``total`` units are done; a ``total`` of 0 is unknown.

        A non-empty ``what`` is the new description of the operation.
        """


class _Unseen:
    """Progress that is not shown."""

    def update(self, done: int, total: int = 0, what: str = "") -> None:
        """Ignore the progress."""


class Listener:
    """Base of listeners: ignores everything. Subclasses override the methods that they need."""

    def say(self, line: str) -> None:
        """Show a whole line to the user, such as ``Receiving data...`` or ``WARNING: ...``."""

    def warn(self, text: str) -> None:
        """Show a warning; an empty ``text`` is ignored."""
        if text:
            self.say(f"WARNING: {text}")

    def say_aside(self, text: str) -> None:
        """Show ``text``, with its line ends, from a signal handler: must not block."""

    # ruff: noqa: ARG002 - the arguments are for the subclasses that show them
    def progress(
        self, what: str, unit: str = "functions", *, is_aside: bool = False
    ) -> AbstractContextManager[Progress]:
        """Return the progress of ``what`` in ``unit``; ``is_aside`` as in :meth:`say_aside`."""
        return nullcontext(_Unseen())


_SILENT = Listener()
_current: ContextVar[Listener] = ContextVar("retsnoop_py.listener", default=_SILENT)


def current() -> Listener:
    """Return the listener of the current context."""
    return _current.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Make ``listener`` the current listener within the context."""
    before = _current.set(listener)
    try:
        yield
    finally:
        _current.reset(before)
