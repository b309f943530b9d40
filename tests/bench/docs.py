# SPDX-License-Identifier: BSD-2-Clause
"""The tables in docs/benchmarks.md, each between two markers of its kernel."""

from __future__ import annotations

from pathlib import Path

from tests.bench.results import KernelResults
from tests.bench.table import notes, table

DOCS = Path("docs/benchmarks.md")


def section(results: KernelResults) -> str:
    """Return the text between the markers of a kernel."""
    told = "\n".join(notes(results))
    head = f"### Linux {results.kernel}: {results.release}, {results.date}"
    return "\n".join([head, "", told, "", *table(results)])


def rewritten(text: str, results: KernelResults) -> str:
    """Return ``text`` with the kernel's section replaced. Raise ValueError without its markers."""
    begin, end = f"<!-- bench {results.kernel} -->\n", f"<!-- end {results.kernel} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{DOCS} has no markers for {results.kernel}: {begin.strip()} and {end}")
    before, rest = text.split(begin, 1)
    after = rest.split(end, 1)[1]
    return f"{before}{begin}{section(results)}\n{end}{after}"
