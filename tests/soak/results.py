# SPDX-License-Identifier: BSD-2-Clause
"""What the steps gave, and the table of it in docs/reliability.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path("docs/reliability.md")
#: Problems of a step that are told in words.
_NAMED = 5


@dataclass(slots=True)
class Outcome:
    """One step: ``told`` is what it came to, ``problems`` what was wrong."""

    subject: str
    what: str
    told: str = ""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def fail(self, why: str) -> None:
        """Something was wrong."""
        self.problems.append(" ".join(why.split())[:2000])

    @property
    def verdict(self) -> str:
        """What was wrong: the first few in words."""
        more = len(self.problems) - _NAMED
        rest = [f"and {more} more"] if more > 0 else []
        return "; ".join([*self.problems[:_NAMED], *rest]) or "nothing wrong"

    def line(self) -> str:
        """The step in a line, for who waits."""
        told = self.told or "nothing"
        return f"{self.subject:8} {self.what}: {told}: {self.verdict} ({self.seconds:.0f} s)"


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """A table in Markdown."""
    rows = ["| what | how much | came to | seconds |", "| --- | --- | --- | --- |"]
    for each in outcomes:
        verdict = each.verdict.replace("|", "\\|")
        rows.append(f"| {each.what} | {each.told} | {verdict} | {each.seconds:.0f} |")
    return rows


def rewritten(text: str, subject: str, head: str, outcomes: Iterable[Outcome]) -> str:
    """``text`` with the section of ``subject`` replaced. Raises ValueError without its markers."""
    begin, end = f"<!-- soak {subject} -->\n", f"<!-- end {subject} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{DOCS} has no markers for {subject}: {begin.strip()} and {end}")
    before, rest = text.split(begin, 1)
    after = rest.split(end, 1)[1]
    body = "\n".join([f"### {head}", "", *table(outcomes)])
    return f"{before}{begin}{body}\n{end}{after}"
