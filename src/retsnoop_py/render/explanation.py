# SPDX-License-Identifier: BSD-2-Clause
"""Write an explanation for people, in the form of Linux 7.3's own explanations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from retsnoop_py.load.model import Evidence, Explained, Explanation, Place
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.text import printable_line, printable_lines

__all__ = ["explained_lines", "explanation_lines"]

#: Number of columns of text if the terminal's width is unknown.
_WIDTH = 100
#: The verifier's titles begin with a category from this list.
_VERIFIER = (
    "Memory Safety",
    "Register Type Safety",
    "Call Type Safety",
    "Program Structure",
    "Policy",
    "Resource Lifetime Safety",
    "Verifier",
)


def _line(text: str, code: str = "") -> str:
    """Return a line of ``text`` from a log or a file, safe for a terminal and in colour."""
    return paint(printable_line(text), code)


def explained_lines(found: Explained, palette: Palette, width: int = 0) -> Iterator[str]:
    """Yield one failure of a log: its subject, and the explanation."""
    whose = f"program '{found.program}'" if found.program else "a program or map"
    more = [f"line {found.line} of the log"]
    more += [found.errno] if found.errno else []
    more += [f"{found.instructions:,} instructions followed"] if found.instructions else []
    yield _line(f"{whose}: {', '.join(more)}", palette.name)
    yield from explanation_lines(found.explanation, palette, width)


def explanation_lines(why: Explanation, palette: Palette, width: int = 0) -> Iterator[str]:
    """Yield the explanation, with the kernel's own text if there is one."""
    if why.kernel:
        for line in why.kernel:
            yield _line(line, palette.error if line.startswith("Verification failed") else "")
        return
    head = "Verification failed" if why.title.startswith(_VERIFIER) else "Load failed"
    yield _line(f"{head}: {why.title}", palette.error)
    yield ""
    yield from _paragraph("Reason:", why.reason, width)
    if why.place or why.instruction:
        yield ""
        yield "At:"
        yield from _at(why.place, why.instruction, palette)
    if why.chain:
        yield ""
        yield "In the kernel:"
        yield from _chain(why)
    if why.evidence:
        yield ""
        yield "Causal path:"
        for step in why.evidence:
            yield from _step(step, palette)
    if why.suggestion:
        yield ""
        yield from _paragraph("Suggestion:", why.suggestion, width)
    for note in why.notes:
        yield ""
        yield from _paragraph("Note:", note, width)
    if why.words:
        yield ""
        yield "Log:"
        yield from (_line(f"  {line}", palette.source) for line in why.words)


def _chain(why: Explanation) -> Iterator[str]:
    for line in why.chain[:-1]:
        yield _line(f"    {line}")
    yield _line(f"  ! {why.chain[-1]}")
    for number, condition in enumerate(why.conditions):
        if number:
            yield _line(f"    {condition.function}")
        yield from (_line(f"        {line}") for line in condition.lines)
    for text in why.said:
        yield _line(f"  the kernel said: {text}")


def _paragraph(heading: str, text: str, width: int) -> Iterator[str]:
    yield heading
    yield from textwrap.wrap(
        printable_lines(text),
        min(width or _WIDTH, _WIDTH),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _label(place: Place) -> str:
    where = ":".join(str(part) for part in (place.file, place.line, place.column) if part)
    return " @ ".join(part for part in (place.function, where) if part)


def _at(place: Place | None, instruction: str, palette: Palette) -> Iterator[str]:
    if place is not None:
        label = _label(place)
        if label:
            yield _line(f"  {label}")
        yield from _source(place, palette)
    if instruction:
        yield _line(f"  insn {instruction}", palette.source)


def _source(place: Place, palette: Palette) -> Iterator[str]:
    rows = place.context or ((place.line, place.text),)
    number = len(str(rows[-1][0]))
    before = 0
    for line, text in rows:
        if before and line > before + 1:
            yield f"  {'':3} {'':{number}} | ..."
        before = line
        mark = ">>>" if line == place.line else ""
        shown = f"  {mark:3} {line or '':>{number}} | {text.expandtabs(8).rstrip()}"
        yield _line(shown, palette.mark if mark else "")


_ROLES = {
    "made": "made here",
    "checked": "checked here",
    "changed": "changed here",
    "lost": "lost here",
    "needed": "needed here",
    "visited": "followed most",
}


def _step(step: Evidence, palette: Palette) -> Iterator[str]:
    what, place = f"{_ROLES[step.role]}:", _label(step.place) if step.place else ""
    number = f"insn {step.instruction}: " if step.instruction >= 0 else ""
    if place:
        yield _line(f"  {what:14} {place}")
        what = ""
    if step.place and step.place.text:
        yield _line(f"  {what:14} {step.place.text}")
        what = ""
    yield _line(f"  {what:14} {number}{step.text}", palette.source)
