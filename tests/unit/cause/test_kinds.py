# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of reasons in the code, the page and the skill for agents are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retsnoop_py.cause import kinds

PACKAGE = Path(kinds.__file__).parent
ROOT = PACKAGE.parents[2]
#: Kinds that stand in the code as a word that a variable holds.
BY_VARIABLE = {"immutable", "append-only", "sysctl"}


def test_each_kind_in_the_code_has_a_meaning() -> None:
    found = set(BY_VARIABLE)
    for path in PACKAGE.glob("*.py"):
        found |= set(re.findall(r'Reason\(\s*"([a-z-]+)"', path.read_text()))
    assert found == set(kinds.KINDS)


def test_the_skill_for_agents_has_the_meanings() -> None:
    text = (ROOT / "docs/agents/SKILL.md").read_text()
    table = text.partition("## Kinds of reasons")[2]
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.M)) == kinds.KINDS


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_the_page_has_each_kind(kind: str) -> None:
    table = (ROOT / "docs/why.md").read_text().partition("## Kinds of reasons")[2]
    assert f"`{kind}`" in table.partition("\n## ")[0]
