# SPDX-License-Identifier: BSD-2-Clause
"""Commands that are killed, and commands that hang: the explanation of `why` on a real kernel."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from tests.live.support import PROGRAMS, TOOL, compiled

from retsnoop_py.vm.machine import Machine

#: Shell commands, and the text that names the cause; {0} is the program that crashes.
SIGNALS = {
    "{0} null": ("SIGSEGV killed crash", "it read the address 0x10", "null pointer", "in crash)"),
    "{0} constant": ("it wrote to the address", "forbids it: the file crash, r--"),
    "{0} bus /tmp/mapped": ("SIGBUS", "byte 5000 of the mapped file mapped", "only 100 bytes"),
    "{0} instruction": ("SIGILL", "the CPU rejects an instruction"),
    "{0} division": ("SIGFPE", "it divided an integer by zero", "in crash)"),
    "{0} assertion": ("SIGABRT", "Before that it wrote", "Assertion `count == 99' failed"),
    "{0} seccomp": ("SIGSYS", "a seccomp filter forbids the system call chdir()"),
    "{0} alarm": ("SIGALRM", "a timer that it had set ran out"),
    "ulimit -St 1; {0} spin": ("SIGXCPU", "RLIMIT_CPU (ulimit -t) allows, which is 1 s"),
    "ulimit -t 1; {0} spin": ("SIGKILL", "hard limit of processor time is 1 s"),
    "ulimit -f 1; head -c 99999 /dev/zero >/tmp/big": (
        "SIGXFSZ",
        "the file big (descriptor 1)",
        "which is 1 KiB",
    ),
    "yes | true": ("SIGPIPE killed yes", "a pipe (descriptor 1) that no process reads"),
    "sleep 99 & kill $!; wait": ("SIGTERM", "bash (PID", "sent the signal"),
}


@pytest.mark.only_on("6.12")
def test_each_signal_names_its_cause(machine: Machine) -> None:
    program = str(compiled(machine, "crash", "-O0", "-Wno-div-by-zero"))
    lines = [one.format(program) for one in SIGNALS]
    result = machine.run([sys.executable, str(PROGRAMS / "crashes.py"), *lines], timeout=400)
    answers = result.out.splitlines()
    assert len(answers) == len(lines), result.out + result.err
    wrong = [
        (answer, words)
        for answer, words in zip(answers, SIGNALS.values(), strict=True)
        if any(word not in answer for word in words)
    ]
    assert not wrong, result.err


@pytest.mark.only_on("6.12")
def test_a_command_that_waits_for_a_lock_is_ended_and_the_holder_is_named(machine: Machine) -> None:
    held = "until grep -q FLOCK /proc/locks; do sleep 0.1; done"
    script = f"flock /tmp/l sleep 1234 & {held}; flock /tmp/l true"
    words = ["why", "--for", "6", "--format", "json", "--", "sh", "-c", script]
    result = machine.run([TOOL, *words], timeout=400)
    assert result.status == 124, result.err
    found = json.loads(result.out)
    assert (found["exit_status"], found["runs"]) == (124, 1)
    first, *others = found["waiting"]
    holder = next(one for one in others if one["name"] == "flock")
    assert (first["call"], first["kind"], first["certainty"]) == ("flock", "lock", "observed")
    assert first["arguments"].endswith("</tmp/l>, LOCK_EX")
    assert (
        f"for a lock on /tmp/l. PID {holder['pid']} (flock /tmp/l sleep 1234)" in first["sentence"]
    )
    assert first["since_s"] > 1
    assert first["kernel_stack"][-1]["symbol"] == "locks_lock_inode_wait"
    assert {(one["name"], one["kind"]) for one in others} == {
        ("sleep", "timer"),
        ("sh", "child"),
        ("flock", "child"),
    }
    left = machine.run(["pgrep", "-f", "sleep 1234"])
    assert left.out == ""


@pytest.mark.only_on("6.12")
def test_ctrl_c_on_a_terminal_says_what_the_command_waited_for(machine: Machine) -> None:
    line = "(sleep 5; echo the-time-has-come | tr - _) & exec cat"
    why = shlex.join([TOOL, "why", "--", "sh", "-c", line])
    script = f"CTRL_C_AT=the_time_has_come {sys.executable} {PROGRAMS / 'ctrl_c.py'} {why}"
    result = machine.run(["sh", "-c", script], timeout=400)
    page = " ".join(result.out.split())
    assert "for input from the terminal /dev/pts/" in page, result.out + result.err
    assert "(standard input)" in page
    assert "status 130" in page


@pytest.mark.only_on("6.12")
def test_a_running_process_is_left_alone(machine: Machine) -> None:
    script = (
        "sleep 2000 & kill -STOP $!; "
        f"{shlex.quote(TOOL)} why --for 2 -p $!; echo status $?; "
        "kill -0 $! && echo lives; kill -9 $!"
    )
    result = machine.run(["sh", "-c", script], timeout=400)
    assert "is stopped by" in result.out, result.out + result.err
    assert "lets it go on" in result.out
    assert result.out.endswith("status 0\nlives\n")
