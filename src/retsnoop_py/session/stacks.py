# SPDX-License-Identifier: BSD-2-Clause
"""Merged stacks, of which those with the same calls and addresses are worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from retsnoop_py.session.kept import Kept
from retsnoop_py.session.merge import build_stack
from retsnoop_py.session.model import Call, Session, StackRow
from retsnoop_py.settings import StackSettings
from retsnoop_py.symbolize.frames import Resolved, Symbolizer

#: Shapes with so many rows together are kept.
_ROOM = 1 << 16


class ShapeRow(NamedTuple):
    """A row of the stacks of a shape: ``call`` is the position of the call among the session's."""

    call: int | None
    frame: Resolved | None
    hidden: bool = False


class StackShape:
    """What stacks with equal addresses and calls have in common: all but times and results.

    ``calls`` are those of one of these stacks.
    """

    __slots__ = ("calls", "rows")

    def __init__(self, rows: tuple[ShapeRow, ...], calls: Sequence[Call]) -> None:
        self.rows = rows
        self.calls = calls


class Stack:
    """The merged stack of one session, outermost row first."""

    __slots__ = ("calls", "shape")

    def __init__(self, shape: StackShape, calls: Sequence[Call]) -> None:
        self.shape = shape
        self.calls = calls

    @classmethod
    def of(cls, rows: Iterable[StackRow]) -> Stack:
        """A stack of these rows, its calls in their order."""
        rows = tuple(rows)
        calls = [row.call for row in rows if row.call is not None]
        return cls(_shape(rows, calls), calls)

    def __iter__(self) -> Iterator[StackRow]:
        calls = self.calls
        for position, frame, hidden in self.shape.rows:
            yield StackRow(None if position is None else calls[position], frame, hidden)

    @property
    def is_bare(self) -> bool:
        """Whether none of its rows is a frame of the kernel's stack."""
        return not any(row.frame and not row.hidden for row in self.shape.rows)


class Stacker:
    """Makes stacks, and remembers their shapes."""

    def __init__(self, symbolizer: Symbolizer, settings: StackSettings) -> None:
        self._symbolizer = symbolizer
        self._settings = settings
        self._shapes: Kept[object, StackShape] = Kept(_ROOM)

    def stack(self, session: Session) -> Stack:
        """The merged stack of ``session``."""
        calls = session.calls
        # A function's identity will do: a stream has one object for each.
        told = tuple(
            [(id(call.function), call.finished, call.stitched, call.interrupt) for call in calls]
        )
        key = session.kstack, session.call_sites, told
        shape = self._shapes.get(key)
        if shape is None:
            shape = _shape(build_stack(session, self._symbolizer, self._settings), calls)
            self._shapes.keep(key, shape, len(shape.rows) + 1)
        return Stack(shape, calls)


def _shape(rows: Iterable[StackRow], calls: Sequence[Call]) -> StackShape:
    positions = {id(call): position for position, call in enumerate(calls)}
    return StackShape(
        tuple(
            ShapeRow(None if row.call is None else positions[id(row.call)], row.frame, row.hidden)
            for row in rows
        ),
        calls,
    )
