# SPDX-License-Identifier: BSD-2-Clause
"""The report of doctor agrees with the features that work on a real kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.live.support import TOOL, series
from tests.live.test_bad_input import NOBODY, hiding
from tests.live.test_cleanup import assert_back_to, leftovers
from tests.support_table import column, columns, kernel_name

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.vm.errors import Result, kernel_problems
from retsnoop_py.vm.machine import Machine

MECHANISMS = [one.value for one in Mechanism if one is not Mechanism.AUTO]
BY_KPROBES = ("kprobe_events", "kprobe")
#: One function, and a command that makes it fail and ends with 1.
ENTRY = ("-e", "do_sys_openat2", "-x", "ENOENT")
FAILING = ("--", "cat", "/nowhere")
FTRACE = "/proc/sys/kernel/ftrace_enabled"
KPROBES = "/sys/kernel/debug/kprobes/enabled"
_HELD = "+bpf,+perfmon,+syslog,+dac_read_search,+sys_resource"
AS_CAPABLE = (*NOBODY, "--inh-caps", _HELD, "--ambient-caps", _HELD)


def doctor(machine: Machine, *options: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """The whole answer; ``under`` is what starts the tool."""
    result = machine.run([*under, TOOL, "doctor", "--json", *options])
    assert not result.err, result.err
    answer: dict[str, Any] = json.loads(result.out)
    assert result.status == answer["exit_status"]
    assert answer["works"] is (result.status == 0)
    return answer


def answer_to(answer: dict[str, Any], key: str) -> str:
    return str(answer["checks"][key]["answer"])


def run_by(
    machine: Machine, mechanism: str | None = None, under: tuple[str, ...] = (), *more: str
) -> Result:
    """A small trace by ``mechanism`` alone."""
    forced = (f"--attach={mechanism}",) if mechanism else ()
    return machine.run([*under, TOOL, *forced, *more, *ENTRY, *FAILING], timeout=180)


def worked(result: Result) -> bool:
    """Return whether the failing call was traced; otherwise the run ended with its own error."""
    if "[-ENOENT]" in result.out:
        assert result.status == 1, result.err
        return True
    assert result.status in (69, 77), (result.status, result.err)
    return False


@pytest.fixture(scope="module")
def usual(machine: Machine) -> dict[str, Any]:
    """Return the report of doctor for root."""
    return doctor(machine)


@pytest.fixture(scope="module")
def capable(machine: Machine) -> dict[str, Any]:
    """Return the report of doctor for a user with the capabilities."""
    return doctor(machine, under=AS_CAPABLE)


@contextmanager
def switched(machine: Machine, switch: str, value: str) -> Iterator[bool]:
    """``switch`` at ``value``, and back; False where the kernel does not let it be moved."""
    before = machine.run(["cat", switch]).out.strip()
    machine.run(["sh", "-c", f"echo {value} > {switch}"])
    try:
        yield machine.run(["cat", switch]).out.strip() == value
    finally:
        machine.run(["sh", "-c", f"echo {before} > {switch}"])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_works_where_doctor_says_so(
    mechanism: str, machine: Machine, usual: dict[str, Any]
) -> None:
    says = answer_to(usual, f"mechanism.{mechanism}")
    assert says in ("yes", "no")
    result = run_by(machine, mechanism)
    assert worked(result) is (says == "yes"), result.err


def test_a_run_uses_the_mechanism_doctor_names(machine: Machine, usual: dict[str, Any]) -> None:
    assert usual["works"]
    first = usual["mechanisms"][0]
    result = run_by(machine, None, (), "-v")
    assert worked(result)
    assert f"attached by {first} in " in result.err


def test_the_table_of_kernels_has_what_doctor_says(machine: Machine, usual: dict[str, Any]) -> None:
    assert columns()[kernel_name(machine)] == column(usual)


def test_what_bpf_has_is_what_the_kernel_has(machine: Machine, usual: dict[str, Any]) -> None:
    checks = usual["checks"]
    symbols = {
        "ringbuf": "bpf_ringbuf_output",
        "func_ip": "bpf_get_func_ip_kprobe",
        "cookie": "bpf_get_attach_cookie_trace",
        "branch_snapshot": "bpf_get_branch_snapshot",
    }
    for key, symbol in symbols.items():
        there = machine.run(["grep", "-qw", symbol, "/proc/kallsyms"]).status == 0
        assert checks[key]["answer"] == ("yes" if there else "no"), key
    # the emulator has no PMU
    assert checks["lbr"]["answer"] == "no"
    forced = machine.run([TOOL, "-C", "bpf.transport=ringbuf", *ENTRY, *FAILING])
    assert worked(forced) is (checks["ringbuf"]["answer"] == "yes")


def test_what_is_there_is_counted(machine: Machine, usual: dict[str, Any]) -> None:
    checks = usual["checks"]
    listed = "grep -vc __ftrace_invalid_address___ /sys/kernel/tracing/available_filter_functions"
    traceable = machine.run(["sh", "-c", listed]).out.strip()
    assert checks["traceable_functions"]["detail"].startswith(f"{traceable} functions")
    assert checks["tracefs"]["detail"] == "on /sys/kernel/tracing"
    for key in ("kallsyms", "btf", "kprobes", "kprobes_enabled", "ftrace_enabled"):
        assert checks[key]["answer"] == "yes", checks[key]
    assert checks["rcu_expedited"]["answer"] == "yes"


@pytest.mark.oldest_and_newest
def test_doctor_leaves_nothing_and_troubles_nobody(machine: Machine) -> None:
    before, problems = leftovers(machine), kernel_problems(machine.kernel_log())
    doctor(machine)
    assert_back_to(before, machine)
    assert kernel_problems(machine.kernel_log()) == problems


@pytest.mark.oldest_and_newest
def test_without_rights_what_cannot_be_tried_is_unknown(machine: Machine) -> None:
    answer = doctor(machine, under=NOBODY)
    assert answer["exit_status"] == 77
    assert answer["next_step"] == "run as root"
    keys = [f"mechanism.{name}" for name in MECHANISMS]
    for key in (*keys, "ringbuf", "func_ip", "cookie", "branch_snapshot", "bpf_load"):
        assert answer_to(answer, key) == "unknown", key
    assert answer_to(answer, "kallsyms") == "no"
    assert answer_to(answer, "cap_bpf") == "no"
    assert answer_to(answer, "rcu_expedited") == "no"


@pytest.mark.oldest_and_newest
@pytest.mark.parametrize("mechanism", ["kprobe.multi", "fentry", *BY_KPROBES])
def test_a_user_with_capabilities_is_told_what_those_suffice_for(
    mechanism: str, machine: Machine, capable: dict[str, Any]
) -> None:
    """Debian's perf_event_paranoid of 3 forbids perf events to all but CAP_SYS_ADMIN."""
    says = answer_to(capable, f"mechanism.{mechanism}")
    result = run_by(machine, mechanism, AS_CAPABLE)
    assert worked(result) is (says == "yes"), result.err


