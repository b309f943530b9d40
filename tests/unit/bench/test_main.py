# SPDX-License-Identifier: BSD-2-Clause
"""The bench's command line."""

from __future__ import annotations

import pytest
from tests.bench.__main__ import COUNTED, KERNELS, parse


def test_without_a_kernel_all_that_can_be_measured_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNEL", raising=False)
    assert parse([]).kernels == list(KERNELS)
    assert parse(["--icount"]).kernels == list(COUNTED)
    monkeypatch.setenv("KERNEL", "6.1 7.2")
    assert parse([]).kernels == ["6.1", "7.2"]


def test_a_kernel_whose_clock_cannot_count_is_an_error_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(["--icount", "5.10"])
    assert left.value.code == 2
    assert "--icount works for 6.12 and 7.2 only" in capsys.readouterr().err
