# SPDX-License-Identifier: BSD-2-Clause
"""The ``machine`` fixture: a guest for each kernel, and the live tests on it.

:mod:`tests.live.kernels` decides which test runs on which kernel. ``--kernel 6.1`` (may be
repeated), or the variable RETSNOOP_KERNELS or KERNEL, selects kernels by name; the default is all
kernels. ``--quick`` selects the tests of ``make test``, ``--part 6.1`` only that kernel's tests of
the selection. If a kernel cannot be downloaded or booted, its tests fail; no test is skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import signals
from tests.live.guest import SharedGuest, available
from tests.live.kernels import (
    ALL,
    MAIN,
    QUICK,
    is_core,
    kernels_of,
    of_both_machines,
    place,
    runs_the_core_only,
)

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.vm.architecture import split
from retsnoop_py.vm.machine import Machine
from retsnoop_py.vm.qemu import find_qemu

signals.restore_for_children()

#: The files with the longest tests. They start first, so one worker does not run alone at the end.
LONGEST = (
    "test_load",
    "test_why",
    "test_examples",
    "test_line",
    "test_first_commands",
    "test_rungs",
)
#: With it the kernel does not wait a grace period whenever a probe is attached or detached, which
#: an emulated guest needs seconds for. The full selection waits, as users' kernels do.
EXPEDITED_RCU = "rcupdate.rcu_expedited=1"
_RCU_SETTING = "/sys/kernel/rcu_expedited"
_GUEST = pytest.StashKey[tuple[str, SharedGuest]]()
#: Properties of a report, which travel from a worker to who counts.
_KERNEL, _RELEASE = "kernel", "release"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help=f"run live tests on this kernel only; may be repeated (known: {' '.join(ALL)})",
    )
    parser.addoption(
        "--core",
        action="store_true",
        help="run the core of the live tests only: what each mechanism takes and sees",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"run what make test runs: everything on {MAIN}, the core on {' '.join(QUICK)}",
    )
    parser.addoption(
        "--part",
        metavar="NAME",
        help="of the chosen tests run those on this kernel only",
    )


class AtOnce:
    """Prints each failure at once, so a run that is interrupted later has shown its failures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal:
            terminal.ensure_newline()
            terminal.write_line(f"FAILED {report.nodeid} ({report.when}): {_reason(report)}")


def _reason(report: pytest.TestReport) -> str:
    """Return the lines of a failure with the failed assertion."""
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E  ")]
    return "\n".join(lines[:20])


