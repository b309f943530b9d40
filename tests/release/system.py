# SPDX-License-Identifier: BSD-2-Clause
"""A bare Debian that what is handed out is installed in, without a container runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import build
from tests.pythons import Root

from retsnoop_py.vm.debian import locked
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

#: A root directory, changes to which are kept beside it, in a process of its own: $1 is where.
IN_SYSTEM = """
set -e
home=$1 lower=$2; shift 2
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$home/upper,workdir=$home/work" "$home/root"
for option in $WITHOUT; do case $option in proc) no_proc=1;; sys) no_sys=1;; esac; done
test -n "$no_proc" || mount -t proc proc "$home/root/proc"
test -n "$no_sys" || mount -t sysfs -o ro sysfs "$home/root/sys"
mount --rbind /dev "$home/root/dev"
case " $WITHOUT " in *" tmp "*)
    mount --bind "$home/root/tmp" "$home/root/tmp"
    mount -o remount,bind,ro "$home/root/tmp";;
esac
exec chroot "$home/root" "$@"
"""
#: The same in a guest: what is changed is lost. $1 and $2 are as above.
IN_GUEST = """
set -e
mkdir -p /run/system/rw
mount -t tmpfs none /run/system/rw
mkdir /run/system/rw/upper /run/system/rw/work /run/system/root
mount -t overlay overlay -o "lowerdir=$1/upper:$2" \\
    -o upperdir=/run/system/rw/upper,workdir=/run/system/rw/work /run/system/root
for each in proc sys dev; do mount --rbind /$each /run/system/root/$each; done
"""
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


#: What surrounds a program that has little: its environment, and what :meth:`System.call` lacks.
BARE = {
    "no home": ({"HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}, ""),
    "HOME unset": ({"LC_ALL": "C.UTF-8"}, ""),
    "locale C": ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, ""),
    "locale POSIX": ({"LC_ALL": "POSIX"}, ""),
    "unknown locale": ({"LC_ALL": "de_DE.ISO-8859-1"}, ""),
    "read-only tmp": ({"HOME": "/root"}, "tmp"),
    "no sys": ({"HOME": "/root"}, "sys"),
    "no proc": ({"HOME": "/root"}, "proc"),
    "nothing": ({"HOME": "/root"}, "proc sys tmp"),
}


def assert_answers(system: System, program: str, recording: str, surrounding: str) -> None:
    """Each command does what it can in one of :data:`BARE`, or says why not."""
    env, without = BARE[surrounding]
    statuses = {
        ("--version",): (0,),
        ("--help",): (0,),
        ("replay", recording): (0,),
        ("replay", "--format", "json", recording): (0,),
        ("doctor",): (65, 66, 69, 77, 0),
        ("doctor", "--json"): (65, 66, 69, 77, 0),
        ("-e", "*_sys_bpf", "--dry-run"): (0, 66, 69, 77),
        ("-e", "*_sys_bpf", "--for", "0.1s"): (66, 69, 77),
        ("functions", "*_sys_bpf"): (0, 66, 69, 77),
        ("why", "--", "true"): (66, 69, 77),
        ("list", "presets"): (0,),
        ("help", "globs"): (0,),
        ("vm", "list"): (0, 69),
    }
    for words, wanted in statuses.items():
        given = {"PATH": ENVIRONMENT["PATH"], **env}
        done = system.call(program, *words, env=given, without=without)
        said = f"{words} ({done.returncode}):\n{done.stdout[-500:]}{done.stderr[-3000:]}"
        assert "Traceback" not in done.stderr, said
        assert done.returncode in wanted, said
        assert done.returncode == 0 or words[0] == "doctor" or done.stderr.strip(), said


class System:
    """A Debian with nothing in it, and then what a test installs.

    What is done in it is kept below build/systems/``name``, and the root directory stays as it was.
    """

    def __init__(self, suite: str, name: str | None = None) -> None:
        base = Root(suite, ("ca-certificates",), f"{suite}-bare")
        base.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(base.path.with_suffix(".lock")):
            base.prepare()
        self.base = base.path
        self.home = build.BUILD / "systems" / (name or suite)
        shutil.rmtree(self.home, ignore_errors=True)
        for folder in ("upper/root", "work", "root"):
            (self.home / folder).mkdir(parents=True)

    def call(
        self, *words: str, env: dict[str, str] | None = None, without: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in it; ``without`` names what it has not: proc, sys, tmp."""
        given = [f"{key}={value}" for key, value in (ENVIRONMENT if env is None else env).items()]
        script = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IN_SYSTEM]
        return subprocess.run(
            [*script, "sh", self.home, self.base, "env", "-i", *given, *words],
            env=dict(os.environ, WITHOUT=without),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *words: str) -> str:
        done = self.call(*words)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def boot(self, machine: Machine) -> Callable[..., Result]:
        """Make it the root directory of what the function runs that this gives, in a guest."""
        ready = machine.run(["sh", "-c", IN_GUEST, "sh", str(self.home), str(self.base)])
        assert ready.status == 0, ready.err
        env = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        start = ("chroot", "/run/system/root", "env", "-i", *env)
        return lambda *words: machine.run([*start, *words], timeout=600)

    def give(self, path: Path) -> str:
        """Have a file of the host's in it; where it is."""
        shutil.copy(path, self.home / "upper/root" / path.name)
        return f"/root/{path.name}"
