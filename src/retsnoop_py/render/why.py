# SPDX-License-Identifier: BSD-2-Clause
"""The page that explains why a system call failed.

::

    bpf(BPF_MAP_CREATE) returned EINVAL to loader (PID 4711), at loader.c:88 (create_maps)

        __x64_sys_bpf           kernel/bpf/syscall.c:5784
        __sys_bpf               kernel/bpf/syscall.c:5661
        map_create              kernel/bpf/syscall.c:1269
      ! array_map_alloc_check
            kernel/bpf/arraymap.c:63:10   returned -EINVAL
            kernel/bpf/arraymap.c:58:29   because attr->key_size != 4   attr->key_size = 8
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import structs

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.model import session as to
from retsnoop_py.model.why import (
    Cost,
    ExplainedCall,
    FailedCall,
    FailingChainCall,
    GivenOperand,
    Reason,
    Why,
)
from retsnoop_py.render.formats import message_lines
from retsnoop_py.render.origin import origin_lines
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.waiting import waiting_lines
from retsnoop_py.text import display_width, pad, printable, wrapped

__all__ = ["WhyPage", "answer_lines", "failure_text", "headline", "reason_of"]

#: Maximum width of a call's arguments in columns.
_ARGUMENTS = 72


def _cost(cost: Cost, has_command: bool) -> str:
    """Return the time that ``why`` took in addition to the command's own time, by purpose."""
    own = cost.attach + cost.detach + cost.other
    what = f"the {cost.command:.1f} s that CMD ran"
    base = what if has_command else f"{cost.command:.1f} s of waiting"
    return (
        f"retsnoop-py took {own:.1f} s in addition to {base}: attaching {cost.attach:.1f} s, "
        f"detaching {cost.detach:.1f} s, other {cost.other:.1f} s."
    )


class WhyPage:
    """Write the page; ``verbose`` also lists expected failures of ordinary work.

    ``width``: maximum number of columns, if possible; 0: no limit.
    """

    def __init__(self, palette: Palette, *, verbose: bool = False, width: int = 0) -> None:
        self._palette = palette
        self._verbose = verbose
        self._width = width

    def lines(self, found: Why) -> Iterator[str]:
        """Yield the lines of the page; none ends in blanks."""
        yield from waiting_lines(found.waiting, self._palette, self._width, verbose=self._verbose)
        if found.waiting and (found.explained is not None or (found.failures and self._verbose)):
            yield ""
        if found.explained is not None:
            yield from self._answer(found.explained)
            yield from self._explained(found.explained)
        elif found.reason is not None:
            text, advice = _parts(found.reason)
            yield from answer_lines(f"{headline(found)} {text}", "", advice, self._width)
        elif found.unknown:
            yield from self._paragraph(headline(found), 0)
        if not found.waiting or found.explained is not None or self._verbose:
            yield from self._failures(found)
        if self._verbose and found.cost is not None:
            yield ""
            yield from self._paragraph(_cost(found.cost, bool(found.command)), 0)

    def _answer(self, call: ExplainedCall) -> Iterator[str]:
        """Yield the failure and its reason in the user's terms; the kernel's part follows."""
        if call.what is None:
            return
        yield from answer_lines(_failure(call), *_parts(call.reason), self._width)
        yield from self._doubt(call)
        if self._verbose and call.reported is not None:
            yield from self._paragraph("Chosen because " + "; ".join(call.reported.evidence), 2)
        yield ""

    def _doubt(self, call: ExplainedCall) -> Iterator[str]:
        """Yield the reason why another call may be meant."""
        reported = call.reported
        if reported is None:
            return
        if not reported.sure and reported.line is not None:
            yield from self._paragraph(
                "The command's text fits this call best, but it may mean another one; --call and "
                "--errno choose it.",
                2,
            )
        elif not reported.sure:
            yield from self._paragraph(
                "The command showed no text about this error. This call is the most likely one, "
                "because it failed last. --call and --errno choose another call.",
                2,
            )
        if reported.alike:
            others = " or ".join(reported.alike)
            yield from self._paragraph(f"The command may also mean {others}.", 2)

    def _paragraph(self, text: str, indent: int) -> Iterator[str]:
        yield from wrapped(printable(text), indent, self._width)

    def _explained(self, call: ExplainedCall) -> Iterator[str]:
        palette = self._palette
        syscall, told = printable(call.syscall), printable(call.error)
        who = printable(f"{call.process} (PID {call.pid})")
        if call.tid != call.pid:
            who += f", thread {printable(call.thread)} (TID {call.tid})"
        place = ""
        if call.user is not None:
            place = printable(f", at {call.user.file}:{call.user.line} ({call.user.function})")
        # The run that follows all functions keeps no arguments.
        is_kept = bool(call.arguments or call.origin)
        name = f"{syscall}({_arguments(call.arguments)})" if is_kept else syscall
        wide = display_width(f"{name} returned {told} to {who}{place}")
        between = "\n    " if 0 < self._width < wide else " "
        place = place and place[:1] + between + place[2:]
        error = paint(told, palette.error)
        page = f"{paint(name, palette.name)}{between}returned {error} to {who}{place}"
        yield from page.split("\n")
        yield ""
        yield from self._chain(call)
        if call.said:
            yield ""
            yield from message_lines(call.said, 4, self._width)
        if call.unknown:
            yield ""
            unknown = printable(f"The deciding condition is not known: {call.unknown}")
            yield from wrapped(unknown, 4, self._width)
        yield ""
        yield from wrapped(_certainty(call), 4, self._width)

    def _chain(self, call: ExplainedCall) -> Iterator[str]:
        names = [printable(one.function.name) for one in call.chain]
        width = max(map(display_width, names), default=0)
        for name, one in zip(names[:-1], call.chain, strict=False):
            yield f"    {pad(name, width)}   {self._place_of(one)}".rstrip()
        for one in call.chain[-1:]:
            mark = paint("!", self._palette.mark)
            result = (
                ""
                if one.result is None or call.origin
                else f"   returned {printable(one.result.text)}"
            )
            yield f"  {mark} {printable(one.function.name)}{result}"
        if call.origin is not None:
            # An unknown decision is not reported if the deduced origin below has it.
            origin = structs.replace(call.origin, unknown=None) if call.deduced else call.origin
            is_guess = call.certainty == "inferred" and not call.deduced
            yield from origin_lines(origin, 8, self._palette, self._width, is_guess=is_guess)
        for inner in call.tested:
            yield f"    {printable(inner.function.name)}"
            yield from origin_lines(inner, 8, self._palette, self._width)
        if call.deduced is not None:
            yield f"    {printable(call.deduced.function.name)} (by its arguments, not followed)"
            yield from origin_lines(call.deduced, 8, self._palette, self._width)
        if call.given:
            yield ""
            for given in call.given:
                yield from wrapped(printable(_given(given, call.syscall)), 4, self._width)

    def _place_of(self, call: FailingChainCall) -> str:
        frame = call.frame
        if frame is None:
            return ""
        if frame.source and frame.source[0].file:
            inner = frame.source[0]
            return self._palette.place(printable(f"{inner.file}:{inner.line}"))
        return paint(f"+{frame.offset:#x}", self._palette.source)

    def _failures(self, found: Why) -> Iterator[str]:
        shown = [
            one for one in found.failures if self._verbose or one.chosen or one.probing is None
        ]
        if len(shown) > 1 or (shown and found.explained is None):
            yield ""
            yield (
                "System calls that failed:"
                if self._verbose
                else "System calls that failed (-v lists all):"
            )
            yield from self._table(shown)

    def _table(self, rows: Sequence[FailedCall]) -> Iterator[str]:
        names = [printable(one.syscall) for one in rows]
        errors = [printable(one.error) for one in rows]
        wide, wider = (max(map(display_width, column)) for column in (names, errors))
        count = max(len(str(one.count)) for one in rows)
        for name, error, one in zip(names, errors, rows, strict=True):
            mark = paint("!", self._palette.mark) if one.chosen else " "
            kept = f"  {mark} {pad(name, wide)}  {pad(error, wider)}  {one.count:>{count}}"
            yield f"{kept}  {printable(one.probing or '')}".rstrip()


