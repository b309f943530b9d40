# SPDX-License-Identifier: BSD-2-Clause
"""The closing line of a run: calls of entry functions seen, failed, printed, filtered, lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from retsnoop_py.kernel.errno import error_name
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.settings import FilterSettings, Settings

__all__ = ["CALLS", "SHORT", "Counts", "errors_label", "longer_label", "option_label"]

#: Counters of the kernel side, by their names in a recording: calls of entry functions that were
#: followed, and failing ones among them that -L filtered out.
CALLS, SHORT = "calls", "failed_short"
#: Losses that are calls of entry functions; others are records.
_LOST_CALLS = ("sessions_dropped", "sessions_unstarted", "sessions_abandoned")
_LOST_RECORDS = ("lost_kernel", "lost_memory", "discarded")
#: Errors, and names in an option, that are listed.
_MOST_LISTED = 3
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


def longer_label(longer_ns: int) -> str:
    """``-L 10ms``: the option, in the largest unit that needs no fraction."""
    unit, size = next(one for one in _UNITS if longer_ns % one[1] == 0)
    return f"-L {longer_ns // size}{unit}"


def errors_label(option: str, errors: frozenset[int]) -> str:
    """``-x ENOMEM -x EPERM``: the option with each of the first few errors."""
    return option_label(option, [error_name(error) for error in sorted(errors)])


def option_label(option: str, values: Sequence[object]) -> str:
    """``-n cat -n ls``: the option with each of the first few values."""
    names = [f"{option} {value}" for value in values[:_MOST_LISTED]]
    return " ".join(names) + (" ..." if len(values) > _MOST_LISTED else "")


class Counts:
    """Numbers of calls of entry functions. Reports of unfinished calls (``-I``) are not counted.

    * ``failed``: failing calls that were received
    * ``shown``: calls that were handed to the output; ``succeeded``: successful calls among these
    * ``running``: calls that were handed to the output and still ran when tracing ended
    * ``repeated``: calls among these that the output counted and did not print
    * ``filtered``: failing calls by the option that filtered them out
    * ``is_cut``: ``--count`` ended the run, so that later calls are not counted
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.failed = self.succeeded = self.shown = self.running = self.repeated = 0
        self.filtered: Counter[str] = Counter()
        self.is_cut = False
        #: The errors of failing calls that were filtered out; 0 stands for NULL.
        self._errors: Counter[int] = Counter()
        self._kernel: dict[str, int] = {}
        self._lost: Mapping[str, int] = {}

    def show(self, reports: Sequence[Report]) -> None:
        """Count calls that are handed to the output."""
        for report in reports:
            self._add(report.session, 1)

    def show_repeated(self, used: Sequence[tuple[Report, int]]) -> None:
        """Count calls that were written by templates: a report, and how many are like it."""
        for report, times in used:
            self._add(report.session, times)

    def _add(self, session: Session, times: int) -> None:
        if session.kind is SessionKind.RUNNING:
            self.running += times
        if session.kind is SessionKind.FINAL:
            self.shown += times
            if session.is_error:
                self.failed += times
            else:
                self.succeeded += times

    def hide(self, session: Session, option: str, times: int = 1) -> None:
        """Count ``times`` failing calls like ``session`` that ``option`` filters out."""
        self.failed += times
        self.filtered[option] += times
        error = _error(session)
        if error is not None:
            self._errors[error] += times

    def end(self, kernel: Mapping[str, int], lost: Mapping[str, int]) -> None:
        """Take the counters of the kernel side and of losses; the former are absent if unknown."""
        self._kernel, self._lost = dict(kernel), lost
        if self._settings.pinpoint:  # the command is run again, and only what is new is shown
            self._kernel.pop(CALLS, None)
        short = kernel.get(SHORT, 0)
        if short:
            self.failed += short
            self.filtered[longer_label(self._settings.filters.longer_ns)] += short

    def line(self) -> str:
        """The closing line, without its line end."""
        lost = [*self._lost_texts()]
        if not self.failed and not self.shown and not self.running:
            text = self._without_failure()
            return f"{text}; {', '.join(lost)}." if lost else f"{text}."
        if not self.shown and not self.running and self.filtered and not lost:
            return (
                f"0 of {_number(self.failed, 'failed call')} pass {self._options()}"
                f"{self._frequent('; most frequent: ')}."
            )
        kinds = [f"{self.succeeded:,} of them successful"] if self.succeeded else []
        kinds += [f"{self.running:,} of them still running"] if self.running else []
        some = f" ({', '.join(kinds)})" if kinds else ""
        found = [f"{self.shown - self.repeated + self.running:,} printed{some}"]
        if self.repeated:
            found.append(f"{self.repeated:,} like them counted (--all prints each)")
        if self.filtered:
            hidden = self.filtered.total()
            found.append(f"{hidden:,} filtered out by {self._options()}{self._frequent(' (', ')')}")
        end = " --count ended the trace; later calls are not counted." if self.is_cut else ""
        return f"{self._seen()}; {', '.join([*found, *lost])}.{end}"

    def _seen(self) -> str:
        calls = self._kernel.get(CALLS, 0)
        if not calls or self.is_cut:
            return f"{_number(self.failed, 'call')} failed"
        return f"{_of_entry(calls)}, {self.failed:,} failed"

    def _without_failure(self) -> str:
        calls = self._kernel.get(CALLS)
        if calls is None:
            return "No call failed"
        if calls:
            successful = "" if self._settings.filters.success else "; -S prints successful calls"
            return f"{_of_entry(calls)}, none failed{successful}"
        return f"No call of an entry function was seen{self._by()}"

    def _by(self) -> str:
        """The processes and threads that the trace was restricted to; empty: all."""
        filters = self._settings.filters
        found = [" by the command or its child processes"] if self._settings.command else []
        found += [f" ({option})" for option in _process_options(filters)]
        return "".join(found)

    def _options(self) -> str:
        return ", ".join(option for option, _ in self.filtered.most_common())

    def _frequent(self, before: str, behind: str = "") -> str:
        frequent = self._errors.most_common(_MOST_LISTED)
        listed = [f"{error_name(error)} {count:,}" for error, count in frequent]
        return f"{before}{', '.join(listed)}{behind}" if listed else ""

    def _lost_texts(self) -> list[str]:
        found = []
        for noun, names in (("call", _LOST_CALLS), ("record", _LOST_RECORDS)):
            count = sum(self._lost.get(name, 0) for name in names)
            if count:
                found.append(f"{_number(count, noun)} lost")
        return found


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _of_entry(calls: int) -> str:
    return "1 call of an entry function" if calls == 1 else f"{calls:,} calls of entry functions"


def _process_options(filters: FilterSettings) -> list[str]:
    given = (
        ("-p", filters.pids),
        ("-P", filters.deny_pids),
        ("-n", filters.comms),
        ("-N", filters.deny_comms),
    )
    return [option_label(option, values) for option, values in given if values]


def _error(session: Session) -> int | None:
    """The error of the outermost call that has one; None if no call has one."""
    for call in session.calls:
        error = error_of(call.function, call.result) if call.finished else None
        if error is not None:
            return error
    return None
