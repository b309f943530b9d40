# SPDX-License-Identifier: BSD-2-Clause
"""Captured arguments are the arguments of the workload, with each mechanism."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.live.support import (
    PROGRAMS,
    PYTHON,
    WORKLOAD,
    read_recording,
    series,
    system_call,
    trace,
)
from tests.live.test_rungs import RUNGS, TRAMPOLINES, rungs_on

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.vm.machine import Machine

#: Their arguments are in retsnoop_py/workload/cases.py.
CASES = ("bpf-map-bad-flags", "mount-unknown", "long-sleep")
#: Not their like for 32 bits: fentry takes its time for each function.
INSIDE = {
    "bpf": ("array_map_alloc_check",),
    "mount": ("get_fs_type", "__request_module"),
    "nanosleep": ("hrtimer_nanosleep",),
    "mmap": ("do_mmap",),
}
FILE_SYSTEM = "retsnoop-py-missing"
#: Functions called to open a file, one after the other; functions that succeed do not return NULL.
OPEN = "do_sys_openat2"
STEPS = ("getname*", "*alloc_fd", "get_unused_fd_flags", "do_filp_open", "fd_install", "putname")

Given = dict[str, dict[str, Any]]


def sessions(out: str) -> list[dict[str, Given]]:
    """For each session the arguments of each function's first call, by their names."""
    found = []
    for line in out.splitlines():
        calls: dict[str, Given] = {}
        for event in json.loads(line).get("trace", ()):
            if event["event"] == "entry":
                assert event.get("arguments"), event
                named = {one["name"]: one for one in event["arguments"]}
                calls.setdefault(event["function"]["name"], named)
        found.append(calls)
    return found


def texts(given: Given) -> dict[str, str]:
    return {name: one["text"] for name, one in given.items()}


def assert_stack_arguments(mmap: str, found: list[dict[str, Given]]) -> None:
    """do_mmap() has its page offset, in a register of mmap(), on the stack of x86."""
    pairs = [(c[mmap], c["do_mmap"]) for c in found if "do_mmap" in c]
    of_files = [(outer, inner) for outer, inner in pairs if int(outer["fd"]["value"]) < 1 << 16]
    offsets = {(int(o["off"]["value"]) >> 12, int(i["pgoff"]["value"])) for o, i in of_files}
    assert len(offsets) > 3
    assert all(outer == inner for outer, inner in offsets), offsets


@pytest.mark.parametrize("mechanism", RUNGS, ids=lambda mechanism: mechanism.value)
def test_arguments_are_what_the_workload_gave(mechanism: Mechanism, machine: Machine) -> None:
    if mechanism not in rungs_on(machine):
        return  # what a missing one says is tested in test_rungs.py
    options = ("-T", "-A", "--format=json", f"--attach={mechanism.value}")
    calls = {name: system_call(machine, name) for name in INSIDE}
    selection = [("-e", calls[name]) for name in INSIDE]
    selection += [("-a", name) for names in INSIDE.values() for name in names]
    words = [word for pair in selection for word in pair]
    result = trace(machine, *options, *words, "--", *WORKLOAD, *CASES)
    assert result.status == 0, result.err
    found = sessions(result.out)
    told = {name: given for session in found for name, given in session.items()}

    assert texts(told[calls["nanosleep"]]) == {"rqtp": "&0.2s", "rmtp": "NULL"}
    inner = {"rqtp": "200ms", "mode": "HRTIMER_MODE_REL", "clockid": "1"}
    assert texts(told["hrtimer_nanosleep"]) == inner

    expected = ["'none'", "'/'", f"'{FILE_SYSTEM}'", "0", "NULL"]
    assert list(texts(told[calls["mount"]]).values()) == expected
    assert told["get_fs_type"]["name"]["value"] == FILE_SYSTEM

    attr = told["array_map_alloc_check"]["attr"]["value"]
    members = {name: value for name, value in attr.items() if name != "key_size"}
    created = {"value_size": 4, "max_entries": 1, "map_flags": 1 << 30}
    assert members == {"map_type": "BPF_MAP_TYPE_ARRAY", **created}
    bpf = told[calls["bpf"]]
    assert (bpf["cmd"]["value"], bpf["size"]["value"]) == ("BPF_MAP_CREATE", 20)
    assert bpf["uattr"]["value"] == attr

    if "do_mmap" in told or mechanism not in TRAMPOLINES:  # of those, old ones take six words
        assert_stack_arguments(calls["mmap"], found)
    if mechanism not in TRAMPOLINES:  # which cannot call a variadic function
        module = texts(told["__request_module"])
        assert module["fmt"] == "'fs-%.*s'"
        assert (module["wait"], module["vararg1"]) == ("true", f"'{FILE_SYSTEM}'")


