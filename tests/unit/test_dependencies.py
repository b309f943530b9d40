# SPDX-License-Identifier: BSD-2-Clause
"""The check that declared and imported dependencies are the same."""

from __future__ import annotations

from pathlib import Path

from tests.dependencies import imported, problems, strangers

PYPROJECT = '[project]\ndependencies = ["cffi>=1.17", "rich>=13", "pyelftools"]\n'


def test_what_is_declared_and_imported_is_fine() -> None:
    assert problems(PYPROJECT, {"rich": "a:1", "elftools": "b:1", "os": "c:1"}) == []


def test_both_ways_of_being_wrong_are_told() -> None:
    assert problems(PYPROJECT, {"elftools": "b:1", "numpy": "c:7"}) == [
        "c:7: numpy is imported and not declared",
        "pyproject.toml: nothing imports rich",
    ]


def test_imports_inside_functions_count(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text("def f():\n    import rich.table\n    from a.b import c\nfrom . import d\n")
    assert [name for name, _ in imported(source)] == ["rich", "a"]


def test_extensions_are_for_one_room(tmp_path: Path) -> None:
    for room, count in (("libbpf", 0), ("attach", 1)):
        source = tmp_path / room / "x.py"
        source.parent.mkdir()
        source.write_text("def f():\n    from retsnoop_py._bpf import lib\n")
        assert len(list(strangers(source))) == count
