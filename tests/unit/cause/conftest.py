# SPDX-License-Identifier: BSD-2-Clause
"""Searches of /proc have as much time as a busy machine needs for them."""

from __future__ import annotations

import pytest

from retsnoop_py.cause import search
from retsnoop_py.cause.waiting import kinds


@pytest.fixture(autouse=True)
def much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes; a test of the limit sets a limit of its own."""
    monkeypatch.setattr(search, "SECONDS", 120.0)
    monkeypatch.setattr(search, "_TOGETHER", 120.0)
    monkeypatch.setattr(kinds, "_SECONDS", 120.0)
