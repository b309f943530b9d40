# SPDX-License-Identifier: BSD-2-Clause
"""release/: tests without a compiler; `make test-wheel` tests the release files."""

from __future__ import annotations

import re
from pathlib import Path

import build
import pytest
import yaml
from release import assemble, deb, libraries, sbom, wheel


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


def test_a_package_is_of_the_version_there_is_and_of_the_commits_time() -> None:
    control = (build.ROOT / "debian/control").read_text()
    told = deb.changelog(control, 1_700_000_000).splitlines()
    assert told[0] == f"retsnoop-py ({wheel.version()}) unstable; urgency=medium"
    assert told[-1].startswith(" -- the retsnoop-py authors <")
    assert told[-1].endswith(">  Tue, 14 Nov 2023 22:13:20 -0000")
    with pytest.raises(build.BuildError, match="names no maintainer"):
        deb.changelog("Source: retsnoop-py\n", 0)


def test_a_package_takes_the_pythons_that_bundled_modules_are_there_for() -> None:
    control = (build.ROOT / "debian/control").read_text()
    first, last = deb.PYTHONS[0], deb.PYTHONS[-1]
    assert f"python3 (>= {first})," in control
    assert f"python3 (<< 3.{int(last.partition('.')[2]) + 1})," in control
    _, *pinned = re.split(r"^([\w-]+)==", deb.BUNDLED.read_text(), flags=re.MULTILINE)
    sums = {
        name: text.count("--hash=sha256:")
        for name, text in zip(pinned[::2], pinned[1::2], strict=True)
    }
    machines = len(deb.ARCHITECTURES)
    per_python = machines * len(deb.PYTHONS)
    assert sums == {"annotated-doc": 1, "capstone": machines, "msgspec": per_python, "typer": 1}


def test_the_copyright_of_a_package_names_all_that_is_inside() -> None:
    told = (build.ROOT / "debian/copyright").read_text()
    inside = {*libraries.SOURCES, "capstone", "msgspec", "typer", "annotated_doc"}
    assert inside <= set(re.findall(r"^Files: ([\w-]+)/", told, re.MULTILINE))
    used = set(re.findall(r"^Copyright:.*\n(?: .*\n)*License: (.+)$", told, re.MULTILINE))
    given = set(re.findall(r"^License: (\S+)\n .", told, re.MULTILINE))
    assert {one for terms in used for one in terms.split(" or ")} == given


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("retsnoop_py/cli/start.py", "usr/lib/retsnoop-py/lib/python3/site-packages/{}"),
        ("retsnoop_py-1.data/data/share/man/man1/x.1", "usr/share/man/man1/x.1"),
        ("retsnoop_py-1.dist-info/licenses/LICENSE", "usr/share/doc/retsnoop-py/licenses/LICENSE"),
        ("retsnoop_py-1.dist-info/METADATA", None),
        ("retsnoop_py/_bpf.pyi", None),
    ],
)
def test_files_of_a_wheel_go_where_debian_has_them(name: str, place: str | None) -> None:
    found = deb._place(name, "retsnoop_py")
    assert (found and str(found)) == (place and place.format(name))


def test_the_package_has_the_scripts_of_all_shells() -> None:
    told = {path.split("/")[2]: text for path, text in deb.completions().items()}
    assert set(told) == {"bash-completion", "zsh", "fish"}
    # compinit looks for it in the first line
    assert told["zsh"].startswith("#compdef retsnoop-py\n")
    assert all("_RETSNOOP_PY_COMPLETE=" in text for text in told.values())


CHANGELOG = "# Changes\n\nText.\n\n## Unreleased\n- New.\n\n## 0.1.0, 2026-11-20\n- First.\n"


@pytest.mark.parametrize(
    ("text", "tag", "expected"),
    [
        (CHANGELOG, None, "# retsnoop-py after 0.1.0, not released\n\n- New.\n"),
        (CHANGELOG.replace("- New.\n", ""), None, "# retsnoop-py 0.1.0, 2026-11-20\n\n- First.\n"),
        (
            CHANGELOG.replace("- New.\n", ""),
            "v0.1.0",
            "# retsnoop-py 0.1.0, 2026-11-20\n\n- First.\n",
        ),
    ],
)
def test_notes_are_what_the_changelog_says_of_the_version(
    text: str, tag: str | None, expected: str
) -> None:
    assert assemble.notes(text, "0.1.0", tag) == expected


@pytest.mark.parametrize(
    ("number", "tag", "problem"),
    [
        ("0.1.0", "v0.1.0", "has changes under Unreleased; put them under ## 0.1.0"),
        ("0.1.0", "v0.2.0", "the tag is v0.2.0, but the version is 0.1.0"),
        ("0.2.0", "v0.2.0", "has no section of 0.2.0"),
    ],
)
def test_a_tag_that_is_not_of_what_the_changelog_says_is_refused(
    number: str, tag: str, problem: str
) -> None:
    with pytest.raises(build.BuildError, match=problem):
        assemble.notes(CHANGELOG, number, tag)


def test_pinned_modules_have_versions_sums_and_terms() -> None:
    found = [one for some in sbom.modules().values() for one in some]
    assert {one.name for one in found} == set(sbom._TERMS)
    assert all(one.sums and one.version[0].isdigit() for one in found)


def test_the_workflow_calls_targets_and_files_there_are() -> None:
    told = yaml.safe_load((build.ROOT / ".github/workflows/release.yml").read_text())
    steps = [step for job in told["jobs"].values() for step in job["steps"]]
    commands = "\n".join(step["run"] for step in steps if "run" in step)
    targets = set(re.findall(r"^([a-z-]+):", (build.ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {
        word
        for line in re.findall(r"^make (.+)$", commands, re.MULTILINE)
        for word in line.split()
        if "=" not in word
    }
    assert called == {"release", "test-wheel", "test-deb", "test-standalone"}
    assert called <= targets
    folders = told["jobs"]["build"]["strategy"]["matrix"]["folder"]
    assert f"diff -r {' '.join(folders)}" in commands
    assert assemble.NOTES in commands
    # what may write has no step that runs the project's code
    assert "permissions" not in told["jobs"]["build"]
    assert not re.search(
        "make|python", "".join(s.get("run", "") for s in told["jobs"]["publish"]["steps"])
    )
