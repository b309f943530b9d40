# SPDX-License-Identifier: BSD-2-Clause
"""Which missed calls count, and whom they concern."""

from __future__ import annotations

from tests.unit.session.records import ALLOC, MAP_CREATE

from retsnoop_py.attach.misses import misses_of, since
from retsnoop_py.attach.plan import Miss


def test_what_was_missed_before_tracing_began_does_not_count() -> None:
    before = [Miss(None, 2, "busy"), Miss(ALLOC, 1, "busy")]
    now = [Miss(None, 2, "busy"), Miss(ALLOC, 4, "busy"), Miss(MAP_CREATE, 1, "busy", told=False)]
    assert since(now, before) == [
        Miss(ALLOC, 3, "busy"),
        Miss(MAP_CREATE, 1, "busy", told=False),
    ]


def test_calls_inside_a_probe_are_nobodys_and_lost_returns_are_told_by_their_sessions() -> None:
    assert [(miss.count, miss.told) for miss in misses_of(ALLOC, 3, 5)] == [(3, True), (2, True)]
