# SPDX-License-Identifier: BSD-2-Clause
"""The table of docs/kernels.md: what each kernel offers, as its doctor says.

``python -m tests.support_table 7.3 arm64/7.2`` boots these kernels and writes their columns; a live
test of doctor compares the column of its kernel with what is there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.live.support import TOOL

from retsnoop_py.vm.machine import Machine

PAGE = Path(__file__).resolve().parent.parent / "docs/kernels.md"
#: What a row is called, and which of doctor's answers it has.
ROWS = {
    "fsession.multi": "mechanism.fsession.multi",
    "kprobe.session": "mechanism.kprobe.session",
    "kprobe.multi": "mechanism.kprobe.multi",
    "fentry": "mechanism.fentry",
    "kprobe_events": "mechanism.kprobe_events",
    "kprobe": "mechanism.kprobe",
    "ring buffer": "ringbuf",
    "function's address from BPF": "func_ip",
    "attach cookies": "cookie",
    "branch snapshots": "branch_snapshot",
    "BTF of modules": "module_btf",
}
FIRST = "default mechanism"


def kernel_name(machine: Machine) -> str:
    """The column of a kernel: its series, behind its architecture where that is not x86-64."""
    series = ".".join(machine.release.split(".")[:2])
    return series if machine.arch.name == "x86_64" else f"{machine.arch.name}/{series}"


def column(answer: Mapping[str, Any]) -> dict[str, str]:
    """What doctor's ``answer`` comes to, row by row."""
    found = {row: str(answer["checks"][key]["answer"]) for row, key in ROWS.items()}
    first = answer["mechanisms"][0] if answer["mechanisms"] else "none"
    return {**{row: "-" if said == "no" else said for row, said in found.items()}, FIRST: first}


def columns() -> dict[str, dict[str, str]]:
    """The table as it stands, by kernels and rows."""
    text = PAGE.read_text().splitlines()
    lines = text[slice(*_place(text))]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    kernels = cells[0][1:]
    return {
        kernel: {row[0]: row[at] for row in cells[2:]} for at, kernel in enumerate(kernels, start=1)
    }


def _place(lines: Sequence[str]) -> tuple[int, int]:
    """Where the page's first table is: the number of its first line, and of that behind it."""
    begin = next(number for number, line in enumerate(lines) if line.startswith("|"))
    behind = (number for number in range(begin, len(lines)) if not lines[number].startswith("|"))
    return begin, next(behind, len(lines))


def write(table: Mapping[str, Mapping[str, str]]) -> None:
    """Put ``table`` where the old one stands."""
    kernels = sorted(table, key=lambda name: (name.count("/"), [*_numbers(name)]))
    rows = [["", *kernels], ["---"] * (len(kernels) + 1)]
    rows += [[row, *(table[kernel][row] for kernel in kernels)] for row in (*ROWS, FIRST)]
    text = PAGE.read_text()
    lines = text.splitlines(keepends=True)
    begin, end = _place(lines)
    new = [f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows]
    PAGE.write_text("".join([*lines[:begin], *new, *lines[end:]]))


def _numbers(kernel: str) -> list[int]:
    return [int(part) for part in kernel.rpartition("/")[2].split(".")]


def main(kernels: list[str]) -> None:
    """Write the columns of ``kernels``."""
    table = columns()
    for kernel in kernels:
        with Machine(kernel) as machine:
            answer = json.loads(machine.run([TOOL, "doctor", "--json"]).out)
            table[kernel_name(machine)] = column(answer)
    write(table)


if __name__ == "__main__":
    main(sys.argv[1:])
