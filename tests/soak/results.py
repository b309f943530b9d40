# SPDX-License-Identifier: BSD-2-Clause
"""Results of the steps, and their table in docs/reliability.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

DOCS = Path("docs/reliability.md")
#: Maximum number of problems of a step that are printed in full.
_NAMED = 5
_HEAD = ("| test | amount | result | seconds | day |", "| --- | --- | --- | --- | --- |")


@dataclass(slots=True)
class Outcome:
    """Result of one step: ``told`` is a summary, ``problems`` is a list of failures."""

    subject: str
    what: str
    told: str = ""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    #: Date of the run, as in 2026-11-23.
    day: str = field(default_factory=lambda: date.today().isoformat())  # noqa: DTZ011

    def fail(self, why: str) -> None:
        """Add a problem."""
        self.problems.append(" ".join(why.split())[:2000])

    @property
    def verdict(self) -> str:
        """Return the problems as text, the first few in full."""
        more = len(self.problems) - _NAMED
        rest = [f"and {more} more"] if more > 0 else []
        return "; ".join([*self.problems[:_NAMED], *rest]) or "nothing wrong"

    def line(self) -> str:
        """Return the step as a line of progress."""
        told = self.told or "nothing"
        return f"{self.subject:8} {self.what}: {told}: {self.verdict} ({self.seconds:.0f} s)"


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a table in Markdown."""
    return [*_HEAD, *(_row(each) for each in outcomes)]


def _row(outcome: Outcome) -> str:
    verdict = outcome.verdict.replace("|", "\\|")
    cells = (outcome.what, outcome.told, verdict, f"{outcome.seconds:.0f}", outcome.day)
    return f"| {' | '.join(cells)} |"


def rewritten(text: str, subject: str, head: str, outcomes: Iterable[Outcome]) -> str:
    """Return ``text`` with these rows in the section of ``subject``; rows of other runs stay.

    Raise ValueError if ``text`` has no markers of that section.
    """
    begin, end = f"<!-- soak {subject} -->\n", f"<!-- end {subject} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{DOCS} has no markers for {subject}: {begin.strip()} and {end}")
    before, rest = text.split(begin, 1)
    section, after = rest.split(end, 1)
    there = [line for line in section.splitlines() if line.startswith("| ")][len(_HEAD) :]
    rows = {row.split(" | ", 1)[0]: row for row in there}
    for each in outcomes:
        rows[f"| {each.what}"] = _row(each)
    body = "\n".join([f"### {head}", "", *_HEAD, *rows.values()])
    return f"{before}{begin}{body}\n{end}{after}"
