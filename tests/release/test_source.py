# SPDX-License-Identifier: BSD-2-Clause
"""The fastest way to install of docs/install.md, the source distribution, on this machine.

``make test`` runs it; ``make test-install`` runs all ways on bare systems. The commands are the
page's, except for the packages, which this machine has. They see an empty /opt and /usr/local/bin.
This takes root, for mounts, and the network.
"""

from __future__ import annotations

import re
import shlex
import subprocess

import build
import pytest
from release.wheel import build_sdist
from tests.examples import script
from tests.release.reader import PAGE

from retsnoop_py import __version__

#: Each command's output has a line before it.
_END = "-- next --"
#: What ``sudo`` finds, where this machine has sudo(8); as root it is the same program.
_ASKED = ("--version", "list presets", "doctor")


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """What the installed program prints, by command."""
    made = build_sdist()
    lines = script(PAGE, f"pip install dist/{made.name.replace(__version__, '*')}")
    typed = [line for line in lines if not line.startswith("apt ")]
    assert len(typed) == len(lines) - 1
    asked = [f"echo '{_END}'; /usr/local/bin/retsnoop-py {words} || true" for words in _ASKED]
    mounts = [f"mount -t tmpfs none {place}" for place in ("/opt", "/usr/local/bin")]
    told = "\n".join(["set -e", f"cd {shlex.quote(str(build.ROOT))}", *mounts, *typed, *asked])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", told], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split(f"{_END}\n")[1:]


def test_it_is_the_version_of_the_checkout(outputs: list[str]) -> None:
    assert outputs[0] == f"retsnoop-py {__version__}\n"


def test_its_files_and_extensions_are_found(outputs: list[str]) -> None:
    _, presets, doctor = outputs
    assert re.search(r"^bpf\t", presets, re.MULTILINE)
    # whether the kernel here lets it load programs is no matter
    assert re.search(r"(?:yes|no) +loading programs", doctor), doctor
