# SPDX-License-Identifier: BSD-2-Clause
"""Near-misses of each pattern of ``load/``, made from its syntax tree: none takes long.

``make fuzz`` runs this. ``tests/unit/test_patterns.py`` proves the same without running anything.
"""

from __future__ import annotations

import re

import pytest
from tests.unit.cpu_limit import at_most
from tests.unit.package_patterns import package_patterns
from tests.unit.pattern_cost import cost

from retsnoop_py.load.prefilter import needed_words

#: Characters of a line that patterns are applied to (``read_log``).
_LINE = 4096
#: Seconds of CPU time for one pattern on one such line; the slowest needs a twentieth of it.
_MOST_SECONDS = 4.0


def of_load() -> list[tuple[str | bytes, int]]:
    return [(pattern, flags) for name, pattern, flags in package_patterns() if ".load." in name]


def near_misses(pattern: str | bytes, flags: int) -> list[str]:
    """Texts that are like what ``pattern`` matches over and over, and never are that."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    sets = needed_words(text, flags)
    words = sorted({word for alternative in sets for one in alternative for word in one})
    found = cost(pattern, flags).text
    repeated = [found, "".join(words), " ".join(words), *words[:40], "a", " ", "."]
    return [(one * _LINE)[: _LINE - 1] + "\x01" for one in repeated if one]


@pytest.mark.parametrize(("pattern", "flags"), of_load())
def test_near_misses_of_a_rule_cost_little(pattern: str | bytes, flags: int) -> None:
    compiled = re.compile(pattern, flags)
    for text in near_misses(pattern, flags):
        searched = text.encode() if isinstance(pattern, bytes) else text
        with at_most(_MOST_SECONDS):
            compiled.search(searched)  # type: ignore[arg-type]
