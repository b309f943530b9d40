# SPDX-License-Identifier: BSD-2-Clause
"""The ``machine`` fixture: each kernel booted once, every live test run on each of them.

Which kernels: ``--kernel 6.1`` (may be repeated), or the variable RETSNOOP_KERNELS or KERNEL with
names in it, or all four. A kernel that cannot be fetched or booted fails its tests; none is
skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from retsnoop_py.vm.machine import Machine

ALL = ("5.10", "6.1", "6.12", "7.2")
_RELEASES = pytest.StashKey[dict[str, str]]()
_GUEST = pytest.StashKey[tuple[str, Machine]]()
_COUNTS = pytest.StashKey[Counter[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help=f"run live tests on this kernel only; may be repeated (known: {' '.join(ALL)})",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RELEASES] = {}
    config.stash[_COUNTS] = Counter()
    config.addinivalue_line(
        "markers", "one_kernel: what is tested does not depend on the kernel; run on one of them"
    )


def selected(config: pytest.Config) -> list[str]:
    """The kernels to test on, in the order of :data:`ALL` where they are known."""
    words = config.getoption("--kernel") or []
    if not words:
        words = (os.environ.get("RETSNOOP_KERNELS") or os.environ.get("KERNEL") or "").split()
    names = list(dict.fromkeys(words)) or list(ALL)
    return sorted(names, key=lambda name: ALL.index(name) if name in ALL else len(ALL))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" not in metafunc.fixturenames:
        return
    names = selected(metafunc.config)
    if metafunc.definition.get_closest_marker("one_kernel"):
        names = ["6.12"] if "6.12" in names else names[:1]
    metafunc.parametrize("machine", names, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of one kernel together, so that one VM is up at a time."""
    here = Path(__file__).parent
    order = selected(config)
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
    items.sort(key=lambda item: order.index(kernel) if (kernel := _kernel_of(item)) else -1)


def _kernel_of(item: pytest.Item) -> str | None:
    params = getattr(item, "callspec", None)
    return params.params.get("machine") if params else None


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted guest with the kernel the test is run on; shared by all tests of that kernel."""
    guest = Machine(request.param)
    with guest:
        request.config.stash[_RELEASES][request.param] = guest.release
        request.config.stash[_GUEST] = (request.param, guest)
        yield guest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that crashed its kernel fails alone: the next one finds a fresh guest.

    Before any fixture, for some of those use the guest. ``parked`` wants it down.
    """
    guest = item.config.stash.get(_GUEST, None)
    names = getattr(item, "fixturenames", ())
    if guest and guest[0] == _kernel_of(item) and "parked" not in names and not guest[1].alive():
        guest[1].reboot()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    kernel = _kernel_of(item)
    if kernel and (call.when == "call" or report.failed):
        item.config.stash[_COUNTS][kernel, report.outcome] += 1
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    counts = config.stash[_COUNTS]
    if not counts:
        return
    terminalreporter.section("live cases per kernel")
    for kernel in selected(config):
        outcomes = {outcome: n for (name, outcome), n in sorted(counts.items()) if name == kernel}
        told = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none run"
        release = config.stash[_RELEASES].get(kernel, "not booted")
        terminalreporter.line(
            f"Linux {kernel:5} {release:32} {sum(outcomes.values()):4} cases: {told}"
        )
