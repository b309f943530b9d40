# SPDX-License-Identifier: BSD-2-Clause
"""Follow the whole tutorial from a Debian that has only apt.

The ``sh`` block runs in a checkout: it installs packages, builds the program, and downloads a
kernel with its debug information. The commands of the ``console`` blocks then run on that kernel in
a guest, and their output is compared with the page. The test requires root, for chroot, and the
network. It uses the proxies, certificates and pip settings of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import build
from tests.examples import Shown, has_moved, masked, shown
from tests.pythons import run
from tests.release.system import ENVIRONMENT, System, of_this_network

PAGE = "docs/tutorial.md"
SUITE = "bookworm"
CHECKOUT = "/root/retsnoop-py"
#: Packages that every installed Debian has and this one lacks, and git for the checkout.
_BEFORE = "apt-get -qq update && apt-get -qq -y --no-install-recommends install mount make git"
#: A line after the output of each command.
_END = "-- end of a command --"


def in_one_script(commands: Sequence[Shown]) -> str:
    """Return a script with uname and the commands, so that all run in one guest."""
    each = ("uname -r", *(one.command for one in commands))
    return "exec 2>&1\n" + "".join(f"{command}\necho '{_END}'\n" for command in each)


def test_the_tutorial_works_on_a_bare_debian() -> None:
    page = shown(PAGE)
    first = [one.command for one in page if one.output is None]
    then = [one for one in page if one.output is not None]
    system = System(SUITE, "newcomer")
    env = ENVIRONMENT | of_this_network(system)
    assert system.call("sh", "-c", "command -v python3 make gcc", env=env).returncode

    home = system.home / "upper" / CHECKOUT.lstrip("/")
    run("git", "clone", "-q", build.ROOT, home)
    (home / "tutorial.sh").write_text(in_one_script(then))
    on_it = "retsnoop-py vm run --on 6.12 --debug-info -- sh tutorial.sh"
    lines = ["set -e", f"cd {CHECKOUT}", "{", _BEFORE, *first, "} >&2", on_it]
    done = system.call("bash", "-c", "\n".join(lines), env=env)
    assert not done.returncode, done.stdout[-5000:] + done.stderr[-5000:]

    release, *outputs = done.stdout.split(f"{_END}\n")
    assert len(outputs) == len(then) + 1
    moved = has_moved(release)
    for one, told in zip(then, outputs, strict=False):
        wanted = masked(one.output or "", moved=moved)
        assert masked(told, moved=moved) == wanted, f"{one.command}\n{told}"
