# SPDX-License-Identifier: BSD-2-Clause
"""What came of a run on several kernels: a row for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retsnoop_py.render.json_types import RunResult
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.text import display_width, pad, printable

__all__ = ["run_lines"]

_TITLES = ("kernel", "release", "failing sessions", "lost", "CMD", "verdict")
#: Errors that are named in a cell; the rest is counted.
_MOST = 4


def run_lines(results: Sequence[RunResult], palette: Palette) -> Iterator[str]:
    """The table, and below each row that is not ``ok`` what is wrong."""
    rows = [tuple(map(printable, _cells(one))) for one in results]
    widths = [max(map(display_width, column)) for column in zip(_TITLES, *rows, strict=True)]
    yield paint(_joined(_TITLES, widths), palette.name)
    for result, row in zip(results, rows, strict=True):
        colour = palette.good if result.verdict == "ok" else palette.error
        before = _joined(row[:-1], widths[:-1], cut=False)
        yield f"{before}  {paint(row[-1], colour)}".rstrip()
        for line in result.why:
            yield f"{'':{widths[0]}}  {printable(line)}"


def _cells(one: RunResult) -> tuple[str, ...]:
    told = [f"{count} {name}" for name, count in one.sessions.items()]
    if len(told) > _MOST:
        told[_MOST:] = [f"{len(told) - _MOST} more errors"]
    ended = one.verdict not in ("error", "crashed", "unbooted", "timeout")
    return (
        one.on,
        one.kernel or "-",
        ", ".join(told) or ("none" if ended else "-"),
        ", ".join(f"{name} {count}" for name, count in one.lost.items()) or "-",
        "-" if one.command_status is None else str(one.command_status),
        one.verdict,
    )


def _joined(cells: Sequence[str], widths: Sequence[int], *, cut: bool = True) -> str:
    line = "  ".join(pad(cell, width) for cell, width in zip(cells, widths, strict=True))
    return line.rstrip() if cut else line
