# SPDX-License-Identifier: BSD-2-Clause
"""`functions` lists exactly the functions that a run with the same options attaches."""

from __future__ import annotations

import json
import re

import pytest
from tests.live.support import TOOL, trace
from tests.live.test_bad_input import hiding

from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.one_kernel

ATTACHED = re.compile(r"^Attached to function #\d+ '(.+)'\.$", re.MULTILINE)
#: Functions of the kernel and of a module, some denied by us, some without a trace point.
SELECTIONS = {
    "names": ("-e", "*_sys_bpf", "-a", "map_create", "-a", "array_map_alloc*"),
    "denied": ("-e", "*_sys_bpf", "-a", "bpf_get_current_*", "-a", "bpf_map_area*", "-d", "*free"),
    "module": ("-e", "dummy_*[dummy]", "-a", "do_sys_openat2"),
}


def functions(machine: Machine, *options: str) -> Result:
    return machine.run([TOOL, "functions", *options], timeout=120)


def table(result: Result) -> list[list[str]]:
    """Return the columns of the output to a pipe."""
    assert result.status == 0, result.err
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert {len(row) for row in rows} == {6}
    return rows


def label(row: list[str]) -> str:
    return row[1] if row[2] == "-" else f"{row[1]} [{row[2]}]"


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_list_is_what_a_run_attaches(selection: str, machine: Machine) -> None:
    machine.run(["modprobe", "dummy"])
    options = SELECTIONS[selection]
    rows = table(functions(machine, *options))
    result = trace(machine, "-v", *options, "--", "true")
    assert result.status == 0, result.err
    attached = ATTACHED.findall(result.err)
    listed = [label(row) for row in rows if row[0] != "left-out"]
    assert sorted(listed) == sorted(attached)
    assert len(listed) > 2
    by = {row[3] for row in rows if row[0] != "left-out"}
    assert all(mechanism in result.err for mechanism in by)
    left_out = {label(row): row[5] for row in rows if row[0] == "left-out"}
    assert not set(left_out) & set(attached)
    if selection == "denied":
        assert "retsnoop-py never traces it" in left_out["bpf_get_current_pid_tgid"]
        assert left_out["bpf_map_area_free"] == "denied by your glob: '*free'"
    entries = {label(row) for row in rows if row[0] == "entry"}
    marked = re.findall(r"^Function '(.+)' is marked as an entry point", result.err, re.MULTILINE)
    assert entries == set(marked)


def test_globs_and_entry_options_are_the_same(machine: Machine) -> None:
    as_words = functions(machine, "*_sys_bpf", "-a", "bpf_map_new_fd")
    as_options = functions(machine, "-v", "-e", "*_sys_bpf", "-a", "bpf_map_new_fd")
    assert as_words.status == 0, as_words.err
    assert as_words.out == as_options.out
    assert as_words.err == ""
    assert f"/boot/vmlinux-{machine.release}: no such file" in as_options.err


def test_json_has_what_the_columns_have(machine: Machine) -> None:
    options = ("*_sys_bpf", "-a", "bpf_map_new_fd", "-a", "bpf_get_current_*")
    document = json.loads(functions(machine, *options, "--json").out)
    rows = table(functions(machine, *options))
    assert [f["name"] for f in document["functions"]] == [
        row[1] for row in rows if row[0] != "left-out"
    ]
    assert [(f["name"], f["text"]) for f in document["left_out"]] == [
        (row[1], row[5]) for row in rows if row[0] == "left-out"
    ]
    assert document["kernel"] == machine.release
    (one,) = [f for f in document["functions"] if f["name"] == "bpf_map_new_fd"]
    assert one["prototype"] == "int bpf_map_new_fd(struct bpf_map *map, int flags)"
    address = machine.run(["grep", "-E", " [tT] bpf_map_new_fd$", "/proc/kallsyms"]).out.split()[0]
    assert int(one["address"], 16) == int(address, 16)


def test_a_copy_made_by_the_compiler_is_suggested_for_its_origin(machine: Machine) -> None:
    """Which functions have copies only is up to each kernel's compiler."""
    listed = machine.run(
        ["cut", "-d", " ", "-f", "1", "/sys/kernel/tracing/available_filter_functions"]
    )
    names = set(listed.out.split())
    symbols = set(machine.run(["awk", "{print $3}", "/proc/kallsyms"]).out.split())
    copy = next(
        name
        for name in sorted(names)
        if re.fullmatch(r"\w{12,}\.(constprop|isra)\.0", name)
        and name.partition(".")[0] not in symbols
    )
    origin = copy.partition(".")[0]
    result = functions(machine, origin)
    assert result.status == 66
    assert f"did you mean {copy}" in result.err
    beside = functions(machine, "*_sys_bpf", "-a", origin)
    assert beside.status == 0
    assert f"'{origin}' matches no kernel function; did you mean {copy}" in beside.err


@pytest.mark.slow
@pytest.mark.one_kernel
def test_what_matches_nothing_ends_as_a_run_does(machine: Machine) -> None:
    for options in (("bpf_prog_lode",), ("bpf_get_current_*",), ("-e", "x[nonsuch]")):
        listed = functions(machine, *options)
        entry = options if options[0] == "-e" else ("-e", *options)
        traced = trace(machine, *entry, "--", "true")
        assert listed.status == traced.status == 66
        assert listed.err == traced.err
    rows = functions(machine, "bpf_get_current_*").out.splitlines()
    assert len(rows) > 5
    assert all(row.startswith("left-out\tbpf_get_current_") for row in rows)
    document = json.loads(functions(machine, "bpf_prog_lode", "--json").out)
    assert "bpf_prog_load" in document["error"]["hint"]
    assert document["functions"] == []


@pytest.mark.one_kernel
def test_a_mechanism_that_is_missing_ends_as_a_run_does(machine: Machine) -> None:
    options = ("--attach=kprobe", "-e", "do_sys_openat2")
    under = hiding("/sys/bus/event_source/devices")
    listed = machine.run([*under, TOOL, "functions", *options])
    traced = machine.run([*under, TOOL, *options, "--", "true"])
    assert listed.status == traced.status == 69
    assert listed.err == traced.err


@pytest.mark.one_kernel
def test_source_files_come_from_debug_information(
    request: pytest.FixtureRequest, machine: Machine
) -> None:
    name = request.node.callspec.params["machine"]
    vmlinux = ensure(name, debug=True).vmlinux
    rows = table(
        functions(machine, ":kernel/bpf/arraymap.c", "-a", "bpf_check", "-k", str(vmlinux))
    )
    sources = {row[1]: row[4] for row in rows if row[0] != "left-out"}
    assert sources.pop("bpf_check") == "kernel/bpf/verifier.c"
    assert len(sources) > 20
    assert set(sources.values()) == {"kernel/bpf/arraymap.c"}
