# SPDX-License-Identifier: BSD-2-Clause
"""release/: what can be told without a compiler; `make test-wheel` tests what it makes."""

from __future__ import annotations

import re
from pathlib import Path

import build
import pytest
from release import libraries, wheel


def test_each_source_is_pinned_by_one_sum_and_has_a_licence() -> None:
    sources = [*libraries.SOURCES.values(), libraries.PYTHON]
    assert all(re.fullmatch("[0-9a-f]{64}", one.sha256) for one in sources)
    assert len({one.sha256 for one in sources}) == len(sources)
    assert all(one.version in one.tarball and one.licence and one.texts for one in sources)


def test_the_files_of_a_library_are_those_its_makefile_names(tmp_path: Path) -> None:
    makefile = tmp_path / "Makefile.am"
    makefile.write_text(
        "libx_a_SOURCES = b.c a.c \\\n\t\t  c.h\nlibx_a_SOURCES += $(more) z.c\n"
        "other_SRCS = d.c\nEXTRA_DIST = not.c\n"
    )
    assert libraries.listed(makefile) == ["a.c", "b.c", "d.c", "z.c"]


def test_a_compiler_that_is_missing_is_named_with_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    with pytest.raises(build.BuildError, match=r"no ziglang in \.venv; run: make wheel"):
        libraries.Target("x86_64", "gnu.2.28").zig("cc")


def test_an_unknown_machine_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "build_sdist", lambda: pytest.fail("it went on"))
    assert wheel.main(["riscv64"]) == 1
    assert capsys.readouterr().err.startswith("release: no BPF objects for riscv64, only for ")
