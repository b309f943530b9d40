# SPDX-License-Identifier: BSD-2-Clause
"""docs/ci.md, action.yml and the Containerfile, as far as they can be read without running them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import build
import pytest
import yaml
from tests.unit.test_docs import _understand

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ci.md").read_text()
_WORDS = {"FROM", "ARG", "WORKDIR", "RUN", "COPY", "ENV", "CMD"}
#: The files that a build from a checkout reads.
_NEEDED = {"Makefile", "build.py", "setup.py", "pyproject.toml", "README.md", "vmlinux", "src"}


def lines() -> list[tuple[str, str]]:
    """Instruction and the rest, of each line of the Containerfile."""
    rows = (ROOT / "Containerfile").read_text().splitlines()
    return [(row.partition(" ")[0], row.partition(" ")[2]) for row in rows if row[:1] not in "#"]


def test_the_containerfile_has_known_words_and_copies_what_a_build_needs() -> None:
    assert {word for word, _ in lines()} <= _WORDS
    assert lines()[0] == ("FROM", "debian:bookworm")
    copied = {name for word, rest in lines() if word == "COPY" for name in rest.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    assert copied >= _NEEDED
    names = {name for name, _ in build.DEBIAN_PACKAGES} | {"python3"}
    for rest in [rest for word, rest in lines() if word == "RUN"]:
        done = subprocess.run(["sh", "-nc", rest], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for installed in re.findall(r"--no-install-recommends ([\w. -]+)", rest):
            assert set(installed.split()) <= names
        if rest.startswith("retsnoop-py"):
            _understand(rest.replace("${KERNELS}", "5.10 6.1").split()[1:])


@pytest.mark.parametrize("script", [".ci/action", ".ci/run"])
def test_the_scripts_are_shell_and_can_be_run(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_action_hands_its_inputs_on_as_variables_only() -> None:
    told = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = told["runs"]["steps"]
    assert "${{" not in step["run"]  # where it would be code
    script = (ROOT / ".ci/action").read_text()
    for name, value in step["env"].items():
        assert value == f"${{{{ inputs.{name.lower()} }}}}"
        assert f"${{{name}:-}}" in script


def test_the_workflows_are_yaml() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    assert all(isinstance(yaml.safe_load(one), dict) for one in blocks)


def test_the_script_of_the_action_refuses_what_matches_nothing(tmp_path: Path) -> None:
    tool = tmp_path / "retsnoop-py"
    tool.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    tool.chmod(0o755)
    (tmp_path / "a b.bpf.o").touch()

    def call(**env: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}:/usr/bin:/bin"
        argv = [str(ROOT / ".ci/action")]
        return subprocess.run(
            argv,
            cwd=tmp_path,
            env={"PATH": path, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    assert call(KERNELS="5.10", OBJECTS="*.o.bpf").returncode == 66
    said = call(KERNELS="5.10", OBJECTS="*.bpf.o", OPTIONS="--set 'x=a b'").stdout.splitlines()
    assert said == ["load", "./a b.bpf.o", "--on", "5.10", "--github", "--set", "x=a b"]
    (tmp_path / "--logs=x.bpf.o").touch()
    said = call(KERNELS="5.10", OBJECTS=f"-*.bpf.o {tmp_path}/a*.bpf.o").stdout.splitlines()
    assert said[1:3] == ["./--logs=x.bpf.o", f"{tmp_path}/a b.bpf.o"]
    said = call(KERNELS="6.1", COMMAND="./t 'a  b'", OPTIONS="-e '*x'").stdout.splitlines()
    assert said == ["--on", "6.1", "-e", "*x", "--", "sh", "-c", "./t 'a  b'"]
