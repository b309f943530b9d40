# SPDX-License-Identifier: BSD-2-Clause
"""On a terminal a stack is printed three times and then counted."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tests.unit.session.records import (
    KSTACK,
    facts,
    failing_session,
    printing,
    raw_session,
    symbols,
)

from retsnoop_py.settings import (
    ArgSettings,
    FilterSettings,
    OutputFormat,
    Settings,
    SymbolizeMode,
    ViewSettings,
)


class Window(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


def printed(batch: bytes, out: io.StringIO, **settings: Any) -> tuple[str, str]:
    """What is written to ``out`` and to standard error."""
    err = io.StringIO()
    made = Settings(**{"counts": True, "symbolize": SymbolizeMode.NONE} | settings)
    pipeline = printing(facts(), made, symbols(), out, err=err)
    pipeline.feed(batch)
    pipeline.finish({})
    return out.getvalue(), err.getvalue()


def other_place() -> bytes:
    """The failing session with another kernel stack."""
    slots = [(0, 1, -22, 5000)]
    return raw_session(slots, [KSTACK[0] + 8, *KSTACK[1:]], flags=1, proc_comm=b"loader")


def test_the_fourth_and_further_ones_are_counted() -> None:
    out, err = printed(other_place() + failing_session() * 12, Window())

    assert out.count(" TID/PID ") == 4
    notice, head, row = [line for line in out.splitlines() if line and line[0] in "(I "][-3:]
    assert notice.startswith("(10 times so far: ")
    assert head == "Identical stacks, of which the first three are printed (--all prints each):"
    assert row.startswith("  12  ")
    assert notice[len("(10 times so far: ") : -1] == row[len("  12  ") :]
    assert err == "13 calls failed; 4 printed, 9 like them counted (--all prints each).\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"each": True},
        {"counts": False},
        {"stop_count": 100},
        {"filters": FilterSettings(longer_ns=1)},
        {"views": ViewSettings(call_trace=True)},
        {"views": ViewSettings(format=OutputFormat.JSON)},
        {"args": ArgSettings(capture=True)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_all_are_printed_where_each_is_asked_for_or_has_more_to_show(settings: Any) -> None:
    out, err = printed(failing_session() * 12, Window(), **settings)

    assert "Identical" not in out
    assert "like them" not in err
    kept = '"type":"session"' if out.startswith("{") else " TID/PID "
    assert out.count(kept) == 12


def test_all_are_printed_where_nobody_looks() -> None:
    out, err = printed(failing_session() * 12, io.StringIO())

    assert out.count(" TID/PID ") == 12
    assert err == "12 calls failed; 12 printed.\n"
