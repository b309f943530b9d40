# SPDX-License-Identifier: BSD-2-Clause
"""Calls of an interrupt on top of a traced call: shown, marked, never the origin of an error."""

from __future__ import annotations

import errno
import re

import msgspec
import pytest
from tests.live.support import PROGRAMS, PYTHON, errno_of, read_recording, series, trace
from tests.live.test_rungs import works_here

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.model import session as to
from retsnoop_py.session.model import EventFlags, SessionKind
from retsnoop_py.vm.machine import Machine

CONNECTS = 7
#: Searches the listener in the softirq, and returns NULL right before connect() fails.
LOOKUP = "__inet_lookup_listener"
CALLER = ("-e", "__sys_connect", "-a", "tcp_v4_connect", "-a", LOOKUP)
LOOPBACK = ("--", PYTHON, str(PROGRAMS / "loopback.py"), str(CONNECTS))


def is_told_apart(machine: Machine) -> bool:
    """Return whether softirqs are identified by their own stack: arm64's 5.10 has none."""
    return machine.arch.name != "arm64" or series(machine) >= (6, 1)


@pytest.mark.parametrize(
    "mechanism", [Mechanism.AUTO, Mechanism.FENTRY, Mechanism.FSESSION_MULTI], ids=lambda m: m.value
)
def test_a_null_in_a_softirq_is_not_where_the_callers_error_came_from(
    mechanism: Mechanism, machine: Machine
) -> None:
    if mechanism is not Mechanism.AUTO and not works_here(mechanism, machine):
        assert mechanism is Mechanism.FSESSION_MULTI or machine.arch.name == "arm64"
        return
    path = machine.share / f"softirq-{mechanism.value}.rsn"
    options = (f"--attach={mechanism.value}", "-T", "-E", *CALLER, "-o", str(path))
    result = trace(machine, *options, *LOOPBACK)
    assert result.status == 0, result.err
    if "could not be attached" in result.err:
        assert mechanism is Mechanism.FENTRY
        assert machine.release.startswith(("5.10.", "6.1.")), "it has nine parameters"
        return
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert [errno_of(session) for session in recording.sessions] == [errno.ECONNREFUSED] * CONNECTS
    functions = recording.header.functions
    for session in recording.sessions:
        assert [call.function.name for call in session.calls] == ["__sys_connect"]
        assert not session.lost_exits + session.lost_entries
        marked = {functions[e.id].name for e in session.events.each() if e.flags}
        plain = {functions[e.id].name for e in session.events.each() if not e.flags}
        known = {LOOKUP} if is_told_apart(machine) else set()
        assert marked == known
        assert plain == {"__sys_connect", "tcp_v4_connect", LOOKUP} - known
    mark = "↯ " if is_told_apart(machine) else ""
    assert len(re.findall(rf"^ +↔ {mark}{LOOKUP} +\[NULL\]", result.out, re.M)) == CONNECTS
    assert (
        len(re.findall(r"^!  .*us \[-ECONNREFUSED\] +__sys_connect", result.out, re.M)) == CONNECTS
    )


def test_json_marks_them_and_stacks_of_probes_in_the_interrupt_too(machine: Machine) -> None:
    path = machine.share / "softirq-probe.rsn"
    probe = ("-T", "-E", "-I", "-J", f"kprobe:{LOOKUP}", "-o", str(path))
    result = trace(machine, *probe, *CALLER, "--format", "json", *LOOPBACK)
    assert result.status == 0, result.err
    *lines, _ = (msgspec.json.decode(line, type=to.Line) for line in result.out.splitlines())
    hits = [line for line in lines if isinstance(line, to.Session) and line.report == "probe"]
    assert len(hits) == CONNECTS
    for hit in hits:
        calls = [
            (row.call.function.name, row.call.interrupt) for row in hit.stack or () if row.call
        ]
        assert calls[0] == ("__sys_connect", False)
        assert calls[-1] == (LOOKUP, is_told_apart(machine))
        events = hit.trace or []
        assert isinstance(events[-1], to.ProbeHit)
        assert bool(events[-1].interrupt) is is_told_apart(machine)
    sessions = [s for s in read_recording(path).sessions if s.kind is SessionKind.PROBE]
    assert {s.calls[-1].interrupt for s in sessions} == {is_told_apart(machine)}
    flags = {flag for s in sessions for flag in s.events.flags}
    assert (EventFlags.INTERRUPT in flags) is is_told_apart(machine)


def test_a_session_that_began_in_an_interrupt_does_not_swallow_what_comes_after(
    machine: Machine,
) -> None:
    """The lookup's return is not hooked: its session is over when the thread calls bind()."""
    path = machine.share / "unhooked-softirq.rsn"
    tool = [PYTHON, str(PROGRAMS / "unhooked_return.py"), "--attach=kprobe"]
    options = ("-e", "__sys_bind", "-e", LOOKUP, "-o", str(path))
    result = machine.run([*tool, *options, *LOOPBACK], timeout=180)
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    seen = [errno_of(s) for s in recording.sessions if s.calls[0].function.name == "__sys_bind"]
    assert seen == [errno.EADDRNOTAVAIL] * CONNECTS
    assert recording.stats["sessions_abandoned"] == CONNECTS
