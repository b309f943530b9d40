# SPDX-License-Identifier: BSD-2-Clause
"""Who hears what is done on the way: lines for people, and how far what takes long has come.

A library writes to nobody's terminal. What the rooms have to tell besides their results goes to
:func:`current`, which keeps silent unless somebody listens: the command line does, and who gives
``on_message`` to :func:`retsnoop_py.trace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Listener", "Progress", "current", "listening"]


class Progress(Protocol):
    """How far something has come."""

    def update(self, done: int, total: int = 0, what: str = "") -> None:
        """``done`` of ``total`` are done; 0: how many there are is not known.

        ``what`` says what is being done from now on, where that changes.
        """


class _Unseen:
    """Progress that nobody looks at."""

    def update(self, done: int, total: int = 0, what: str = "") -> None:
        """Shown to nobody."""


class Listener:
    """Hears everything and says nothing; the others override what they are interested in."""

    def say(self, line: str) -> None:
        """A line for people, whole, such as ``Receiving data...`` or ``WARNING: ...``."""

    def warn(self, text: str) -> None:
        """Something is wrong; nothing is where ``text`` is empty."""
        if text:
            self.say(f"WARNING: {text}")

    def say_aside(self, text: str) -> None:
        """The same from within a signal's handler: ``text``, with its line ends, must not wait."""

    # ruff: noqa: ARG002 - what is taken here is for who shows it
    def progress(
        self, what: str, unit: str = "functions", *, is_aside: bool = False
    ) -> AbstractContextManager[Progress]:
        """How far ``what`` is, counted in ``unit``; ``is_aside`` as in :meth:`say_aside`."""
        return nullcontext(_Unseen())


_SILENT = Listener()
_current: ContextVar[Listener] = ContextVar("retsnoop_py.listener", default=_SILENT)


def current() -> Listener:
    """Who listens to what is done here."""
    return _current.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have ``listener`` hear what is done within."""
    before = _current.set(listener)
    try:
        yield
    finally:
        _current.reset(before)
