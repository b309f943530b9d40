# SPDX-License-Identifier: BSD-2-Clause
"""Check the kernel and the CPU: symbols, types, tracefs, branch records, configuration."""

from __future__ import annotations

import errno
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, read_text
from retsnoop_py.errors import RetsnoopError, UnavailableError
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.kernel.switches import FTRACE, KPROBES
from retsnoop_py.kernel.tracefs import (
    MOUNT_PROC,
    MOUNT_SYSFS,
    NO_PROC,
    NO_SYSFS,
    TRACEFS,
    folder_with,
    has_proc,
    has_sysfs,
    lacks_kprobes,
    mount_command,
)

#: Mount points as named in /proc/mounts.
_MOUNTS = tuple(f"/{place}" for place in TRACEFS)
#: Since 6.5 (83f74441bcb1): tells functions of the same name apart.
_ADDRESSES = "available_filter_functions_addrs"
#: Maximum number of printed modules without types.
_NAMED = 4


def kernel(host: Host) -> list[Check]:
    """Return all checks that only read files."""
    return [
        _release(host),
        _procfs(host),
        # a trace reads the types first, and with them the symbols
        _btf(host),
        _kallsyms(host),
        _module_btf(host),
        _tracefs(host),
        _traceable(host),
        _kprobes(host),
        _kprobes_enabled(host),
        _ftrace_enabled(host),
        _blacklist(host),
        _rcu_expedited(host),
    ]


def _needed(key: str, title: str, ask: Callable[[], str]) -> Check:
    """Check a fact that every trace needs; ``ask`` reads the fact as a trace does."""
    try:
        detail = ask()
    except RetsnoopError as error:
        return Check(
            key=key,
            title=title,
            group=Group.KERNEL,
            answer=Answer.NO,
            detail=error.message,
            next_step=error.hint or "",
            ends_with=error.exit_status,
        )
    return Check(key=key, title=title, group=Group.KERNEL, answer=Answer.YES, detail=detail)


def _check(key: str, title: str, answer: Answer, detail: str, *, more: str = "") -> Check:
    return Check(
        key=key, title=title, group=Group.KERNEL, answer=answer, detail=detail, next_step=more
    )


def _release(host: Host) -> Check:
    too_old = host.facts.too_old
    answer, detail = Answer.YES, ""
    if too_old:
        answer, detail = Answer.NO, f"this is {host.facts.release}"
    return _check("release", "Linux 5.10 or later", answer, detail, more=too_old or "")


def _procfs(host: Host) -> Check:
    """Check for /proc. A trace can do without: Linux 6.0 and later list symbols to BPF programs."""
    if has_proc(host.root):
        return _check("procfs", "/proc", Answer.YES, "")
    return Check(
        key="procfs",
        title="/proc",
        group=Group.KERNEL,
        answer=Answer.NO,
        detail=NO_PROC,
        next_step=MOUNT_PROC,
        loses="why and --explain: they read files of processes in /proc",
    )


def _kallsyms(host: Host) -> Check:
    def ask() -> str:
        return f"{len(host.facts.kallsyms.table)} functions"

    return _needed("kallsyms", "symbols of the kernel", ask)


def _btf(host: Host) -> Check:
    def ask() -> str:
        return f"{host.facts.require_btf().end - 1} types"

    return _needed("btf", "BTF of the kernel", ask)


def _module_btf(host: Host) -> Check:
    names = [module.name for module in host.facts.modules]
    folder = host.root / "sys/kernel/btf"
    without = [name for name in names if not (folder / name).exists()]
    answer, detail, more = Answer.YES, f"for all loaded modules: {len(names)}", ""
    if not has_proc(host.root):
        answer, detail, more = Answer.UNKNOWN, NO_PROC, MOUNT_PROC
    elif not names:
        answer, detail = Answer.UNKNOWN, "no module is loaded"
    elif not has_sysfs(host.root):
        answer, detail, more = Answer.UNKNOWN, NO_SYSFS, MOUNT_SYSFS
    elif without:
        answer = Answer.NO
        shown = ", ".join(without[:_NAMED]) + (", ..." if len(without) > _NAMED else "")
        detail = f"{len(without)} of {len(names)} loaded modules have none: {shown}"
        more = "their functions are assumed to return int; CONFIG_DEBUG_INFO_BTF_MODULES=y adds BTF"
    return _check("module_btf", "BTF of modules", answer, detail, more=more)


