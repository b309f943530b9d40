# SPDX-License-Identifier: BSD-2-Clause
"""The ways to install, as README and docs/install.md have them, on a Debian that has only apt.

What there is to install is built on Debian 12 by the pages' commands, and installed on fresh ones
by the rest of them. Then Debian's own sudo(8) has to find the program. This takes root, for chroot,
and the network. The one file has its test in test_one_file.py: it takes too long to build.
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

#: What a way is known by on its page, and what it takes that the page leaves to the reader.
WAYS = {
    "package": (PAGE, "dist/retsnoop-py_*_amd64.deb", ""),
    "pipx": (PAGE, "pipx install", ""),
    # uv is no package of Debian's
    "uv": (PAGE, "uv tool install", f"{APT} pipx && pipx install uv"),
    "virtual environment": (PAGE, "pip install dist/retsnoop_py-*_x86_64.whl", ""),
    "source distribution": (PAGE, "pip install dist/retsnoop_py-*.tar.gz", ""),
}


class Built(NamedTuple):
    """What came of building."""

    reader: Reader
    said: str


@pytest.fixture(scope="module")
def built() -> Built:
    """Debian 12, where the commands of README's page were typed from its top to its bottom."""
    reader = Reader("bookworm", "install-builder")
    assert reader.system.call("sh", "-c", "command -v python3 make cc xz sudo").returncode
    tools, *rest = script("README.md", "make deb")
    reader.type(tools)
    reader.checkout.rmdir()
    run("git", "clone", "-q", build.ROOT, reader.checkout)
    said = reader.type(*rest)
    assert "make wheel" in script(PAGE, "make wheel")
    reader.type(*script(PAGE, "make wheel"))  # finds it done
    return Built(reader, said)


def test_readme_leads_to_a_program_that_sudo_finds(built: Built) -> None:
    built.reader.assert_sudo_finds_it()


def test_what_it_costs_is_said_first_and_nothing_else_is_installed(built: Built) -> None:
    costs = re.findall(r"^  deps +installing (?:.*) \((.*)\)$", built.said, re.MULTILINE)
    assert costs, built.said
    for cost in costs:
        assert re.fullmatch(r"\d+ packages, [\d.,]+ MB to download, [\d.,]+ MB on disk", cost)
    installed = built.reader.system.run("dpkg-query", "-W", "-f", "${Package}\n").split()
    assert "clang" in installed
    for other in ("qemu-system-x86", "clang-format", "mmdebstrap", "fish", "bpftool"):
        assert other not in installed
    assert not (built.reader.checkout / ".venv/bin/pytest").exists()


#: All on Debian 13; on 12 what differs there, for time's sake: pipx is of before ``--global``.
@pytest.mark.parametrize(
    ("suite", "way"),
    [("bookworm", "package"), ("bookworm", "pipx"), *(("trixie", way) for way in WAYS)],
)
def test_a_way_of_the_page_leads_to_a_program_that_sudo_finds(
    built: Built, suite: str, way: str
) -> None:
    follow(Reader(suite, "install-reader"), built, way)


@pytest.mark.parametrize("way", ["package", "pipx", "virtual environment"])
def test_a_derivative_that_nobody_knows_installs_it_too(built: Built, way: str) -> None:
    """Python 3.14, a release that no table has, sudo-rs, and coreutils that are not GNU's."""
    follow(DerivativeReader("install-derivative"), built, way)


def follow(reader: Reader, built: Built, way: str) -> None:
    """Type what the page says of ``way``; then sudo has to find the program."""
    page, words, before = WAYS[way]
    shutil.copytree(built.reader.checkout / "dist", reader.checkout / "dist")
    if before:
        reader.type(before)
    reader.type(*(line for line in script(page, words) if not line.startswith("make ")))
    reader.assert_sudo_finds_it()
    shutil.rmtree(reader.system.home)


def test_pip_into_the_systems_python_is_refused_as_the_page_says(built: Built) -> None:
    wheel = next(Path(CHECKOUT, "dist", one.name) for one in _wheels(built))
    reader = built.reader
    reader.type(f"{APT} python3-pip >/dev/null")
    done = reader.system.call("python3", "-m", "pip", "install", str(wheel), env=reader.env)
    assert (done.returncode, "externally-managed-environment" in done.stderr) == (1, True)


def _wheels(built: Built) -> list[Path]:
    return list((built.reader.checkout / "dist").glob("*.whl"))
