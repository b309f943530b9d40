# SPDX-License-Identifier: BSD-2-Clause
"""A reader of README and docs/install.md on a Debian that has only apt, who types what they say."""

from __future__ import annotations

import os
import re

from tests.release.system import ENVIRONMENT, System, of_this_network

from retsnoop_py import __version__

PAGE = "docs/install.md"
CHECKOUT = "/root/checkout"
APT = "apt-get -qq -y --no-install-recommends install"
#: The pages are for x86-64; arm64's files have these names.
_NAMES = {"aarch64": {"x86_64": "aarch64", "_amd64.deb": "_arm64.deb"}}


class Reader:
    """Who has a checkout on a bare Debian, and types as root what a page says."""

    def __init__(self, suite: str, name: str) -> None:
        self.system = System(suite, name)
        self.env = ENVIRONMENT | of_this_network(self.system)
        self.env["PATH"] = f"/usr/local/sbin:/usr/local/bin:{self.env['PATH']}:/root/.local/bin"
        self.checkout = self.system.home / "upper" / CHECKOUT.lstrip("/")
        self.type("apt-get -qq update")

    def type(self, *lines: str) -> str:
        """What the commands print on standard error, one after the other, in the checkout."""
        self.checkout.mkdir(parents=True, exist_ok=True)
        told = "\n".join(["set -e", f"cd {CHECKOUT}", *map(_of_this_machine, lines)])
        done = self.system.call("bash", "-c", told, env=self.env)
        assert not done.returncode, f"{told}\n{done.stdout[-3000:]}{done.stderr[-5000:]}"
        return done.stderr

    def assert_sudo_finds_it(self) -> None:
        """With the PATH that Debian's sudo sets, whatever the caller's is."""
        self.type(f"{APT} sudo >/dev/null")
        told = self.system.run("sudo", "retsnoop-py", "--version")
        assert told == f"retsnoop-py {__version__}\n"
        assert "presets" in self.system.run("sudo", "retsnoop-py", "list", "--help")
        # its extensions load, too; whether the kernel here lets it load programs is no matter
        done = self.system.call("sudo", "retsnoop-py", "doctor")
        assert re.search(r"(?:yes|no) +loading programs", done.stdout), done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def _of_this_machine(line: str) -> str:
    for here, there in _NAMES.get(os.uname().machine, {}).items():
        line = line.replace(here, there)
    return line
