# SPDX-License-Identifier: BSD-2-Clause
"""The commands of README and docs, run as they stand, print what stands below them.

The tutorial's with all live tests, those of the other pages by ``make test-pages``: they take five
minutes of a guest.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.examples import Shown, difference, masked, shown, shown_on
from tests.live.support import PROGRAMS, TOOL, wait_for

from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

#: Where Debian's package of debug information puts it, as `vm run --debug-info` does.
DEBUG = Path("/usr/lib/debug")
TUTORIAL = "docs/tutorial.md"
_ENV = {"PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{Path(TOOL).parent}"}


@pytest.fixture
def debug_info(machine: Machine) -> Iterator[None]:
    """Links to 6.12's, of the kernel and of its modules, while a test lasts."""
    kernel = ensure("6.12", debug=True)
    assert kernel.debug is not None
    places = [Path("boot") / f"vmlinux-{machine.release}", Path("lib/modules") / machine.release]
    links = [(kernel.debug / "usr/lib/debug" / place, DEBUG / place) for place in places]
    for target, link in links:
        machine.run(["sh", "-c", f"mkdir -p {link.parent} && ln -sfn {target} {link}"])
    yield
    machine.run(["rm", *(str(link) for _, link in links)])


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


def run(machine: Machine, command: str, folder: Path) -> str:
    """All that the command writes: messages first, for a trace and its command share no order."""
    result = machine.run(["sh", "-c", command], env=_ENV, cwd=folder, timeout=400)
    return result.err + result.out


@contextmanager
def beside(machine: Machine, command: str, folder: Path) -> Iterator[None]:
    """While a trace runs, if there is to be one."""
    if not command:
        yield
        return
    tracing = machine.start(["sh", "-c", f"exec {command}"], env=_ENV, cwd=folder)
    wait_for(lambda: b"Receiving data..." in tracing.output()[1], tracing)
    try:
        yield
    finally:
        tracing.send_signal(2)
        tracing.wait(60)


def output(machine: Machine, one: Shown, folder: Path) -> str:
    """What a page's command prints, where it has what it needs."""
    needs, command = one.needs, one.command
    loader = needs.get("loader", "")
    if loader.endswith(".c"):
        run(machine, f"cp {built(machine, loader)} loader", folder)
    elif loader:
        text = f"#!/bin/sh\nexec python -m retsnoop_py.workload -q {loader}\n"
        run(machine, f"printf %s {shlex.quote(text)} >loader; chmod +x loader", folder)
    run(machine, needs.get("before", ":"), folder)
    if "columns" in needs:
        command = shlex.quote(f"stty cols {needs['columns']}; {command}")
        command = f"NO_COLOR=1 TERM=xterm script -qec {command} /dev/null"
    with beside(machine, needs.get("beside", ""), folder):
        return run(machine, command, folder)


def untrue(machine: Machine, folder: Path, kernel: str) -> str:
    """Where pages show what their commands do not print."""
    found = []
    for one in shown_on(kernel):
        if one.page != TUTORIAL:
            wrong = difference(one.output, output(machine, one, folder))
            found += [f"{one.page}: {one.command}\n{wrong}"] if wrong else []
    return "\n\n".join(found)


@pytest.mark.pages
@pytest.mark.only_on("6.12")
@pytest.mark.usefixtures("debug_info")
def test_every_page_prints_what_it_shows(machine: Machine, folder: Path) -> None:
    wrong = untrue(machine, folder, "6.12")
    assert not wrong, wrong


@pytest.mark.pages
@pytest.mark.only_on("5.10")
def test_an_old_kernel_prints_what_its_pages_show(machine: Machine, folder: Path) -> None:
    wrong = untrue(machine, folder, "5.10")
    assert not wrong, wrong


@pytest.mark.only_on("6.12")
@pytest.mark.usefixtures("debug_info")
def test_the_tutorial_prints_what_it_shows(machine: Machine, folder: Path) -> None:
    page = shown(TUTORIAL)
    assert len(page) >= 6, "the page has console blocks"
    try:
        for one in page:
            told = run(machine, f"exec 2>&1; {one.command}", folder)
            assert masked(told) == masked(one.output), f"{one.command}\n{told}"
    finally:
        machine.run(["sh", "-c", "umount /tmp/data; rmdir /tmp/data"])
