# SPDX-License-Identifier: BSD-2-Clause
"""Who comes anew: the tutorial as it stands, from a Debian that has nothing but apt, to its end.

Its ``sh`` block is run in a checkout, as the page has it: packages are installed, the program is
built, a kernel with its debug information is fetched. Then what its ``console`` blocks show is run
on that kernel, in a guest, as the page says how, and compared. This takes root, for chroot, and the
network: proxies, certificates and pip's settings are this machine's.
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
#: What every Debian that was installed has, and this one has not; and what brings a checkout.
_BEFORE = "apt-get -qq update && apt-get -qq -y --no-install-recommends install mount make git"
#: Between the outputs of two commands.
_END = "-- end of a command --"


def in_one_script(commands: Sequence[Shown]) -> str:
    """The guest's release, and the page's commands: one file, so that all have one guest."""
    each = ("uname -r", *(one.command for one in commands))
    return "exec 2>&1\n" + "".join(f"{command}\necho '{_END}'\n" for command in each)


def test_a_newcomer_comes_from_nothing_to_the_line() -> None:
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
