# SPDX-License-Identifier: BSD-2-Clause
"""Which plans are told to take long, before anything is attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.attach.plan import AttachPlan, RungPlan, slow_attach
from retsnoop_py.mechanism import Mechanism


def plan(mechanism: Mechanism, count: int) -> AttachPlan:
    return AttachPlan((), (RungPlan(mechanism, tuple(range(count))),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    return tmp_path


def write_flags(root: Path, flags: str) -> None:
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")


@pytest.mark.parametrize(
    ("mechanism", "quick", "slow"),
    [
        (Mechanism.KPROBE, 100, 1_000),
        (Mechanism.FENTRY, 10, 1_000),
        (Mechanism.KPROBE_EVENTS, 1_000, 10_000),
        (Mechanism.KPROBE_SESSION, 1_500, 60_000),
    ],
)
def test_what_takes_long_is_told_with_its_number_and_the_next_step(
    mechanism: Mechanism, quick: int, slow: int, root: Path
) -> None:
    assert slow_attach(plan(mechanism, quick), root) is None
    text = slow_attach(plan(mechanism, slow), root)
    assert text is not None
    assert text.startswith(f"{slow} functions by {mechanism.value} take long")
    assert "-a, -d" in text


def test_branch_tracking_makes_many_functions_slow(root: Path) -> None:
    many = plan(Mechanism.KPROBE_SESSION, 30_000)
    write_flags(root, "fpu user_shstk")
    assert slow_attach(many, root) is None
    write_flags(root, "fpu user_shstk ibt")
    text = slow_attach(many, root)
    assert text is not None
    assert "IBT" in text
    assert slow_attach(plan(Mechanism.KPROBE_SESSION, 1_500), root) is None


def test_every_mechanism_has_its_number(root: Path) -> None:
    for mechanism in set(Mechanism) - {Mechanism.AUTO}:
        assert slow_attach(plan(mechanism, 100_000), root)
