# SPDX-License-Identifier: BSD-2-Clause
"""The workflows of docs/ci.md and action.yml: each step that has a command, on a small project."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.live.support import TOOL
from tests.live.test_load import OBJECTS, compiler

from retsnoop_py.vm.architecture import split
from retsnoop_py.vm.machine import Machine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ci.md").read_text()
#: Kernels of the page; the tests take the one they are run on.
ON_PAGE = ("5.10,7.2", "5.10,6.1,6.12,7.2")

pytestmark = pytest.mark.one_kernel


def block(language: str, holds: str = "") -> str:
    """The block of the page that is in this language, and holds something."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = [text for name, text in found if name == language and holds in text]
    return str(text)


@pytest.fixture
def parked(machine: Machine, request: pytest.FixtureRequest) -> str:
    """The kernel's name, its shared guest being down so that one VM is up at a time."""
    machine.close()
    name: str = request.node.callspec.params["machine"]
    return name


@pytest.fixture
def project(parked: str, tmp_path: Path) -> Path:
    """Return a user's repository: an object with one known failure, a test, and make objects."""
    for name in ("license.bpf.c", "common.h"):
        shutil.copy(OBJECTS / name, tmp_path)
    words = shlex.join(compiler(parked))
    (tmp_path / "Makefile").write_text(
        f"objects:\n\t{words} -c license.bpf.c -o license.bpf.o\n" + block("make")
    )
    (tmp_path / "known.txt").write_text("* license.bpf.o helper_for_gpl helper-gpl\n")
    (tmp_path / "test.sh").write_text("#!/bin/sh\n! mount /nonexistent /mnt\n")
    (tmp_path / "test.sh").chmod(0o755)
    return tmp_path


def run(command: str, project: Path, kernel: str, **env: str) -> str:
    """Run the text of a step as an engine does, with ``kernel`` for those of the page."""
    for names in ON_PAGE:
        command = command.replace(names, kernel)
    path = f"{Path(TOOL).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
        cwd=project,
        env={**os.environ, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def action(inputs: dict[str, str], project: Path, kernel: str) -> str:
    """The steps of action.yml, as GitHub runs them."""
    told = yaml.safe_load((ROOT / "action.yml").read_text())
    assert inputs.keys() <= told["inputs"].keys()
    given = {name: one.get("default", "") for name, one in told["inputs"].items()} | inputs
    assert all(given[name] for name, one in told["inputs"].items() if one.get("required"))

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], text)

    said = ""
    for step in told["runs"]["steps"]:
        env = {name: filled(value) for name, value in step["env"].items()}
        env["GITHUB_STEP_SUMMARY"] = str(project / "summary.md")
        said += run(step["run"], project, kernel, GITHUB_ACTION_PATH=str(ROOT), **env)
    return said


def is_of_the_engine(step: dict[str, Any]) -> bool:
    """Others' actions, and the line that installs packages."""
    return step.get("uses", "").startswith("actions/") or "apt-get" in step.get("run", "")


@pytest.mark.slow
def test_the_steps_for_github(parked: str, project: Path) -> None:
    told = yaml.safe_load(block("yaml", "runs-on"))
    (job,) = told["jobs"].values()
    series = split(parked)[1]
    assert series in job["strategy"]["matrix"]["kernel"] or series == "7.3"
    said = []
    for step in job["steps"]:
        if is_of_the_engine(step):
            continue
        if "run" in step:
            run(step["run"], project, parked)
            continue
        assert step["uses"].endswith("/retsnoop-py@main")
        inputs = {
            name: value.replace("${{ matrix.kernel }}", parked)
            for name, value in step["with"].items()
        }
        said.append(action(inputs, project, parked))
    loaded, traced = said
    assert "::error file=" in loaded
    assert "helper_for_gpl" in (project / "summary.md").read_text()
    (suite,) = ET.parse(project / "load.xml").getroot()
    assert suite.get("failures") == "1"
    assert re.search(r"1 ENOENT +- +0 +ok$", traced, re.MULTILINE), traced


@pytest.mark.slow
def test_the_script_for_gitlab(parked: str, project: Path) -> None:
    (job,) = yaml.safe_load(block("yaml", "artifacts")).values()
    for line in job["script"]:
        run(line, project, parked, CI_NODE_INDEX="1", CI_NODE_TOTAL="1")
    assert (project / job["artifacts"]["reports"]["junit"]).exists()


@pytest.mark.slow
def test_the_rule_for_make(parked: str, project: Path) -> None:
    said = run("make check-kernels KERNELS=5.10,7.2", project, parked)
    assert re.search(r"license\.bpf\.o +program helper_for_gpl +EINVAL", said)
    assert re.search(r"1 ENOENT +- +0 +ok$", said, re.MULTILINE), said


@pytest.mark.slow
def test_the_script_for_anything_else(parked: str, project: Path) -> None:
    load, trace = block("sh", "OBJECTS=").splitlines()
    run("make objects", project, parked)
    words = load.replace(".ci/action", str(ROOT / ".ci/action")).replace(
        "load.xml", "load.xml --known-failures known.txt"
    )
    run(words, project, parked)
    assert (project / "load.xml").exists()
    # of bpf() nothing fails in that test; it ends with 0
    said = run(trace.replace(".ci/action", str(ROOT / ".ci/action")), project, parked)
    assert re.search(r" none +- +0 +ok$", said, re.MULTILINE), said
    assert shlex.split(trace)[-1] == ".ci/action"
