# SPDX-License-Identifier: BSD-2-Clause
"""Values of arguments are cut to the columns they may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.render.args.node import cut_to
from retsnoop_py.text import display_width


@pytest.mark.parametrize(
    ("width", "mark", "expected"),
    [
        (0, "...", "'12345678'"),
        (10, "...", "'12345678'"),
        (9, "...", "'12345..."),
        (4, "...", "'..."),
        (3, "...", "..."),
        (2, "...", ".."),
        (1, "...", "."),
        (2, "…", "'…"),
        (1, "…", "…"),
    ],
)
def test_a_mark_stands_for_what_was_cut(width: int, mark: str, expected: str) -> None:
    assert cut_to("'12345678'", width, mark) == expected


@given(st.text(), st.integers(1, 40), st.sampled_from(["…", "..."]))
def test_never_wider_than_asked_for_and_no_shorter_than_need_be(
    text: str, width: int, mark: str
) -> None:
    cut = cut_to(text, width, mark)
    assert display_width(cut) <= width
    if display_width(text) <= width:
        assert cut == text
    else:
        # a character is two columns wide at most
        assert display_width(cut) >= width - 1
        assert len(mark) > width or cut.endswith(mark)
