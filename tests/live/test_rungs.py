# SPDX-License-Identifier: BSD-2-Clause
"""Each attach mechanism, alone and together with others, sees the same failures and goes away."""

from __future__ import annotations

import errno
import re

import msgspec
import pytest
from tests.live.support import (
    PROGRAMS,
    PYTHON,
    WORKLOAD,
    compiled,
    errno_of,
    read_recording,
    series,
    trace,
)
from tests.live.test_cleanup import assert_back_to, leftovers
from tests.live.test_workload import assert_ends_as_it_must, types_of

from retsnoop_py.attach.multi import TRAMPOLINE_BUSY
from retsnoop_py.mechanism import LADDER, Mechanism
from retsnoop_py.model.session import Line, Session
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine
from retsnoop_py.workload.cases import CASES

RUNGS = [mechanism for mechanism in Mechanism if mechanism is not Mechanism.AUTO]
TRAMPOLINES = {Mechanism.FENTRY, Mechanism.FSESSION_MULTI}
FPROBE = {Mechanism.KPROBE_SESSION, Mechanism.KPROBE_MULTI}
NAMES = (
    "bpf-map-bad-flags",
    "bpf-map-key-size-hash",
    "bpf-map-lookup-missing",
    "bpf-prog-rejected",
)
SOME = [case for case in CASES if case.name in NAMES]
#: Functions that return int, pointers and nothing, among them one that takes a struct by value.
FUNCTIONS = (
    "map_create",
    "array_map_alloc_check",
    "htab_map_alloc_check",
    "bpf_map_area_alloc",
    "bpf_map_area_free",
    "bpf_check",
    "do_check_common",
    "bpf_map_copy_value",
    "map_lookup_elem",
)
SELECTION = ("-e", "*_sys_bpf", *(word for name in FUNCTIONS for word in ("-a", name)))


def works_here(mechanism: Mechanism, machine: Machine) -> bool:
    """Return the mechanisms of Debian's kernel; arm64 got trampolines and FPROBE later."""
    x86, release = machine.arch.name == "x86_64", series(machine)
    works = {Mechanism.KPROBE_EVENTS, Mechanism.KPROBE}
    works |= {Mechanism.FENTRY} if x86 or release >= (6, 12) else set()
    works |= FPROBE if release >= ((6, 12) if x86 else (7, 2)) else set()
    works |= {Mechanism.FSESSION_MULTI} if x86 and release >= (7, 2) else set()
    return mechanism in works


def attached_by(err: str) -> str:
    """The mechanisms a run with -v names as those that attached something."""
    found = re.search(r"^Total \d+ kernel functions attached by (.+) in \d+ ms\.$", err, re.M)
    assert found, err
    return found[1]


def rungs_on(machine: Machine) -> list[Mechanism]:
    return [mechanism for mechanism in RUNGS if works_here(mechanism, machine)]


@pytest.mark.parametrize("mechanism", Mechanism, ids=lambda mechanism: mechanism.value)
def test_failures_are_caught_and_nothing_is_left(mechanism: Mechanism, machine: Machine) -> None:
    """A mechanism that the kernel lacks is refused, with the next step, and leaves nothing."""
    before = leftovers(machine)
    path = machine.share / f"rung-{mechanism.value}.rsn"
    options = ("-v", f"--attach={mechanism.value}", *SELECTION, "-o", str(path))
    result = trace(machine, *options, "--", *WORKLOAD, *NAMES)
    if mechanism is not Mechanism.AUTO and not works_here(mechanism, machine):
        assert result.status == 69, result.err
        assert f"{mechanism.value} does not work here" in result.err
        assert_back_to(before, machine)
        return
    assert result.status == 0, result.err
    if mechanism is not Mechanism.AUTO:
        assert attached_by(result.err) == mechanism.value
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    traced = types_of(recording)
    assert len(recording.sessions) == len(SOME), result.out
    for session, case in zip(recording.sessions, SOME, strict=True):
        assert_ends_as_it_must(session, case, traced)
    assert "bpf_trampoline" not in result.out
    assert "bpf_prog_" not in re.sub(r"bpf_prog_(?:load|alloc)\w*", "", result.out)
    assert_back_to(before, machine)


