# SPDX-License-Identifier: BSD-2-Clause
"""The executed paths of calls: as recorded, and their meaning.

The meaning is computed on the machine with the kernel's code, and then recorded: a
:class:`Origin` is the same for all calls with the same path and the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from retsnoop_py.errors import DataError
from retsnoop_py.session.layouts import Layout, layout_named

__all__ = [
    "ALWAYS",
    "NO_PATHS",
    "Condition",
    "Hit",
    "KnownOrigins",
    "OperandText",
    "Origin",
    "OriginKey",
    "Origins",
    "Path",
    "PathItems",
    "Place",
]

#: Said of a result that no condition could have changed.
ALWAYS = "no conditional jump could have avoided it: it always returns this"
_PATH = ("kind", "cnt", "id", "seq", "earlier", "result")
_HIT = ("probe", "unread", "left", "right")
#: Maximum number of cached answers; a loop can have many paths.
_MAX_KNOWN = 1 << 14
#: A bit of ``Hit.unread``: the left operand is an address that was called.
_CALLED = 4


class Hit(NamedTuple):
    """A block ran: the number of its probe, and the operands of its comparison, raw.

    ``unread``: bit 0 is set if the left one could not be read, bit 1 if the right one, bit 2 if the
    left one is an address that was called, or jumped to.
    """

    probe: int
    unread: int
    left: int
    right: int

    @property
    def target(self) -> int:
        """The address that was called; 0 where none was."""
        return self.left if self.unread & 5 == _CALLED else 0

    @property
    def key(self) -> tuple[int, ...]:
        """Return the part of the hit that shows where the call continued."""
        return (self.probe, self.left) if self.target else (self.probe,)


class Path(NamedTuple):
    """The executed path of one call: of the function ``id``, with the entry event ``seq``.

    ``hits`` are the last hits in order; ``earlier`` counts the hits before them. ``result`` is the
    raw result register, signed. ``handed``: the number, from 1, of the argument that a called
    function returned as the result; else 0.
    """

    id: int
    seq: int
    earlier: int
    result: int
    hits: tuple[Hit, ...]
    handed: int = 0

    @property
    def key(self) -> OriginKey:
        """Return the key that determines the :class:`Origin`."""
        hits = tuple([one for hit in self.hits for one in hit.key])
        if self.handed:  # no probe's number, and no address
            hits = (*hits, -self.handed)
        return self.id, self.result, self.earlier > 0, hits


#: Function, result, whether earlier hits are missing, the probes that were hit, and the functions
#: called at some probes; then -:attr:`Path.handed`, unless it is 0.
OriginKey = tuple[int, int, bool, tuple[int, ...]]

NO_PATHS: Mapping[int, Path] = MappingProxyType({})


class OperandText(NamedTuple):
    """An operand of a condition: its name as an expression in C, and the place of its value.

    ``hit`` is the index of the hit with the value, ``side`` 0 for its left and 1 for its right
    operand, ``size`` in bytes, ``signed`` the kind of number. ``add`` is a correction of the value:
    the code compares `x - 1` where the source has `x`.
    """

    name: str
    hit: int
    side: int
    size: int
    signed: bool
    add: int = 0


class Condition(NamedTuple):
    """The condition that was true at the decision: ``text`` in C, else the instructions.

    ``taken``: the jump was taken; None if it is not a jump. ``unnamed``: the number of tests
    that belong to the condition, but are missing in the text. ``cases``: earlier tests compared the
    same value with other numbers.
    """

    text: str
    operands: tuple[OperandText, ...]
    taken: bool | None
    unnamed: int = 0
    cases: bool = False


class Place(NamedTuple):
    """An instruction: its address, its text, and a remark.

    ``note``: ``shared`` (several returns share the code), ``check`` (the jump only tests a callee's
    result), ``N elements`` (a loop rejected N elements, one of them here), ``ended`` (a loop had no
    further element); else empty.
    """

    address: int
    insn: str
    note: str = ""


class Origin(NamedTuple):
    """The place that created a call's result, the deciding condition, and the executed blocks.

    Blocks are given by address. ``made`` is a value of :class:`retsnoop_py.path.origin.Made`,
    ``callee`` the function that created the result, if any. ``unknown`` is the reason for missing
    data. ``argument``: if the result is an argument of the call, its number from 1, else 0.
    """

    blocks: tuple[int, ...] = ()
    made: str = "unknown"
    callee: str | None = None
    returned: Place | None = None
    decided: Place | None = None
    condition: Condition | None = None
    unknown: str | None = None
    argument: int = 0


class Origins(Protocol):
    """Knows what ways mean; live from the kernel's code, at replay from the recording."""

    def origin(self, path: Path) -> Origin | None:
        """Return the meaning of ``path``; None if unknown."""
        ...


class KnownOrigins:
    """Caches the answers of another analyzer, and collects the ones to record."""

    def __init__(self, origins: Origins | None) -> None:
        self._origins = origins
        self._known: dict[OriginKey, Origin | None] = {}
        self._new: list[tuple[OriginKey, Origin]] = []

    def origin(self, path: Path) -> Origin | None:
        """See :class:`Origins`."""
        if self._origins is None:
            return None
        key = path.key
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = self._origins.origin(path)
            if found is not None:
                self._new.append((key, found))
        return self._known[key]

    def take_new(self) -> list[tuple[OriginKey, Origin]]:
        """The answers since the last call of this."""
        taken, self._new = self._new, []
        return taken


class PathItems:
    """Reads the items of a log that are paths. Raises DataError if ``layouts`` lack them."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        path, hit = layout_named(layouts, "rsn_path"), layout_named(layouts, "rsn_hit")
        self._path = path.format()
        self._pick_path = path.picker(_PATH)
        self._hit = hit.format()
        self._pick_hit = hit.picker(_HIT)

    def read(self, data: bytes) -> Path:
        """The path of an item. Raises DataError if it is damaged."""
        if len(data) < self._path.size:
            raise DataError(f"{len(data)} bytes are too few for the way of a call")
        row = (*self._path.unpack_from(data), 0)
        _, count, func_id, seq, earlier, result = self._pick_path(row)
        rest = data[self._path.size :]
        if count * self._hit.size > len(rest):
            raise DataError(f"{count} blocks of a call do not fit {len(data)} bytes")
        rows = self._hit.iter_unpack(rest[: count * self._hit.size])
        hits = [Hit(*self._pick_hit((*one, 0))) for one in rows]
        first = earlier % count if count and earlier else 0
        return Path(func_id, seq, earlier, result, tuple(hits[first:] + hits[:first]))


def operand_value(operand: OperandText, path: Path) -> int | None:
    """The value of an operand in one call; None where it could not be read."""
    hit = path.hits[operand.hit] if 0 <= operand.hit < len(path.hits) else None
    if hit is None or hit.unread >> operand.side & 1:
        return None
    raw = (hit.right if operand.side else hit.left) + operand.add
    raw &= (1 << 8 * operand.size) - 1
    if operand.signed and raw >> (8 * operand.size - 1):
        raw -= 1 << 8 * operand.size
    return raw
