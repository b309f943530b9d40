# SPDX-License-Identifier: BSD-2-Clause
"""The commands of README and docs, run as they stand, print what stands below them.

The commands of a page run in their order, in one folder, so a command may read the files of an
earlier command. If only the command is shown, its status is in ``examples.toml``, 0 by default.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.examples import Shown, difference, has_moved, masked, shown_on
from tests.live.support import PROGRAMS, PYTHON, TOOL, wait_for

from retsnoop_py.vm.command import Command
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

#: The folder of Debian's packages of debug information, and of `vm run --debug-info`.
DEBUG = Path("/usr/lib/debug")
TUTORIAL = "docs/tutorial.md"
#: Pages with commands that take 15 s and more together, except README.
SLOW_PAGES = (
    *("docs/why.md", "docs/line.md", "docs/arguments.md"),
    *("docs/howto/latency.md", "docs/howto/production.md", "docs/agents.md"),
)
#: The executable has no python in its folder: the pages trace the checkout's python.
_ENV = {"PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{Path(TOOL).parent}:{Path(PYTHON).parent}"}


@pytest.fixture
def debug_info(machine: Machine) -> Iterator[None]:
    """Links to 6.12's, of the kernel and of its modules, while a test lasts."""
    kernel = ensure("6.12", debug=True)
    assert kernel.debug is not None
    found = kernel.debug / "usr/lib/debug"
    places = [Path("boot") / f"vmlinux-{machine.release}", Path("lib/modules") / machine.release]
    links = [
        f"mkdir -p {(DEBUG / place).parent}; ln -sfn {found / place} {DEBUG / place}"
        for place in places
    ]
    machine.run(["sh", "-c", "; ".join(links)])
    yield
    machine.run(["rm", *(str(DEBUG / place) for place in places)])


@pytest.fixture
def folder(machine: Machine) -> Iterator[Path]:
    """An empty folder that nothing else looks into, in the guest."""
    made = machine.run(["mktemp", "-d"]).out.strip()
    yield Path(made)
    machine.run(["rm", "-r", made])


def built(machine: Machine, name: str) -> Path:
    """The C program that is a reader's own ``loader``, where the guest sees it."""
    place = machine.share / "examples"
    place.mkdir(exist_ok=True)
    source = shutil.copy(PROGRAMS / name, place / "loader.c")
    flags = ("-g", "-O0", "-fno-omit-frame-pointer", f"-fdebug-prefix-map={place}=/src")
    subprocess.run(["gcc", *flags, "-o", place / "loader", source], check=True)
    return place / "loader"


def run(machine: Machine, command: str, folder: Path) -> Result:
    return machine.run(["sh", "-c", command], env=_ENV, cwd=folder, timeout=400)


@contextmanager
def tracing(machine: Machine, command: str, folder: Path) -> Iterator[Command]:
    """While a trace runs that Ctrl-C ends."""
    started = machine.start(["sh", "-c", f"exec {command}"], env=_ENV, cwd=folder)
    wait_for(lambda: b"Receiving data..." in started.output()[1], started)
    try:
        yield started
    finally:
        started.send_signal(2)


def ended(machine: Machine, one: Shown, folder: Path) -> Result:
    """Run a page's command with the files that it needs; return its result."""
    needs, command = one.needs, one.command
    loader = needs.get("loader", "")
    if loader.endswith(".c"):
        run(machine, f"cp {built(machine, loader)} loader", folder)
    elif loader:
        text = f"#!/bin/sh\nexec python -m retsnoop_py.workload -q {loader}\n"
        run(machine, f"printf %s {shlex.quote(text)} >loader; chmod +x loader", folder)
    if "before" in needs:
        run(machine, needs["before"], folder)
    if "columns" in needs:
        command = shlex.quote(f"stty cols {needs['columns']}; {command}")
        command = f"NO_COLOR=1 TERM=xterm script -qec {command} /dev/null"
    if needs.get("ends") == "Ctrl-C":
        with tracing(machine, command, folder) as started:
            pass
        return started.wait(60)
    beside = needs.get("beside")
    with tracing(machine, beside, folder) if beside else nullcontext():
        return run(machine, command, folder)


def untrue(machine: Machine, one: Shown, folder: Path) -> str:
    """Return the difference of a command from its page; empty if it does what the page shows."""
    result = ended(machine, one, folder)
    # messages first, for a trace and its command share no order
    told = result.err + result.out
    wrong = ""
    if one.output is not None:
        wrong = difference(one.output, told, moved=has_moved(machine.release))
    status = one.needs.get("status", "0" if one.output is None else None)
    if not wrong and status is not None and result.status != int(status):
        wrong = f"status {result.status}, not {status}\n{told}"
    return wrong and f"{one.page}: {one.command}\n{wrong}"


def pages_on(kernel: str) -> list[str]:
    """Return the pages with commands for the kernel, except the tutorial with its own test."""
    return list(dict.fromkeys(one.page for one in shown_on(kernel) if one.page != TUTORIAL))


def _slowly(page: str) -> Any:
    """The page as a parameter, marked if its commands take long."""
    return pytest.param(page, marks=pytest.mark.slow) if page in SLOW_PAGES else page


@pytest.mark.only_on("6.12")
@pytest.mark.usefixtures("debug_info")
@pytest.mark.parametrize("page", [_slowly(page) for page in pages_on("6.12")])
def test_a_page_shows_what_its_commands_do(machine: Machine, page: str, folder: Path) -> None:
    mine = [one for one in shown_on("6.12") if one.page == page]
    wrong = [told for one in mine if (told := untrue(machine, one, folder))]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.only_on("5.10")
@pytest.mark.parametrize("page", pages_on("5.10"))
def test_a_page_about_an_old_kernel_shows_what_its_commands_do(
    machine: Machine, page: str, folder: Path
) -> None:
    mine = [one for one in shown_on("5.10") if one.page == page]
    wrong = [told for one in mine if (told := untrue(machine, one, folder))]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.only_on("6.12")
@pytest.mark.usefixtures("debug_info")
def test_the_tutorial_prints_what_it_shows(machine: Machine, folder: Path) -> None:
    page = [one for one in shown_on("6.12") if one.page == TUTORIAL]
    assert len(page) >= 6, "the page has console blocks"
    moved = has_moved(machine.release)
    try:
        for one in page:
            told = run(machine, f"exec 2>&1; {one.command}", folder).out
            wanted = masked(one.output or "", moved=moved)
            assert masked(told, moved=moved) == wanted, f"{one.command}\n{told}"
    finally:
        machine.run(["sh", "-c", "umount /tmp/data; rmdir /tmp/data"])
