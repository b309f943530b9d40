# SPDX-License-Identifier: BSD-2-Clause
"""The table of docs/kernels.md is found among the other tables of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import support_table
from tests.live.kernels import ALL


def test_the_table_has_a_column_for_each_kernel_and_a_row_for_each_answer() -> None:
    found = support_table.columns()
    assert set(ALL) <= found.keys()
    assert all([*rows] == [*support_table.ROWS, support_table.FIRST] for rows in found.values())


def test_writing_it_anew_leaves_the_rest_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = support_table.PAGE.read_text()
    page = tmp_path / "kernels.md"
    page.write_text(text)
    monkeypatch.setattr(support_table, "PAGE", page)
    support_table.write(support_table.columns())
    assert page.read_text() == text
