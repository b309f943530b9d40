# SPDX-License-Identifier: BSD-2-Clause
"""What two recordings differ in: the line of ``diff --format json``, and what its page is made of.

Names of functions are without the compiler's suffixes. Results are as text has them where they are
errors, 0 or constants; of others only what does not change from run to run: ``>0``, ``<0``,
``pointer``.
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

#: Grows when a field changes its meaning or goes away; new fields may come without that.
VERSION = 1


class Compared(Struct, omit_defaults=True, frozen=True):
    """One of the two recordings.

    ``calls`` are those of entry functions that were compared, ``failed`` of them; ``functions``
    how many it traced, ``only_here`` those the other did not trace. ``calls_traced``: it holds
    call trees. ``damage``: where it ends too early, and why; what is before that was compared.
    ``warnings`` are those of its run.
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
    """A call of a failing chain and what it returned.

    ``failed``: that is an error. ``both``: both recordings trace the function.
    """

    function: str
    result: str
    failed: bool = False
    both: bool = True


class DepartureStep(Struct, omit_defaults=True, frozen=True):
    """A step of a call tree (``entry``, ``exit``), or of the way through a function.

    ``text`` is the result of an ``exit``. ``block``: code of ``function`` ran, ``text`` is its
    offset, ``place`` its source line; ``decided``: the result was made, ``text`` tells of what and
    on which condition. ``end``: nothing follows. ``depth`` is 1 for the first.
    """

    step: Literal["entry", "exit", "block", "decided", "end"]
    function: str = ""
    text: str = ""
    place: str = ""
    depth: int = 0


class Departure(Struct, omit_defaults=True, frozen=True):
    """Where a call first goes another way than the nearest one of the other recording.

    ``kind``: by its call tree, or by the way through followed functions. ``equal`` steps come
    before, of which ``inside`` are the calls that have not returned yet; ``a`` and ``b`` are what
    follows. ``nearest`` is the error of the other recording's call, null if it succeeded.
    """

    kind: Literal["tree", "path"]
    equal: int
    nearest: str | None
    inside: tuple[DepartureStep, ...]
    a: tuple[DepartureStep, ...]
    b: tuple[DepartureStep, ...]


class Failure(Struct, omit_defaults=True, frozen=True):
    """A failing chain, outermost call first: how often each recording has it, 0 for never.

    ``error`` is the name of what its outermost failing call returned, ``NULL`` for a NULL pointer.
    Of the recording that does not have it:
    ``same_error`` calls of ``entry`` returned that error by another chain, ``other_failures``
    failed with another one, ``succeeded`` did not fail (null: it does not hold such).
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
    """What two recordings differ in.

    ``only_a`` and ``only_b`` fail in one of them; ``both`` fail in both, by another way where
    there are ``departures``. ``unseen_a`` fail in A, and B does not trace the entry function or
    none of what failed, ``unseen_b`` the other way round: these are no differences. ``uncounted``:
    there were too many different chains, so many calls of others were left out. ``notes`` say what
    the recordings cannot tell.
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
        """Those that fail in both, by another way."""
        return tuple([one for one in self.both if one.departures])

    @property
    def found(self) -> bool:
        """Whether there is any difference."""
        return bool(self.only_a or self.only_b or self.other_ways)
