# SPDX-License-Identifier: BSD-2-Clause
"""Compare two recordings: failures in only one recording, and places where calls diverge.

Each recording is read once from start to end. Only counters are kept of its sessions: one for each
different chain, with a few of its call trees.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from retsnoop_py.api.keywords import DiffOptions, words
from retsnoop_py.api.tally import (
    MOST_STEPS,
    Counted,
    Heard,
    Key,
    Projection,
    Steps,
    Tally,
    plain_name,
)
from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.model.difference import (
    VERSION,
    ChainCall,
    Compared,
    Departure,
    DepartureStep,
    Difference,
    Failure,
)
from retsnoop_py.options.settings import diff_overrides

if TYPE_CHECKING:
    from retsnoop_py.recording.overrides import ReplayOverrides
    from retsnoop_py.recording.replay import Replay
    from retsnoop_py.session.stream_header import StreamHeader

__all__ = ["compare", "diff"]

#: Number of neighbours to search for the most similar call tree. Trees with an equally long common
#: start are adjacent.
_NEIGHBOURS = 32

_KINDS = ("tree", "path")


def diff(
    a: str | PathLike[str], b: str | PathLike[str], **options: Unpack[DiffOptions]
) -> Difference:
    """Return the failures in recording ``b`` that are not in ``a``, and vice versa.

    ``options`` filter sessions, like those of ``retsnoop-py diff``. A damaged recording is compared
    up to the damage; its ``damage`` describes it. Raises InputError if a file cannot be read,
    DataError if it is not a recording, UsageError if both are the same file.
    """
    said = words(options, DiffOptions.__optional_keys__)
    return compare(Path(fspath(a)), Path(fspath(b)), diff_overrides(said))


def compare(
    path_a: Path, path_b: Path, overrides: ReplayOverrides, heard: Heard = lambda _: None
) -> Difference:
    """Compare the recordings as :func:`diff` does; ``heard`` gets the number of calls read."""
    from retsnoop_py.recording.replay import Replay

    _check_two(path_a, path_b)
    a, b = Replay(path_a, overrides), Replay(path_b, overrides)
    names_a, names_b = _names(a.header), _names(b.header)
    projection = Projection(
        names_a & names_b,
        _names(a.header, entries=True) & _names(b.header, entries=True),
        same_code=_is_same_code(a.header, b.header),
    )
    left, right = Tally(projection, heard), Tally(projection, heard)
    damages = left.read(a), right.read(b)
    told_a = _compared(path_a, a, left, damages[0], names_a - names_b)
    told_b = _compared(path_b, b, right, damages[1], names_b - names_a)
    only_a = [k for k in left.chains if k not in right.chains]
    only_b = [k for k in right.chains if k not in left.chains]
    nearest_a, nearest_b = _Departures(left, projection), _Departures(right, projection)
    return Difference(
        VERSION,
        told_a,
        told_b,
        tuple(_in_order([_only(k, left, b, right, nearest_b, is_a=True) for k in only_a])),
        tuple(_in_order([_only(k, right, a, left, nearest_a, is_a=False) for k in only_b])),
        tuple(_in_order(_in_both(left, right, nearest_a))),
        tuple(_in_order([_unseen(*one, is_a=True) for one in left.unseen.items()])),
        tuple(_in_order([_unseen(*one, is_a=False) for one in right.unseen.items()])),
        left.uncounted + right.uncounted,
        tuple(_notes(a, b)),
    )


def _check_two(a: Path, b: Path) -> None:
    try:
        is_same = a.samefile(b)
    except OSError as error:
        raise InputError(
            f"cannot read {error.filename}: {error.strerror}", "recordings are made with -o FILE"
        ) from None
    if is_same:
        raise UsageError(
            f"{a} and {b} are the same file: there is nothing to compare",
            "give two recordings, the one without the failure first: retsnoop-py diff A.rsn B.rsn",
        )


def _names(header: StreamHeader, *, entries: bool = False) -> frozenset[str]:
    """Return the plain names of the functions a run traced, or of its entry functions alone."""
    return frozenset([plain_name(f.name) for f in header.functions if f.is_entry or not entries])


def _is_same_code(a: StreamHeader, b: StreamHeader) -> bool:
    """Return True if kernel and common modules are the same builds."""
    of_a = {module.name: module.build_id for module in a.modules}
    modules = [(m.build_id, of_a[m.name]) for m in b.modules if m.name in of_a]
    return all(one and one == other for one, other in [(a.build_id, b.build_id), *modules])


#: Call trees or paths of calls, with their number and error (empty: none).
_Seen = list[tuple[Steps, int, str]]


class _Departures:
    """Finds the calls of a recording with the longest common start."""

    def __init__(self, tally: Tally, projection: Projection) -> None:
        self._projection = projection
        #: By kind and entry function.
        self._known: dict[tuple[str, str], _Seen] = {}
        every = [(key[0][0], one) for key, one in tally.chains.items()]
        for entry, counted in [*every, *tally.successes.items()]:
            for kind in _KINDS:
                self._known.setdefault((kind, entry), []).extend(_seen(kind, counted))
        for known in self._known.values():
            known.sort()

    def of(self, entry: str, counted: Counted, *, is_a: bool) -> tuple[Departure, ...]:
        """Return where calls of the other recording diverge from this one; ``is_a``: that is A."""
        known = self._known
        found = [
            self._departure(kind, counted, known.get((kind, entry), []), is_a=is_a)
            for kind in _KINDS
        ]
        return tuple([one for one in found if one is not None])

    def between(self, ours: Counted, theirs: Counted) -> tuple[Departure, ...]:
        """Return where calls of B diverge from A's calls with the same chain, if none is equal."""
        found = [
            self._departure(kind, theirs, sorted(_seen(kind, ours)), is_a=False)
            for kind in _KINDS
            if not (_kept(kind, ours).keys() & _kept(kind, theirs).keys())
        ]
        return tuple([one for one in found if one is not None])

    def _departure(
        self, kind: str, counted: Counted, known: _Seen, *, is_a: bool
    ) -> Departure | None:
        seen = _kept(kind, counted)
        if not seen or not known:
            return None
        steps = seen.most_common(1)[0][0]
        at = bisect(known, (steps, 0, ""))
        near = known[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS]
        # among the longest common starts, prefer a success, then the most frequent
        equal, _, _, other, error = max(
            (_equal_steps(steps, other), not error, times, other, error)
            for other, times, error in near
        )
        if equal >= MOST_STEPS or steps == other:
            return None
        mine, theirs = self._next(steps, equal), self._next(other, equal)
        return Departure(
            "tree" if kind == "tree" else "path",
            equal,
            error or None,
            self._inside(steps[:equal]),
            mine if is_a else theirs,
            theirs if is_a else mine,
        )

    def _inside(self, steps: Steps) -> tuple[DepartureStep, ...]:
        """Return the calls that have not returned after ``steps``; for paths, the last step."""
        from msgspec.structs import replace

        running: list[DepartureStep] = []
        for step in map(self._projection.step, steps):
            if step.step == "entry":
                running.append(replace(step, depth=len(running) + 1))
            elif step.step == "exit":
                running = running[:-1]
            else:
                running = [step]
        return tuple(running)

    def _next(self, steps: Steps, at: int) -> tuple[DepartureStep, ...]:
        """Return the next step; for a block, also the decision after it."""
        if at >= len(steps):
            return (DepartureStep("end"),)
        first = self._projection.step(steps[at])
        if first.step != "block":
            return (first,)
        behind = (self._projection.step(number) for number in steps[at + 1 :])
        decided = next((step for step in behind if step.step == "decided"), None)
        return (first,) if decided is None else (first, decided)


