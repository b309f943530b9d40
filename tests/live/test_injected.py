# SPDX-License-Identifier: BSD-2-Clause
"""Injected probes are hit as often as the workload makes them, in calls that are followed."""

from __future__ import annotations

from collections import Counter

from tests.live.support import WORKLOAD, read_recording, series, system_call, trace

from retsnoop_py.session.model import EventKind
from retsnoop_py.vm.machine import Machine

#: How often the workload does it: a prime.
TIMES = 13
KILLS = f"i=0; while [ $i -lt {TIMES} ]; do kill -URG $$; i=$((i + 1)); done"
FAILING = (*WORKLOAD, "-n", str(TIMES), "bpf-map-bad-flags")
#: The first offset behind what ftrace hooks, which is behind ENDBR64 where there is one. On arm64
#: it is two instructions.
BEHIND_THE_HOOK = {"5.10": 5, "6.1": 5, "6.12": 9, "7.2": 9, "7.3": 9}
BEHIND_THE_HOOK_OF_ARM64 = 8
#: The functions that call the tracepoints of system calls.
SYSCALL_TRACER = {
    "5.10": "syscall_trace_enter*",
    "6.1": "syscall_trace_enter*",
    "6.12": "syscall_trace_enter*",
    "7.2": "trace_syscall_enter",
    "7.3": "trace_syscall_enter",
}


def version(machine: Machine) -> str:
    """Return the version of the kernel, as in 6.12."""
    return "{}.{}".format(*series(machine))


def is_arm64(machine: Machine) -> bool:
    """There a probe at a function's entry goes behind the prologue."""
    return machine.arch.name == "arm64"


def by_function(found: Counter[str], but: str) -> Counter[str]:
    """The hits, without the offsets in functions except for ``but``."""
    summed: Counter[str] = Counter()
    for label, number in found.items():
        summed[label if label == but else label.partition("+")[0]] += number
    return summed


def hits(machine: Machine, *args: str, status: int = 0) -> Counter[str]:
    """How often each probe of a run was hit, those that were not as well."""
    path = machine.share / "injected.rsn"
    result = trace(machine, "-T", "-S", "-o", str(path), *args)
    assert result.status == status, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    labels = recording.header.probes
    found = Counter(dict.fromkeys(labels, 0))
    for session in recording.sessions:
        seqs = list(session.events.seqs)
        assert seqs == list(range(1, session.last_seq + 1))
        found.update(labels[e.id] for e in session.events.each() if e.kind == EventKind.PROBE)
    return found


def test_probes_of_functions_are_hit_as_often_as_these_run(machine: Machine) -> None:
    behind = BEHIND_THE_HOOK_OF_ARM64 if is_arm64(machine) else BEHIND_THE_HOOK[version(machine)]
    inside = f"+{behind:#x}"
    system = system_call(machine, "bpf")
    functions = ("-e", "*_sys_bpf", "-a", "array_map_alloc_check")
    specs = (
        f"kprobe:{system}",
        f"kprobe:array_map_alloc_check{inside}",
        "kprobe:array_map_alloc*",
        "kretprobe:array_map_alloc_check",
        "kretprobe:vfs_read",
    )
    probes = [word for spec in specs for word in ("-J", spec)]
    found = hits(machine, *functions, *probes, "--", *FAILING)
    if not is_arm64(machine):
        assert found[f"kprobe:{system}+0x0"] == TIMES
    assert by_function(found, f"kprobe:array_map_alloc_check{inside}") == {
        f"kprobe:{system}": TIMES,
        f"kprobe:array_map_alloc_check{inside}": TIMES,
        "kprobe:array_map_alloc_check": TIMES,
        "kprobe:array_map_alloc": 0,
        "kretprobe:array_map_alloc_check": TIMES,
        # outside of followed calls
        "kretprobe:vfs_read": 0,
    }


def test_tracepoints_are_hit_as_often_as_they_are_reached(machine: Machine) -> None:
    specs = ("tp:signal:*", "rawtp:signal_*", "tp:syscalls:sys_enter_kill")
    probes = [word for spec in specs for word in ("-J", spec)]
    found = hits(machine, "-e", system_call(machine, "kill"), *probes, "--", "sh", "-c", KILLS)
    assert found == {
        "tp:signal:signal_generate": TIMES,
        "tp:signal:signal_deliver": 0,
        "rawtp:signal_generate": TIMES,
        "rawtp:signal_deliver": 0,
        # before the function of the system call is called
        "tp:syscalls:sys_enter_kill": 0,
    }


def test_tracepoints_of_system_calls_are_hit(machine: Machine) -> None:
    tracer = "syscall_trace_enter*" if is_arm64(machine) else SYSCALL_TRACER[version(machine)]
    probes = ("-J", "tp:syscalls:sys_enter_*kill")
    found = hits(machine, "-A", "-e", tracer, *probes, "--", "sh", "-c", KILLS)
    assert found["tp:syscalls:sys_enter_kill"] == TIMES
    assert found["tp:syscalls:sys_enter_tgkill"] == 0


def test_probes_show_what_they_find(machine: Machine) -> None:
    """SIGURG is 23; the shell sends it to itself. Bytes of older names may follow its name."""
    specs = ("tp:signal:signal_generate", "rawtp:signal_generate", "kprobe:check_kill_permission")
    probes = [word for spec in specs for word in ("-J", spec)]
    options = ("-T", "-S", "-A", "-C", "args.fmt-max-arg-width=0", *probes)
    options += ("-e", system_call(machine, "kill"))
    result = trace(machine, *options, "--", "sh", "-c", KILLS)
    assert result.status == 0, result.err
    rows = [line for line in result.out.splitlines() if "◎" in line]
    assert len(rows) == 3 * TIMES
    records = [row for row in rows if "◎ tp:signal:signal_generate" in row]
    assert all(" sig=23 " in row and " comm='sh' " in row for row in records), records
    words = [row for row in rows if "◎ rawtp:signal_generate" in row]
    assert all(" sig=23 " in row and "task='sh' &{" in row for row in words), words
    registers = [row for row in rows if "◎ kprobe:check_kill_permission+0x" in row]
    first = ".x0=23," if is_arm64(machine) else ".di=23,"
    assert all(" regs={" in row and first in row for row in registers), registers


def test_an_offset_inside_an_instruction_is_refused(machine: Machine) -> None:
    place = "array_map_alloc_check+3"
    result = trace(machine, "-T", "-e", "*_sys_bpf", "-J", f"kprobe:{place}", "--", "true")
    assert result.status == 66
    error = "EINVAL" if is_arm64(machine) else "EILSEQ"
    assert f"array_map_alloc_check+0x3 is inside an instruction (-{error})" in result.err


def test_probes_that_nobody_would_see_are_warned_of(machine: Machine) -> None:
    path = machine.share / "unseen.rsn"
    options = ("-e", "*_sys_bpf", "-J", "kprobe:array_map_alloc_check", "-o", str(path))
    result = trace(machine, *options, "--", *FAILING)
    assert result.err.count("WARNING: only call traces (-T) and interim stacks (-I) show") == 1
    assert len(read_recording(path).sessions) == TIMES
