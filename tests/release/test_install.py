# SPDX-License-Identifier: BSD-2-Clause
"""Follow every way to install of README and docs/install.md on a Debian with only apt.

The build commands of the pages run on Debian 12, those of README also on Debian 13. The install
commands then run on new systems with the files from the build on Debian 12. Finally, Debian's
sudo(8) must find the program. The test requires root, for chroot, and the network. The single-file
executable is tested in test_one_file.py, because its build takes too long here.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import build
import pytest
from tests.examples import script
from tests.pythons import run
from tests.release.reader import APT, CHECKOUT, PAGE, DerivativeReader, Reader

#: Page and command that identify a way to install, and prerequisites that the page omits.
WAYS = {
    "package": (PAGE, "dist/retsnoop-py_*_amd64.deb", ""),
    "pipx": (PAGE, "pipx install", ""),
    # Debian has no package of uv
    "uv": (PAGE, "uv tool install", f"{APT} pipx && pipx install uv"),
    "virtual environment": (PAGE, "pip install dist/retsnoop_py-*_x86_64.whl", ""),
    "source distribution": (PAGE, "pip install dist/retsnoop_py-*.tar.gz", ""),
}


class Built(NamedTuple):
    """Result of the build: the system, and the text on standard error."""

    reader: Reader
    said: str


@pytest.fixture(scope="module")
def built() -> Built:
    """Debian 12 after all commands of both pages, in order."""
    made = build_on("bookworm")
    assert "make wheel" in script(PAGE, "make wheel")
    made.reader.type(*script(PAGE, "make wheel"))  # everything is built already
    return made


def build_on(suite: str) -> Built:
    """Run the commands of README on a new system."""
    reader = Reader(suite, f"install-builder-{suite}")
    assert reader.system.call("sh", "-c", "command -v python3 make cc xz sudo").returncode
    tools, *rest = script("README.md", "make deb")
    reader.type(tools)
    reader.checkout.rmdir()
    run("git", "clone", "-q", build.ROOT, reader.checkout)
    return Built(reader, reader.type(*rest))


def test_sudo_finds_the_program_after_the_commands_of_readme(built: Built) -> None:
    built.reader.assert_sudo_finds_it()


def test_the_commands_of_readme_work_on_the_next_debian() -> None:
    build_on("trixie").reader.assert_sudo_finds_it()


def test_the_cost_is_printed_first_and_nothing_else_is_installed(built: Built) -> None:
    costs = re.findall(r"^  deps +installing (?:.*) \((.*)\)$", built.said, re.MULTILINE)
    assert costs, built.said
    for cost in costs:
        assert re.fullmatch(r"\d+ packages, [\d.,]+ MB to download, [\d.,]+ MB on disk", cost)
    installed = built.reader.system.run("dpkg-query", "-W", "-f", "${Package}\n").split()
    assert "clang" in installed
    for other in ("qemu-system-x86", "clang-format", "mmdebstrap", "fish", "bpftool"):
        assert other not in installed
    assert not (built.reader.checkout / ".venv/bin/pytest").exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_sudo_finds_the_program_after_each_way_to_install(
    built: Built, suite: str, way: str
) -> None:
    follow(Reader(suite, "install-reader"), built, way)


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_derivative_of_debian_can_install_it(built: Built, way: str) -> None:
    """Python 3.14, a release that no list contains, sudo-rs, and coreutils other than GNU's."""
    follow(DerivativeReader("install-derivative"), built, way)


def follow(reader: Reader, built: Built, way: str) -> None:
    """Run the page's commands for ``way``, then check that sudo finds the program."""
    page, words, before = WAYS[way]
    shutil.copytree(built.reader.checkout / "dist", reader.checkout / "dist")
    if before:
        reader.type(before)
    reader.type(*(line for line in script(page, words) if not line.startswith("make ")))
    reader.assert_sudo_finds_it()
    shutil.rmtree(reader.system.home)


def test_pip_refuses_the_system_python_as_documented(built: Built) -> None:
    wheel = next(Path(CHECKOUT, "dist", one.name) for one in _wheels(built))
    reader = built.reader
    reader.type(f"{APT} python3-pip >/dev/null")
    done = reader.system.call("python3", "-m", "pip", "install", str(wheel), env=reader.env)
    assert (done.returncode, "externally-managed-environment" in done.stderr) == (1, True)


def _wheels(built: Built) -> list[Path]:
    return list((built.reader.checkout / "dist").glob("*.whl"))