def test_a_path_on_a_page_that_is_not_there_yet_is_told(machine: Machine) -> None:
    """A program cannot read it as the call begins; the kernel then does, and has its copy."""
    file = machine.share / "path"
    file.write_bytes(b"/nonexistent/path\0")
    script = f"""
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(4096), 1, 2, os.open("{file}", 0), ctypes.c_long(0))
libc.open(ctypes.c_void_p(page), 0)
"""
    openat = system_call(machine, "openat")
    selection = ("-e", openat, "-a", "do_fil*_open", "-x", "ENOENT")
    options = ("-T", "-A", "--format=json", *selection)
    result = trace(machine, *options, "--", PYTHON, "-c", script)
    assert result.status == 0, result.err
    calls = sessions(result.out)[-2]
    given = calls.pop(openat)["filename"]
    (copy,) = (opened["pathname"]["value"] for opened in calls.values())
    assert copy["@name"] == "/nonexistent/path"
    # kernels of today forget where they have it from
    keeps_its_place = "uptr" in copy
    assert keeps_its_place == (series(machine) < (7, 0))
    assert given["text"].endswith("'/nonexistent/path'" if keeps_its_place else " (-EFAULT)")


def test_unions_are_read_by_their_tags_and_new_objects_not_at_all(machine: Machine) -> None:
    """Their arguments are in tests/live/programs/tagged.py."""
    perf = ("-e", "*_sys_perf_event_open")
    # where no function of kernel/events/core.c has a trace point
    has_perf = not machine.release.startswith("5.10.")
    bpf, socket, enter = (
        system_call(machine, name) for name in ("bpf", "socket", "io_uring_enter")
    )
    selection = (
        *("-e", bpf, "-e", "__sys_connect", *(perf if has_perf else ())),
        *("-e", enter, "-a", "io_timeout_prep"),
        *("-e", socket, "-a", "security_file_alloc"),
    )
    command = (PYTHON, str(PROGRAMS / "tagged.py"))
    result = trace(machine, "-S", "-T", "-A", "--format=json", *selection, "--", *command)
    assert result.status == 0, result.err
    found = sessions(result.out)

    def given(function: str, argument: str, key: str = "value") -> list[Any]:
        """Return an argument of each session's first call with a name that ends in ``function``."""
        named = [[one for name, one in calls.items() if name.endswith(function)] for calls in found]
        return [calls[0][argument][key] for calls in named if calls]

    link = {"prog_fd": 9999, "attach_type": "BPF_TRACE_ITER", "iter_info": 0x7000}
    assert given(bpf, "cmd") == ["BPF_LINK_CREATE"]
    assert given(bpf, "uattr") == [{"link_create": {**link, "iter_info_len": 3}}]
    addresses = given("__sys_connect", "uservaddr", "text")
    # Python leaves two bytes of that one as they are
    assert [re.sub(r"\.nl_pad=\d+,", "", text) for text in addresses] == [
        "&127.0.0.1:9",
        "&[::1]:9",
        "&unix:'/run/retsnoop-py-missing'",
        "&{.nl_family=AF_NETLINK,.nl_pid=77}",
    ]
    software = {"type": "PERF_TYPE_SOFTWARE", "size": 112, "sample_freq": 1000, "freq": 1}
    watched = {"sample_period": 1000, "bp_type": 4, "bp_addr": 0x1234, "bp_len": 4}
    breakpoint_ = {"type": "PERF_TYPE_BREAKPOINT", "size": 112, **watched}
    events = [software, breakpoint_] if has_perf else []
    assert given("_sys_perf_event_open", "attr_uptr") == events
    timeout = {"off": 5, "addr": 0x7000, "len": 2, "timeout_flags": 1}
    assert given("io_timeout_prep", "sqe") == [{"opcode": "IORING_OP_TIMEOUT", "fd": -1, **timeout}]
    families = ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"]
    assert given(socket, "family") == families
    allocated = given("security_file_alloc", "file")
    assert [one["note"] for one in allocated] == ["not initialised yet"] * len(families)


def test_arguments_are_below_the_calls_of_a_stack_and_cut_where_asked(machine: Machine) -> None:
    """Only calls on the final stack keep their arguments, so the log is seldom full."""
    path = machine.share / "below.rsn"
    limits = ("-C", "args.max-str-arg-size=8", "-C", "args.fmt-mode=multiline")
    selection = ("-e", system_call(machine, "mount"), "-a", "get_fs_type", "-e", OPEN)
    inner = (word for name in STEPS for word in ("-a", name))
    options = ("-S", "-A", *limits, *selection, *inner, "-o", str(path))
    result = trace(machine, *options, "--", *WORKLOAD, "mount-unknown")
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    (row,) = (number for number, line in enumerate(lines) if line.endswith("get_fs_type"))
    assert lines[row + 1].strip() == f"› name = '{FILE_SYSTEM[:8]}'…"  # noqa: RUF001
    assert f"› type = '{FILE_SYSTEM[:8]}'…" in result.out  # noqa: RUF001
    row_of_open = re.compile(rf"us \[.*\] +{OPEN}(?:\+0x\w+)?$")
    opened = [number for number, line in enumerate(lines) if row_of_open.search(line)]
    assert len(opened) > 50
    assert all(lines[number + 1].strip() == "› dfd = -100" for number in opened)  # noqa: RUF001
    assert "missing" not in result.out.replace(FILE_SYSTEM, "")
    recorded = [s for s in read_recording(path).sessions if s.calls[0].function.name == OPEN]
    whole = [session for session in recorded if not session.is_error and session.last_seq > 6]
    assert len(whole) > 20
    assert all(set(s.args) == {call.seq for call in s.calls} for s in whole)