def test_the_best_mechanism_is_taken(machine: Machine) -> None:
    result = trace(machine, "-v", *SELECTION, "--", "true")
    best = next(mechanism for mechanism in LADDER if works_here(mechanism, machine))
    assert attached_by(result.err).split(" and ")[0] == best.value


def test_one_stack_goes_through_functions_hooked_in_different_ways(machine: Machine) -> None:
    """BTF lacks do_execveat_common.isra.0, which is called between functions in BTF.

    If kprobe.session supports all of these functions, the test adds fsession.multi above it.
    """
    path = machine.share / "mixed.rsn"
    chain = ("do_execveat_common*", "alloc_bprm", "do_open_execat", "do_filp_open")
    allowed = (word for name in chain for word in ("-a", name))
    script = "import os\ntry: os.execv('/retsnoop-py-missing', ['x'])\nexcept OSError: pass"
    options = ("-v", "-e", "*_sys_execve", *allowed, "-o", str(path))
    tool = [PYTHON, str(PROGRAMS / "trampolines_first.py")]
    result = machine.run([*tool, *options, "--", PYTHON, "-c", script], timeout=180)
    assert result.status == 0, result.err
    recording = read_recording(path)
    (session,) = (s for s in recording.sessions if errno_of(s) == errno.ENOENT)
    names = [call.function.name for call in session.calls]
    assert names[0].endswith("_sys_execve")
    assert names[1].startswith("do_execveat_common")
    assert names[-1] in ("do_filp_open", "do_open_execat")
    order = ["_sys_execve", "do_execveat_common", *names[2:]]
    positions = [result.out.index(name) for name in order]
    assert positions == sorted(positions), result.out
    if works_here(Mechanism.FSESSION_MULTI, machine):
        assert attached_by(result.err) == "fsession.multi and kprobe.session"
        assert session.calls[1].function.btf_id is None
        assert all(c.function.btf_id for c in session.calls if c is not session.calls[1])


@pytest.mark.parametrize("mechanism", RUNGS, ids=lambda mechanism: mechanism.value)
def test_a_function_that_cannot_be_attached_is_left_out_and_named(
    mechanism: Mechanism, machine: Machine
) -> None:
    """A variadic function: trampolines cannot call it, anything else can."""
    if not works_here(mechanism, machine):
        assert mechanism not in rungs_on(machine)
        return
    options = ("-v", f"--attach={mechanism.value}", *SELECTION, "-a", "set_worker_desc")
    result = trace(machine, *options, "--", *WORKLOAD, "bpf-map-bad-flags")
    assert result.status == 0, result.err
    is_trampoline = mechanism in TRAMPOLINES
    named = "Function 'set_worker_desc' left out: " in result.err
    assert named == is_trampoline, result.err
    assert ("a variable number of arguments" in result.err) == is_trampoline
    assert "[-EINVAL]" in result.out


def chain_of(result: Result) -> list[str]:
    """The functions of the stack of the only session, as JSON tells them."""
    assert result.status == 0, result.err
    assert "without kernel frames" not in result.err
    session, _ = (msgspec.json.decode(line, type=Line) for line in result.out.splitlines())
    assert isinstance(session, Session)
    names = []
    for row in session.stack or ():
        if row.frame is None:
            assert row.call is not None
            names.append(row.call.function.name)
        elif row.frame.symbol:
            names.append(row.frame.symbol)
    return names


