# SPDX-License-Identifier: BSD-2-Clause
"""In a PID namespace, as in every container, only the selected processes are traced."""

from __future__ import annotations

import errno
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.live.support import (
    FEW,
    PROGRAMS,
    PYTHON,
    TOOL,
    WORKLOAD,
    compiled,
    errno_of,
    read_recording,
    trace,
    wait_for,
)

from retsnoop_py.session.model import SessionKind
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

INSIDE = ("unshare", "--pid", "--fork", "--mount-proc")
CASE = (*WORKLOAD, "bpf-map-bad-flags")
#: The call of the C program's processes, and its failing function.
CALLS = ("-e", "*_sys_ioctl", "-a", "pipe_ioctl")


def inside(machine: Machine, *args: str, wrapper: tuple[str, ...] = INSIDE) -> Result:
    """Run the tool in a PID namespace of the guest."""
    return machine.run([*wrapper, TOOL, *args], timeout=180)


def caller(machine: Machine) -> str:
    """Return a program that starts fast and makes one failing call."""
    return str(compiled(machine, "callers", "-g", "-fno-omit-frame-pointer"))


def test_a_command_is_followed_into_further_namespaces(machine: Machine) -> None:
    path = machine.share / "inside.rsn"
    case = f"{caller(machine)} 1"
    script = f"{case}; {' '.join(INSIDE)} {case}"
    result = inside(machine, *CALLS, "-o", str(path), "--", "sh", "-c", script)
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert [errno_of(session) for session in recording.sessions] == [errno.ENOTTY] * 2
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    first, second = recording.sessions
    # retsnoop-py has the id 1 there, or the first process of the namespace below.
    assert 1 < first.ns_tid == first.ns_tgid == first.proc_tgid < first.tgid
    assert (second.ns_tid, second.ns_tgid) == (1, 1)
    assert first.proc_tgid < second.proc_tgid < second.tgid
    assert first.pid_ns != second.pid_ns
    ids = [f"{s.tid}/{s.tgid} ({s.ns_tid}/{s.ns_tgid} in its" for s in recording.sessions]
    assert re.findall(r"TID/PID (\S+ \(\S+ in its) PID namespace\) \(callers", result.out) == ids
    again = [TOOL, "replay", "--format", "json", str(path)]
    lines = subprocess.run(again, capture_output=True, check=True).stdout.splitlines()
    shown = [one for one in map(json.loads, lines) if one["type"] == "session"]
    assert [(one["tid"], one["pid"], one["namespace"]) for one in shown] == [
        (s.tid, s.tgid, {"inode": s.pid_ns, "tid": s.ns_tid, "pid": s.ns_tgid})
        for s in recording.sessions
    ]


def test_processes_are_chosen_by_the_ids_they_have_inside(machine: Machine) -> None:
    """Three processes make the call: the first is not listed, the second is denied."""
    path, told = machine.share / "chosen.rsn", machine.share / "chosen.told"
    script = f"""
    cd "$(mktemp -d)" && mkfifo 1 2 3 || exit 99
    (read go <1; exec {caller(machine)} 1) & one=$!
    (read go <2; exec {caller(machine)} 1) & two=$!
    (read go <3; exec {caller(machine)} 1) & three=$!
    "$@" -p $two -p $three -P $two --count 1 -o {path} 2>{told} & tracer=$!
    until grep -q Receiving {told}; do kill -0 $tracer || exit 98; sleep 0.5; done
    echo >1; wait $one; echo >2; wait $two; echo >3; wait $tracer && echo $three
    """
    result = machine.run([*INSIDE, "sh", "-c", script, "sh", TOOL, *CALLS], timeout=180)
    assert result.status == 0, (result.err, told.read_text())
    (session,) = read_recording(path).sessions
    assert session.ns_tgid == int(result.out.splitlines()[-1])
    assert errno_of(session) == errno.ENOTTY


@pytest.mark.oldest_and_newest
def test_an_id_that_means_nothing_inside_is_refused(machine: Machine) -> None:
    """2 is a kernel thread everywhere else."""
    result = inside(machine, *FEW, "-p", "2")
    assert result.status == 66, result.err
    assert "-p 2: there is no process 2 in this PID namespace" in result.err


