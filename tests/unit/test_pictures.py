# SPDX-License-Identifier: BSD-2-Clause
"""The pictures of the pages show the current output of the commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "docs/pictures"


def _make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", FOLDER / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE = _make()


@pytest.mark.parametrize("name", MAKE.PICTURES)
def test_a_picture_is_what_is_written(name: str) -> None:
    drawn = (FOLDER / f"{name}.svg").read_text()
    assert MAKE.picture(name) == drawn, "make it anew: .venv/bin/python docs/pictures/make.py"
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", ""), "it fetches nothing"
    assert len(drawn) < 16 << 10


def test_the_first_picture_is_legible_at_400_pixels() -> None:
    """A character is 6 pixels wide or more, which is a font of 10 pixels."""
    drawn = (FOLDER / "why.svg").read_text()
    width = int(re.search(r'width="(\d+)">', drawn)[1])  # type: ignore[index]
    assert MAKE.CELL * 400 / width >= 6


def test_there_is_no_picture_that_nothing_makes_or_shows() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(MAKE.PICTURES)
    pages = [FOLDER.parents[1] / "README.md", *FOLDER.parent.rglob("*.md")]
    text = "".join(page.read_text() for page in pages)
    for name in MAKE.PICTURES:
        assert f"pictures/{name}.svg)" in text, name