def _kept(kind: str, counted: Counted) -> Counter[Steps]:
    return counted.trees if kind == "tree" else counted.ways


def _seen(kind: str, counted: Counted) -> _Seen:
    return [(steps, times, counted.error) for steps, times in _kept(kind, counted).items()]


def _equal_steps(one: Steps, other: Steps) -> int:
    """Return the number of equal steps at the start."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


def _only(
    key: Key, mine: Tally, other: Replay, theirs: Tally, nearest: _Departures, *, is_a: bool
) -> Failure:
    """Return a chain that only one recording has."""
    counted, entry = mine.chains[key], key[0][0]
    errors = theirs.errors.get(entry, Counter())
    same = errors[counted.error]
    succeeded = theirs.successes.get(entry)
    return Failure(
        entry,
        counted.error,
        counted.count if is_a else 0,
        0 if is_a else counted.count,
        counted.calls,
        same,
        errors.total() - same,
        (succeeded.count if succeeded else 0) if other.header.filters.success else None,
        nearest.of(entry, counted, is_a=is_a),
    )


def _in_both(left: Tally, right: Tally, nearest_a: _Departures) -> Iterator[Failure]:
    """Yield the chains in both recordings, with the divergence if no call took the same path."""
    for key, one in left.chains.items():
        other = right.chains.get(key)
        if other is None:
            continue
        # a call that was not kept may have taken the same path
        is_whole = not (one.has_more or other.has_more)
        departures = nearest_a.between(one, other) if is_whole else ()
        yield Failure(
            key[0][0], one.error, one.count, other.count, other.calls, departures=departures
        )


def _unseen(calls: tuple[ChainCall, ...], counted: Counted, *, is_a: bool) -> Failure:
    """Return a chain that the other recording cannot contain."""
    a, b = (counted.count, 0) if is_a else (0, counted.count)
    return Failure(calls[0].function if calls else "", counted.error, a, b, calls)


def _in_order(failures: Iterator[Failure] | list[Failure]) -> list[Failure]:
    """Return new errors first, then by entry function and error, the most frequent first."""
    return sorted(
        failures,
        key=lambda one: (
            *(one.same_error > 0, one.entry, one.error, -max(one.a, one.b)),
            [(call.function, call.result) for call in one.calls],
        ),
    )


def _compared(
    path: Path, recording: Replay, tally: Tally, damage: str | None, only: frozenset[str]
) -> Compared:
    header = recording.header
    return Compared(
        str(path),
        header.release,
        header.machine,
        header.command,
        len(header.functions),
        tally.calls,
        tally.failed,
        recording.settings.views.call_trace,
        tuple(sorted(only)),
        damage,
        tuple(tally.warnings),
    )


def _notes(a: Replay, b: Replay) -> Iterator[str]:
    """Yield notes about data that cannot be compared because of different recording options."""
    one, other = a.settings, b.settings
    if one.views.call_trace != other.views.call_trace:
        lacking = "B" if one.views.call_trace else "A"
        yield f"call trees are not compared: {lacking} was recorded without -T"
    for option, name in (("-x", "allow_errors"), ("-X", "deny_errors"), ("-L", "longer_ns")):
        if getattr(one.filters, name) != getattr(other.filters, name):
            yield f"recorded with different {option}: each lacks the calls that its filter removed"
    if a.header.machine != b.header.machine:
        told = f"A is of {a.header.machine}, B of {b.header.machine}"
        yield f"{told}: the entry functions have different names"