def _given(given: GivenOperand, syscall: str) -> str:
    """Return which argument of the system call an operand is."""
    plain = given.name.rpartition("->")[2]
    argument = f"argument {given.argument} of {syscall}()"
    if given.parameter != plain:
        argument += f", {given.parameter}"
    if given.member:
        comma = "," if given.parameter != plain else ""
        return f"{given.name} is in the data that {argument}{comma} points to"
    return f"{given.name} is {argument}"


def _certainty(call: ExplainedCall) -> str:
    """Return the certainty of each part of the answer, in one line."""
    parts = [
        ("call", call.reported.certainty if call.reported is not None else "inferred"),
        ("reason", call.reason.certainty if call.reason is not None else "unknown"),
        ("condition", call.certainty),
    ]
    return "certainty: " + ", ".join(f"{name} {word}" for name, word in parts)


def headline(found: Why) -> str:
    """Return the failure in one sentence; only ``cat:`` if :func:`reason_of` is sufficient."""
    call = found.explained
    if call is not None:
        return _failure(call)
    if found.reason is None and found.unknown:
        return f"{_subject(found)}: {found.unknown}"
    return f"{_subject(found)}:"


def reason_of(found: Why) -> Reason | None:
    """Return the reason of the explained call or of the command's end; None if unknown."""
    return found.explained.reason if found.explained is not None else found.reason


def _parts(reason: Reason | None) -> tuple[str, Sequence[str]]:
    return ("", ()) if reason is None else (reason.text, reason.advice)


def answer_lines(failure: str, reason: str, advice: Sequence[str], width: int) -> Iterator[str]:
    """Yield the first paragraph of an answer: the failure, its reason, and the advice.

    Lines have at most ``width`` columns if possible; 0: no limit.
    """
    yield from wrapped(printable(failure), 0, width)
    if reason:
        yield from wrapped(printable(reason), 2, width)
    for number, one in enumerate(advice):
        lines = list(wrapped(printable(one), 13, width))
        if not number and lines:
            lead = "  To change: "
            lines[0] = lead + lines[0][len(lead) :]
        yield from lines


def failure_text(process: str, what: str, error: str) -> str:
    """Return ``cat: opening secret failed with EACCES (Permission denied).``."""
    text = f"{process}: {what} failed with {error}"
    meaning = _meaning(error)
    return f"{text} ({meaning})." if meaning else f"{text}."


def _failure(call: ExplainedCall) -> str:
    return failure_text(call.process, call.what or call.syscall, call.error)


def _meaning(error: str) -> str:
    """Return the C library's text of an error."""
    number = next((one for one, name in ERRNO_NAMES.items() if name == error), 0)
    text = os.strerror(number) if number else ""
    return "" if text.startswith("Unknown") else text


def _subject(found: Why) -> str:
    return found.command[0] if found.command else "the process"


def _arguments(arguments: Sequence[to.Argument]) -> str:
    """Return the arguments that fit; contents of structs are only in the JSON."""
    shown: list[str] = []
    for one in arguments:
        text = printable(one.text)
        if not one.name or isinstance(one.value, (dict, list)):
            text = "..."
        if display_width(", ".join([*shown, text])) > _ARGUMENTS:
            text = "..."
        if not (shown and shown[-1] == "..." == text):
            shown.append(text)
    return ", ".join(shown)
