# SPDX-License-Identifier: BSD-2-Clause
"""The fuzzers report what goes wrong, and keep the example."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from tests.fuzz import __main__ as fuzz
from tests.fuzz import worker
from tests.fuzz.logs import Logs
from tests.fuzz.targets import Target


def test_a_failing_example_is_made_smaller(tmp_path: Path) -> None:
    def make(chance: random.Random) -> bytes:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(40)))

    def damage(path: Path) -> str | None:
        return "too large" if any(byte > 128 for byte in path.read_bytes()) else None

    target = Target(make, damage)
    found = worker.search(target, 7, time.monotonic() + 60, tmp_path / "current")
    assert found.complaint == "too large"
    assert len(found.failing) == 1
    nothing = Target(make, lambda _: None)
    assert not worker.search(nothing, 7, time.monotonic() + 1, tmp_path / "current").complaint


@pytest.mark.parametrize(
    ("status", "out", "complaint"),
    [
        (-11, "", "died of SIGSEGV"),
        (1, "5\nit ended in XError", "XError"),
        (2, "", "failed"),
    ],
)
def test_a_finding_is_kept_with_the_command_that_repeats_it(
    status: int, out: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)

    def ended(name: str, seconds: float, seed: int, current: Path, timeout: float) -> object:
        current.write_bytes(b"example")
        return subprocess.CompletedProcess([], status, out, "")

    monkeypatch.setattr(fuzz, "worker", ended)
    found = fuzz.run("logs", 1, 1)
    assert found is not None
    assert complaint in found
    (kept,) = tmp_path.glob("logs-*.log")
    assert kept.read_bytes() == b"example"
    assert found.endswith(f"tests.fuzz --repeat logs {kept.name}")


def test_a_fuzzer_that_hangs_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)

    def hangs(*words: object, timeout: float) -> object:
        raise subprocess.TimeoutExpired([], timeout)

    monkeypatch.setattr(fuzz, "worker", hangs)
    assert fuzz.run("logs", 1, 1) == "logs: it does not end"


def test_equal_choices_make_equal_examples() -> None:
    logs = Logs()
    assert logs.make(random.Random(5)) == logs.make(random.Random(5))
