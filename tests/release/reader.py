# SPDX-License-Identifier: BSD-2-Clause
"""Follow README and docs/install.md on a Debian that has only apt, command by command."""

from __future__ import annotations

import os
import re

from tests.release.system import ENVIRONMENT, System, of_this_network

from retsnoop_py import __version__

PAGE = "docs/install.md"
CHECKOUT = "/root/checkout"
APT = "apt-get -qq -y --no-install-recommends install"
#: The pages show names for x86-64; these are the names on arm64.
_NAMES = {"aarch64": {"x86_64": "aarch64", "_amd64.deb": "_arm64.deb"}}


class Reader:
    """A reader with a checkout on a bare Debian, who runs the commands of a page as root."""

    def __init__(self, suite: str, name: str) -> None:
        self.system = System(suite, name)
        self.env = ENVIRONMENT | of_this_network(self.system)
        self.env["PATH"] = f"/usr/local/sbin:/usr/local/bin:{self.env['PATH']}:/root/.local/bin"
        self.checkout = self.system.home / "upper" / CHECKOUT.lstrip("/")
        self.type("apt-get -qq update")

    def type(self, *lines: str) -> str:
        """Run commands one after another in the checkout. Return their standard error."""
        self.checkout.mkdir(parents=True, exist_ok=True)
        told = "\n".join(["set -e", f"cd {CHECKOUT}", *map(_of_this_machine, lines)])
        done = self.system.call("bash", "-c", told, env=self.env)
        assert not done.returncode, f"{told}\n{done.stdout[-3000:]}{done.stderr[-5000:]}"
        return done.stderr

    def install_sudo(self) -> None:
        self.type(f"{APT} sudo >/dev/null")

    def assert_sudo_finds_it(self) -> None:
        """Check that sudo finds the program with sudo's own PATH."""
        self.install_sudo()
        told = self.system.run("sudo", "retsnoop-py", "--version")
        assert told == f"retsnoop-py {__version__}\n"
        assert "presets" in self.system.run("sudo", "retsnoop-py", "list", "--help")
        # doctor also loads the extensions; this kernel may forbid loading programs
        done = self.system.call("sudo", "retsnoop-py", "doctor")
        assert re.search(r"(?:yes|no) +loading programs", done.stdout), done.stdout + done.stderr
        assert "Traceback" not in done.stderr


#: A name and version that no list of distributions contains.
OS_RELEASE = """\
PRETTY_NAME="Derivative 91.04 LTS"
NAME="Derivative"
VERSION_ID="91.04"
VERSION_CODENAME=unknown
ID=derivative
ID_LIKE=debian
"""
SUDOERS = """\
Defaults env_reset
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
"""


class DerivativeReader(Reader):
    """A reader with a derivative of Debian sid: its own name, sudo-rs and uutils.

    The packages are Debian's. The class covers only effects of names and of these programs.
    """

    def __init__(self, name: str) -> None:
        super().__init__("sid", name)
        self.type(f"{APT} sudo-rs rust-coreutils >/dev/null")
        etc = self.system.home / "upper/etc"
        (etc / "os-release").unlink(missing_ok=True)
        (etc / "os-release").write_text(OS_RELEASE)
        self.env["PATH"] = f"/usr/lib/cargo/bin/coreutils:{self.env['PATH']}"
        assert "uutils" in self.system.run("ls", "--version", env=self.env)

    def install_sudo(self) -> None:
        """Install sudo-rs as sudo(8)."""
        etc = self.system.home / "upper/etc"
        (etc / "sudoers").write_text(SUDOERS)
        self.type("chmod 440 /etc/sudoers", "ln -s sudo-rs /usr/bin/sudo")


def _of_this_machine(line: str) -> str:
    for here, there in _NAMES.get(os.uname().machine, {}).items():
        line = line.replace(here, there)
    return line
