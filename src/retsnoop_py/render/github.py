# SPDX-License-Identifier: BSD-2-Clause
"""Results for a GitHub job: annotations, text without commands, the step summary.

The runner reads the output of a job line by line and executes ``::error::``, ``::stop-commands::``
and other commands. Other people choose the names in a BPF object and the lines of a log, so their
text is printed while commands are stopped:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#stopping-and-starting-workflow-commands
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from retsnoop_py.load.model import Explained, Explanation, Place
from retsnoop_py.load.outcome import Reason, label
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.load_results import Row
from retsnoop_py.render.palette import Palette
from retsnoop_py.text import printable, printable_lines

__all__ = [
    "explained_github_lines",
    "github_json",
    "github_lines",
    "github_summary",
    "unobeyed",
    "workflow_property",
    "workflow_text",
]

#: Characters that begin markup, with `_` at the edge of a word and `]` before the target of a link.
_MARKUP = re.compile(r"[\\`*<>&|~#!@$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])")


def unobeyed(lines: Iterable[str]) -> Iterator[str]:
    """Yield ``lines`` between two commands, so that the runner executes no command in the lines.

    Only a line with the token, which is random, ends this state.
    """
    import secrets

    token = secrets.token_hex(16)
    yield f"::stop-commands::{token}"
    yield from lines
    yield f"::{token}::"


def github_json(text: str) -> str:
    """Return a line of JSON without commands in its strings: ``##[`` works anywhere in a line."""
    return text.replace("##[", "\\u0023#[")


def github_lines(why: Sequence[Reason]) -> Iterator[str]:
    """Yield workflow commands: an error at the BPF source line, the explanation in a group."""
    for reason in why:
        result = reason.results[0]
        kernels = ", ".join(dict.fromkeys(one.kernel for one in reason.results))
        name = label(result)
        yield from _annotated(result.source, f"{name} on {kernels}", name, reason.explanation)


def explained_github_lines(found: Explained) -> Iterator[str]:
    """Yield workflow commands for a failure in a log."""
    name = f"program {found.program}" if found.program else f"line {found.line} of the log"
    what = f"{name}: {found.errno}" if found.errno else name
    yield from _annotated(found.explanation.place, what, what, found.explanation)


def _annotated(place: Place | None, title: str, group: str, why: Explanation) -> Iterator[str]:
    where = (
        f"file={workflow_property(place.file)},line={place.line}," if place and place.line else ""
    )
    yield f"::error {where}title={workflow_property(title)}::{workflow_text(why.reason)}"
    yield f"::group::{workflow_text(printable(group))}"
    yield from unobeyed(explanation_lines(why, Palette()))
    yield "::endgroup::"


def workflow_text(text: str) -> str:
    """Return ``text`` as the value of a workflow command, in one line."""
    return printable_lines(text).replace("%", "%25").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """Return ``text`` as the value of a property of a workflow command."""
    return workflow_text(printable(text)).replace(":", "%3A").replace(",", "%2C")


def github_summary(rows: Sequence[Row], kernels: Sequence[str], why: Sequence[Reason]) -> str:
    """Return the table and the reasons in Markdown."""
    lines = [
        f"| object | part | {' | '.join(map(_markdown, kernels))} |",
        f"| --- | --- | {' | '.join('---' for _ in kernels)} |",
    ]
    for name, part, cells in rows:
        lines.append(f"| {' | '.join(_markdown(cell) for cell in (name, part, *cells))} |")
    lines.append("")
    for reason in why:
        text = _markdown(reason.explanation.reason)
        lines.append(f"{reason.number}. {_code(label(reason.results[0]))}: {text}")
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """Return ``text`` for a line of Markdown, with markup as character references."""
    line = printable(text.replace("\n", " "))
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", line)


def _code(text: str) -> str:
    """Return ``text`` as code in a line of Markdown, within a sufficient number of backquotes."""
    line = printable(text)
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{blank}{line}{blank}{fence}"
