# SPDX-License-Identifier: BSD-2-Clause
"""Failing commands of many parts of the kernel: the call, the reason and the condition are right.

Each row is a failure that people report, caused by a test command, with its true cause. A row with
``reruns`` 0 checks the call and its reason, which need only one run. The other rows also check the
condition; only ``make test-all`` runs them.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

import pytest
from tests.live.support import PROGRAMS, TOOL, compiled, trace
from tests.live.test_reasons import NOBODY, python

from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine


class Case(NamedTuple):
    """A command and its cause.

    ``call`` and ``error``: the failure that it reports. ``words`` of the first paragraph. ``made``:
    the function with the condition; ``condition``: a part of that. ``before`` and ``behind``
    prepare and clean up. ``certain``: how sure the choice of the call is.
    """

    command: str
    call: str
    error: str
    words: tuple[str, ...] = ()
    made: str = ""
    condition: str = ""
    before: str = ""
    behind: str = ""
    certain: str = "observed"


def shell(*lines: str) -> str:
    return "sh -c " + shlex.quote("; ".join(lines))


#: Prints the first of two errors, and ends by it.
FIRST_OF_TWO = NOBODY + python(
    "import os, sys",
    "try: open('/proc/sys/kernel/cap_last_cap', 'w')",
    "except OSError as first:",
    "    try: os.setpriority(0, 0, -5)",
    "    except OSError: pass",
    "    sys.exit(str(first))",
)
#: The peer refuses a connection that connect(2) only began.
LATER = python(
    "import os, select, socket, sys",
    "s = socket.socket()",
    "s.setblocking(False)",
    "s.connect_ex(('127.0.0.1', 4))",
    "select.select([], [s], [], 20)",
    "sys.exit('connect: ' + os.strerror(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))",
)
MANY = python(
    "import os",
    "for i in range(10000):",
    "    try: os.stat(f'/nonexistent/{i}')",
    "    except OSError: pass",
    "os.rmdir('/proc')",
)

ONE_RUN = {
    "the error that was printed, not the last one": Case(
        FIRST_OF_TWO, "openat", "EACCES", ("/proc/sys/kernel/cap_last_cap",)
    ),
    "10,000 calls that do not matter": Case(MANY, "rmdir", "EBUSY"),
    "a terminal full of text": Case(
        shell("seq 1 100000", "cat /nonexistent"), "openat", "ENOENT", ("/nonexistent does not",)
    ),
    "other namespaces": Case(
        "unshare -Urmpf ls /nonexistent", "statx", "ENOENT", ("could not look up /nonexistent",)
    ),
    "an error that a socket kept": Case(
        LATER,
        "connect",
        "ECONNREFUSED",
        ("connecting to 127.0.0.1:4",),
        before="ip link set lo up",
    ),
}

#: They take more than 20 s.
SLOW = (
    *("10,000 calls that do not matter", "a terminal full of text", "other namespaces"),
    "an error that a socket kept",
)

FOLLOWED = {
    "a rule of nftables, in a batch of netlink": Case(
        f"python3 {shlex.quote(str(PROGRAMS / 'nft_rule.py'))}",
        "nf_tables_newrule",
        "ENOENT",
        ("creating or changing an nftables rule of the chain",),
        before="modprobe nf_tables",
        made="nft_chain_lookup",
    ),
    "the limit of a cgroup, not the clean-up behind it": Case(
        shell("echo $$ >/sys/fs/cgroup/one/cgroup.procs", "ls", ":"),
        "vfork",
        "EAGAIN",
        ("The cgroup /one has as many processes",),
        certain="inferred",
        before="echo +pids >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p /sys/fs/cgroup/one;"
        "echo 1 >/sys/fs/cgroup/one/pids.max",
    ),
    "the first process of a PID namespace ended": Case(
        "unshare -p bash -c '/bin/true; /bin/true; echo done'",
        "clone",
        "ENOMEM",
        made="alloc_pid",
        condition="pid_allocated",
    ),
    "threads that share a directory": Case(
        python(
            "import ctypes, os, sys, threading, time",
            "threading.Thread(target=time.sleep, args=(3,), daemon=True).start()",
            "libc = ctypes.CDLL(None, use_errno=True)",
            "file = os.open('/proc/self/ns/mnt', os.O_RDONLY)",
            "if libc.setns(file, 0x20000): sys.exit(os.strerror(ctypes.get_errno()))",
        ),
        "setns",
        "EINVAL",
        ("2 threads share the root and current directory",),
        made="mntns_install",
        condition="fs->users != 1",
    ),
    "more CPU time than deadlines may have, by variables of each CPU": Case(
        "chrt --deadline --sched-runtime 5000000 --sched-deadline 10000000 "
        "--sched-period 10000000 0 true",
        "sched_setattr",
        "EBUSY",
        ("more than kernel.sched_rt_runtime_us allows: 100000",),
        before="echo 100000 >/proc/sys/kernel/sched_rt_runtime_us",
        behind="echo 950000 >/proc/sys/kernel/sched_rt_runtime_us",
        made="__sched_setscheduler",
        condition="sched_dl_overflow() != 0",
    ),
    "a flag that does not exist": Case(
        python(
            "import ctypes, os, sys",
            "libc = ctypes.CDLL(None, use_errno=True)",
            "if libc.eventfd(0, 128) < 0: sys.exit(os.strerror(ctypes.get_errno()))",
        ),
        "eventfd2",
        "EINVAL",
        ("flags of eventfd2() has the bit 7 set (value 128)",),
        made="do_eventfd",
        condition="flags & ~",
    ),
    "an address in the middle of a page": Case(
        python(
            "import ctypes, os, sys",
            "libc = ctypes.CDLL(None, use_errno=True)",
            "if libc.madvise(12345, 4096, 4): sys.exit(os.strerror(ctypes.get_errno()))",
        ),
        "madvise",
        "EINVAL",
        ("start is 12345, which is not a multiple of 4096",),
        made="do_madvise",
        condition="start & 0xfff",
    ),
    "a module that the command loaded": Case(
        "mount -t overlay -o lowerdir=/tmp/cases/l,upperdir=/tmp/cases/u,workdir=/tmp/cases/u/w o "
        "/tmp/cases/m",
        "mount",
        "EINVAL",
        before="mkdir -p /tmp/cases/l /tmp/cases/u/w /tmp/cases/m; rmmod overlay || :",
        made="ovl",
    ),
}


@pytest.fixture(scope="module")
def ready(machine: Machine) -> Machine:
    made = machine.run(["sh", "-ec", "mkdir -p /tmp/cases"])
    assert made.status == 0, made.err
    return machine


def answer(machine: Machine, case: Case, *options: str) -> dict[str, Any]:
    why = f"{shlex.quote(TOOL)} why --format json {shlex.join(options)} -- {case.command}"
    script = f"{case.before or ':'}\n{why}; status=$?\n{case.behind or ':'}\nexit $status"
    result = machine.run(["sh", "-c", script], timeout=600)
    found: dict[str, Any] = json.loads(result.out)
    call: dict[str, Any] | None = found.get("explained")
    assert call is not None, result.out + result.err
    assert (call["syscall"], call["error"]) == (case.call, case.error), result.err
    assert call["reported"]["certainty"] == case.certain, call["reported"]
    text = f"{call['what']} {call.get('reason', {}).get('text', '')}"
    assert not [one for one in case.words if one not in text], text
    return call


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ONE_RUN],
)
def test_one_run_finds_the_call_and_the_reason(name: str, ready: Machine) -> None:
    call = answer(ready, ONE_RUN[name], "--reruns", "0")
    assert call["certainty"] == "unknown", "one run follows no function"


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_a_request_of_io_uring_fails_and_no_system_call(ready: Machine) -> None:
    program = str(compiled(ready, "ring_open"))
    call = answer(ready, Case(program, "io_uring openat", "ENOENT"), "--reruns", "0")
    assert "a completion of io_uring returned it" in call["unknown"]


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_a_process_that_runs_on_is_named(ready: Machine) -> None:
    result = trace(
        ready, "why", "--reruns", "0", "--", "sh", "-c", "(sleep 300; rmdir /proc) & exit 3"
    )
    assert result.status == 3
    assert "did not end with it (PID " in result.err


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_two_calls_for_which_as_much_speaks_are_both_named(ready: Machine) -> None:
    lines = (
        "import os, sys",
        "try: os.rmdir('/proc')",
        "except OSError: pass",
        "try: os.kill(4000000, 0)",
        "except OSError: pass",
        "sys.exit('Something went wrong')",
    )
    result = ready.run(["sh", "-c", f"{TOOL} why -v --reruns 0 -- {python(*lines)}"], timeout=400)
    text = " ".join(result.out.split())
    assert "sending no signal (which tests whether it may) to process 4000000 failed with" in text
    assert "The command may also mean removing the directory /proc (EBUSY)" in text
    assert "Chosen because its process then ended without success" in text
    assert "certainty: call inferred, reason inferred, condition unknown" in text


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "option",
    [("--call", "rmdir"), pytest.param(("--errno", "EBUSY"), marks=pytest.mark.slow)],
)
def test_the_user_chooses_the_call(option: tuple[str, str], ready: Machine) -> None:
    case = Case(shell("rmdir /proc", "cat /nonexistent", "exit 3"), "rmdir", "EBUSY")
    call = answer(ready, case, "--reruns", "0", *option)
    assert call["reported"]["sure"]


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "missing", [pytest.param("/proc/kcore", marks=pytest.mark.slow), "/sys/kernel/btf"]
)
def test_what_the_kernel_does_not_offer_is_named(missing: str, ready: Machine) -> None:
    """As in a container that masks files of the kernel."""
    script = f"""
