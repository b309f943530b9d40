# SPDX-License-Identifier: BSD-2-Clause
"""``why``: from a command that fails to the condition, with no function named."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.live.support import (
    TOOL,
    WORKLOAD,
    call_of_rmdir,
    compiled,
    series,
    trace,
    wait_for,
)
from tests.live.test_cleanup import assert_back_to, leftovers

from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

#: Settings of the kernel's own tracer, which `why` uses if no mechanism can hook all functions.
TRACER = (
    *("current_tracer", "set_graph_function", "set_ftrace_pid", "options/function-fork"),
    *("tracing_on", "set_ftrace_filter"),
)


def why(machine: Machine, *args: str) -> dict[str, Any]:
    # Some of the commands succeed, and run again only with --reruns.
    reruns = () if "--reruns" in args else ("--reruns", "2")
    result = trace(machine, "why", "--format", "json", *reruns, *args, timeout=400)
    assert result.out, result.err
    found: dict[str, Any] = json.loads(result.out)
    assert found["type"] == "why"
    return found


def tracer(machine: Machine) -> str:
    return machine.run(["tail", *(f"/sys/kernel/tracing/{name}" for name in TRACER)]).out


def test_a_failing_bpf_call_is_led_to_its_condition(machine: Machine) -> None:
    """The call goes through a pointer that disassembly cannot follow; the tracer is restored."""
    before, was_set = leftovers(machine), tracer(machine)
    argv = [*WORKLOAD, "bpf-map-key-size-array"]
    options = ("--format", "json", "--reruns", "2")
    result = trace(machine, "why", *options, "--", *argv, timeout=400)
    found = json.loads(result.out)
    call = found["explained"]
    assert (call["syscall"], call["error"]) == ("bpf", "EINVAL")
    assert call["arguments"][0]["text"] == "BPF_MAP_CREATE"
    origin = call["origin"]
    assert origin["function"]["name"] == "array_map_alloc_check"
    operand = {"name": "attr->key_size", "argument": 2, "parameter": "uattr", "member": True}
    assert call["given"] == [operand]
    assert origin["made"] == "constant"
    # keys of 8 bytes where an array takes 4
    assert [one["value"] for one in origin["decided"]["operands"]] == [8]
    assert "key_size" in origin["decided"]["operands"][0]["name"]
    assert found["runs"] <= 3
    assert [row["syscall"] for row in found["failures"] if row.get("chosen")] == ["bpf"]
    assert_back_to(before, machine, patience=60)
    assert tracer(machine) == was_set


#: Makes a system call with the address of 64 zeros, and reports its error.
_SYSCALL = (
    "import ctypes as c, os; b = c.create_string_buffer(64); lib = c.CDLL(None, use_errno=True)\n"
    "lib.syscall({}); error = c.get_errno(); raise OSError(error, os.strerror(error))"
)
#: Calls with a wrong value, as Python: in the data of an option of a socket, in a struct that the
#: kernel fills from arguments, behind a pointer that the kernel reads as one number, and on the
#: kernel's stack. With the condition, the operand and its argument.
IN_MEMORY = {
    "option": (
        "import socket; socket.socket(2, socket.SOCK_DGRAM).setsockopt(17, 103, 70000)",
        "*optval > 0xffff",
        {"name": "*optval", "argument": 4, "parameter": "optval", "member": True},
    ),
    "struct": (
        "import os; os.setxattr('/etc', 'user.a', b'x', 4)",
        "ctx->flags > 3",
        {"name": "ctx->flags", "argument": 5, "parameter": "flags"},
    ),
    "number": (
        _SYSCALL.format("69, c.c_long(0), b, c.c_long(8), 0"),  # msgsnd(2)
        "mtype <= 0",
        {"name": "mtype", "argument": 2, "parameter": "msgp", "member": True},
    ),
    "stack": (
        _SYSCALL.format("202, b, 10, 0, 0, 0, 0"),  # futex(2), FUTEX_WAKE_BITSET
        "bitset == 0",
        {"name": "bitset", "argument": 6, "parameter": "val3"},
    ),
}


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "name", ["option", *(pytest.param(one, marks=pytest.mark.slow) for one in [*IN_MEMORY][1:])]
)
def test_a_value_in_the_commands_memory_is_led_to_the_argument(machine: Machine, name: str) -> None:
    """These functions of Linux 6.12 read or store their values in different ways."""
    code, condition, operand = IN_MEMORY[name]
    call = why(machine, "--", "/usr/bin/python3", "-S", "-c", code)["explained"]
    assert condition in call["origin"]["decided"]["condition"]
    assert operand in call["given"]
    assert call["reason"]["certainty"] == "observed"


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_a_file_that_is_not_there_is_what_the_command_complains_of(machine: Machine) -> None:
    """The files that the loader and libraries search before and after it are not selected."""
    result = trace(machine, "why", "--", "cat", "/nonexistent/x", timeout=400)
    assert result.status == 1
    assert result.out.startswith("cat: opening /nonexistent/x failed with ENOENT"), result.out
    assert "The directory /nonexistent does not exist" in result.out
    assert "returned ENOENT to cat" in result.out
    assert "because " in result.out
    assert result.err.count("No such file or directory") == 1, "its output is seen once"


#: Opens more files than 64, and says why it ends.
MANY_FILES = "import os\nfor _ in range(200): os.open('/dev/null', os.O_RDONLY)"


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_a_low_limit_is_as_low_in_the_next_run(machine: Machine) -> None:
    """`why` raises the limit of open files for itself, between the first run and the second."""
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", TOOL, "why", "--format", "json", "--"]
    result = machine.run([*limited, "python3", "-c", MANY_FILES], timeout=400)
    found = json.loads(result.out)
    call = found["explained"]
    assert (call["syscall"], call["error"]) == ("openat", "EMFILE"), result.err
    assert found["runs"] > 1
    assert call["origin"]["function"]["name"].startswith(("alloc_fd", "__alloc_fd")), call


#: Prints the state that a process inherited, and fails.
SHOW = """
{ ulimit -Sa; ulimit -Ha; nice; umask; cd /proc/self; cat oom_score_adj timerslack_ns cgroup
grep -E '^(SigBlk|SigIgn|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Mems_allowed)' status
cd - ; ls /proc/$$/fd; env | grep -v ^_= | sort; } > "$1/$$"
rmdir /proc
"""
#: Sets the state, then runs SHOW directly, by `why`, by `--pinpoint` and in a trace.
CALLER = """
ulimit -n 300; ulimit -l 64; ulimit -c 0; umask 027; trap '' USR1; cd /usr
echo 100 > /proc/self/oom_score_adj
export OWN=own LD_BIND_NOW=1 PYTHONSAFEPATH=1; exec 8</dev/null
run() { mkdir -p "$1"; folder=$1; shift; "$@" sh show "$folder"; }
"""


@pytest.mark.slow
@pytest.mark.one_kernel
def test_each_run_has_the_limits_of_the_caller(machine: Machine) -> None:
    show = machine.share / "show"
    show.write_text(SHOW)
    folder = machine.share / "limits"
    entry = ("-e", f"*_sys_{call_of_rmdir(machine)}")
    lines = [CALLER.replace("sh show", f"sh {show}")]
    for name, words in (
        ("shell", ()),
        ("why", (TOOL, "why", "--")),
        ("pinpoint", (TOOL, "--pinpoint", *entry, "-a", "vfs_rmdir", "--")),
        ("trace", (TOOL, *entry, "--")),
    ):
        lines.append(shlex.join(["run", str(folder / name), "nice", "-n", "5", *words]))
    result = machine.run(["sh", "-c", "\n".join(lines)], timeout=600)
    runs: dict[str, list[str]] = {}
    for one in folder.glob("*/*"):
        runs.setdefault(one.parent.name, []).append(one.read_text())
    counts = {name: len(told) for name, told in runs.items()}
    assert counts["shell"] == counts["trace"] == 1, result.err
    assert counts["why"] > 1, result.err
    assert counts["pinpoint"] > 1, result.err
    (expected,) = runs["shell"]
    assert "300" in expected
    for name, told in runs.items():
        assert set(told) == {expected}, name


@pytest.mark.slow
@pytest.mark.one_kernel
def test_what_fails_without_the_kernel_is_said_to(machine: Machine) -> None:
    for command, status, text in (
        ("true", 0, "it succeeded"),
        ("false", 1, "always ends with status 1"),
        ("sh -c 'exit 7'", 7, "The program probably made this decision itself"),
    ):
        argv = shlex.split(command)
        result = trace(machine, "why", "--", *argv, timeout=400)
        assert result.status == status
        assert result.out.splitlines()[0].startswith(f"{argv[0]}: "), result.out
        assert text in result.out


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_failure_below_many_functions_is_led_to_the_innermost(machine: Machine) -> None:
    """setsockopt(2) of an option that TCP does not have: six functions pass the error on."""
    found = why(machine, "--", str(compiled(machine, "failures")), "option_name")
    call = found["explained"]
    assert (call["syscall"], call["error"]) == ("setsockopt", "ENOPROTOOPT")
    origin = call["origin"]
    assert origin["function"]["name"] == "do_tcp_setsockopt"
    assert [one["value"] for one in origin["decided"]["operands"]] == [9999]
    assert len(call["chain"]) > 4


@pytest.mark.slow
@pytest.mark.one_kernel
def test_what_was_called_through_a_pointer_is_followed_as_well(machine: Machine) -> None:
    """accept4(2) of a socket that does not listen: the protocol's function leaves the error."""
    call = why(machine, "--", str(compiled(machine, "failures")), "accept_closed")["explained"]
    assert (call["syscall"], call["error"]) == ("accept4", "EINVAL")
    assert call["origin"]["function"]["name"] == "inet_accept"
    assert call["origin"]["made"] == "memory"
    (inner,) = call["tested"]
    assert inner["function"]["name"] == "inet_csk_accept"
    assert [one["value"] for one in inner["decided"]["operands"]] == [7]  # TCP_CLOSE


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_an_error_that_a_function_was_handed_is_followed_to_where_it_was_made(
    machine: Machine,
) -> None:
    """send(2) on an unconnected socket: sk_stream_error() returns the error that it was passed."""
    # where nothing hooks all functions, listing them takes a run as well
    command = ("--reruns", "3", "--", str(compiled(machine, "failures")), "send_closed")
    call = why(machine, *command)["explained"]
    assert (call["syscall"], call["error"]) == ("sendto", "EPIPE")
    names = [one["function"]["name"] for one in call["chain"]]
    assert names[-2:] == ["tcp_sendmsg_locked", "sk_stream_wait_connect"], names
    assert call["origin"]["function"]["name"] == "sk_stream_wait_connect"
    *earlier, operand = call["origin"]["decided"]["operands"]
    assert [(one["name"], one["value"]) for one in earlier] in ([], [("sk->sk_err", 0)])
    assert "skc_state" in operand["name"]
    # TCP_CLOSE; arm64 does not test a bit by its number, but shifts a mask of the other states.
    state = {"x86_64": 7, "arm64": ~(1 << 2 | 1 << 3) >> 7 & 0xFFFFFFFF}
    assert operand["value"] == state[machine.arch.name], operand