@pytest.mark.oldest_and_newest
def test_the_programs_stack_is_read_by_the_id_that_proc_has(machine: Machine) -> None:
    """Once where /proc is the namespace's own, once where it is that of the one above."""
    program = caller(machine)
    for wrapper in (INSIDE, ("unshare", "--pid", "--fork")):
        options = ("-e", "*_sys_ioctl", "--user-stack", "--", program, "1")
        result = inside(machine, *options, wrapper=wrapper)
        assert result.status == 0, result.err
        _, _, user = result.out.partition("\nUser stack:\n")
        names = re.findall(rf"(\w+)\+0x\w+ .*{re.escape(program)}", user)
        # arm64's libraries have frame pointers, so the stack also has the callers of main().
        assert names[-3:] == ["main", "outer_call", "inner_call"]
        assert names[:-3] == ([] if machine.arch.name == "x86_64" else ["_start"])


@pytest.mark.oldest_and_newest
def test_from_outside_a_process_is_shown_with_both_ids(machine: Machine) -> None:
    result = trace(machine, *CALLS, "--", *INSIDE, caller(machine), "1")
    assert result.status == 0, result.err
    assert re.findall(r"TID/PID (\d+)/\1 \(1/1 in its PID namespace\) \(callers", result.out)


@pytest.mark.parametrize("wrapper", [INSIDE, INSIDE[:-1]], ids=["own-proc", "proc-above"])
def test_a_call_that_still_runs_in_a_namespace_is_told(
    machine: Machine, wrapper: tuple[str, ...]
) -> None:
    """Once where /proc is the namespace's own, once where it is that of the one above."""
    name = f"hangs-{len(wrapper)}"
    path, ready, release = (machine.share / f"{name}.{end}" for end in ("rsn", "ready", "go"))
    script = (PYTHON, str(PROGRAMS / "blocked.py"), str(ready), str(release))
    options = ("-e", "fifo_open", "-TE", "-S", "--count", "1", "-o", str(path))
    command = machine.start([*wrapper, TOOL, *options, "--", *script])
    wait_for(lambda: b"goes on, untraced" in command.output()[1], command)
    release.touch()
    result = command.wait(120)
    assert result.status == 0, result.err
    (running,) = (s for s in read_recording(path).sessions if s.kind is SessionKind.RUNNING)
    assert running.tid != running.tgid
    assert 1 < running.ns_tgid < running.ns_tid < running.tid
    assert (running.proc_tgid == running.ns_tgid) is (wrapper is INSIDE)
    assert running.pid_ns
    assert running.task_comm.startswith("python")
    (block,) = (one for one in result.out.split("\n\n\n") if "Still running" in one)
    ids = f"{running.tid}/{running.tgid} ({running.ns_tid}/{running.ns_tgid} in its PID namespace)"
    assert ids in block
    assert "→ fifo_open" in block
    assert "do_sys_openat2+" in block


#: The capabilities that a container needs beside its default ones; README.md lists them.
NEEDED = ("CAP_BPF", "CAP_PERFMON", "CAP_SYSLOG")
#: Without kprobe.multi Debian's kernels want more for perf events; before 5.11 BPF needs memlock.
NEEDED_BEFORE_6_2 = (*NEEDED, "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE")
TRACEFS = "/sys/kernel/tracing"


def environment(machine: Machine) -> dict[str, str]:
    """Return the variables that a program without an environment needs to find the tool."""
    return machine.userland.env if machine.userland else {}


def layers(machine: Machine) -> list[dict[str, object]]:
    """Return the guest's mounts over its root, if the root does not have all files."""
    return [bind(str(place)) for place, _ in machine.userland.layers] if machine.userland else []


def bind(place: str) -> dict[str, object]:
    return {"destination": place, "type": "bind", "source": place, "options": ["rbind"]}


