# SPDX-License-Identifier: BSD-2-Clause
"""The page about a command's threads that wait, with the reasons.

::

    flock (PID 311) has waited 2.7 s for a lock on /tmp/l. PID 309 (flock /tmp/l sleep 100) holds
    it (flock, a write lock).
      To change it: end PID 309, or wait until it releases the lock

    flock(3</tmp/l>, LOCK_EX)

        __x64_sys_flock       fs/locks.c:2101
      ! locks_lock_inode_wait fs/locks.c:2055

    Other threads:
      sh (PID 308) has waited 2.9 s for its child PID 311 (flock /tmp/l true).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retsnoop_py.model.session import Frame
from retsnoop_py.model.why import Waiting
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.text import display_width, pad, printable, wrapped

__all__ = ["waiting_lines"]

#: Maximum number of other threads without -v.
_MOST = 8


def waiting_lines(
    waits: Sequence[Waiting], palette: Palette, width: int, *, verbose: bool
) -> Iterator[str]:
    """Yield the lines of the page; ``verbose``: with the kernel functions of all threads."""
    if not waits:
        return
    first, *others = waits
    yield from wrapped(printable(first.sentence), 0, width)
    for number, text in enumerate(first.advice):
        lines = list(wrapped(printable(text), 13, width))
        if lines and not number:
            lines[0] = f"  To change: {lines[0][13:]}"
        yield from lines
    if first.kernel_stack:
        yield ""
        yield from _call(first, palette)
    if not others:
        return
    yield ""
    yield "Other threads:"
    for one in others if verbose else others[:_MOST]:
        yield from wrapped(printable(one.sentence), 2, width)
        if verbose and one.kernel_stack:
            yield from _call(one, palette)
    if len(others) > _MOST and not verbose:
        yield f"  and {len(others) - _MOST} more (-v lists all)"


def _call(one: Waiting, palette: Palette) -> Iterator[str]:
    """Yield the system call, and the kernel functions in which it waits."""
    if one.call:
        yield f"{paint(printable(one.call), palette.name)}({printable(one.arguments)})"
        yield ""
    names = [printable(frame.symbol or frame.hex_address) for frame in one.kernel_stack]
    longest = max(display_width(name) for name in names)
    for number, (name, frame) in enumerate(zip(names, one.kernel_stack, strict=True), 1):
        mark = paint("!", palette.mark) if number == len(names) else " "
        yield f"  {mark} {pad(name, longest)}   {_place(frame, palette)}".rstrip()


def _place(frame: Frame, palette: Palette) -> str:
    if frame.source and frame.source[0].file:
        inner = frame.source[0]
        return palette.place(printable(f"{inner.file}:{inner.line}"))
    return paint(f"+{frame.offset:#x}", palette.source)