def _tracefs(host: Host) -> Check:
    """Check for tracefs in the two usual mount points, where all users find the functions."""
    if not has_proc(host.root):
        return _tracefs_without_proc(host)
    mounts = [line.split() for line in (read_text(host.root / "proc/mounts") or "").splitlines()]
    found = [fields[1] for fields in mounts if len(fields) > 2 and fields[2] == "tracefs"]
    usual = [place for place in found if place in _MOUNTS]
    if usual:
        return _check("tracefs", "tracefs", Answer.YES, f"on {usual[0]}")
    filesystems = read_text(host.root / "proc/filesystems")
    if filesystems is not None and "tracefs" not in filesystems.split():
        detail, more = "this kernel has none", "use a kernel with CONFIG_FTRACE"
    elif found:
        detail = f"mounted on {found[0]}, where it is not searched"
        more = mount_command(host.root, "tracefs", _MOUNTS[0])
    else:
        detail, more = "not mounted", mount_command(host.root, "tracefs", _MOUNTS[0])
        if not in_first("pid", host.root / "proc/self"):
            more += f"; or start the container with -v {_MOUNTS[0]}:{_MOUNTS[0]}"
    return _check("tracefs", "tracefs", Answer.NO, detail, more=more)


def _tracefs_without_proc(host: Host) -> Check:
    """Check for a file of tracefs, because /proc/mounts cannot be read."""
    folder = folder_with(host.root, "available_filter_functions")
    if folder is None:
        return _check("tracefs", "tracefs", Answer.UNKNOWN, NO_PROC, more=MOUNT_PROC)
    place = f"/{folder.relative_to(host.root)}"
    return _check("tracefs", "tracefs", Answer.YES, f"on {place}")


def _traceable(host: Host) -> Check:
    def ask() -> str:
        count = len(host.facts.traceable)
        places = (host.root / place / _ADDRESSES for place in TRACEFS)
        how = "with" if any(os.access(place, os.F_OK) for place in places) else "without"
        return f"{count} functions, {how} addresses"

    return _needed("traceable_functions", "traceable functions", ask)


def _kprobes(host: Host) -> Check:
    if lacks_kprobes(host.root):
        return _check(
            "kprobes",
            "kprobes",
            Answer.NO,
            "this kernel has none (CONFIG_KPROBES or CONFIG_KPROBE_EVENTS is off)",
            more="run on a kernel that has them: retsnoop-py vm run --on 6.12 -- ...",
        )
    if not (host.root / "sys/bus/event_source/devices").is_dir():
        detail, more = "/sys/bus/event_source is missing", ""
        if not has_sysfs(host.root):
            detail, more = NO_SYSFS, MOUNT_SYSFS
        return _check("kprobes", "kprobes", Answer.UNKNOWN, detail, more=more)
    return _check("kprobes", "kprobes", Answer.YES, "")


def _kprobes_enabled(host: Host) -> Check:
    """Check whether kprobes are enabled: otherwise they attach but are never hit."""
    key, title = "kprobes_enabled", "kprobes switched on"
    if lacks_kprobes(host.root):
        return _check(key, title, Answer.NO, "there are none")
    if read_text(host.root / KPROBES.path) is None:
        return _check(key, title, Answer.UNKNOWN, "debugfs cannot be read", more=_debugfs(host))
    if KPROBES.is_off(host.root):
        loses = "conditions: why, --path and --pinpoint need kprobes"
        return Check(
            key=key,
            title=title,
            group=Group.KERNEL,
            answer=Answer.NO,
            detail=KPROBES.off,
            next_step=KPROBES.command,
            loses=loses,
        )
    return _check(key, title, Answer.YES, "")