mkdir -p /tmp/cases/empty; : >/tmp/cases/nothing
if [ -d {missing} ]; then mount --bind /tmp/cases/empty {missing}
else mount --bind /tmp/cases/nothing {missing}; fi
{TOOL} why -- rmdir /proc; status=$?
umount {missing}
exit $status"""
    result = ready.run(["sh", "-c", script], timeout=600)
    text = " ".join((result.out + result.err).split())
    assert {"/proc/kcore": "kcore", "/sys/kernel/btf": "BTF"}[missing] in text, text


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_where_kcore_is_masked_the_code_is_that_of_vmlinux(ready: Machine) -> None:
    case = Case(
        "rmdir /proc",
        "rmdir",
        "EBUSY",
        before=": >/tmp/cases/nothing; mount --bind /tmp/cases/nothing /proc/kcore",
        behind="umount /proc/kcore",
    )
    call = answer(ready, case, "-k", str(ensure("6.12", debug=True).vmlinux))
    assert call["origin"]["decided"]["condition"], call
    assert call["certainty"] == "observed"


@pytest.mark.slow
@pytest.mark.only_on("6.12")
@pytest.mark.parametrize("name", FOLLOWED)
def test_the_runs_lead_to_the_condition(name: str, ready: Machine) -> None:
    case = FOLLOWED[name]
    call = answer(ready, case, "-k", str(ensure("6.12", debug=True).vmlinux))
    if not case.made:
        return
    assert call["origin"]["function"]["name"].startswith(case.made), call["origin"]
    assert case.condition in str(call["origin"]["decided"]["condition"])
    assert call["certainty"] == "observed"
