# SPDX-License-Identifier: BSD-2-Clause
"""The selected functions on a real kernel are the requested ones, including modules and presets."""

from __future__ import annotations

import errno
import json

import pytest
from tests.live.support import (
    PROGRAMS,
    PYTHON,
    compiled,
    errno_of,
    read_recording,
    series,
    trace,
)

from retsnoop_py.selection.globs import preset_names
from retsnoop_py.vm.machine import Machine

TRACING = "/sys/kernel/tracing/available_filter_functions"


def test_a_function_of_a_module_is_traced(machine: Machine) -> None:
    path = machine.share / "module.rsn"
    machine.run(["modprobe", "dummy"])
    bad_link = [PYTHON, str(PROGRAMS / "bad_link.py")]
    result = trace(machine, "-e", "dummy_validate[dummy]", "-o", str(path), "--", *bad_link)
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert [errno_of(session) for session in recording.sessions] == [errno.EADDRNOTAVAIL]
    function = recording.sessions[0].calls[0].function
    assert (function.name, function.module) == ("dummy_validate", "dummy")
    assert [module.name for module in recording.header.modules] == ["dummy"]
    assert recording.header.modules[0].build_id


def test_a_glob_without_a_module_matches_modules_too(machine: Machine) -> None:
    machine.run(["modprobe", "dummy"])
    result = trace(machine, "-e", "dummy_validate", "--dry-run")
    assert "'dummy_validate [dummy]'" in result.out


def test_functions_of_one_name_are_told_apart_by_address(machine: Machine) -> None:
    """By ftrace's records from 6.0 on, by the kernel's list where that has addresses (6.5)."""
    path = machine.share / "same.rsn"
    same = "c_start|m_start|s_start"
    select = ("-e", "c_start", "-a", "m_start", "-a", "s_start", "-o", str(path))
    result = trace(machine, *select, "--", "true")
    listed = machine.run(["grep", "-E", f"^[0-9a-f]+ ({same})$", f"{TRACING}_addrs"])
    if series(machine) < (6, 0):  # ambiguous names are left out
        counts = machine.run(["grep", "-cE", f" ({same})$", "/proc/kallsyms"])
        assert int(counts.out) > 3
        assert result.status == 66
        assert "several functions have this name" in result.err
        return
    assert result.status == 0, result.err
    names = machine.run(["grep", "-cE", f"^({same})$", TRACING])
    traced = sorted(function.address for function in read_recording(path).header.functions)
    assert len(traced) == int(names.out) > 3
    if listed.status == 2:  # before 6.5 there is no such list
        return
    hooks = sorted(int(line.split()[0], 16) for line in listed.out.splitlines())
    assert len(traced) == len(hooks)
    assert all(0 <= hook - address <= 32 for hook, address in zip(hooks, traced, strict=True))


def test_source_paths_select_by_address(machine: Machine) -> None:
    """Without debug information they are refused, with the next step."""
    result = trace(machine, "-e", "*_sys_bpf", "-a", ":kernel/bpf/arraymap.c", "--", "true")
    assert result.status == 69
    assert "debug package" in result.err
    assert "Traceback" not in result.err


def test_a_program_reads_the_symbols_that_kallsyms_has(machine: Machine) -> None:
    machine.run(["modprobe", "dummy"])
    result = machine.run([PYTHON, str(PROGRAMS / "symbols.py")])
    assert result.status == 0, result.err
    how, by_text, by_program, differing, _ = result.out.split(None, 4)
    assert how == ("program" if series(machine) >= (6, 0) else "text")
    assert (by_text, differing) == (by_program, "0"), result.out


@pytest.mark.slow
def test_every_preset_finds_its_functions(machine: Machine) -> None:
    """An entry function at least, and more to see inside than a few that any glob matches."""
    script = f"""
import retsnoop_py as rs
for name in {preset_names()}:
    functions = rs.select(preset=[name]).functions
    print(name, sum(one.entry for one in functions), len(functions))
"""
    result = machine.run([PYTHON, "-c", script], timeout=300)
    assert result.status == 0, result.err
    found = [line.split() for line in result.out.splitlines()]
    assert [name for name, _, _ in found] == preset_names()
    for name, entries, count in found:
        assert int(entries) >= 1, name
        assert int(count) > 30, name


#: Presets, and failures of programs/failures.c that the presets must catch.
CAUGHT = {
    "btf": "bpf_prog_flags",
    "cgroup": "cgroup_procs",
    "io_uring": "uring_entries",
    "module": "module_missing",
    "mount": "mount_type",
    "open": "open_missing",
    "perf": "perf_size",
    "socket": "option_name",
}


@pytest.mark.one_kernel
def test_presets_catch_what_they_are_for(machine: Machine) -> None:
    presets = [word for name in CAUGHT for word in ("-c", name)]
    cases = sorted(CAUGHT.values())
    program = str(compiled(machine, "failures"))
    result = trace(machine, *presets, "--format", "json", "--", program, *cases, timeout=400)
    assert result.status == 1, result.err
    sessions = [json.loads(line) for line in result.out.splitlines()]
    threads = {one["thread"] for one in sessions if one["type"] == "session"}
    assert set(cases) <= threads, threads


@pytest.mark.one_kernel
def test_the_lsm_preset_says_who_refused(machine: Machine) -> None:
    command = ["setpriv", "--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot", "chroot", "/"]
    result = trace(machine, "-c", "lsm", "-x", "EPERM", "--", *command, timeout=400)
    assert "ns_capable" in result.out, result.out + result.err
    assert "cap_capable" in result.out


#: Which functions can be traced by ftrace's records in the kernel's memory, and by its list.
TRACE_POINTS = """
import json
from collections import Counter
from retsnoop_py.kernel.facts import KernelFacts
records, listed = KernelFacts(loading=True), KernelFacts()
listed.tell_namesakes()
def names(facts):
    return {(one.name, one.address)
            for one in facts.kallsyms.symbols(facts.functions.listed)}
by_record, by_list = names(records), names(listed)
everyone = listed.kallsyms.symbols(range(len(listed.kallsyms.table)))
namesakes = {name for name, count in Counter(one.name for one in everyone).items() if count > 1}
print(json.dumps({
    "read": records._trace_points is not None,
    "count": len(by_list),
    "more": sorted(by_record - by_list)[:5],
    "fewer": sorted(by_list - by_record)[:5],
    "alone": sorted(name for name, _ in by_list - by_record if name not in namesakes)[:5],
}))
"""


def test_the_records_of_ftrace_tell_what_its_list_does(machine: Machine) -> None:
    """Before 6.5 the list has no addresses, so all functions of a listed name count as listed."""
    done = machine.run([PYTHON, "-c", TRACE_POINTS])
    assert done.status == 0, done.err
    told = json.loads(done.out)
    assert told["read"] == (series(machine) > (5, 10))
    assert told["count"] > 20_000
    assert (told["more"], told["alone"]) == ([], [])
    assert told["fewer"] == [] or series(machine) == (6, 1)
