# SPDX-License-Identifier: BSD-2-Clause
"""Texts that almost match each pattern of ``load/``, made from its syntax tree.

No pattern may take long on them. ``make fuzz`` runs this test. ``tests/unit/test_patterns.py``
proves the same without running a pattern.
"""

from __future__ import annotations

import re

import pytest
from tests.unit.cpu_limit import at_most
from tests.unit.package_patterns import package_patterns
from tests.unit.pattern_cost import cost

from retsnoop_py.load.prefilter import needed_words

#: Maximum line length in characters for a pattern (``read_log``).
_LINE = 4096
#: Limit in seconds of CPU time per pattern and line. The slowest pattern needs a twentieth of this.
_MOST_SECONDS = 4.0


def of_load() -> list[tuple[str | bytes, int]]:
    return [(pattern, flags) for name, pattern, flags in package_patterns() if ".load." in name]


def near_misses(pattern: str | bytes, flags: int) -> list[str]:
    """Return texts that repeat parts of a match of ``pattern`` but do not match."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    sets = needed_words(text, flags)
    words = sorted({word for alternative in sets for one in alternative for word in one})
    found = cost(pattern, flags).text
    repeated = [found, "".join(words), " ".join(words), *words[:40], "a", " ", "."]
    return [(one * _LINE)[: _LINE - 1] + "\x01" for one in repeated if one]


@pytest.mark.parametrize(("pattern", "flags"), of_load())
def test_near_misses_of_a_rule_are_fast(pattern: str | bytes, flags: int) -> None:
    compiled = re.compile(pattern, flags)
    for text in near_misses(pattern, flags):
        searched = text.encode() if isinstance(pattern, bytes) else text
        with at_most(_MOST_SECONDS):
            compiled.search(searched)  # type: ignore[arg-type]
