# SPDX-License-Identifier: BSD-2-Clause
"""The kernels that each live test runs on.

``make test`` runs the *quick* selection: the tests on :data:`MAIN`, and on the other kernels of
:data:`QUICK` only :data:`CORE`, where kernels and architectures differ, and tests about that
kernel. A heavy test of the core runs on the kernels of :data:`HEAVY`. The quick selection skips
tests with the mark ``slow``: tests of more than 20 s, and all but one of several similar tests.

``make test-all`` runs the *full* selection. Three markers reduce it:

* ``one_kernel``: the result does not depend on the kernel. The test runs on :data:`MAIN`.
* ``only_on("5.10")``: the test is about that kernel.
* ``oldest_and_newest``: the test runs on the two ends and on :data:`MAIN`.

7.2 has the mechanisms of 7.3 and runs only :data:`CORE`. The newest kernel of another architecture
runs all tests except :data:`SAME_ABROAD`, the older kernels run :data:`OLDER_ABROAD`.

A kernel that is selected alone runs all tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retsnoop_py.vm.architecture import split

__all__ = [
    "ALL",
    "CORE",
    "MAIN",
    "QUICK",
    "SAME_ABROAD",
    "id_of",
    "is_core",
    "kernels_of",
    "later_series",
    "of_both_machines",
    "place",
    "runs_the_core_only",
]

ALL = ("5.10", "6.1", "6.12", "7.2", "7.3")
MAIN = "6.12"
#: The kernels of ``make test``.
QUICK = ("5.10", "6.1", MAIN, "7.3", "arm64/7.3")
#: A kernel that runs fewer tests if one of the listed kernels is tested as well.
STANDS_FOR = {"7.2": ("7.3",)}
#: Beginnings of test ids below this folder: what each mechanism accepts, sees and puts back,
#: arguments, calls, each failure of the workload, the deciding condition, an answer of ``why``, the
#: kernel log.
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
    "test_why.py::test_a_failing_bpf_call_is_led",
    "test_workload.py",
)
#: The part of :data:`CORE` for the older kernels of another architecture: neither one mechanism
#: after the other nor guests.
OLDER_ABROAD = (
    "test_calls.py",
    "test_doctor.py::test_the_table",
    "test_line.py::test_without_debug",
    "test_vm.py::test_the_kernel_log_is_clean",
    "test_workload.py",
)
#: The tests that the newest kernel of another architecture skips, by the reason.
SAME_ABROAD = {
    "the table is of x86-64's 6.12, which it boots": ("test_line.py::test_the_line_that_decided",),
    "it boots the kernels that stand on the page": ("test_load.py::test_the_page",),
}
#: Tests of the core that take 15 to 50 s on a kernel, with their kernels in ``make test``: the
#: kernels with the mechanism that differs most from the others.
HEAVY = {
    "test_arguments.py::test_arguments_are_what": (MAIN, "arm64/7.3"),
    "test_calls.py": ("5.10", MAIN, "arm64/7.3"),
    "test_line.py::test_without_debug": ("arm64/7.3",),
    "test_doctor.py::test_a_mechanism_works": ("5.10", MAIN, "arm64/7.3"),
    "test_rungs.py::test_a_function_that_cannot_be": (MAIN,),
    "test_rungs.py::test_a_hundred_threads": ("5.10", MAIN, "arm64/7.3"),
    "test_rungs.py::test_a_modules_function": (MAIN,),
    "test_rungs.py::test_failures_are_caught": ("5.10", "6.1", MAIN, "arm64/7.3"),
    "test_why.py::test_a_failing_bpf_call_is_led": ("5.10", "arm64/7.3"),
}
_SAME_ABROAD = tuple(start for rows in SAME_ABROAD.values() for start in rows)


def place(name: str) -> tuple[bool, int]:
    """Sort key of a kernel's name: this machine's architecture first, then the order of ALL."""
    arch, series = split(name)
    return arch.is_foreign, ALL.index(series) if series in ALL else len(ALL)


def later_series(name: str) -> list[str]:
    """The kernels to use where Debian no longer has ``name``: the next series, then the newest."""
    arch, slash, series = name.rpartition("/")
    behind = ALL[ALL.index(series) + 1 :] if series in ALL else ()
    return [f"{arch}{slash}{each}" for each in (*behind, "newest")]


def runs_the_core_only(name: str, chosen: Sequence[str]) -> bool:
    """Return whether another kernel in ``chosen`` runs the tests outside of the core instead."""
    return any(each in chosen for each in STANDS_FOR.get(name, ()))


def of_both_machines(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The kernels of this machine's architecture, and the others. Without any of its: all, none."""
    own = [name for name in names if not split(name)[0].is_foreign]
    return own or list(names), [name for name in names if own and name not in own]


def id_of(test: pytest.Item | pytest.Function) -> str:
    """Its file and name, as the tables of this module have them."""
    return f"{test.path.name}::{test.name}"


def is_core(test: pytest.Item | pytest.Function) -> bool:
    """Return whether a test is in :data:`CORE`."""
    return id_of(test).startswith(CORE)


def kernels_of(
    test: pytest.Item | pytest.Function, chosen: Sequence[str], quick: bool = False
) -> list[str]:
    """The kernels of ``chosen`` that a test runs on; for ``only_on`` also one not chosen."""
    if only := test.get_closest_marker("only_on"):
        return list(only.args)
    own, beside = of_both_machines(chosen)
    main = [MAIN] if MAIN in own else own[:1]
    one = test.get_closest_marker("one_kernel") is not None
    if quick:
        heavy = [on for start, on in HEAVY.items() if id_of(test).startswith(start)]
        light = [name for name in chosen if not heavy or name in heavy[0]] or list(chosen)
        return light if is_core(test) and not one else main
    if one:
        names = main
    elif test.get_closest_marker("oldest_and_newest"):
        names = [name for name in own if name in (own[0], MAIN, own[-1])]
    elif is_core(test):
        names = own
        if id_of(test).startswith(OLDER_ABROAD):
            return [*own, *beside]
    else:
        names = [name for name in own if not runs_the_core_only(name, own)]
    return names if id_of(test).startswith(_SAME_ABROAD) else [*names, *beside[-1:]]
