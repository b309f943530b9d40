# SPDX-License-Identifier: BSD-2-Clause
"""Install the source distribution on this machine, as docs/install.md describes.

``make test`` runs this test; ``make test-install`` runs all ways to install on bare systems. The
commands are those of the page, except for the packages, which this machine has. They see an empty
/opt and /usr/local/bin. The test requires root, for mounts, and the network.
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

#: A line before the output of each command.
_END = "-- next --"
#: Commands to run. Root runs them without ``sudo``, which starts the same program.
_ASKED = ("--version", "list presets", "doctor")


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """The output of each command of the installed program."""
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


def test_its_version_is_that_of_the_checkout(outputs: list[str]) -> None:
    assert outputs[0] == f"retsnoop-py {__version__}\n"


def test_its_files_and_extensions_are_found(outputs: list[str]) -> None:
    _, presets, doctor = outputs
    assert re.search(r"^bpf\t", presets, re.MULTILINE)
    # this kernel may forbid loading programs
    assert re.search(r"(?:yes|no) +loading programs", doctor), doctor