@pytest.mark.slow
@pytest.mark.one_kernel
def test_where_the_kernel_has_programs_off_nothing_is_made_up(machine: Machine) -> None:
    """The kernel disables programs while bpf(2) looks up a key: no later block is seen."""
    call = why(machine, "--", *WORKLOAD, "bpf-map-lookup-missing")["explained"]
    assert call["error"] == "ENOENT"
    origin = call["origin"]
    assert origin["function"]["name"] == "bpf_map_copy_value"
    assert origin["made"] == "unknown"
    assert "decided" not in origin
    assert "with BPF programs off" in origin["unknown"]


@pytest.mark.slow
@pytest.mark.one_kernel
def test_what_was_called_tells_of_a_function_that_cannot_be_followed(machine: Machine) -> None:
    """setns(2) of a namespace of another kind: its arguments alone do not decide.

    On arm64 it is a part of the system call's function, which can be.
    """
    call = why(machine, "--", str(compiled(machine, "failures")), "setns_type")["explained"]
    if machine.arch.name == "arm64":
        assert call["origin"]["function"]["name"] == "__arm64_sys_setns"
        values = [one["value"] for one in call["origin"]["decided"]["operands"]]
        assert sorted(values) == [0x4000000, 0x40000000]  # CLONE_NEWUTS, of CLONE_NEWNET's kind
        assert "deduced" not in call
        return
    assert call["origin"]["callee"] == "__do_sys_setns"
    assert call["deduced"]["function"]["name"] == "__do_sys_setns"
    # CLONE_NEWUTS, compared with a value in memory that was not read.
    values = [one.get("value") for one in call["deduced"]["decided"]["operands"]]
    assert sorted(values, key=str) == [0x4000000, None]


