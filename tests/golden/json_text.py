# SPDX-License-Identifier: BSD-2-Clause
"""Text without columns, made from JSON lines, to compare the contents of both formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

_Object = dict[str, Any]


def words_of_text(text: str) -> list[str]:
    """Return the lines of a text with single blanks, without empty lines and lines of dashes."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and not re.fullmatch(r"[- ]+", line)]


def words_of_json(text: str) -> list[str]:
    """Return the same lines, made from the sessions among JSON lines."""
    found: list[str] = []
    for line in text.splitlines():
        value = json.loads(line)
        if value["type"] == "session":
            found += _session(value)
    return found


def _session(value: _Object) -> Iterator[str]:
    yield (
        f"{value['start'][11:26]} -> {value['end'][11:26]} TID/PID {value['tid']}/{value['pid']}"
        f" ({value['thread']}/{value['process']}):"
    )
    if "trace" in value:
        given = any("arguments" in event for event in value["trace"])
        yield "FUNCTION CALLS RESULT DURATION" + (" CONTEXT" if given else "")
        yield from _trace(value["trace"])
    if value.get("branches"):
        yield from _branches(value["branches"])
    stack = value.get("stack", ())
    own = [row for row in stack if row.get("call") and not row["call"].get("interrupt")]
    for row in stack:
        yield from _stack_row(row, is_innermost=bool(own) and row is own[-1])
    if value.get("user_stack"):
        yield "User stack:"
        for frame in value["user_stack"]:
            yield from _user_frame(frame)
    yield from value.get("warnings", ())


def _trace(events: list[_Object]) -> Iterator[str]:
    skip = False
    for event, after in zip(events, [*events[1:], {}], strict=True):
        if skip:
            skip = False
        elif event["event"] == "missing":
            count = event["records"]
            yield f"‼ ... missing {count} record{'' if count == 1 else 's'} ... ... ..."
        elif event["event"] == "told_before":
            count = event["records"]
            yield f"... {count} record{'' if count == 1 else 's'} told before ..."
        elif event["event"] == "probe":
            yield f"◎ {_interrupt(event)}{event['probe']}{_arguments(event)}"
        elif event["event"] == "exit":
            yield _returned("←", event)
        elif (after.get("event"), after.get("seq"), after.get("depth"), after.get("function")) == (
            "exit",
            event["seq"] + 1,
            event["depth"],
            event["function"],
        ):
            skip = True
            yield _returned("↔", after) + _arguments(event)
        else:
            yield f"→ {_interrupt(event)}{event['function']['name']}{_arguments(event)}"


def _interrupt(event: _Object) -> str:
    return "↯ " if event.get("interrupt") else ""


def _returned(mark: str, event: _Object) -> str:
    took = event.get("duration_ns")
    duration = "..." if took is None else f"{took / 1000:.3f}us"
    name = _interrupt(event) + event["function"]["name"]
    return f"{mark} {name} [{event['result']['text']}] {duration}"


def _branches(value: _Object) -> Iterator[str]:
    if value.get("lost"):
        yield "LBR data was dropped and is missing in this sample!"
    for record in reversed(value.get("records", ())):
        ends = (list(_place(record[end])) for end in ("source", "target"))
        first, *rest = zip_longest(*ends, fillvalue="")
        yield " ".join((f"[#{record['number']:02}] {first[0]} -> {first[1]}").split())
        yield from (" ".join(" ".join(row).split()) for row in rest)
    if not value.get("relevant", True):
        yield "[LBR] No relevant LBR data were captured, showing unfiltered LBR stack!"


def _user_frame(frame: _Object) -> Iterator[str]:
    outer, *inlined = _place(frame)
    yield f"{outer} {frame.get('file', '')}".rstrip()
    yield from inlined


def _place(frame: _Object) -> Iterator[str]:
    """Return an address with its source, and a line for each function inlined there."""
    symbol = frame.get("symbol")
    words = f"{symbol}+{frame.get('offset', 0):#x}" if symbol else frame["address"]
    outer, *inlined = frame.get("source") or [None]
    if outer:
        name = outer["function"]
        words += f" ({'' if name == symbol else f'{name} @ '}{outer['file']}:{outer['line']})"
    yield words
    for level in inlined:
        yield f". {level['function']} ({level['file']}:{level['line']})"


def _arguments(event: _Object) -> str:
    """Return the end of a row: its arguments, if they were captured."""
    given = event.get("arguments", ())
    texts = [f"{one['name']}={one['text']}" if one["name"] else one["text"] for one in given]
    return "".join(f" {' '.join(text.split())}" for text in texts)


def _stack_row(row: _Object, *, is_innermost: bool) -> Iterator[str]:
    call, frame = row.get("call"), row.get("frame")
    words = []
    if call:
        mark = ("!" if is_innermost and not frame else "") + ("⌇" if call.get("stitched") else "")
        words.append(mark)
        if "result" in call:
            words.append(f"{call['duration_ns'] // 1000}us [{call['result']['text']}]")
        else:
            words.append("... [...]")
    if frame is None:
        words.append(call["function"]["name"])
        yield " ".join(filter(None, words)) + _arguments(call)
        return
    first, *rest = _place(frame)
    yield " ".join(filter(None, (*words, first))) + _arguments(call or {})
    yield from rest
