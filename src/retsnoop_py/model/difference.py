# SPDX-License-Identifier: BSD-2-Clause
"""The differences of two recordings: the objects of ``diff --format json``.

Names of functions have no compiler suffixes. Errors, 0 and constants are printed as in traces.
Other results are reduced to the part that is the same in each run: ``>0``, ``<0``, ``pointer``.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "VERSION",
    "ChainCall",
    "Compared",
    "Departure",
    "DepartureStep",
    "Difference",
    "Failure",
]

#: Increased if a field changes its meaning or is removed. New fields need no new version.
VERSION = 1


class Compared(Struct, omit_defaults=True, frozen=True):
    """One of the two recordings.

    ``calls`` counts the compared calls of entry functions, ``failed`` the failing calls among
    these. ``functions`` counts the traced functions; ``only_here`` lists the functions that the
    other recording did not trace. ``calls_traced``: the recording contains call trees. ``damage``:
    the place and reason of an early end; everything before it was compared. ``warnings`` are the
    warnings of the recorded run.
    """

    path: str
    kernel: str
    machine: str
    command: tuple[str, ...] = ()
    functions: int = 0
    calls: int = 0
    failed: int = 0
    calls_traced: bool = False
    only_here: tuple[str, ...] = ()
    damage: str | None = None
    warnings: tuple[str, ...] = ()


class ChainCall(Struct, omit_defaults=True, frozen=True):
    """A call of a failing chain and its result.

    ``failed``: the result is an error. ``both``: both recordings trace the function.
    """

    function: str
    result: str
    failed: bool = False
    both: bool = True


class DepartureStep(Struct, omit_defaults=True, frozen=True):
    """A step of a call tree (``entry``, ``exit``), or of the executed path of a function.

    ``text`` is the result of an ``exit``. ``block``: code of ``function`` ran, ``text`` is its
    offset, ``place`` its source line; ``decided``: the result was created, ``text`` is its source
    and the condition. ``end``: nothing follows. ``depth`` is 1 for the first step.
    """

    step: Literal["entry", "exit", "block", "decided", "end"]
    function: str = ""
    text: str = ""
    place: str = ""
    depth: int = 0


class Departure(Struct, omit_defaults=True, frozen=True):
    """The first difference between a call and the nearest call of the other recording.

    ``kind``: in the call tree, or in the executed path of a function. ``equal`` counts the steps
    before the difference, ``inside`` are the calls among them that have not returned; ``a`` and
    ``b`` follow. ``nearest`` is the error of the other recording's call, null if it succeeded.
    """

    kind: Literal["tree", "path"]
    equal: int
    nearest: str | None
    inside: tuple[DepartureStep, ...]
    a: tuple[DepartureStep, ...]
    b: tuple[DepartureStep, ...]


class Failure(Struct, omit_defaults=True, frozen=True):
    """A failing chain, outermost call first, with its number in each recording (0: never).

    ``error`` is the name of the error of the outermost failing call, ``NULL`` for a NULL pointer.
    Three fields count calls of ``entry`` in the recording without this chain. ``same_error``:
    another chain returned the error. ``other_failures``: the call returned another error.
    ``succeeded``: the call succeeded (null: not recorded).
    """

    entry: str
    error: str
    a: int
    b: int
    calls: tuple[ChainCall, ...]
    same_error: int = 0
    other_failures: int = 0
    succeeded: int | None = None
    departures: tuple[Departure, ...] = ()


class Difference(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="diff"):
    """The differences of two recordings.

    ``only_a`` and ``only_b`` fail in one recording; ``both`` fail in both, and differ inside if
    there are ``departures``. ``unseen_a`` fail in A, but B traces neither the entry function nor
    a function that failed; ``unseen_b`` is the opposite. These are not differences. ``uncounted``
    counts calls that were ignored because there were too many different chains. ``notes`` list
    questions that the recordings cannot answer.
    """

    version: int
    a: Compared
    b: Compared
    only_a: tuple[Failure, ...] = ()
    only_b: tuple[Failure, ...] = ()
    both: tuple[Failure, ...] = ()
    unseen_a: tuple[Failure, ...] = ()
    unseen_b: tuple[Failure, ...] = ()
    uncounted: int = 0
    notes: tuple[str, ...] = ()

    @property
    def other_ways(self) -> tuple[Failure, ...]:
        """Return the failures of both recordings that differ inside the call."""
        return tuple([one for one in self.both if one.departures])

    @property
    def found(self) -> bool:
        """Return True if there is a difference."""
        return bool(self.only_a or self.only_b or self.other_ways)
