# SPDX-License-Identifier: BSD-2-Clause
"""Check the files of ``make release`` in dist/: complete, and reproducible elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import build
import pytest
from release.assemble import NOTES
from release.libraries import SOURCES
from release.one_file import one_file_name
from release.wheel import DIST, MACHINES, version

SBOM = DIST / f"retsnoop-py-{version()}.cdx.json"


def run(*words: str | Path, cwd: Path = build.ROOT) -> str:
    argv = [str(word) for word in words]
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def test_the_checksums_cover_all_files() -> None:
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
    summed = {line.split()[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    assert summed == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}
    assert {SBOM.name, NOTES} < summed


def test_the_sbom_lists_the_contents_of_each_file() -> None:
    told = json.loads(SBOM.read_text())
    parts = {one["bom-ref"]: one for one in told["components"]}
    inside = {one["ref"]: set(one.get("dependsOn", ())) for one in told["dependencies"]}
    assert told["metadata"]["component"]["version"] == version()
    files = {ref: part for ref, part in parts.items() if part["type"] == "file"}
    assert inside["retsnoop-py"] == set(files)
    for ref, part in files.items():
        assert part["hashes"] == [{"alg": "SHA-256", "content": build.sha256(DIST / part["name"])}]
        libraries = {f"source:{name}" for name in SOURCES}
        assert (libraries < inside[ref]) == (not part["name"].endswith(".tar.gz"))
        brings = any(one.startswith("pypi:msgspec==") for one in inside[ref])
        is_one_file = "source:python3.13" in inside[ref]
        assert is_one_file == (part["name"] in map(one_file_name, MACHINES))
        assert brings == (is_one_file or part["name"].endswith(".deb"))
    for name, source in SOURCES.items():
        part = parts[f"source:{name}"]
        assert part["hashes"] == [{"alg": "SHA-256", "content": source.sha256}]
        assert part["licenses"] == [
            {"acknowledgement": "declared", "expression": source.licence}
        ] or (part["licenses"] == [{"expression": source.licence}])


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The same commit in another directory, without build results."""
    assert run("git", "status", "--porcelain") == "", (
        "commit all changes first: the test clones a commit"
    )
    home = tmp_path / "another-name" / "clone"
    run("git", "clone", "-q", build.ROOT, home)
    return home


def test_a_build_in_another_directory_is_identical(elsewhere: Path) -> None:
    run("make", "release", cwd=elsewhere)
    sums = (elsewhere / "dist/SHA256SUMS").read_text()
    shutil.rmtree(elsewhere)
    assert sums == (DIST / "SHA256SUMS").read_text()
