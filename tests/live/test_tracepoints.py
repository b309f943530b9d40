# SPDX-License-Identifier: BSD-2-Clause
"""Tracepoints record the actual values: dynamic strings, events of modules."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.live.support import PROGRAMS, PYTHON, read_recording, trace

from retsnoop_py.render.args.read import ArgumentReader
from retsnoop_py.session.model import EventKind
from retsnoop_py.vm.machine import Machine

#: How often the workload does it: a prime.
TIMES = 13
SENT = "virtio_transport_alloc_pkt"
MODULE = "vmw_vsock_virtio_transport_common"
PORT = 20231
#: VMADDR_CID_LOCAL (linux/vm_sockets.h).
HERE = "1"
#: The expected fields of a connection's first packet.
REQUEST = {
    "src_cid": HERE,
    "dst_cid": HERE,
    "dst_port": str(PORT),
    "len": "0",
    "type": "1",
    "op": "1",
    "flags": "0",
}

Told = tuple[str, dict[str, str]]


def found_at_probes(machine: Machine, *args: str) -> tuple[tuple[str, ...], list[Told]]:
    """Return the labels of all probes; and for each hit, its probe's label and captured values."""
    path = machine.share / "tracepoints.rsn"
    result = trace(machine, "-T", "-S", "-A", "-o", str(path), *args)
    assert result.status == 0, result.err
    recording = read_recording(path)
    header = recording.header
    assert header.arguments is not None
    reader = ArgumentReader(header.arguments)
    found = []
    for session in recording.sessions:
        for event in session.events.each():
            if event.kind == EventKind.PROBE:
                told = reader.arguments(session, event.seq) or []
                found.append((header.probes[event.id], {name: text for name, text, _, _ in told}))
    return header.probes, found


def test_a_dynamic_string_is_what_was_executed(machine: Machine) -> None:
    probe = ("-J", "tp:sched:sched_process_exec")
    script = f"i=0; while [ $i -lt {TIMES} ]; do /bin/true; i=$((i + 1)); done"
    _, found = found_at_probes(machine, "-e", "*_sys_execve", *probe, "--", "sh", "-c", script)
    assert {label for label, _ in found} == {"tp:sched:sched_process_exec"}
    files = Counter(told["filename"] for _, told in found)
    assert files["'/bin/true'"] == TIMES
    assert {told["pid"] for _, told in found} == {told["old_pid"] for _, told in found}


def test_tracepoints_of_a_module_are_hit_and_tell(machine: Machine) -> None:
    assert machine.run(["modprobe", "vsock_loopback"]).status == 0
    functions = ("-e", "*_sys_connect", "-a", f"virtio_transport_connect[{MODULE}]")
    specs = (f"tp:vsock:{SENT}", "tp:vsock:*", f"rawtp:{SENT}")
    probes = [word for spec in specs for word in ("-J", spec)]
    command = (PYTHON, str(PROGRAMS / "vsock_connect.py"), str(TIMES), str(PORT))
    labels, found = found_at_probes(machine, *functions, *probes, "--", *command)
    assert Counter(label for label, _ in found) == {
        f"tp:vsock:{SENT}": TIMES,
        f"rawtp:{SENT}": TIMES,
    }
    # the answer is received by another thread
    assert "tp:vsock:virtio_transport_recv_pkt" in labels
    has_btf = machine.run(["test", "-e", f"/sys/kernel/btf/{MODULE}"]).status == 0
    for label, told in found:
        if label.startswith("tp:") or has_btf:
            assert {**told, **REQUEST} == told, label
        else:  # before Linux 5.11 modules have no BTF
            assert told[""] == "(its first argument: no BTF describes the others)"
            assert told["arg0"] == HERE


@pytest.mark.one_kernel
def test_list_knows_fields_and_prototypes(machine: Machine) -> None:
    listed = trace(machine, "list", "tracepoints", "sched:*switch", "-v").out.splitlines()
    assert listed[0] == "tp:sched:sched_switch"
    assert "    pid_t prev_pid" in listed
    found = json.loads(trace(machine, "list", "functions", "vfs_readlin?", "--json").out)
    assert found["release"] == machine.release
    (function,) = found["functions"]
    assert function["name"] == "vfs_readlink"
    assert function["prototype"].startswith("int vfs_readlink(struct dentry *dentry, ")
