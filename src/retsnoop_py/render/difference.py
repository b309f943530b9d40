# SPDX-License-Identifier: BSD-2-Clause
"""The differences of two recordings as text.

::

    FAILS IN B, NOT IN A (1)

    __x64_sys_bpf returned -EINVAL, 3 times
      A: never; 2 calls failed otherwise, 5 succeeded

        [-EINVAL]  __x64_sys_bpf
        [-EINVAL]  map_create
        [-EINVAL]  array_map_alloc_check   not traced in A

      The calls part here, from the nearest one of A, a success:

           → __x64_sys_bpf
               → array_map_alloc_check
        A      ← array_map_alloc_check   [0]
        B      ← array_map_alloc_check   [-EINVAL]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retsnoop_py.model.difference import (
    ChainCall,
    Compared,
    Departure,
    DepartureStep,
    Difference,
    Failure,
)
from retsnoop_py.render.palette import Glyphs, Palette, paint
from retsnoop_py.text import counted, display_width, pad, printable

#: Maximum number of printed names of functions that only one recording traces.
_MOST_NAMED = 12
#: Deeper calls are not indented further.
_MOST_LEVELS = 20


class DifferencePage:
    """Write the page; ``verbose`` also lists failures of both recordings, and all names."""

    def __init__(self, palette: Palette, glyphs: Glyphs, *, verbose: bool = False) -> None:
        self._palette = palette
        self._glyphs = glyphs
        self._verbose = verbose

    def lines(self, found: Difference) -> Iterator[str]:
        """Yield the lines of the page; none ends in blanks."""
        yield from self._head(found)
        for title, failures, side, has_other in (
            ("FAILS IN B, NOT IN A", found.only_b, "B", True),
            ("FAILS IN A, NOT IN B", found.only_a, "A", True),
            ("FAILS IN BOTH, BY ANOTHER WAY", found.other_ways, "", False),
            ("FAILS IN B, IN WHAT A DOES NOT TRACE", found.unseen_b, "B", False),
            ("FAILS IN A, IN WHAT B DOES NOT TRACE", found.unseen_a, "A", False),
        ):
            if failures:
                yield from ("", paint(f"{title} ({len(failures)})", self._palette.name))
                for failure in failures:
                    yield ""
                    yield from self._failure(failure, side, has_other=has_other)
        yield from self._both(found.both)
        yield from self._foot(found)

    def _head(self, found: Difference) -> Iterator[str]:
        rows = [_compared(side, one) for side, one in (("A", found.a), ("B", found.b))]
        widths = [max(display_width(row[at]) for row in rows) for at in range(3)]
        for row, side in zip(rows, (found.a, found.b), strict=True):
            cells = [pad(text, width) for text, width in zip(row, widths, strict=False)]
            yield "  ".join([*cells, row[3]]).rstrip()
            for told in (side.damage, *side.warnings):
                if told:
                    yield paint(f"   {printable(told)}", self._palette.warning)
            if side.damage:
                yield "   only the part before that byte is compared"
        for note in found.notes:
            yield f"NOTE: {printable(note)}"
        if found.uncounted:
            yield (
                f"NOTE: there are too many different chains of failures:"
                f" {counted(found.uncounted, 'failing call')} left out"
            )
        if not found.found:
            yield ""
            yield paint(
                "No difference in the functions that both recordings trace.", self._palette.good
            )

    def _failure(self, failure: Failure, side: str, *, has_other: bool) -> Iterator[str]:
        error, other = _returned(failure.error), "A" if side == "B" else "B"
        times = f"{_times(failure.a)} in A, {_times(failure.b)} in B"
        if side:
            times = _times(failure.a or failure.b)
        entry = paint(printable(failure.entry), self._palette.name)
        # a call inside failed, although the result of the entry function is not an error
        is_own = any(call.failed for call in failure.calls if call.function == failure.entry)
        verb = "returned" if is_own else "did not fail, but a call inside returned"
        yield f"{entry} {verb} {paint(error, self._palette.error)}, {times}"
        if has_other:
            yield _other_side(failure, other)
        yield ""
        yield from self._chain(failure.calls, other if side else "")
        for departure in failure.departures:
            yield ""
            yield from self._departure(departure, side or "B")

    def _chain(self, calls: Sequence[ChainCall], other: str) -> Iterator[str]:
        results = [printable(f"[{call.result}]") for call in calls]
        names = [printable(call.function) for call in calls]
        width = max(map(display_width, results), default=0)
        room = max(map(display_width, names), default=0)
        for call, result, name in zip(calls, results, names, strict=True):
            shown = " " * (width - display_width(result)) + paint(
                result, self._palette.error if call.failed else ""
            )
            remark = "" if call.both else f"   not traced in {other or 'A'}"
            yield f"    {shown}  {pad(name, room)}{remark}".rstrip()

    def _departure(self, departure: Departure, side: str) -> Iterator[str]:
        other = "A" if side == "B" else "B"
        what = "The calls part" if departure.kind == "tree" else "The ways through the code part"
        which = "that succeeded"
        if departure.nearest is not None:
            which = f"that failed with {_returned(departure.nearest)}"
        yield printable(f"  {what} here, from the nearest call of {other}, one {which}:")
        yield ""
        rows = [("", self._step(step, step.depth or 1), "") for step in departure.inside]
        level = len(departure.inside)
        for name, steps in (("A", departure.a), ("B", departure.b)):
            for step in steps:
                depth = level if step.step in ("exit", "end") else level + 1
                result = f"[{printable(step.text)}]" if step.step == "exit" else ""
                rows.append((name, self._step(step, max(depth, 1)), result))
        width = max(display_width(text) for _, text, _ in rows)
        for name, text, result in rows:
            failed = result == "[NULL]" or result.startswith("[-E")
            shown = paint(result, self._palette.error if failed else "")
            yield f"    {name:1}  {pad(text, width)}   {shown}".rstrip()

    def _step(self, step: DepartureStep, depth: int) -> str:
        glyphs = self._glyphs
        indent = "    " * min(max(depth - 1, 0), _MOST_LEVELS)
        if step.step == "entry":
            return printable(f"{indent}{glyphs.entry} {step.function}")
        if step.step == "exit":
            return printable(f"{indent}{glyphs.exit} {step.function}")
        if step.step == "block":
            text = f"{indent}{glyphs.block} {step.function}{step.text}  {step.place}"
            return printable(text.rstrip())
        if step.step == "decided":
            return printable(f"{indent}{glyphs.exit} {step.function}  {step.place}  {step.text}")
        return f"{indent}nothing more"

    def _both(self, failures: Sequence[Failure]) -> Iterator[str]:
        if not failures:
            return
        uneven = sum(one.a != one.b for one in failures)
        what = f"{counted(len(failures), 'chain')} of failures in both"
        if uneven:
            what += f", {uneven} with different counts"
        yield ""
        if not self._verbose:
            yield f"{what}; -v lists them."
            return
        yield paint(f"FAILS IN BOTH ({len(failures)})", self._palette.name)
        yield ""
        rows = [(str(one.a), str(one.b), one.error, _one_line(one.calls)) for one in failures]
        titles = ("A", "B", "ERROR", "CALLS")
        widths = [max(display_width(row[at]) for row in [titles, *rows]) for at in range(3)]
        for row in [titles, tuple("-" * width for width in (*widths, len(titles[3]))), *rows]:
            a, b, error, calls = map(printable, row)
            yield f"{a:>{widths[0]}}  {b:>{widths[1]}}  {error:{widths[2]}}  {calls}".rstrip()

    def _foot(self, found: Difference) -> Iterator[str]:
        for side, one in (("A", found.a), ("B", found.b)):
            if not one.only_here:
                continue
            names = one.only_here if self._verbose else one.only_here[:_MOST_NAMED]
            more = len(one.only_here) - len(names)
            rest = f" and {more} more (-v names them)" if more else ""
            yield ""
            yield printable(
                f"Only {side} traces {counted(len(one.only_here), 'function')}, which"
                f" {'is' if len(one.only_here) == 1 else 'are'} not compared:"
                f" {', '.join(names)}{rest}"
            )


def _compared(side: str, one: Compared) -> tuple[str, str, str, str]:
    figures = (
        f"{counted(one.functions, 'function')}, {counted(one.calls, 'call')}, {one.failed} failed"
    )
    return (
        side,
        printable(one.path),
        printable(f"Linux {one.kernel} {one.machine}".rstrip()),
        figures,
    )


def _other_side(failure: Failure, other: str) -> str:
    """Describe the calls of the recording that does not have this failure."""
    error, parts = _returned(failure.error), []
    if failure.same_error:
        parts.append(f"{_times(failure.same_error)} with {error} from another place")
    if failure.other_failures:
        parts.append(f"{_times(failure.other_failures)} with another error")
    if failure.succeeded:
        parts.append(f"{_times(failure.succeeded)} without any")
    if not parts:
        # without -S, successful calls are unknown
        parts.append("no failure of it" if failure.succeeded is None else "not called")
    return f"  {other}: {', '.join(parts)}"


def _returned(error: str) -> str:
    return "NULL" if error == "NULL" else printable(f"-{error}")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _one_line(calls: Sequence[ChainCall]) -> str:
    """Return a chain on one line; a result follows the last call that has it."""
    parts = []
    for at, call in enumerate(calls):
        is_last = at + 1 == len(calls) or calls[at + 1].result != call.result
        parts.append(f"{call.function} [{call.result}]" if is_last else call.function)
    return " > ".join(parts)
