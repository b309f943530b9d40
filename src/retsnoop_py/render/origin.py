# SPDX-License-Identifier: BSD-2-Clause
"""Where a call's result was made and what decided it, and the way to there, as text.

::

    kernel/bpf/arraymap.c:63:10   returned -EINVAL
    kernel/bpf/arraymap.c:58:29   because attr->key_size != 4   attr->key_size = 8

Without DWARF the places are those of the code: ``array_map_alloc_check+0x98``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retsnoop_py.kernel.functions import Function
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.result import format_result
from retsnoop_py.session.paths import Condition, Path, operand_value
from retsnoop_py.session.report import PathView
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.text import display_width, pad, printable

__all__ = ["OriginRows", "place_text"]

#: Longer cycles of a loop are not looked for, in rows.
_MAX_CYCLE = 16
_SMALL = 10_000


class OriginRows:
    """Writes what is below a call; ``functions`` by their ids."""

    def __init__(self, functions: Sequence[Function], palette: Palette) -> None:
        self._functions = functions
        self._palette = palette

    def below(self, view: PathView | None, indent: int) -> list[str]:
        """The rows about where a result was made; none where nothing is known of it."""
        if view is None:
            return []
        rows = list(self._rows(view))
        width = max((display_width(place) for place, _ in rows), default=0)
        return [
            f"{' ' * indent}{paint(pad(place, width), self._palette.source)}   {text}".rstrip()
            for place, text in rows
        ]

    def _rows(self, view: PathView) -> Iterator[tuple[str, str]]:
        origin = view.origin
        function = self._functions[view.path.id]
        if origin.returned is not None:
            yield self._place(view, origin.returned.address), _returned(view, function)
        if origin.decided is not None:
            yield self._place(view, origin.decided.address), _because(view)
        elif origin.unknown:
            yield "", f"what decided is not known: {printable(origin.unknown)}"

    def _place(self, view: PathView, address: int) -> str:
        return place_text(view.resolve(address), self._functions[view.path.id].name)

    def way(self, view: PathView | None, indent: int, mark: str) -> list[str]:
        """The rows of the way itself: a source line each, repetitions folded."""
        if view is None:
            return []
        name = self._functions[view.path.id].name
        places = [place_text(view.resolve(address), name) for address in view.origin.blocks]
        rows = [
            text for at, text in enumerate(places) if text and (not at or places[at - 1] != text)
        ]
        before = " " * indent
        lines = []
        if view.path.earlier:
            lines.append(f"{before}... {view.path.earlier} blocks before ...")
        for text, times in fold(rows):
            again = f"  (x{times})" if times > 1 else ""
            lines.append(f"{before}{mark} {paint(text, self._palette.source)}{again}")
        return lines


def place_text(resolved: Resolved, function: str) -> str:
    """A place in ``function`` as file, line and column, with what is inlined there."""
    frames = resolved.frames
    if not frames or not frames[-1].file:
        return printable(f"{resolved.name}+{resolved.offset:#x}" if resolved.name else "")
    inner = frames[-1]
    place = f"{inner.file}:{inner.line}"
    if inner.column:
        place += f":{inner.column}"
    plain = function.partition(".")[0]
    if len(frames) > 1 and inner.function != plain:
        place += f" in {inner.function}"
    return printable(place)


def fold(rows: Sequence[str]) -> list[tuple[str, int]]:
    """Rows with how often each is repeated: cycles of a loop are told once, on their rows."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(rows):
        length, times = _cycle(rows, at)
        if times > 1:
            found += [(text, times) for text in rows[at : at + length]]
            at += length * times
        else:
            found.append((rows[at], 1))
            at += 1
    return found


def _cycle(rows: Sequence[str], at: int) -> tuple[int, int]:
    """The length of the cycle that begins at ``at``, and how often it runs."""
    best = (1, 1)
    for length in range(1, _MAX_CYCLE + 1):
        cycle = rows[at : at + length]
        times = 1
        while rows[at + times * length : at + (times + 1) * length] == cycle and cycle:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def _returned(view: PathView, function: Function) -> str:
    origin = view.origin
    result = format_result(function, view.path.result)[1:-1]
    callee = f"{origin.callee}()" if origin.callee else "a function called through a pointer"
    shared = origin.returned is not None and origin.returned.note == "shared"
    match origin.made:
        case "callee":
            return printable(f"returned {result}, which {callee} gave")
        case "memory":
            return f"returned {result}, read from memory"
        case "argument":
            return f"returned {result}, which its caller gave"
        case "constant" if shared:
            return f"returned {result} (several returns share this code)"
    return f"returned {result}"


def _because(view: PathView) -> str:
    origin, condition = view.origin, view.origin.condition
    assert origin.decided is not None
    if condition is None:
        return f"because {printable(origin.decided.insn)}"
    text = condition.text
    if not text:
        jumped = {True: ", which jumped", False: ", which did not jump", None: ""}
        text = f"`{origin.decided.insn}`{jumped[condition.taken]}"
    values = ", ".join(values_text(condition, view.path))
    return printable(f"because {text}" + (f"   {values}" if values else ""))


def values_text(condition: Condition, path: Path) -> Iterator[str]:
    """``name = value`` for each operand."""
    for operand in condition.operands:
        value = operand_value(operand, path)
        if value is None:
            yield f"{operand.name} could not be read"
        else:
            shown = str(value) if -_SMALL < value < _SMALL else hex(value)
            yield f"{operand.name} = {shown}"