def contained(machine: Machine, *args: str, capabilities: tuple[str, ...], tracefs: bool) -> Result:
    """Run the tool in a container of crun with the guest's files."""
    held = dict.fromkeys(("bounding", "effective", "permitted"), capabilities)
    env = {"PATH": "/usr/bin:/bin", **environment(machine)}
    proc = {"destination": "/proc", "type": "proc", "source": "proc"}
    sys = {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]}
    config = {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [TOOL, *args],
            "env": [f"{key}={value}" for key, value in env.items()],
            "cwd": "/",
            "capabilities": held,
        },
        "root": {"path": "rootfs"},
        "mounts": [
            *(proc, sys, bind("/dev"), *layers(machine), bind(str(machine.share))),
            *([bind(TRACEFS)] if tracefs else []),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    }
    (machine.share / "config.json").write_text(json.dumps(config))
    script = f"""
    mkdir -p /run/box/rootfs && cp {machine.share}/config.json /run/box || exit 99
    mountpoint -q /run/box/rootfs || mount --bind / /run/box/rootfs || exit 99
    exec crun --cgroup-manager=disabled run -b /run/box box
    """
    return machine.run(["sh", "-c", script], timeout=180)


@pytest.mark.one_kernel
def test_a_container_needs_three_capabilities_and_tracefs(machine: Machine) -> None:
    path = machine.share / "contained.rsn"
    words = (*FEW, "-o", str(path), "--", *CASE)
    is_old = tuple(map(int, machine.release.split(".")[:2])) < (6, 2)
    capabilities = NEEDED_BEFORE_6_2 if is_old else NEEDED
    result = contained(machine, *words, capabilities=capabilities, tracefs=True)
    assert result.status == 0, result.err
    (session,) = read_recording(path).sessions
    assert errno_of(session) == errno.EINVAL
    assert session.ns_tid == session.ns_tgid == 2  # the command, started by the first
    assert f"TID/PID {session.tid}/{session.tgid} (2/2 in its PID namespace)" in result.out


@pytest.mark.one_kernel
def test_what_a_container_lacks_is_told(machine: Machine) -> None:
    told = contained(machine, *FEW, capabilities=NEEDED, tracefs=False)
    assert told.status == 69, told.err
    assert f"-v {TRACEFS}:{TRACEFS}" in told.err
    told = contained(machine, *FEW, capabilities=(), tracefs=True)
    assert told.status == 77, told.err
    assert "needs CAP_BPF and CAP_PERFMON" in told.err
    doctor = contained(machine, "doctor", "--json", capabilities=(), tracefs=False)
    assert doctor.status == 77, doctor.err
    checks = json.loads(doctor.out)["checks"]
    lacking = ("pid_namespace", "cap_bpf", "cap_perfmon", "cap_syslog", "kallsyms", "tracefs")
    assert [checks[key]["answer"] for key in lacking] == ["no"] * len(lacking)
    assert f"-v {TRACEFS}:{TRACEFS}" in checks["tracefs"]["next_step"]


DAEMONSET = Path(__file__).parents[2] / "deploy" / "daemonset.yaml"
#: Keys of the manifest that this test makes something of. Others would be passed over.
POD = {"hostPID", "containers", "volumes"}
#: The kubelet's other keys have no counterpart in a container's bundle.
OF_KUBELET = {
    *("automountServiceAccountToken", "terminationGracePeriodSeconds", "nodeSelector"),
    "tolerations",
}
CONTAINER = {"name", "image", "command", "env", "resources", "securityContext", "volumeMounts"}
SECURITY = {
    *("runAsUser", "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem"),
    *("capabilities", "seccompProfile"),
}


