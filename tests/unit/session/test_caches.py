# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.session.caches import BoundedCache


@given(st.lists(st.integers(0, 30)))
def test_no_more_is_kept_than_there_is_room_for(weights: list[int]) -> None:
    kept: BoundedCache[int, int] = BoundedCache(40)
    for key, weight in enumerate(weights):
        assert kept.keep(key, weight, weight) == weight
        held = [found for number in range(key + 1) if (found := kept.get(number)) is not None]
        assert sum(held) <= 40
        assert (kept.get(key) == weight) == (weight <= 10)


def test_what_was_kept_is_found_until_there_is_no_room() -> None:
    kept: BoundedCache[str, str] = BoundedCache(4)
    for key in "abcd":
        kept.keep(key, key)
    assert [kept.get(key) for key in "abcd"] == list("abcd")
    kept.keep("e", "e")
    assert (kept.get("a"), kept.get("e"), len(kept)) == (None, "e", 1)
