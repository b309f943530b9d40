# SPDX-License-Identifier: BSD-2-Clause
"""A bare Debian that what is handed out is installed in, without a container runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import build
from tests.pythons import Root

from retsnoop_py.vm.debian import locked

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
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


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

    def give(self, path: Path) -> str:
        """Have a file of the host's in it; where it is."""
        shutil.copyfile(path, self.home / "upper/root" / path.name)
        return f"/root/{path.name}"