def pytest_configure(config: pytest.Config) -> None:
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(AtOnce(config))
    for marker in (
        "one_kernel: what is tested does not depend on the kernel; run on one of them",
        "only_on(kernel): what is tested is about this kernel",
        "oldest_and_newest: what is tested is the same on the kernels between the two",
        "slow: takes more than 20 s of a guest's time; make test leaves it to make test-all",
    ):
        config.addinivalue_line("markers", marker)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Look for QEMU and fetch kernels before any test: one message, not a failure of each test."""
    config = session.config
    if os.environ.get("PYTEST_XDIST_WORKER") or config.option.collectonly:
        return
    part = config.getoption("--part")
    names = [part] if part else selected(config)
    is_whole = not config.option.keyword and not any("::" in word for word in config.args)
    try:
        for name in names:
            find_qemu(split(name)[0])
        for name in names if is_whole else ():
            available(name)
    except RetsnoopError as error:
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        pytest.exit(f"the live tests cannot run: {text}", returncode=1)


def selected(config: pytest.Config) -> list[str]:
    """The kernels to test on: this machine's first, each in the order of :data:`ALL`."""
    words = config.getoption("--kernel") or []
    if not words:
        words = (os.environ.get("RETSNOOP_KERNELS") or os.environ.get("KERNEL") or "").split()
    default = QUICK if config.getoption("--quick") else ALL
    return sorted(list(dict.fromkeys(words)) or default, key=place)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" not in metafunc.fixturenames:
        return
    config = metafunc.config
    names = kernels_of(metafunc.definition, selected(config), config.getoption("--quick"))
    metafunc.parametrize("machine", names, indirect=True, scope="session")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of one file on one kernel in one worker: they share their fixtures."""
    kernel = _kernel_of(item)
    if kernel:
        item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} on {kernel}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of one kernel together, so that a worker has one VM up at a time."""
    here = Path(__file__).parent
    order = selected(config)
    if config.getoption("--core"):
        others = [item for item in items if here in item.path.parents and not is_core(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    part = config.getoption("--part")
    wanted = [part] if part else order
    quick = config.getoption("--quick")
    left_out = [
        item
        for item in items
        if not _is_wanted(item, wanted, bool(part))
        or (quick and item.get_closest_marker("slow") and here in item.path.parents)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
    items.sort(key=lambda item: _turn(item, order))


def _turn(item: pytest.Item, order: list[str]) -> tuple[bool, int, int]:
    """When a test runs: by kernel, the main one first, and there the longest files first."""
    kernel, stem = _kernel_of(item), item.path.stem
    turn = LONGEST.index(stem) if stem in LONGEST else len(LONGEST)
    return kernel not in (MAIN, None), order.index(kernel) if kernel else -1, turn


def _is_wanted(item: pytest.Item, kernels: list[str], only: bool) -> bool:
    """Return whether a test's kernel is in ``kernels``; without a kernel, ``not only``."""
    kernel = _kernel_of(item)
    return kernel in kernels if kernel else not only


def _kernel_of(item: pytest.Item) -> str | None:
    params = getattr(item, "callspec", None)
    return params.params.get("machine") if params else None


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted guest with the kernel the test is run on; shared by all tests of that kernel."""
    hurried = request.config.getoption("--quick")
    guest = SharedGuest(request.param, [EXPEDITED_RCU] if hurried else [])
    with guest:
        request.config.stash[_GUEST] = (request.param, guest)
        yield guest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Boot a new guest if the last test crashed its kernel, so only that test fails.

    This runs before any fixture, because some fixtures use the guest. ``parked`` stops the guest.
    """
    guest = item.config.stash.get(_GUEST, None)
    if guest:
        guest[1].forget()
    names = getattr(item, "fixturenames", ())
    if guest and guest[0] == _kernel_of(item) and "parked" not in names and not guest[1].alive():
        guest[1].reboot()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    kernel = _kernel_of(item)
    guest = item.config.stash.get(_GUEST, None)
    report = yield
    if kernel and (call.when == "call" or report.failed):
        booted = guest is not None and guest[0] == kernel
        report.user_properties += [(_KERNEL, kernel)]
        if guest is not None and booted:
            report.user_properties += [(_RELEASE, guest[1].release)]
            if report.failed:
                report.sections.append(("guest", guest[1].story()))
                report.sections.append(("this test alone", _alone(item, kernel)))
    return report


def _alone(item: pytest.Item, kernel: str) -> str:
    """The command that repeats one test, from the project's folder."""
    name = item.nodeid.replace("'", "'\\''")
    quick = "--quick " if item.config.getoption("--quick") else ""
    return f".venv/bin/pytest -q {quick}--kernel {kernel} '{name}'"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    releases: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            told = dict(getattr(report, "user_properties", ()))
            if _KERNEL in told:
                counts[told[_KERNEL], report.outcome] += 1
                releases[told[_KERNEL]] = told.get(_RELEASE, releases.get(told[_KERNEL], ""))
    if not counts:
        return
    terminalreporter.section("live cases per kernel")
    chosen = selected(terminalreporter.config)
    beside = of_both_machines(chosen)[1]
    quick = terminalreporter.config.getoption("--quick")
    for kernel in chosen:
        outcomes = {outcome: n for (name, outcome), n in sorted(counts.items()) if name == kernel}
        said = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none run"
        release = releases.get(kernel) or "not booted"
        if quick and kernel != MAIN:
            said += ", the core and what is about this kernel"
        elif runs_the_core_only(kernel, chosen):
            said += ", the core only"
        elif kernel in beside[:-1]:
            said += ", a part of the core only"
        terminalreporter.line(
            f"Linux {kernel:10} {release:32} {sum(outcomes.values()):4} cases: {said}"
        )


@pytest.fixture
def parked(machine: Machine, request: pytest.FixtureRequest) -> str:
    """The kernel's name, its shared guest being down so that one VM is up at a time."""
    machine.close()
    return str(request.node.callspec.params["machine"])


@pytest.fixture
def normal_rcu(machine: Machine) -> Iterator[None]:
    """The kernel waits for grace periods as usual: for tests of that setting."""
    quick = ["sh", "-c", f"cat {_RCU_SETTING}; echo 0 >{_RCU_SETTING}"]
    before = machine.run(quick).out.strip()
    yield
    machine.run(["sh", "-c", f"echo {before} >{_RCU_SETTING}"])
