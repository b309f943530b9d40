# SPDX-License-Identifier: BSD-2-Clause
"""Install the package of ``make deb`` in Debian 12, 13 and sid, and in a guest.

RETSNOOP_KERNELS names the kernel of the guest. The test requires root, for chroot.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import build
import pytest
from release.deb import ARCHITECTURES, build_deb, deb_name
from release.wheel import DIST
from tests.pythons import run
from tests.release.system import (
    BARE,
    ENVIRONMENT,
    NAMED,
    System,
    assert_answers,
    assert_first_steps,
    bpf_object,
    left_behind,
)

from retsnoop_py import __version__
from retsnoop_py.vm.machine import Machine

HOST = os.uname().machine
KERNEL = (os.environ.get("RETSNOOP_KERNELS") or "6.12").split()[-1]
GOLDEN = build.ROOT / "tests" / "golden"
COPYRIGHT = build.ROOT / "debian" / "copyright"


@pytest.fixture(scope="module", params=["bookworm", "trixie", "sid"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    made = System(request.param)
    made.run("apt-get", "-qq", "update")
    package = made.give(DIST / deb_name(HOST))
    made.run("apt-get", "-qq", "-y", "--no-install-recommends", "install", package)
    yield made
    made.run("apt-get", "-qq", "-y", "purge", "retsnoop-py")
    assert left_behind(made, "/root/retsnoop-py_") == []


def test_version_and_doctor_work(system: System) -> None:
    assert system.run("retsnoop-py", "--version") == f"retsnoop-py {__version__}\n"
    done = system.call("retsnoop-py", "doctor", "--json")
    told = json.loads(done.stdout)
    assert told["kernel"]["machine"] == HOST
    assert done.returncode == told["exit_status"], done.stderr
    assert "usage" in system.run("retsnoop-py", "--help").lower()


def test_a_replay_equals_that_of_the_checkout(system: System) -> None:
    for name in ("6.12", "6.12-args"):
        recording = system.give(GOLDEN / f"{name}.rsn")
        done = system.call("retsnoop-py", "replay", recording, env={**ENVIRONMENT, "TZ": "UTC"})
        words = [build.VENV / "bin/retsnoop-py", "replay", GOLDEN / f"{name}.rsn"]
        expected = run("env", "TZ=UTC", "LC_ALL=C.UTF-8", *words)
        assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_python_has_its_interface_and_modules(system: System) -> None:
    script = (
        "import retsnoop_py, retsnoop_py._bpf, retsnoop_py._dwarf, capstone, msgspec, typer; "
        "print(*(one.__file__ for one in (retsnoop_py, capstone, msgspec, typer)), "
        "len(list(capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(b'\\x90', 0))))"
    )
    *files, decoded = system.run("/usr/lib/retsnoop-py/bin/python3", "-I", "-c", script).split()
    assert all(file.startswith("/usr/lib/retsnoop-py/lib/python3.") for file in files)
    assert decoded == "1"


def test_environment_and_current_folder_have_no_effect(system: System) -> None:
    for name in ("retsnoop_py", "typer", "msgspec"):
        (system.home / "upper/root" / f"{name}.py").write_text("raise SystemExit('steered')\n")
    env = {**ENVIRONMENT, "PYTHONPATH": "/root", "PYTHONHOME": "/root"}
    done = system.call("sh", "-c", "cd /root && retsnoop-py --help", env=env)
    for name in ("retsnoop_py", "typer", "msgspec"):
        (system.home / "upper/root" / f"{name}.py").unlink()
    assert (done.returncode, done.stderr) == (0, "")


def test_bytecode_is_there_from_the_start(system: System) -> None:
    site = "/usr/lib/retsnoop-py/lib/python3/site-packages/retsnoop_py"
    found = system.run("find", f"{site}/cli/__pycache__", "-name", "start.*.pyc")
    version = system.run("python3", "--version").split()[1].split(".")
    assert f"start.cpython-{version[0]}{version[1]}.pyc" in found


@pytest.mark.parametrize("surrounding", BARE)
def test_commands_work_or_report_errors_in_a_restricted_system(
    system: System, surrounding: str
) -> None:
    recording = system.give(GOLDEN / "6.12.rsn")
    assert_answers(system, "/usr/bin/retsnoop-py", recording, surrounding)


def test_in_a_guest_it_traces_explains_loads_and_uninstalls(system: System, tmp_path: Path) -> None:
    """The installed system is the root directory in the guest. Changes there are lost."""
    refused = system.give(bpf_object(tmp_path, "bounds"))
    with Machine(KERNEL) as machine:
        call = system.boot(machine)
        python = ("/usr/lib/retsnoop-py/bin/python3", "-I")
        assert_first_steps(call, "retsnoop-py", python, refused)
        assert call("dpkg", "--purge", "retsnoop-py").status == 0
        left = call(*NAMED).out.split()
        assert [path for path in left if path.startswith(("/usr", "/etc", "/var/lib"))] == []


def test_the_other_machines_package_has_the_same_files() -> None:
    """Names of compiled files differ only in the machine; their contents are not compared."""

    def files(machine: str) -> set[str]:
        listed = run("dpkg-deb", "-c", DIST / deb_name(machine)).splitlines()
        names = {line.split()[5] for line in listed}
        return {re.sub(rf"{machine}-linux-gnu", "MACHINE", name) for name in names}

    first, second = map(files, ARCHITECTURES)
    assert first == second
    for machine, architecture in ARCHITECTURES.items():
        told = run("dpkg-deb", "-f", DIST / deb_name(machine), "Architecture").strip()
        assert told == architecture


def test_two_builds_are_identical() -> None:
    before = build_deb(HOST).read_bytes()
    # file times of a checkout may be before or after the commit
    for path, when in ((build.ROOT / "README.md", time.time()), (COPYRIGHT, 1_000_000_000)):
        os.utime(path, (when, when))
    assert build_deb(HOST).read_bytes() == before
