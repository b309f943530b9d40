# SPDX-License-Identifier: BSD-2-Clause
"""How the kernel was configured, where it tells."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host

__all__ = ["OPTIONS", "config"]

#: What tracing uses, by option.
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
#: Not a lack when off: other ways exist, other machines, or nothing depends on it.
_OPTIONAL = frozenset({"UNWINDER_ORC", "X86_KERNEL_IBT"})
_LINE = re.compile(r"^CONFIG_(\w+)=(.*)$", re.MULTILINE)


def config(host: Host) -> list[Check]:
    """One check; its ``config`` has each option as ``y``, ``m`` or ``n``."""
    tried: list[tuple[str, str]] = []
    for path in _places(host):
        try:
            text = _read(path)
        except (OSError, EOFError, zlib.error) as error:
            tried.append((str(path), getattr(error, "strerror", None) or str(error)))
            continue
        return [_found(path, text, tuple(tried))]
    return [
        Check(
            key="config",
            title="configuration",
            group=Group.KERNEL,
            answer=Answer.UNKNOWN,
            detail="this kernel does not tell how it was configured",
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
        next_step="use a kernel that has them, where something above is missing" if missing else "",
        tried=(*tried, (str(path), "used")),
        config=options,
    )