@pytest.mark.slow
def test_a_jump_from_one_traced_function_to_another_leaves_the_stack_whole(
    machine: Machine,
) -> None:
    """`bpf_map_area_alloc` may end in a jump to another, which hooks one stack slot twice.

    These two are the innermost calls, or call another one, or are the first ones.
    """
    json = ("--format", "json")
    command = ("--", *WORKLOAD, "bpf-map-too-large")
    jump = ("-a", "*bpf_map_area_alloc")
    entry = ("-e", "*_sys_bpf", "-a", "map_create", "-a", "array_map_alloc")
    by_trampolines = chain_of(trace(machine, "--attach=fentry", *json, *entry, *jump, *command))
    outermost = {
        "x86_64": ["entry_SYSCALL_64_after_hwframe", "do_syscall_64"],
        "arm64": ["el0t_64_sync", "el0t_64_sync_handler"],
    }
    assert by_trampolines[:2] == outermost[machine.arch.name]
    assert "array_map_alloc" in by_trampolines
    for mechanism in rungs_on(machine):
        if mechanism not in (Mechanism.FENTRY, Mechanism.KPROBE):
            by = f"--attach={mechanism.value}"
            seen = chain_of(trace(machine, by, *json, *entry, *jump, *command))
            assert seen == by_trampolines, mechanism
    inner = ("-a", "__vmalloc_node_range*")
    deeper = chain_of(trace(machine, *json, *entry, *jump, *inner, *command))
    assert deeper[: len(by_trampolines)] == by_trampolines
    if "bpf_map_area_alloc" not in by_trampolines:
        assert machine.release.startswith("5.10."), "it refuses the size before it allocates"
        return
    first = ("-e", "bpf_map_area_alloc", "-a", "__bpf_map_area_alloc*")
    alone = chain_of(trace(machine, *json, *first, *command))
    assert alone[-len(by_trampolines) :] == by_trampolines


def test_a_modules_function_is_traced_by_each_mechanism(machine: Machine) -> None:
    machine.run(["modprobe", "dummy"])
    bad_link = [PYTHON, str(PROGRAMS / "bad_link.py")]
    btf = machine.run(["test", "-e", "/sys/kernel/btf/dummy"]).status == 0
    for mechanism in rungs_on(machine):
        path = machine.share / f"module-{mechanism.value}.rsn"
        options = (f"--attach={mechanism.value}", "-e", "dummy_validate[dummy]", "-o", str(path))
        result = trace(machine, *options, "--", *bad_link)
        no_module = mechanism is Mechanism.FSESSION_MULTI or (
            mechanism is Mechanism.FENTRY and not btf
        )
        if no_module:
            assert result.status == 69, result.err
            assert "'dummy_validate [dummy]'" in result.err
            continue
        assert result.status == 0, (mechanism, result.err)
        sessions = read_recording(path).sessions
        assert [errno_of(session) for session in sessions] == [errno.EADDRNOTAVAIL], mechanism


@pytest.mark.parametrize(
    "mechanism", [m for m in RUNGS if m is not Mechanism.KPROBE], ids=lambda m: m.value
)
def test_a_hundred_threads_asleep_in_one_function_are_all_seen_or_counted(
    mechanism: Mechanism, machine: Machine
) -> None:
    if not works_here(mechanism, machine):
        assert mechanism not in rungs_on(machine)
        return
    path = machine.share / f"sleepers-{mechanism.value}.rsn"
    sleepers = str(compiled(machine, "sleepers"))
    forced = f"--attach={mechanism.value}"
    options = (forced, "-v", "-e", "hrtimer_nanosleep", "-S", "-o", str(path))
    result = trace(machine, *options, "--", sleepers, "100")
    assert result.status == 0, result.err
    recording = read_recording(path)
    whole = [session for session in recording.sessions if not session.died]
    assert len({session.tid for session in whole}) == len(whole)
    if TRAMPOLINE_BUSY in result.err:
        # Kernels that preempt call no trampoline's program that a preempted thread is in.
        assert mechanism in TRAMPOLINES
        assert "full" in machine.run(["cat", "/sys/kernel/debug/sched/preempt"]).out
        return
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert len(whole) == 100
    assert "not seen" not in result.err
