# SPDX-License-Identifier: BSD-2-Clause
"""The source of a call's result, the deciding condition and the executed path, as objects and text.

::

    kernel/bpf/arraymap.c:63:10   returned -EINVAL
        63 | return -EINVAL;
    kernel/bpf/arraymap.c:58:29   because attr->key_size != 4   attr->key_size = 8
        58 | if (attr->max_entries == 0 || attr->key_size != 4 ||

Without DWARF the places are code offsets: ``array_map_alloc_check+0x98``. Without the source tree
no source lines are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from retsnoop_py.kernel.functions import Function
from retsnoop_py.model import session as to
from retsnoop_py.render.args.node import pointer
from retsnoop_py.render.contradicted import contradicted
from retsnoop_py.render.formats import encode_result, source_chain
from retsnoop_py.render.palette import Palette
from retsnoop_py.session.paths import ALWAYS, Condition, Place, operand_value
from retsnoop_py.session.report import PathView
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.paths import SourceTree
from retsnoop_py.text import display_width, pad, printable, wrapped

__all__ = ["OriginRows", "encode_origin", "origin_lines"]

_NO_SOURCE = SourceTree(None)
#: Maximum length of a loop's cycle in rows; longer cycles are not folded.
_MAX_CYCLE = 16
#: Text between a condition and its values.
_GAP = "   "
_SMALL = 10_000
#: A number of which a condition tests some bits is probably a bit pattern.
_MASKED = re.compile(r"[\w)] & (?!1\b)|^(?:test|tst) (?!(\w+), \1\b)")
_DIGITS = 10
#: An amount is printed in hex if it is a multiple of a page, or at least this large.
_PAGE, _FIRST_PATTERN = 4096, 1 << 48
_POINTER = (1 << 64) - 1


class OriginRows:
    """Write the lines below a call; ``functions`` by id; ``width``: columns, 0: no limit."""

    def __init__(
        self,
        functions: Sequence[Function],
        palette: Palette,
        source: SourceTree = _NO_SOURCE,
        width: int = 0,
    ) -> None:
        self._functions = functions
        self._palette = palette
        self._source = source
        self._width = width

    def below(self, view: PathView | None, indent: int) -> list[str]:
        """Return the rows about the source of a result; empty if unknown."""
        if view is None:
            return []
        short = view._replace(origin=view.origin._replace(blocks=()))
        return list(origin_lines(self._encode(short), indent, self._palette, self._width))

    def way(self, view: PathView | None, indent: int, mark: str) -> list[str]:
        """Return the rows of the executed path: a source line each, repetitions folded."""
        if view is None:
            return []
        origin = self._encode(view)
        places = [place_text(place, origin.function.name) for place in origin.path]
        rows = [
            text for at, text in enumerate(places) if text and (not at or places[at - 1] != text)
        ]
        before = " " * indent
        lines = []
        if origin.earlier:
            lines.append(f"{before}... {origin.earlier} blocks before ...")
        for text, times in fold(rows):
            again = f"  (x{times})" if times > 1 else ""
            lines.append(f"{before}{mark} {self._palette.place(text)}{again}")
        return lines

    def _encode(self, view: PathView) -> to.Origin:
        function = self._functions[view.path.id]
        named = to.Func(function.name, hex(function.address), function.module)
        result = encode_result(function, view.path.result)
        return encode_origin(view, named, result, SymbolizeMode.INLINES, self._source)


def origin_lines(
    origin: to.Origin, indent: int, palette: Palette, columns: int = 0, *, is_guess: bool = False
) -> Iterator[str]:
    """Yield the source of the result and the deciding condition, each with its source line.

    Lines have at most ``columns`` columns if possible; 0: no limit. ``is_guess``: some link from
    the system call to the condition was not observed.
    """
    rows: list[tuple[str, str, to.CodePlace | None]] = []
    if origin.returned is not None:
        place = _return_of(origin.returned, origin.decided)
        rows.append((_with_its_caller(place, origin.function.name), _returned(origin), place))
    if origin.decided is not None:
        place = origin.decided.place
        because = ("probably " if is_guess else "") + _because(origin)
        rows.append((_with_its_caller(place, origin.function.name), because, place))
    elif origin.unknown == ALWAYS:
        rows.append(("", ALWAYS, None))
    elif origin.unknown:
        rows.append(("", f"what decided is not known: {printable(origin.unknown)}", None))
    width = max((display_width(where) for where, _, _ in rows), default=0)
    before = " " * indent
    for where, text, at in rows:
        if columns and indent + width + len(_GAP) + display_width(text) > columns:
            if where:
                yield f"{before}{palette.place(where)}"
            for part in text.split(_GAP):
                yield from wrapped(part, indent + 4, columns)
        elif width:
            yield f"{before}{palette.place(pad(where, width))}{_GAP}{text}".rstrip()
        else:
            yield f"{before}{text}"
        if at is not None and at.text is not None:
            yield f"{before}{at.line:>8} | {printable(at.text.strip())}"


def place_text(place: to.CodePlace, function: str) -> str:
    """Return a place in ``function``: file, line, column, and the function inlined there."""
    if not place.file:
        return printable(f"{place.symbol or function}+{place.offset:#x}")
    text = f"{place.file}:{place.line}"
    if place.column:
        text += f":{place.column}"
    if len(place.inline) > 1 and place.inline[0].function != function.partition(".")[0]:
        text += f" in {place.inline[0].function}"
    return printable(text)


def _return_of(returned: to.CodePlace, decided: to.Decision | None) -> to.CodePlace:
    """Return the place of a return, if ``returned`` is the place of a test that makes the result.

    Compilers give an errno the line of the inlined function that tests it. The caller of that
    function returns the error.
    """
    if decided is None or len(returned.inline) < 2 or not decided.place.inline:
        return returned
    one, other = returned.inline[0], decided.place.inline[0]
    if (one.function, one.file, one.line) != (other.function, other.file, other.line):
        return returned
    # A part of a function that is inlined into another part of the same function has its own level.
    outer = (at for at, level in enumerate(returned.inline) if level.function != one.function)
    at = next(outer, None)
    if at is None:
        return returned
    caller = returned.inline[at]
    return structs.replace(
        returned,
        file=caller.file,
        line=caller.line,
        column=caller.column,
        inline=returned.inline[at:],
        text=None,
    )


def _with_its_caller(place: to.CodePlace, function: str) -> str:
    """Return a place; for a place in another file, such as a header, add its use."""
    text = place_text(place, function)
    if len(place.inline) < 2 or place.inline[-1].file in (None, place.inline[0].file):
        return text
    return printable(f"{text} ({place.inline[-1].file}:{place.inline[-1].line})")


def fold(rows: Sequence[str]) -> list[tuple[str, int]]:
    """Return rows with the number of their repetitions: the cycle of a loop appears once."""
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
    """Return the length of the cycle that begins at ``at``, and the number of its repetitions."""
    best = (1, 1)
    for length in range(1, _MAX_CYCLE + 1):
        cycle = rows[at : at + length]
        times = 1
        while rows[at + times * length : at + (times + 1) * length] == cycle and cycle:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def _returned(origin: to.Origin) -> str:
    result = origin.result.text
    callee = f"{origin.callee}()" if origin.callee else "a function called through a pointer"
    shared = origin.returned is not None and origin.returned.shared
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


def _elements(note: str) -> int:
    """Return the number of elements that a loop rejected, by the note of a place; 0 without."""
    number, _, word = note.partition(" ")
    return int(number) if word == "elements" and number.isdecimal() else 0


def _because(origin: to.Origin) -> str:
    decided = origin.decided
    assert decided is not None
    text = decided.condition
    if not text:
        jumped = {True: ", which jumped", False: ", which did not jump", None: ""}
        text = f"`{decided.place.instruction}`{jumped[decided.taken]}"
    if decided.unnamed:
        tests = "test" if decided.unnamed == 1 else "tests"
        unknown = " whose expression is not known" if decided.condition else " before it"
        text += f" (and {decided.unnamed} {tests}{unknown})"
    values = ", ".join(dict.fromkeys(_values(decided)))
    if decided.elements:
        number = f"{decided.elements} elements" + (" or more" if origin.earlier else "")
        text += f" (a loop rejected {number}; this one passed the most tests)"
    if decided.ended:
        text += " (the loop ended: none of its elements matched)"
    return printable(f"because {text}" + (f"{_GAP}{values}" if values else ""))


def _values(decided: to.Decision) -> Iterator[str]:
    instruction = decided.place.instruction
    amounts = _amounts(decided)
    for operand in decided.operands:
        if operand.value is None:
            yield f"{operand.name} could not be read"
        elif f"IS_ERR({operand.name})" in (decided.condition or ""):
            yield f"{operand.name} = {pointer(operand.value & _POINTER)}"
        else:
            end = _DIGITS if _MASKED.search(decided.condition or instruction) else _SMALL
            is_decimal = -_SMALL < operand.value < end or operand.name in amounts
            yield f"{operand.name} = {operand.value if is_decimal else hex(operand.value)}"


def _operands(
    view: PathView, condition: Condition
) -> tuple[tuple[to.ConditionOperand, ...], tuple[str, ...]]:
    """Return the operands with their values, and the parts of the condition that they contradict.

    Values in such a part count as not read. The probe changes some values while it runs:
    ``current->bpf_ctx`` is that of the probe's own program.
    """
    read = [(one.name, operand_value(one, view.path)) for one in condition.operands]
    values: dict[str, list[int]] = {}
    for name, value in read:
        if value is not None:
            values.setdefault(name, []).append(value)
    refuted = contradicted(condition.text, values)
    operands = [
        to.ConditionOperand(name, None if any(_is_in(name, one) for one in refuted) else value)
        for name, value in read
    ]
    return tuple(operands), tuple(refuted)


def _is_in(name: str, test: str) -> bool:
    """Return True if a test reads an expression."""
    return re.search(rf"(?<![\w>.]){re.escape(name)}(?![\w.]|->)", test) is not None


def _amounts(decided: to.Decision) -> set[str]:
    """Return the names of operands that were compared as amounts, which people read in decimal.

    Amounts are greater or less than a decimal number or a named value. If all values are multiples
    of a page, or next to one, people read them in hex.
    """
    plain, named, is_plain = set(), set(), False
    for operand in decided.operands:
        value, name = operand.value, re.escape(operand.name)
        if value is None or not -_FIRST_PATTERN < value < _FIRST_PATTERN:
            continue
        condition = decided.condition or ""
        if re.search(rf"{name}\)? [<>]=? -?\d\d+\b", condition):
            plain.add(operand.name)
        elif re.search(rf"{name}\)? [<>]=? [A-Za-z_(]|[<>]=? \(?{name}", condition):
            named.add(operand.name)
            is_plain = is_plain or value % _PAGE not in (0, _PAGE - 1)
    return plain | named if is_plain else plain


def encode_origin(
    view: PathView,
    function: to.Func,
    result: to.Result,
    mode: SymbolizeMode,
    source: SourceTree = _NO_SOURCE,
) -> to.Origin:
    """Return the origin of a call of ``function``; ``mode`` selects how much of DWARF is used."""
    origin = view.origin

    def place_of(place: Place, text: SourceTree = _NO_SOURCE) -> to.CodePlace:
        resolved = view.resolve(place.address)
        chain = tuple([to.Source(*level) for level in reversed(source_chain(resolved, mode))])
        inner = chain[0] if chain else None
        return to.CodePlace(
            hex(place.address),
            resolved.offset,
            place.insn,
            inner.file if inner else None,
            inner.line if inner else 0,
            inner.column if inner else 0,
            chain,
            place.note == "shared",
            resolved.name if resolved.name != function.name else None,
            text.line(inner.file, inner.line) if inner and inner.file else None,
        )

    decision = None
    if origin.decided is not None:
        condition = origin.condition
        operands, refuted = _operands(view, condition) if condition else ((), ())
        decision = to.Decision(
            place_of(origin.decided, source),
            (condition.text or None) if condition else None,
            condition.taken if condition else None,
            operands,
            origin.decided.note == "check",
            _elements(origin.decided.note),
            origin.decided.note == "ended",
            condition.unnamed if condition else 0,
            refuted,
            condition.cases if condition else False,
        )
    return to.Origin(
        function,
        view.path.seq,
        result,
        origin.made,
        origin.callee,
        None if origin.returned is None else place_of(origin.returned, source),
        decision,
        tuple([place_of(Place(address, "")) for address in origin.blocks]),
        view.path.earlier,
        origin.unknown,
    )