def _debugfs(host: Host) -> str:
    if not host.is_root:
        return "run as root"
    return mount_command(host.root, "debugfs", "/sys/kernel/debug")


def _ftrace_enabled(host: Host) -> Check:
    """Check whether ftrace is enabled: all mechanisms need it, kprobes for first instructions."""
    key, title = "ftrace_enabled", "ftrace switched on"
    if not has_proc(host.root):
        return _check(key, title, Answer.UNKNOWN, NO_PROC, more=MOUNT_PROC)
    if not (host.root / FTRACE.path).exists():
        return _check(key, title, Answer.UNKNOWN, "this kernel has no kernel.ftrace_enabled")
    if FTRACE.is_off(host.root):
        return Check(
            key=key,
            title=title,
            group=Group.KERNEL,
            answer=Answer.NO,
            detail=FTRACE.off,
            next_step=FTRACE.command,
            ends_with=UnavailableError.exit_status,
        )
    return _check(key, title, Answer.YES, "")


def _blacklist(host: Host) -> Check:
    key, title = "kprobe_blacklist", "kprobe blacklist"
    if lacks_kprobes(host.root):
        return _check(key, title, Answer.NO, "there are no kprobes")
    text = read_text(host.root / "sys/kernel/debug/kprobes/blacklist")
    if text is None:
        detail = "debugfs cannot be read: rejected functions show up only while attaching"
        return _check(key, title, Answer.UNKNOWN, detail, more=_debugfs(host))
    return _check(key, title, Answer.YES, f"{len(text.splitlines())} ranges")


def _rcu_expedited(host: Host) -> Check:
    path = host.root / "sys/kernel/rcu_expedited"
    writable = os.access(path, os.W_OK)
    detail, more = "no permission to change /sys/kernel/rcu_expedited for a moment", ""
    if not has_sysfs(host.root):
        detail, more = NO_SYSFS, MOUNT_SYSFS
    elif not host.is_root:
        more = "run as root"
    return Check(
        key="rcu_expedited",
        title="rcu_expedited writable",
        group=Group.KERNEL,
        answer=Answer.YES if writable else Answer.NO,
        detail="" if writable else detail,
        next_step="" if writable else more,
        loses="" if writable else "attaching and detaching single kprobes at full speed",
    )


# --- the CPU: branch records, indirect branch tracking ------------------------------------------

_DENIED = frozenset({errno.EPERM, errno.EACCES})
_FLAGS = re.compile(r"^flags\s*:(.*)$", re.MULTILINE)


def cpu(host: Host) -> list[Check]:
    """Return the checks of the CPU."""
    return [_branches(host), _ibt(host)]


def _branches(host: Host) -> Check:
    """Check whether an event with branch records can be opened, and the depth of the record."""
    devices = host.root / "sys/bus/event_source/devices"
    depths = [read_text(path) for path in sorted(devices.glob("*/caps/branches"))]
    depth = next((text for text in depths if text and text != "0"), None)
    error, answer, detail, next_step = host.tried.branch_error, Answer.NO, "", ""
    if error == 0:
        answer = Answer.YES
        detail = f"{depth} branches deep" if depth else ""
    elif error is None:
        answer, detail = Answer.UNKNOWN, "not tried on this machine"
    elif error in _DENIED:
        answer, detail = Answer.UNKNOWN, f"perf events are forbidden (-{errno_name(error)})"
        next_step = "run as root"
    elif not has_sysfs(host.root):
        answer, detail, next_step = Answer.UNKNOWN, NO_SYSFS, MOUNT_SYSFS
    elif not list(devices.glob("cpu*")) and not list(devices.glob("arm*")):
        detail = f"the kernel sees no PMU of the CPU (-{errno_name(error)}), as in most VMs"
        next_step = "use real hardware, or give the VM a PMU"
    else:
        detail = f"the CPU does not support branch records (-{errno_name(error)})"
    return Check(
        key="lbr",
        title="branch records (LBR)",
        group=Group.BPF,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )


def _ibt(host: Host) -> Check:
    """Report indirect branch tracking, which makes attaching to many functions slower."""
    if host.facts.machine != "x86_64":
        return Check(
            key="ibt",
            title="indirect branch tracking",
            group=Group.KERNEL,
            answer=Answer.NO,
            detail="a feature of x86-64",
        )
    if not has_proc(host.root):
        return _check("ibt", "indirect branch tracking", Answer.UNKNOWN, NO_PROC, more=MOUNT_PROC)
    found = _FLAGS.search(read_text(host.root / "proc/cpuinfo") or "")
    has = found is not None and "ibt" in found[1].split()
    return Check(
        key="ibt",
        title="indirect branch tracking",
        group=Group.KERNEL,
        answer=Answer.YES if has else Answer.NO if found else Answer.UNKNOWN,
        detail="" if found else "/proc/cpuinfo does not tell",
    )


#: Kernel options that tracing uses.
OPTIONS = {
    "BPF_SYSCALL": "bpf()",
    "BPF_EVENTS": "BPF programs on kprobes",
    "BPF_JIT": "programs that cost little",
    "DEBUG_INFO_BTF": "types",
    "DEBUG_INFO_BTF_MODULES": "types of modules",
    "KALLSYMS_ALL": "kernels before 5.15",
    "KPROBES": "kprobes",
    "KPROBE_EVENTS": "kprobes as events",
    "FUNCTION_TRACER": "the list of traceable functions",
    "DYNAMIC_FTRACE": "the same",
    "FPROBE": "kprobe.multi, kprobe.session",
    "DYNAMIC_FTRACE_WITH_DIRECT_CALLS": "fentry, fsession.multi",
    "UNWINDER_ORC": "stacks without gaps on x86-64",
    "X86_KERNEL_IBT": "not needed: checks indirect branches",
}
#: Options that are not missed if off: an alternative exists, or nothing depends on the option.
_OPTIONAL = frozenset({"UNWINDER_ORC", "X86_KERNEL_IBT"})
_LINE = re.compile(r"^CONFIG_(\w+)=(.*)$", re.MULTILINE)


def config(host: Host) -> list[Check]:
    """Return one check; its ``config`` has each option as ``y``, ``m`` or ``n``."""
    tried: list[tuple[str, str]] = []
    for path in _places(host):
        try:
            text = _read(path)
        except (OSError, EOFError, zlib.error) as error:
            tried.append((str(path), getattr(error, "strerror", None) or str(error)))
            continue
        return [_found(path, text, tuple(tried))]
    there = has_proc(host.root)
    return [
        Check(
            key="config",
            title="configuration",
            group=Group.KERNEL,
            answer=Answer.UNKNOWN,
            detail="this kernel does not report its configuration" if there else NO_PROC,
            next_step="" if there else MOUNT_PROC,
            tried=tuple(tried),
        )
    ]


def _places(host: Host) -> Iterator[Path]:
    release = host.facts.release
    yield host.root / "proc/config.gz"
    yield host.root / f"boot/config-{release}"
    yield host.root / f"lib/modules/{release}/config"


def _read(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")


def _found(path: Path, text: str, tried: tuple[tuple[str, str], ...]) -> Check:
    values = dict(_LINE.findall(text))
    options = {name: values.get(name, "n") for name in OPTIONS}
    missing = [n for n, value in options.items() if value == "n" and n not in _OPTIONAL]
    detail = f"by {path}"
    if missing:
        detail = "off: " + ", ".join(f"{name} ({OPTIONS[name]})" for name in missing)
    return Check(
        key="config",
        title="configuration",
        group=Group.KERNEL,
        answer=Answer.NO if missing else Answer.YES,
        detail=detail,
        next_step="if something above is missing, use a kernel with these" if missing else "",
        tried=(*tried, (str(path), "used")),
        config=options,
    )