def bundle_of(
    manifest: Path, config: Path, node: str, own: dict[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """A DaemonSet's container as a runtime's config.json, and the node's folders it wants made.

    ``config`` is where the files of its ConfigMap lie, ``own`` the variables that its image has.
    The seccomp profile is the runtime's own, which only containerd and CRI-O bring along: none is
    applied.
    """
    documents = {one["kind"]: one for one in yaml.safe_load_all(manifest.read_text())}
    pod = documents["DaemonSet"]["spec"]["template"]["spec"]
    assert set(pod) == POD | OF_KUBELET
    (container,) = pod["containers"]
    assert set(container) == CONTAINER
    security = container["securityContext"]
    assert set(security) == SECURITY
    assert not security["privileged"]
    assert security["capabilities"]["drop"] == ["ALL"]
    held = [f"CAP_{name}" for name in security["capabilities"]["add"]]
    folders, mounts = [], []
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    for wanted in container["volumeMounts"]:
        ((kind, told),) = volumes.pop(wanted["name"]).items()
        place = {"destination": wanted["mountPath"]}
        options = ["ro"] if wanted.get("readOnly") else ["rw"]
        if kind == "emptyDir":
            mounts.append({**place, "type": "tmpfs", "source": "tmpfs", "options": options})
            continue
        if kind == "configMap":
            assert told["name"] == documents["ConfigMap"]["metadata"]["name"]
            source = str(config)
        else:
            assert kind == "hostPath"
            source = told["path"]
            folders += [source] if told["type"] == "DirectoryOrCreate" else []
        mounts.append({**place, "type": "bind", "source": source, "options": ["rbind", *options]})
    assert not volumes, f"volumes that nothing mounts: {volumes}"
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env.pop("NODE") is None
    given = {"PATH": f"{Path(TOOL).parent}:/usr/bin:/bin", **own, "NODE": node, **env}
    sys = {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]}
    dev = {"destination": "/dev", "type": "bind", "source": "/dev", "options": ["rbind"]}
    kinds = ["mount", "ipc", "uts", *([] if pod["hostPID"] else ["pid"])]
    bundle = {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": security["runAsUser"], "gid": 0},
            "args": container["command"],
            "env": [f"{key}={value}" for key, value in given.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
            "noNewPrivileges": not security["allowPrivilegeEscalation"],
        },
        "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, sys, dev, *mounts],
        "linux": {"namespaces": [{"type": kind} for kind in kinds]},
    }
    return bundle, folders


@pytest.mark.one_kernel
def test_the_daemonset_traces_its_node_and_ends_when_told_to(machine: Machine) -> None:
    """As the manifest has it: its script, its options, its rights, its volumes; crun runs it."""
    config = machine.share / "config-map"
    config.mkdir()
    documents = {one["kind"]: one for one in yaml.safe_load_all(DAEMONSET.read_text())}
    for name, text in documents["ConfigMap"]["data"].items():
        (config / name).write_text(text)
    bundle, folders = bundle_of(DAEMONSET, config, "node-1", environment(machine))
    bundle["mounts"][3:3] = layers(machine)  # behind what every container has
    # An image would contain the tool: the pod's own /tmp would hide a checkout in /tmp.
    bundle["mounts"].append(bind(str(Path(TOOL).parents[2])))
    (machine.share / "config.json").write_text(json.dumps(bundle))
    places = " ".join(mount["destination"] for mount in bundle["mounts"])
    out, err = machine.share / "daemon.out", machine.share / "daemon.err"
    (recordings,) = folders
    script = f"""
    mkdir -p /run/daemon/rootfs {recordings} {places} || exit 99
    cp {machine.share}/config.json /run/daemon || exit 99
    mount --bind / /run/daemon/rootfs || exit 99
    cd /run/daemon && crun --cgroup-manager=disabled run daemon >{out} 2>{err} & runtime=$!
    until grep -q Receiving {err}; do kill -0 $runtime || exit 98; sleep 0.5; done
    {" ".join(WORKLOAD)} mount-unknown
    until grep -q '"session"' {out}; do kill -0 $runtime || exit 97; sleep 0.5; done
    crun --cgroup-manager=disabled kill daemon TERM && wait $runtime
    status=$?
    cp {recordings}/*.rsn {machine.share}
    umount -l /run/daemon/rootfs
    exit $status
    """
    result = machine.run(["sh", "-c", script], timeout=180)
    assert result.status == 0, result.err + err.read_text()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    shown = [one for one in lines if one["type"] == "session"]
    assert lines[-1]["type"] == "summary"
    [path] = machine.share.glob("node-1-*Z.rsn")
    recording = read_recording(path)
    assert len(recording.sessions) == len(shown) > 0
    # The container has the node's process ids, so no second ids are shown.
    assert all("namespace" not in one for one in shown)
