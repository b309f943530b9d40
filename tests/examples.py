# SPDX-License-Identifier: BSD-2-Clause
"""The examples on the pages, for tests that run them.

A ``console`` block contains commands after ``$`` and their output. A line ``...`` in it stands for
any lines, and ``...`` inside a line for any text. A ``sh`` block contains only commands, and tests
check their exit status. ``examples.toml`` contains further requirements of a command: the program
to use in place of the reader's own, another kernel, or the reason why it is not run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from difflib import ndiff
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/api.md"
PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^```(console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A remark after a command in a ``sh`` block.
_REMARK = re.compile(r" +# .*$", re.MULTILINE)
_DATA = Path(__file__).with_suffix(".toml")
_DEFAULT = "6.12"
#: Patterns for output that differs between runs, and a name for each.
_MASKS = (
    (r"\x1b\[[\d;]*m|\r", ""),
    (r"\d\d:\d\d:\d\d\.\d{6}", "TIME"),
    (r"TID/PID \d+/\d+", "TID/PID"),
    (r"\bPID \d+\b", "PID"),
    (r"\b0x[0-9a-f]{16}\b", "ADDRESS"),
    (r"\b0x7f[0-9a-f]{10}\b", "ADDRESS"),
    (r" *\d+(?:\.\d+)?us", " DURATION"),
    (r"DONE in [\d.]+ m?s", "DONE"),
    # progress appears only if an operation takes more than a second
    (r"^[A-Z][\w ]* [\d,.]+ of [\d,.]+ \w+\.\.\.\n", ""),
    # ordinary failures depend on which files of the loader exist
    (r"^\d+ more calls? failed as in ordinary work \(.*\)", "MORE"),
    # the number depends on the loaded modules
    (r"^\d{4,}(?= (?:functions|tracepoints) )", "MANY"),
    # the tag of our programs, in the output of bpftool(8), differs between builds
    (r"^\d+: (kprobe .*)tag [0-9a-f]{16}", r"\1TAG"),
    (r"run_time_ns \d+ run_cnt \d+", "RUN"),
    # the width of a column depends on its content
    (r"-{3,}", "---"),
    (r" {2,}", "  "),
)
#: Differences between two releases of a kernel: its name, and places of lines and instructions.
_MOVED = (
    (r"\b(\d+\.\d+)\.\d+(?=\+deb)", r"\1.N"),
    (r"(\.[chS]):\d+(?::\d+)?", r"\1:LINE"),
    (r"\+0x[0-9a-f]+", "+OFFSET"),
)
#: The release of 6.12 for the output on the pages. Debian's 6.12 changes over time.
PRINTED_ON = "6.12.117"
#: Lines at the start and end of every run, which most pages omit.
_FRAME = re.compile(r"(?:Receiving data\.\.\.|Detaching\.\.\.|DONE\.?)?")
#: The last line of a trace or replay. A page may omit it, or show it at any place.
_CLOSING = re.compile(
    r"[\d,]+ calls? (?:of entry functions|of an entry function|failed)\b.*|No call .*"
    r"|0 of [\d,]+ failed calls? pass .*"
)


class Shown(NamedTuple):
    """A command of a page, and its output there, including standard error. None: no output."""

    command: str
    output: str | None
    page: str = ""

    @property
    def needs(self) -> dict[str, str]:
        """The entries for this command in the data file, by key."""
        rows = [row for row in special() if _is_about(row, self)]
        return {key: value for row in rows for key, value in row.items()}

    @property
    def kernel(self) -> str:
        """The kernel to run on. ``host``: it traces nothing; empty: it is not run."""
        needs = self.needs
        return "" if "not-run" in needs else needs.get("kernel", _DEFAULT)


def _is_about(row: dict[str, str], one: Shown) -> bool:
    return row["page"] == one.page and one.command.startswith(row.get("command", ""))


def examples(where: str = "") -> list[str]:
    """Those of api.md that run ``live``, on the host to boot a kernel (``vm``), or anywhere."""
    text = PAGE.read_text()
    return [code for kind, code in _BLOCK.findall(text) if kind == where]


@cache
def special() -> tuple[dict[str, Any], ...]:
    """Return the rows of the data file, more general rows first."""
    rows = tomllib.loads(_DATA.read_text())["example"]
    return tuple(sorted(rows, key=lambda row: len(row.get("command", ""))))


def shown(page: str) -> list[Shown]:
    """Return the commands of a page in order, without sudo(8)."""
    found: list[Shown] = []
    for kind, block in _COMMANDS.findall((ROOT / page).read_text()):
        found += _compared(block, page) if kind == "console" else _alone(block, page)
    return found


def _compared(block: str, page: str) -> Iterator[Shown]:
    """Yield the commands after ``$`` with their output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith(("|", "\\")):
            more, _, output = output.partition("\n")
            command = f"{command.removesuffix(chr(92))} {more.strip()}"
        yield Shown(command.removeprefix("sudo "), output, page)


def _alone(block: str, page: str) -> Iterator[Shown]:
    """Yield the commands, one per line, without remarks."""
    for line in _REMARK.sub("", block).replace("\\\n", "").splitlines():
        yield Shown(line.strip().removeprefix("sudo "), None, page)


def script(page: str, words: str) -> list[str]:
    """Return the commands of a page's ``sh`` block that contains ``words``, without sudo(8)."""
    blocks = [block for kind, block in _COMMANDS.findall((ROOT / page).read_text()) if kind == "sh"]
    [found] = [block for block in blocks if words in block]
    return [one.command for one in _alone(found, page)]


@cache
def shown_on(kernel: str) -> tuple[Shown, ...]:
    """Return the commands of all pages that are run on ``kernel``.

    A command without output is omitted if another page has it with its output.
    """
    everywhere = [one for page in PAGES for one in shown(page)]
    compared = {one.command for one in everywhere if one.output is not None}
    return tuple(
        one
        for one in everywhere
        if one.kernel == kernel and (one.output is not None or one.command not in compared)
    )


def has_moved(release: str) -> bool:
    """Return True if ``release``, as from uname(1), is a 6.12 other than that of the pages."""
    return release.startswith("6.12.") and not release.startswith(f"{PRINTED_ON}+")


def masked(text: str, *, moved: bool = False) -> list[str]:
    """Return the lines of an output, without differences between runs; ``moved``: or releases."""
    for pattern, name in (*(_MOVED if moved else ()), *_MASKS):
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]


def difference(expected: str, output: str, *, moved: bool = False) -> str:
    """Return the difference of an output and the page, or "". ``moved`` as for :func:`masked`."""
    closing = [line for line in expected.splitlines() if _CLOSING.fullmatch(line)]
    found = [line for line in output.splitlines() if _CLOSING.fullmatch(line)]
    missing = [line for line in closing if line not in found]
    if missing:
        return f"the closing line is not: {missing[0]}\nbut: {found}"
    wanted, got = _unframed(expected, moved), _unframed(output, moved)
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else f"{_any_rest(line)}\n" for line in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in got)):
        return ""
    return "\n".join(ndiff(wanted, got))


def _unframed(text: str, moved: bool) -> list[str]:
    lines = masked(text, moved=moved)
    return [one for one in lines if not (_FRAME.fullmatch(one) or _CLOSING.fullmatch(one))]


def _any_rest(line: str) -> str:
    return " *" + re.escape(line.strip()).replace(r"\.\.\.", ".*")