@pytest.mark.one_kernel
@pytest.mark.parametrize(
    ("case", "callee", "function", "operands"),
    [
        pytest.param(
            *("readv_count", "import_iovec", "__import_iovec", {"nr_segs": 2000}), id="library"
        ),
        pytest.param(
            *("openat2_mode", "build_open_flags", "build_open_flags"),
            {"how->flags": 0x8000, "how->mode": 0o644},
            id="inline",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("key_address", "__do_sys_add_key", "__do_sys_add_key"),
            {"strncpy_from_user()": None},
            id="its callee has no probes either",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_condition_in_a_function_without_probes_follows_from_its_arguments(
    machine: Machine, case: str, callee: str, function: str, operands: dict[str, int | None]
) -> None:
    """Functions of the kernel's library, and inline functions that the compiler kept separate."""
    call = why(machine, "--", str(compiled(machine, "unprobed")), case)["explained"]
    assert call["origin"]["callee"] == callee
    assert call["deduced"]["function"]["name"] == function
    decided = call["deduced"]["decided"]
    found = {one["name"]: one.get("value") for one in decided["operands"]}
    assert operands.items() <= found.items(), decided


@pytest.mark.slow
@pytest.mark.one_kernel
def test_what_the_kernel_said_meanwhile_is_told(machine: Machine) -> None:
    """The messages of dmesg(1), but only of this call; other messages come all the time."""
    noise = "while :; do echo noise > /dev/kmsg; sleep 0.2; done & "
    script = noise + "mount -t ext4 /dev/null /mnt; status=$?; kill $!; exit $status"
    call = why(machine, "--syscall", "mount", "--", "sh", "-c", script)["explained"]
    assert call["error"] == "ENOTBLK"
    said = [(one["source"], one["text"]) for one in call["said"]]
    assert said == [("printk", "/dev/null: Can't lookup blockdev")]
    assert call["origin"]["function"]["name"] == "lookup_bdev"


@pytest.mark.slow
@pytest.mark.one_kernel
def test_one_run_says_what_it_can(machine: Machine) -> None:
    found = why(machine, "--reruns", "0", "--", *WORKLOAD, "bpf-map-key-size-array")
    assert found["runs"] == 1
    assert found["explained"]["error"] == "EINVAL"
    assert "origin" not in found["explained"]
    assert "--reruns" in found["explained"]["unknown"]


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_one_run_has_the_lines_of_the_chain(machine: Machine) -> None:
    vmlinux = str(ensure("6.12", debug=True).vmlinux)
    options = ("-k", vmlinux, "--reruns", "0", "--")
    found = why(machine, *options, *WORKLOAD, "bpf-map-key-size-array")
    frames = [one["frame"] for one in found["explained"]["chain"] if "frame" in one]
    assert frames
    files = {place["file"] for frame in frames for place in frame["source"]}
    assert "kernel/bpf/syscall.c" in files


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_failure_that_does_not_come_again_is_said_to(machine: Machine) -> None:
    once = machine.share / "once"
    folder = machine.share / "there"
    once.write_text(f"#!/bin/sh\n[ -e {folder} ] && exit 0\nmkdir {folder}\nrmdir /proc\n")
    once.chmod(0o755)
    result = trace(machine, "why", "--", str(once), timeout=400)
    assert result.status == 1
    assert f"{call_of_rmdir(machine)} returned EBUSY" in result.out
    assert "it did not fail again" in result.out, result.out


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_command_that_succeeds_runs_once_unless_reruns_are_asked_for(machine: Machine) -> None:
    count = machine.share / "count"
    script = f"echo run >>{count}; rmdir /proc 2>/dev/null; exit 0"
    result = trace(machine, "why", "--", "sh", "-c", script, timeout=400)
    assert (result.status, count.read_text()) == (0, "run\n"), result.err
    first, second, *_ = result.err.splitlines()
    assert first == "why: CMD may run up to 3 times if it fails; --reruns 0 runs it once"
    assert second.startswith("why: run 1: ")
    assert "exited with status 0, so it did not run again" in " ".join(result.out.split())
    found = why(machine, "--", "sh", "-c", script)
    assert found["explained"]["error"] == "EBUSY"
    assert count.read_text() == "run\n" * (1 + found["runs"])
    assert found["runs"] > 1


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_failure_that_depends_on_input_is_reported_to(machine: Machine) -> None:
    script = 'read answer && rmdir /proc && exit 0; [ -n "$answer" ] && exit 3; exit 4'
    line = shlex.join([TOOL, "why", "--format", "json", "--", "sh", "-c", script])
    result = machine.run(["sh", "-c", f"echo y | {line}"], timeout=400)
    found = json.loads(result.out)
    assert (result.status, found["exit_status"]) == (3, 3)
    assert "did not fail again; further runs read /dev/null" in found["explained"]["unknown"]
    assert any("exited with status 4, run 1 with 3" in line for line in found["warnings"])


@pytest.mark.slow
@pytest.mark.one_kernel
def test_another_failure_can_be_asked_for(machine: Machine) -> None:
    script = "rmdir /proc; cat /nonexistent; exit 3"
    call = call_of_rmdir(machine)
    found = why(machine, "--syscall", call, "--", "sh", "-c", script)
    assert found["exit_status"] == 3
    assert (found["explained"]["syscall"], found["explained"]["error"]) == (call, "EBUSY")
    assert found["explained"]["process"] == "rmdir"


@pytest.mark.oldest_and_newest
def test_the_next_failure_of_a_running_process(machine: Machine) -> None:
    script = """
import os, time
print(os.getpid(), flush=True)
while True:
    try:
        os.rmdir("/proc")
    except OSError:
        time.sleep(1)
"""
    process = machine.start(["python3", "-c", script])
    wait_for(lambda: process.output()[0].endswith(b"\n"), process)
    pid = process.output()[0].decode().strip()
    found = why(machine, "-p", pid)
    machine.run(["kill", pid])
    process.wait(60)
    call = call_of_rmdir(machine)
    assert (found["explained"]["syscall"], found["explained"]["error"]) == (call, "EBUSY")
    assert found["explained"]["pid"] == int(pid)
    chain = [one["function"]["name"] for one in found["explained"]["chain"]]
    assert chain[0].endswith(f"_sys_{call}")
    assert chain[-1].startswith("vfs_rmdir")  # on 5.10 a preset's functions are what leads there


@pytest.mark.slow
@pytest.mark.one_kernel
def test_ctrl_c_ends_it_with_what_is_known(machine: Machine) -> None:
    before = leftovers(machine)
    # exec: a signal during dash's vfork() does not reach the started program.
    script = "rmdir /proc; exec sleep 1000"
    command = machine.start([TOOL, "why", "--", "sh", "-c", script])
    wait_for(lambda: b"rmdir:" in command.output()[1], command)
    command.send_signal(2)
    result = command.wait(120)
    assert "rmdir" in result.out
    assert "EBUSY" in result.out
    assert_back_to(before, machine, patience=60)


@pytest.mark.one_kernel
def test_a_recording_of_a_followed_call_is_explained_again(machine: Machine) -> None:
    recording = machine.share / "path.rsn"
    argv = ("-e", "*_sys_bpf", "--path", "array_map_alloc_check", "-o", str(recording))
    trace(machine, *argv, "--", *WORKLOAD, "bpf-map-key-size-array")
    result = trace(machine, "why", str(recording))
    assert result.status == 0
    assert "! array_map_alloc_check" in result.out
    assert "key_size" in result.out


def numbered_source(machine: Machine) -> Path:
    """Return a source tree with only the needed file; each line has its number as text."""
    root = machine.share / "linux"
    (root / "kernel/bpf").mkdir(parents=True)
    (root / "Makefile").write_text("VERSION = 1\n")
    text = "".join(f"\tthe text of line {number}\n" for number in range(1, 1001))
    (root / "kernel/bpf/arraymap.c").write_text(text)
    return root


@pytest.mark.one_kernel
def test_with_debug_information_it_is_the_line(
    machine: Machine, request: pytest.FixtureRequest
) -> None:
    """The lines of `array_map_alloc_check()` in the source of this kernel: see docs/line.md."""
    vmlinux = ensure(request.node.callspec.params["machine"], debug=True).vmlinux
    program = compiled(machine, "keysize", "-g", "-O0", "-fno-omit-frame-pointer")
    source = numbered_source(machine)
    options = ("-k", str(vmlinux), "--source", str(source))
    result = trace(machine, "why", *options, "--", str(program), timeout=400)
    assert result.status == 1
    assert "lines may be other ones" in result.err, "the tree says that it is of Linux 1"
    lines = [shlex.join(line.split()) for line in result.out.splitlines()]
    head = next(line for line in lines if "returned EINVAL to keysize" in line)
    assert "keysize.c:" in head
    place = "arraymap.c:58:29" if series(machine) == (6, 12) else "arraymap.c:"
    assert any(f"kernel/bpf/{place}" in line for line in lines), result.out
    told = re.search(r"kernel/bpf/arraymap\.c:(\d+):\d+   because .*\n +(\d+) \| (.*)", result.out)
    assert told is not None, result.out
    assert told[1] == told[2]
    assert told[3] == f"the text of line {told[1]}"
    # the stack that 5.10 records has only the functions that failed and were followed
    if series(machine) > (5, 10):
        assert any("map_create" in line and "kernel/bpf/syscall.c" in line for line in lines)
