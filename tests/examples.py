# SPDX-License-Identifier: BSD-2-Clause
"""The examples of the pages, so that tests can run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "api.md"
_BLOCK = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What differs from run to run, and a name for it.
_MASKS = (
    (r"\d\d:\d\d:\d\d\.\d{6}", "TIME"),
    (r"TID/PID \d+/\d+", "TID/PID"),
    (r"\(PID \d+\)", "(PID)"),
    (r"\b0x[0-9a-f]{16}\b", "ADDRESS"),
    (r" *\d+(?:\.\d+)?us", " DURATION"),
    (r"DONE in [\d.]+ m?s", "DONE"),
    # progress is shown only of what takes over a second
    (r"^[A-Z][\w ]* [\d,.]+ of [\d,.]+ \w+\.\.\.\n", ""),
    # ordinary failures depend on what of the loader's files is there
    (r"^\d+ more calls? failed as in ordinary work \(.*\)", "MORE"),
    # how wide a column is depends on what is in it
    (r"-{3,}", "---"),
    (r" {2,}", "  "),
)


class Shown(NamedTuple):
    """A command of a page, and what it prints there, standard error as well."""

    command: str
    output: str


def examples(where: str = "") -> list[str]:
    """Those of api.md that run ``live``, on the host to boot a kernel (``vm``), or anywhere."""
    text = PAGE.read_text()
    return [code for kind, code in _BLOCK.findall(text) if kind == where]


def shown(page: str) -> list[Shown]:
    """The commands in the ``console`` blocks of a page, in their order."""
    found = []
    for block in _CONSOLE.findall((DOCS / page).read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(command, output))
    return found


def masked(text: str) -> list[str]:
    """The lines of an output, without what differs from run to run."""
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]