@pytest.mark.oldest_and_newest
def test_hooks_that_are_switched_off_are_no_mechanism(machine: Machine) -> None:
    """To let go of a link made meanwhile would end function tracing until the next boot."""
    problems = kernel_problems(machine.kernel_log())
    with switched(machine, FTRACE, "0") as are_off:
        assert are_off is (series(machine) < (7, 3))  # later ones refuse to be switched off
        if not are_off:
            assert worked(run_by(machine))
            return
        answer = doctor(machine)
        assert {answer_to(answer, f"mechanism.{name}") for name in MECHANISMS} == {"no"}
        assert answer["exit_status"] == 69
        assert answer["next_step"] == "sysctl kernel.ftrace_enabled=1"
        result = run_by(machine)
        assert not worked(result)
        assert "kernel.ftrace_enabled is 0" in result.err
    assert worked(run_by(machine))
    assert kernel_problems(machine.kernel_log()) == problems


@pytest.mark.oldest_and_newest
def test_kprobes_that_are_switched_off_leave_what_needs_none(
    machine: Machine, usual: dict[str, Any]
) -> None:
    with switched(machine, KPROBES, "0"):
        answer = doctor(machine)
        assert {answer_to(answer, f"mechanism.{name}") for name in BY_KPROBES} == {"no"}
        assert answer_to(answer, "kprobes_enabled") == "no"
        others = [m for m in usual["mechanisms"] if m not in BY_KPROBES]
        assert answer["works"] is bool(others)
        assert worked(run_by(machine)) is bool(others)


@pytest.mark.oldest_and_newest
@pytest.mark.parametrize(
    ("folders", "key"),
    [
        (["/sys/kernel/btf"], "btf"),
        (["/sys/kernel/tracing", "/sys/kernel/debug"], "traceable_functions"),
        (["/sys/bus/event_source/devices"], "kprobes"),
    ],
    ids=["btf", "tracefs", "kprobes"],
)
def test_what_is_missing_ends_a_run_as_doctor_says(
    folders: list[str], key: str, machine: Machine
) -> None:
    under = hiding(*folders)
    answer = doctor(machine, under=under)
    assert answer_to(answer, key) == "no"
    result = run_by(machine, under=under)
    assert worked(result) is answer["works"], result.err
    assert answer["works"] or result.status == answer["exit_status"], result.err


@pytest.mark.one_kernel
def test_hidden_addresses_are_told_as_a_run_tells_them(machine: Machine) -> None:
    with switched(machine, "/proc/sys/kernel/kptr_restrict", "2"):
        answer = doctor(machine)
        result = run_by(machine)
    assert answer["exit_status"] == result.status == 77
    assert f"hint: {answer['next_step']}\n" in result.err
    assert "kernel.kptr_restrict is 2" in answer["reason"]


@pytest.mark.one_kernel
def test_an_image_named_by_k_is_judged_as_a_run_judges_it(machine: Machine) -> None:
    for path in ("/nowhere/vmlinux", __file__):
        answer = doctor(machine, "-k", path)
        result = run_by(machine, None, (), "-k", path)
        assert answer["exit_status"] == result.status != 0
        assert answer["checks"]["vmlinux"]["detail"] in result.err


@pytest.mark.one_kernel
def test_every_place_looked_at_is_told(machine: Machine) -> None:
    told = machine.run([TOOL, "doctor", "-v"])
    assert told.status == 0, told.err
    release = machine.release
    assert f"/usr/lib/debug/boot/vmlinux-{release}: no such file" in told.out
    has_config = not machine.run(["test", "-e", f"/boot/config-{release}"]).status
    said = f"by /boot/config-{release}" if has_config else f"/boot/config-{release}: No such file"
    assert said in told.out
    assert "\x1b" not in told.out


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_locked_down_kernel_is_recognised(machine: Machine) -> None:
    """It stays so until the next boot."""
    mount = "mount -t securityfs securityfs /sys/kernel/security 2>/dev/null"
    lock = "echo confidentiality > /sys/kernel/security/lockdown"
    assert machine.run(["sh", "-c", f"{mount}; {lock}"]).status == 0
    try:
        answer = doctor(machine)
        result = run_by(machine)
    finally:
        machine.reboot()
    assert answer_to(answer, "lockdown") == "no"
    assert result.status == answer["exit_status"] == 77, result.err
    assert doctor(machine)["works"]
