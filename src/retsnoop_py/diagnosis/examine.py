# SPDX-License-Identifier: BSD-2-Clause
"""Run all checks, and conclude whether a trace works, by which mechanism, without which features.

Some facts need a test. A test uses the kernel like a trace, and leaves nothing in the kernel.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path

import msgspec

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.kprobe import PMU
from retsnoop_py.attach.lbr import ANY_IN_KERNEL
from retsnoop_py.diagnosis.bpf import bpf, mechanisms
from retsnoop_py.diagnosis.kernel import config, cpu, kernel
from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, Tried, read_text
from retsnoop_py.diagnosis.rights import container, effective, may_load, rights
from retsnoop_py.errors import PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.images import ImageSearch, find_image
from retsnoop_py.kernel.switches import FTRACE
from retsnoop_py.libbpf import links
from retsnoop_py.mechanism import LADDER, Mechanism

_TITLE = "vmlinux with DWARF"
_LOSES = "source lines, inlined functions and :SOURCE globs"
_GET = "install the kernel's debug package, set DEBUGINFOD_URLS, or use -k VMLINUX"


def sources(host: Host) -> list[Check]:
    """Check the image with DWARF and the debuginfod servers."""
    servers = Debuginfod(host.environ)
    image = _image(host, servers) if host.image is None else _named(host, host.image)
    return [image, _debuginfod(servers)]


def _named(host: Host, image: Path) -> Check:
    """Check the image that the user named, which a trace uses or rejects."""
    detail, next_step, ends_with = str(image), "", 0
    try:
        find_image(host.facts, image, root=host.root)
    except RetsnoopError as error:
        detail, next_step, ends_with = error.message, error.hint or "", error.exit_status
    return Check(
        key="vmlinux",
        title=_TITLE,
        group=Group.SOURCES,
        answer=Answer.NO if ends_with else Answer.YES,
        detail=detail,
        next_step=next_step,
        ends_with=ends_with,
    )


def _image(host: Host, servers: Debuginfod) -> Check:
    # Without servers: a real search would download hundreds of megabytes.
    search = find_image(host.facts, root=host.root, debuginfod=Debuginfod({}))
    path, tried = search.path, search.tried
    if path is None and servers.servers and host.facts.build_id:
        cached = _cached(host, servers)
        path, tried = cached.path, (*tried, *cached.tried)
    found, ask = path is not None, path is None and bool(servers.servers)
    detail = str(path) if found else "none was found"
    if ask:
        detail = f"not on this machine; a trace asks {', '.join(servers.servers)}"
    return Check(
        key="vmlinux",
        title=_TITLE,
        group=Group.SOURCES,
        answer=Answer.YES if found else Answer.UNKNOWN if ask else Answer.NO,
        detail=detail,
        next_step="" if found or ask else _GET,
        loses="" if found or ask else _LOSES,
        tried=(*tried, (str(path), "used")) if found else tried,
    )


def _cached(host: Host, servers: Debuginfod) -> ImageSearch:
    """Return the file from an earlier download; an empty file means that no server had it."""
    file = servers.cache / str(host.facts.build_id) / "debuginfo"
    try:
        if not file.stat().st_size:
            return ImageSearch("", None, ((str(file), "no server had it at the last request"),))
        return find_image(host.facts, file, root=host.root)
    except OSError as error:
        return ImageSearch("", None, ((str(file), error.strerror or str(error)),))
    except RetsnoopError as error:
        return ImageSearch("", None, ((str(file), error.message),))


def _debuginfod(servers: Debuginfod) -> Check:
    asked = bool(servers.servers)
    refused = "; ".join(f"{url}: {why}" for url, why in servers.tried)
    return Check(
        key="debuginfod",
        title="debuginfod",
        group=Group.SOURCES,
        answer=Answer.YES if asked else Answer.NO,
        detail=", ".join(servers.servers) if asked else refused or "DEBUGINFOD_URLS is not set",
    )


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The conclusion from all checks.

    ``mechanisms`` are those that a trace would use, best first. If no trace works, it is empty, and
    ``reason`` and ``next_step`` explain why. ``exit_status`` is a trace's exit status.
    """

    checks: tuple[Check, ...]
    mechanisms: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()
    reason: str = ""
    next_step: str = ""
    exit_status: int = 0

    @property
    def works(self) -> bool:
        """Return True if a trace works."""
        return self.exit_status == 0


