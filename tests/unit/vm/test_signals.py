# SPDX-License-Identifier: BSD-2-Clause
"""A signal ends a download at once, with all it started, and leaves nothing half-done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retsnoop_py.vm.architecture import host

#: apt, as far as a fetch asks it: a download that does not end, by a child of its own.
APT = """#!/bin/sh
case "$*" in
*pkgnames*) echo linux-image-6.1.0-50-cloud-amd64-unsigned ;;
*madison*) echo "linux-image-6.1.0-50-cloud-amd64-unsigned | 6.1.176-1 | suite Packages" ;;
*show*) echo "Size: 1000" ;;
*download*)
	echo part >linux.deb
	sleep 1000 &
	echo $! >"$(dirname "$0")/../child"
	wait ;;
esac
"""
#: The tool, on whatever machine: the mirror is one that nobody asks, and no guest is booted.
MAIN = """
import sys
from retsnoop_py.vm import debian, initrd, mirrors
initrd.find_busybox = lambda: None
debian.find_mirror = lambda: mirrors.Mirror("http://localhost:9/", ("bookworm",), ("main",))
from retsnoop_py.cli.start import program
program()
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with that apt, an emulator that is never run, and an empty cache."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / host().qemu).touch(0o755)
    for name in ("apt-get", "apt-cache", "apt-config"):
        (tmp_path / "bin" / name).write_text(APT)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path)}


def run_ignoring(number: int, argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    """Start ``argv`` with one signal ignored, as a shell's ``&`` and nohup(1) do."""
    signal_name = signal.Signals(number).name.removeprefix("SIG")
    words = ["sh", "-c", f"trap '' {signal_name}; exec \"$@\"", "sh", *argv]
    return subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)


def child_of(tmp_path: Path) -> int:
    deadline = time.monotonic() + 60
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int((tmp_path / "child").read_text())


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("command", "number", "ignored", "status", "told"),
    [
        (["fetch", "6.1"], signal.SIGINT, signal.SIGHUP, 130, "retsnoop-py: interrupted\n"),
        (["fetch", "6.1"], signal.SIGTERM, signal.SIGHUP, 143, ""),
        (["fetch", "6.1"], signal.SIGINT, signal.SIGINT, 130, "retsnoop-py: interrupted\n"),
        (["fetch", "6.1"], signal.SIGHUP, signal.SIGINT, 129, ""),
        (["run", "--on", "6.1", "true"], signal.SIGTERM, signal.SIGHUP, 143, ""),
        (["run", "--on", "6.1", "true"], signal.SIGINT, signal.SIGINT, 130, "interrupted\n"),
    ],
)
def test_the_first_signal_ends_a_download(
    command: list[str],
    number: signal.Signals,
    ignored: int,
    status: int,
    told: str,
    env: dict[str, str],
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-c", MAIN, "vm", *command]
    with run_ignoring(ignored, argv, env) as process:
        child = child_of(tmp_path)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == status, errors
    assert errors.endswith(told)
    assert "Traceback" not in errors
    deadline = time.monotonic() + 60
    while not is_gone(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert list((tmp_path / "retsnoop-py/kernels/6.1").iterdir()) == []


def test_a_hangup_that_is_ignored_ends_nothing(env: dict[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-c", MAIN, "vm", "fetch", "6.1"]
    with run_ignoring(signal.SIGHUP, argv, env) as process:
        child_of(tmp_path)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
