# SPDX-License-Identifier: BSD-2-Clause
"""Output of a trace other than stacks, and calls that a trace must not show."""

from __future__ import annotations

import re

import pytest
from tests.live.support import (
    FEW,
    PYTHON,
    TOOL,
    WORKLOAD,
    call_of_rmdir,
    read_recording,
    system_call,
    trace,
)

from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.one_kernel

#: Writes a byte twenty times a second, so that there is something to trace.
BUSY = "while :; do echo > /dev/null; sleep 0.05; done"


def processes(text: str) -> set[str]:
    """Return the names of the processes with printed calls."""
    return set(re.findall(r" TID/PID \S+ \([^/]*/([^)]*)\):$", text, re.MULTILINE))


@pytest.mark.slow
def test_the_tool_does_not_trace_itself(machine: Machine) -> None:
    """Each write of a stack would be a call to print another stack of."""
    options = ("-e", "vfs_write", "-S", "--for", "2s")
    script = f'({BUSY}) & busy=$!; "$@"; status=$?; kill $busy; exit $status'
    shown = {}
    for more in ((), ("--trace-self",)):
        result = machine.run(["sh", "-c", script, "sh", TOOL, *options, *more], timeout=180)
        assert result.status == 0, result.err
        shown[more] = processes(result.out)
    own = shown["--trace-self",] - shown[()]
    assert "sh" in shown[()]
    assert any(name.startswith(("python", "retsnoop")) for name in own), shown


#: bpf(2) fails twice and succeeds once.
CASES = (*WORKLOAD, "bpf-map-bad-flags", "bpf-map-value-size-array", "bpf-prog-accepted")


def closing(result: Result) -> str:
    """Return the summary line, which begins with a number of calls or reports no calls."""
    (found,) = re.findall(r"^(?:[\d,]+ .*\bcalls?\b|No call) .*$", result.err, re.MULTILINE)
    return str(found)


def test_a_trace_ends_with_what_became_of_the_calls(machine: Machine) -> None:
    path = str(machine.share / "closing.rsn")
    live = trace(machine, *FEW, "-o", path, "--", *CASES)
    calls, failed = re.fullmatch(
        r"(\d+) calls of entry functions, (\d+) failed; \2 printed\.", closing(live)
    ).groups()
    assert int(failed) == live.out.count(" TID/PID ") == 2
    assert int(calls) > int(failed), "successful calls were seen, too"
    replayed = trace(machine, "replay", path)
    assert closing(replayed) == closing(live)
    none = trace(machine, "replay", path, "-x", "EPERM")
    assert closing(none) == ("0 of 2 failed calls pass -x EPERM; most frequent: EINVAL 1, E2BIG 1.")
    assert none.out == ""
    quiet = trace(machine, "replay", path, "--no-counts")
    assert (quiet.out, quiet.err) == (live.out, "")


def test_what_the_kernel_side_filters_out_is_counted_there(machine: Machine) -> None:
    path = machine.share / "short.rsn"
    result = trace(machine, *FEW, "-L", "1h", "-o", str(path), "--", *CASES)
    assert closing(result) == "0 of 2 failed calls pass -L 3600s."
    assert read_recording(path).sessions == []
    nobody = trace(machine, *FEW, "-n", "nobody-here", "--", *CASES)
    assert closing(nobody) == (
        "No call of an entry function was seen by the command or its child processes"
        " (-n nobody-here)."
    )


def test_identical_stacks_are_counted_on_a_terminal(machine: Machine) -> None:
    failing = "import os\nfor _ in range(40):\n try: os.rmdir('/proc')\n except OSError: pass"
    words = [TOOL, "-e", system_call(machine, call_of_rmdir(machine)), "--", PYTHON, "-c", failing]
    terminal = "import pty, sys; pty.spawn(sys.argv[1:])"
    shown = machine.run(
        [PYTHON, "-c", terminal, *words], env={"TERM": "dumb"}, timeout=180
    ).out.replace("\r\n", "\n")
    assert shown.count(" TID/PID ") == 3, shown
    assert re.search(r"^  40  python.*rmdir|^  40  python.*unlinkat", shown, re.MULTILINE), shown
    assert re.search(r" 40 failed; 3 printed, 37 like them counted \(--all", shown), shown


def test_a_process_that_does_not_exist_is_an_error(machine: Machine) -> None:
    result = trace(machine, "-e", "vfs_write", "-p", "99999")
    assert result.status == 66
    assert "-p 99999: there is no process 99999" in result.err
    assert "Receiving" not in result.err


def test_each_kind_of_warning_is_one_line(machine: Machine) -> None:
    """Before the fix, there were 17,857 lines."""
    result = trace(machine, "-e", "*", "--dry-run", timeout=300)
    assert result.status == 0, result.err
    warnings = [line for line in result.err.splitlines() if "WARNING" in line]
    assert len(warnings) <= 2, warnings
    assert re.search(
        r"^WARNING: [\d,]{5,} entry functions cannot fail by their return types: '",
        result.err,
        re.M,
    )


def test_the_preset_lsm_prints_refusals_alone(machine: Machine) -> None:
    script = (
        "cat /nonexistent; touch /tmp/of-root; chmod 0 /tmp/of-root;"
        " setpriv --reuid 65534 --clear-groups cat /tmp/of-root"
    )
    result = trace(machine, "-c", "lsm", "--", "sh", "-c", script)
    assert result.out.count(" TID/PID ") >= 1, result.err
    assert "[-EACCES]" in result.out
    assert "[-ENOENT]" not in result.out