def this_host(image: Path | None = None) -> Host:
    """Return the running kernel and this process, after all tests."""
    facts = KernelFacts(loading=True)  # as a trace reads them
    return Host(
        facts=facts,
        tried=attempt(facts),
        capabilities=effective(Path("/proc/self/status")),
        files=resource.getrlimit(resource.RLIMIT_NOFILE),
        environ=os.environ,
        is_root=os.geteuid() == 0,
        image=image,
    )


def examine(host: Host) -> Diagnosis:
    """Run all checks on ``host``."""
    subjects = (mechanisms, bpf, kernel, config, cpu, sources, rights, container)
    checks = [check for subject in subjects for check in subject(host)]
    # The sort is stable: groups in their order, checks in the order of their subjects.
    groups = list(Group)
    checks.sort(key=lambda check: groups.index(check.group))
    return diagnose(checks, privileged=may_load(host))


def diagnose(checks: Sequence[Check], *, privileged: bool) -> Diagnosis:
    """Return the conclusion from ``checks``; ``privileged``: this process may trace."""
    answers = {check.key: check for check in checks}
    working = [m for m in LADDER if answers[f"mechanism.{m.value}"].is_yes]
    blocking = next(
        (check for check in checks if check.ends_with and check.answer is not Answer.YES), None
    )
    if not privileged:
        return Diagnosis(
            checks=tuple(checks),
            reason="this user has no permission",
            next_step="run as root",
            exit_status=PrivilegeError.exit_status,
        )
    if blocking is not None or not working:
        lacking = answers["kprobes"] if answers["kprobes"].answer is Answer.NO else None
        events = answers["perf_event_paranoid"]
        if blocking is None and events.answer is Answer.NO:
            blocking = msgspec.structs.replace(events, ends_with=PrivilegeError.exit_status)
        return _fails(checks, lacking or blocking)
    return Diagnosis(
        checks=tuple(checks),
        mechanisms=tuple(mechanism.value for mechanism in working[:2]),
        loses=(
            *filter(None, [working[0].row.loses]),
            *(check.loses for check in checks if check.loses),
        ),
    )


def _fails(checks: Sequence[Check], blocking: Check | None) -> Diagnosis:
    if blocking is None:
        return Diagnosis(
            checks=tuple(checks),
            reason="no attach mechanism works",
            next_step="the reasons are above; retsnoop-py vm run --on 6.12 -- ... has them",
            exit_status=UnavailableError.exit_status,
        )
    return Diagnosis(
        checks=tuple(checks),
        reason=_reason(blocking),
        next_step=blocking.next_step,
        exit_status=blocking.ends_with or UnavailableError.exit_status,
    )


def _reason(blocking: Check) -> str:
    if blocking.detail.startswith(blocking.title):
        return blocking.detail
    return f"{blocking.title}: {blocking.detail}"


# --- facts that need a test -------------------------------------------------------------------

#: A function that every kernel has and that can be hooked.
_EVERYWHERE = "vfs_read"


def attempt(facts: KernelFacts) -> Tried:
    """Run all tests on the running kernel."""
    load_error = links.load()
    # Hooks created while ftrace is off can break ftrace until reboot.
    kprobe_error = None if FTRACE.is_off(facts.root) else _open_kprobe()
    branch_error = links.branches(0, ANY_IN_KERNEL)
    btf = facts.btf
    features = Features(btf.find(_EVERYWHERE, Kind.FUNC) if btf else None, facts.root)
    loads = load_error == 0
    verdicts = {m: features.verdict(m) for m in Mechanism if m is not Mechanism.AUTO}
    return Tried(
        load_error=load_error,
        kprobe_error=kprobe_error,
        branch_error=branch_error,
        ringbuf=features.ringbuf,
        func_ip=features.func_ip if loads else None,
        cookie=features.cookie if loads else None,
        raw_cookie=features.raw_cookie if loads else None,
        branch_snapshot=features.branch_snapshot if loads else None,
        kfuncs=features.kfuncs if loads else None,
        reasons={m: None if v.works else v.reason or "" for m, v in verdicts.items()},
        next_steps={m: v.next_step for m, v in verdicts.items() if v.next_step},
    )


def _open_kprobe() -> int | None:
    """Open a kprobe as a perf event; return an errno, or None if the kernel has no kprobes."""
    kind = read_text(PMU / "type")
    return None if kind is None else links.kprobe(int(kind), _EVERYWHERE)
