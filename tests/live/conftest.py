# SPDX-License-Identifier: BSD-2-Clause
"""The ``machine`` fixture: each kernel booted once, every live test run on each of them.

Which kernels: ``--kernel 6.1`` (may be repeated), or the variable RETSNOOP_KERNELS or KERNEL with
names in it, or all of :data:`ALL`. A kernel that cannot be fetched or booted fails its tests; none
is skipped.

What is run on which: the oldest and the newest kernel run everything, those between them
:data:`CORE`, where the mechanisms differ. A test marked ``one_kernel`` runs on 6.12, or the first
of those chosen. One marked ``only_on("5.10")`` is about that kernel, and is left out where it is
not chosen. One marked ``oldest_and_newest`` is the same on another architecture.

Of another architecture's kernels beside this machine's, the newest runs :data:`CORE` and
:data:`ABROAD`, those before it run :data:`OLDER_ABROAD`. Where none of this machine's is chosen,
the rules for these hold for the others. A kernel chosen alone runs everything, or with ``--core``
that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from retsnoop_py.vm.architecture import split
from retsnoop_py.vm.machine import Machine

ALL = ("5.10", "6.1", "6.12", "7.2", "7.3")
#: Kernels that run less where one of those behind them is tested as well.
STANDS_FOR = dict.fromkeys(("6.1", "6.12", "7.2"), ("7.3",))
#: What they then run, by the beginnings of test ids below this folder: what each mechanism takes,
#: sees and gives back, arguments, calls, each failure of the workload, what decided, and its log.
CORE = (
    "test_arguments.py::test_arguments_are_what",
    "test_calls.py",
    "test_doctor.py::test_a_mechanism_works",
    "test_doctor.py::test_the_table",
    "test_line.py::test_without_debug",
    "test_rungs.py",
    "test_vm.py::test_a_guest_that_mounts",
    "test_vm.py::test_program_and_current_folder",
    "test_vm.py::test_the_kernel_log_is_clean",
    "test_workload.py",
)
#: What the kernels before the newest one of another architecture run: of the core what is neither
#: about one mechanism after the other nor about guests.
OLDER_ABROAD = (
    "test_calls.py",
    "test_doctor.py::test_the_table",
    "test_line.py::test_without_debug",
    "test_vm.py::test_the_kernel_log_is_clean",
    "test_workload.py",
)
#: What the newest one runs beside the core, below what is different there.
ABROAD = {
    "the machine code that is read, and where it keeps what": (
        "test_injected.py",
        "test_line.py::test_without_debug",
        "test_paths.py",
        "test_pinpoint.py::test_a_command_is_run_again",
        "test_symbolize.py",
        "test_why.py::test_a_failing_bpf_call",
        "test_why.py::test_a_failure_below",
        "test_why.py::test_an_error_that_a_function_was_handed",
        "test_why.py::test_what_was_called_through_a_pointer",
        "test_why.py::test_with_debug_information",
    ),
    "stacks, and what interrupts them": (
        "test_debug.py",
        "test_interrupts.py",
        "test_user_stack.py",
    ),
    "how functions are hooked, and let go": (
        "test_rounds.py",
        "test_settings.py::test_programs_are_interpreted",
    ),
    "the machine that is emulated, and how a guest of it is made": ("test_vm.py",),
}
_ABROAD = tuple(start for rows in ABROAD.values() for start in rows)
_GUEST = pytest.StashKey[tuple[str, Machine]]()
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


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "one_kernel: what is tested does not depend on the kernel; run on one of them",
        "only_on(kernel): what is tested is about this kernel",
        "oldest_and_newest: what is tested is the same on other architectures",
    ):
        config.addinivalue_line("markers", marker)


def selected(config: pytest.Config) -> list[str]:
    """The kernels to test on: this machine's first, each in the order of :data:`ALL`."""
    words = config.getoption("--kernel") or []
    if not words:
        words = (os.environ.get("RETSNOOP_KERNELS") or os.environ.get("KERNEL") or "").split()
    names = list(dict.fromkeys(words)) or list(ALL)
    return sorted(names, key=_place)


def _place(name: str) -> tuple[bool, int]:
    arch, series = split(name)
    return arch.is_foreign, ALL.index(series) if series in ALL else len(ALL)


def runs_the_core_only(name: str, chosen: Sequence[str]) -> bool:
    """Whether another of the kernels ``chosen`` is tested with all that is not in the core."""
    return any(each in chosen for each in STANDS_FOR.get(name, ()))


def of_both_machines(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of this machine's architecture, and what is beside these; else all, and nothing."""
    own = [name for name in names if not split(name)[0].is_foreign]
    return own or list(names), [name for name in names if own and name not in own]


def is_core(test: pytest.Item) -> bool:
    """Whether a test is in :data:`CORE`."""
    return _id(test).startswith(CORE)


def kernels_of(test: pytest.Item | pytest.Function, chosen: Sequence[str]) -> list[str]:
    """Which of the kernels ``chosen`` a test is run on, and that it is about if none is chosen."""
    own, beside = of_both_machines(chosen)
    if only := test.get_closest_marker("only_on"):
        return list(only.args)
    abroad = beside[-1:] if is_core(test) or _id(test).startswith(_ABROAD) else []
    if test.get_closest_marker("one_kernel"):
        return [*(["6.12"] if "6.12" in own else own[:1]), *abroad]
    if test.get_closest_marker("oldest_and_newest"):
        return [*dict.fromkeys((own[0], own[-1])), *abroad]
    if _id(test).startswith(OLDER_ABROAD):
        return [*own, *beside]
    if is_core(test):
        return [*own, *abroad]
    return [*(name for name in own if not runs_the_core_only(name, own)), *abroad]


def _id(test: pytest.Item) -> str:
    return f"{test.path.name}::{test.name}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" not in metafunc.fixturenames:
        return
    names = kernels_of(metafunc.definition, selected(metafunc.config))
    metafunc.parametrize("machine", names, indirect=True, scope="session")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of one file on one kernel in one worker: they share what they set up."""
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
    left_out = [item for item in items if not _is_asked_for(item, order)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
    items.sort(key=lambda item: order.index(kernel) if (kernel := _kernel_of(item)) else -1)


def _is_asked_for(item: pytest.Item, kernels: Sequence[str]) -> bool:
    only = item.get_closest_marker("only_on")
    return only is None or only.args[0] in kernels


def _kernel_of(item: pytest.Item) -> str | None:
    params = getattr(item, "callspec", None)
    return params.params.get("machine") if params else None


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted guest with the kernel the test is run on; shared by all tests of that kernel."""
    guest = Machine(request.param)
    with guest:
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
    kernel = _kernel_of(item)
    guest = item.config.stash.get(_GUEST, None)
    report = yield
    if kernel and (call.when == "call" or report.failed):
        booted = guest is not None and guest[0] == kernel
        report.user_properties += [(_KERNEL, kernel)]
        if guest is not None and booted:
            report.user_properties += [(_RELEASE, guest[1].release)]
    return report


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
    for kernel in chosen:
        outcomes = {outcome: n for (name, outcome), n in sorted(counts.items()) if name == kernel}
        said = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none run"
        release = releases.get(kernel) or "not booted"
        if runs_the_core_only(kernel, chosen):
            said += ", the core and what one kernel is enough for"
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
