# SPDX-License-Identifier: BSD-2-Clause
"""Read the kernel's symbols from /proc/kallsyms and by a BPF program, and print what differs."""

from __future__ import annotations

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.kallsyms import Kallsyms
from retsnoop_py.libbpf.facts import IteratedSymbols, Line


def lines(kallsyms: Kallsyms) -> list[Line]:
    return [kallsyms.table.line(index) for index in range(len(kallsyms.table))]


by_text, by_program = KernelFacts().kallsyms, KernelFacts(loading=True).kallsyms
differing = [
    pair for pair in zip(lines(by_text), lines(by_program), strict=False) if pair[0] != pair[1]
]
how = "program" if isinstance(by_program.table, IteratedSymbols) else "text"
print(how, len(by_text.table), len(by_program.table), len(differing), differing[:3])
