# SPDX-License-Identifier: BSD-2-Clause
"""The waits of a command's threads as ``why`` reports them, with the kernel's functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import structs

from retsnoop_py.cause.events import Ended
from retsnoop_py.cause.waiting.model import Wait
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.model import session as to
from retsnoop_py.model import why as told
from retsnoop_py.render.formats import source_chain
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages

__all__ = ["still_ran", "told_waits", "with_lines"]

#: Ctrl-C on a terminal may end a command this many seconds before retsnoop-py notices.
_NOTICED_S = 0.5

#: A line of /proc/PID/stack: ``do_wait+0x59/0xe0 [module]``.
_LINE = re.compile(
    r"(?P<name>[^+]+)\+0x(?P<offset>[0-9a-f]+)/0x[0-9a-f]+(?: \[(?P<module>[^]]+)\])?"
)
#: The frames outside of a system call's own function.
_ENTRIES = re.compile(r"do_syscall_64|entry_.*|el0.*|invoke_syscall.*|x64_sys_call|ret_from_fork.*")


def still_ran(ends: Iterable[Ended], interrupted_at: float) -> bool:
    """Return True if a command still ran at a time of :func:`time.monotonic`.

    ``ends`` are its processes' ends. A command that had ended by itself was not waiting at Ctrl-C.
    """
    last = max((one.time for one in ends), default=None)
    return last is None or last / 1e9 > interrupted_at - _NOTICED_S


def told_waits(
    waits: Sequence[Wait], facts: KernelFacts, kernel: Path | None
) -> tuple[told.Waiting, ...]:
    """Return the waits as values of docs/json.md; ``kernel`` is a vmlinux with DWARF, or None."""
    rows = [_told(one, facts) for one in waits]
    frames = with_lines([frame for one in rows for frame in one.kernel_stack], facts, kernel)
    found = iter(frames)
    return tuple(
        structs.replace(one, kernel_stack=tuple(next(found) for _ in one.kernel_stack))
        for one in rows
    )


def _told(one: Wait, facts: KernelFacts) -> told.Waiting:
    thread, found = one.thread, one.found
    since = thread.since_s
    return told.Waiting(
        thread.pid,
        thread.tid,
        thread.name,
        thread.call,
        one.arguments,
        None if since is None else round(since, 3),
        found.kind,
        dict(found.facts),
        one.sentence,
        found.advice,
        found.certainty,
        _frames(thread.stack, facts),
    )


def _frames(lines: Iterable[str], facts: KernelFacts) -> tuple[to.Frame, ...]:
    """Return the kernel's functions, outermost first, without those of every system call."""
    found: list[to.Frame] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or _ENTRIES.fullmatch(match["name"]):
            continue
        offset = int(match["offset"], 16)
        address = _address(facts, match["name"], match["module"])
        place = address + offset if address else 0
        found.append(to.Frame(f"{place:#x}", match["name"], offset, match["module"]))
    return tuple(reversed(found))


def _address(facts: KernelFacts, name: str, module: str | None) -> int:
    """Return a function's address; 0 if it is ambiguous or unknown."""
    try:
        found = [one for one in facts.kallsyms.named(name, module) if one.module == module]
    except RetsnoopError:
        return 0
    return found[0].address if len(found) == 1 else 0


def with_lines(
    frames: Sequence[to.Frame], facts: KernelFacts, kernel: Path | None
) -> list[to.Frame]:
    """Return the frames with source lines, if the kernel's debug information is available."""
    if not frames:
        return []
    images = KernelImages(facts, kernel)
    with KernelSymbolizer(facts, SymbolizeMode.AUTO, images) as symbols:
        return [_lined(one, symbols) for one in frames]


def _lined(frame: to.Frame, symbols: KernelSymbolizer) -> to.Frame:
    if not frame.address:
        return frame
    places = source_chain(symbols.resolve(frame.address), symbols.mode)
    return structs.replace(frame, source=tuple(to.Source(*one) for one in places))
