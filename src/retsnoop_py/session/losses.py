# SPDX-License-Identifier: BSD-2-Clause
"""What is missing from the output, and what to do about it: per session and at the end.

Names are as they came: who writes to a terminal escapes them (:mod:`retsnoop_py.text`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from retsnoop_py.session.model import MissedCalls, Session, SessionKind
from retsnoop_py.settings import BpfSettings
from retsnoop_py.text import counted

_INCOMPLETE = "WARNING! Sample data incomplete!"
_SUMMARY = "WARNING! There were dropped or incomplete data. Output might be incomplete!"
_DIED = "sessions_died"
_BARE = "bare_stacks"
_SKIPPED = "calls_skipped"
_RUNNING, _MISSING = "sessions_running", "sessions_missing_calls"
_FORKS = "forks_unseen"
#: Told otherwise, or no loss.
_OTHERS = (_DIED, _BARE, _SKIPPED, _RUNNING, _MISSING, _FORKS)
#: Functions that are named among those that still run.
_MOST_NAMED = 5


def may_warn(session: Session) -> bool:
    """Return True if ``session`` may need a warning; most sessions do not."""
    return (
        session.dropped + session.too_deep + session.lost_exits + session.lost_entries > 0
        or session.missed is not None
        or session.kind is not SessionKind.FINAL
        or session.died
    )


def session_warnings(session: Session, bpf: BpfSettings) -> Iterator[str]:
    """One line for each kind of loss in ``session``."""
    if session.dropped:
        yield (
            f"{_INCOMPLETE} {counted(session.dropped, 'record')} dropped."
            f" Consider increasing -C bpf.ringbuf-size={bpf.ringbuf_size * 2}."
        )
    if session.too_deep:
        yield (
            f"{_INCOMPLETE} {counted(session.too_deep, 'call')} nested too deep to be kept."
            " Consider tracing fewer functions (-a, -d)."
        )
    if session.lost_exits:
        yield (
            f"{_INCOMPLETE} {counted(session.lost_exits, 'return')} never seen."
            " Consider tracing fewer functions (-a, -d)."
        )
    if session.lost_entries:
        yield (
            f"{_INCOMPLETE} {counted(session.lost_entries, 'return')} without a call seen."
            " Consider tracing fewer functions (-a, -d)."
        )
    if session.missed is not None:
        yield _missed(session.missed)
    if session.kind is SessionKind.RUNNING:
        yield f"Still running when tracing ended, in {_unfinished(session)}."
    if session.died:
        yield f"{_INCOMPLETE} The thread exited inside {_unfinished(session)}."


def loss_summary(stats: Mapping[str, int], bpf: BpfSettings) -> list[str]:
    """Return the lines to print at exit; empty if nothing is missing.

    ``stats`` are the counters of ``struct rsn_stats``, of the reader and of the pipeline by
    name; an absent counter is zero. A counter that this version does not know is printed by name.
    """
    known = _advice(bpf)
    lines = [
        _line(label, stats[name], advice)
        for name, (label, advice) in known.items()
        if stats.get(name)
    ]
    lines += [
        _line(name, value, "")
        for name, value in stats.items()
        if value and name not in known and name not in _OTHERS
    ]
    if lines:
        lines.insert(0, _SUMMARY)
    if stats.get(_DIED):
        # This is not a loss: these calls ended with the thread.
        lines.append(f"NOTE: {counted(stats[_DIED], 'thread')} exited inside a traced call.")
    if stats.get(_FORKS):
        # The counter covers all processes, so it is unknown whether this run lost data.
        lines.append(
            f"NOTE: {counted(stats[_FORKS], 'fork')} not looked at, another being looked at on that"
            " CPU: a child of the command's may be missing. -p or -n trace without."
        )
    if stats.get(_SKIPPED):
        lines.append(
            f"NOTE: {counted(stats[_SKIPPED], 'call')} of tracing itself or of interrupts, made"
            " while a session was being recorded, left out. Fewer functions avoid them (-a, -d)."
        )
    if stats.get(_BARE):
        lines.append(
            f"NOTE: {counted(stats[_BARE], 'stack')} without kernel frames, traced calls only:"
            " the kernel found no caller when asked at a return probe. More -a show more."
        )
    return lines


def losses_of(stats: Mapping[str, int]) -> dict[str, int]:
    """The counters among ``stats`` that are of something lost, and not zero."""
    return {name: count for name, count in stats.items() if count and name not in _OTHERS}


def running_note(running: Counter[str]) -> Iterator[str]:
    """The line about calls that still ran at the end and are not shown, by their functions."""
    if not running:
        return
    named = [
        f"{name} ({count})" if count > 1 else name
        for name, count in running.most_common(_MOST_NAMED)
    ]
    if len(running) > _MOST_NAMED:
        named.append("...")
    them = "it" if running.total() == 1 else "them"
    yield (
        f"NOTE: {counted(running.total(), 'call')} still running when tracing ended:"
        f" {', '.join(named)}. -S, -I or -L show {them}."
    )


def _missed(missed: MissedCalls) -> str:
    """The line about calls that the kernel kept from our programs."""
    return (
        f"NOTE: {'Up to ' if missed.shared else ''}{counted(missed.calls, 'traced call')} inside"
        f" {missed.inside.label} not seen: the kernel kept BPF programs from running"
        f" there{', or for other threads on that CPU' if missed.shared else ''}."
    )


def _advice(bpf: BpfSettings) -> dict[str, tuple[str, str]]:
    """What to call each counter, and the next step."""
    larger = f"-C bpf.ringbuf-size={bpf.ringbuf_size * 2}"
    return {
        "sessions_dropped": ("DROPPED SAMPLES", f"the buffer was full: try {larger}"),
        "interims_dropped": (
            "DROPPED REPORTS",
            f"of calls that went on (-I), the buffer was full: try {larger}",
        ),
        "lost_kernel": (
            "DROPPED RECORDS",
            f"the perf buffer was full, or a record was damaged: try {larger}",
        ),
        "lost_memory": (
            "UNREAD RECORDS",
            "they came faster than retsnoop-py could print or store them: trace less (-d, -L, -p)",
        ),
        "discarded": (
            "DISCARDED RECORDS",
            "a second signal came while they waited to be printed",
        ),
        "discarded_late": (
            "DISCARDED RECORDS",
            f"they waited for over {bpf.drain_seconds} s after the end: trace less (-d, -p, -n)",
        ),
        "sessions_unstarted": (
            "MISSED SAMPLES",
            f"too many at the same time: try -C bpf.sessions-size={bpf.sessions_size * 2}",
        ),
        "sessions_unfollowed": (
            "UNFOLLOWED SAMPLES",
            "without executed paths, too many calls at the same time: trace fewer threads (-p, -n)",
        ),
        "sessions_incomplete": (
            "INCOMPLETE SAMPLES",
            "marked where shown: trace fewer functions (-a, -d)",
        ),
        "sessions_abandoned": (
            "ABANDONED SAMPLES",
            "their entry function's return was missed: trace fewer functions (-a, -d)",
        ),
        "tree_overflow": (
            "UNTRACED PROCESSES",
            "too many child processes at the same time: trace with -p or -n instead of a command",
        ),
        "parts_dropped": (
            "DROPPED PARTS",
            "calls that are still running fill the memory: trace fewer functions (-a, -d)",
        ),
        "records_unknown": (
            "UNKNOWN RECORDS",
            "a newer version recorded them: replay with that version",
        ),
    }


def _line(label: str, value: int, advice: str) -> str:
    return f"{label + ':':<20} {value}  {advice}".rstrip()


def _unfinished(session: Session) -> str:
    running = [call for call in session.calls if not call.finished]
    return running[-1].function.label if running else "a traced call"
