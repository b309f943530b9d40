# SPDX-License-Identifier: BSD-2-Clause
"""Generated functions: the reported condition is the deciding condition in the source.

``test_generated_all.py`` runs many more functions; ``python -m tests.unit.path.measured`` prints
the table.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.path.generated import Flags, Modes
from tests.unit.path.measured import CONFIGS, Config, measure, table

SEED, FUNCTIONS = 1, 24
#: The minimum share of calls with a fully reported condition.
LEAST_RIGHT = 0.85
#: As the kernel is compiled.
KERNELS = [one for one in CONFIGS if str(one) == "gcc x86_64 -O2"]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_reported_condition_is_that_of_the_source(config: Config, tmp_path: Path) -> None:
    found = measure(SEED, FUNCTIONS, [config], tmp_path)
    wrong = [(one.function.source, one.call, one.text) for one in found if one.grade == "wrong"]
    assert not wrong, wrong[0]
    right = sum(one.grade == "right" for one in found)
    assert right >= LEAST_RIGHT * len(found), table(found)


@pytest.mark.parametrize("config", KERNELS, ids=str)
def test_all_flags_of_a_condition_are_reported(config: Config, tmp_path: Path) -> None:
    found = measure(5, FUNCTIONS, [config], tmp_path, kinds=(Flags, Modes))
    wrong = [(one.function.source, one.call, one.text) for one in found if one.grade == "wrong"]
    assert not wrong, wrong[0]
    own = [one for one in found if one.call.expected.shape in ("flags", "flag of a case")]
    partly = [(one.call.expected, one.text) for one in own if one.grade != "right"]
    assert own
    assert not partly, partly[0]
