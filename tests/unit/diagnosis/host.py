# SPDX-License-Identifier: BSD-2-Clause
"""A machine for doctor to look at: files below a folder, and what trying would have given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.unit.kernel.btf_writer import SIGNED, BtfWriter
from tests.unit.kernel.tree import Tree

from retsnoop_py.diagnosis.model import Check, Host, Tried
from retsnoop_py.mechanism import Mechanism

RELEASE = "6.12.0-test"
#: Every capability there is.
ALL = (1 << 41) - 1
MECHANISMS = tuple(one for one in Mechanism if one is not Mechanism.AUTO)
WORKING = Tried(
    load_error=0,
    kprobe_error=0,
    branch_error=2,
    ringbuf=True,
    func_ip=True,
    cookie=True,
    raw_cookie=True,
    branch_snapshot=True,
    reasons=dict.fromkeys(MECHANISMS, None),
)


class FakeHost:
    """A machine on which all is well, until a test takes something away."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self.tried = WORKING
        self.capabilities: int | None = ALL
        self.files = (1024, 1 << 20)
        self.environ: dict[str, str] = {"HOME": str(root)}
        self.is_root = True
        self.image: Path | None = None
        self._write()

    def _write(self) -> None:
        writer = BtfWriter()
        writer.func("vfs_read", writer.int("int", 4, SIGNED))
        tree = self.tree
        tree.btf(writer.bytes())
        tree.kallsyms("ffffffff81000000 T vfs_read", "ffffffff81000100 T _etext")
        tree.traceable("ffffffff81000004 vfs_read", addrs=True)
        tree.modules()
        for path, text in {
            "proc/sys/kernel/osrelease": RELEASE,
            "proc/sys/kernel/arch": "x86_64",
            "proc/sys/kernel/ftrace_enabled": "1",
            "proc/sys/kernel/kptr_restrict": "0",
            "proc/sys/kernel/perf_event_paranoid": "2",
            "proc/sys/kernel/unprivileged_bpf_disabled": "2",
            "proc/filesystems": "nodev\ttracefs",
            "proc/mounts": "tracefs /sys/kernel/tracing tracefs rw 0 0",
            "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu ibt lm",
            "sys/kernel/debug/kprobes/enabled": "1",
            "sys/kernel/debug/kprobes/blacklist": "0x1-0x2\tx\n",
            "sys/kernel/rcu_expedited": "0",
            "sys/kernel/security/lockdown": "[none] integrity confidentiality",
            "sys/bus/event_source/devices/kprobe/type": "6",
        }.items():
            tree.file(path, f"{text}\n")

    def file(self, path: str, data: str | bytes) -> None:
        self.tree.file(path, data)

    def remove(self, path: str) -> None:
        (self.tree.root / path).unlink()

    def refuse(self, reasons: Mapping[Mechanism, str]) -> None:
        """Mechanisms that do not work."""
        self.tried = replace(self.tried, reasons={**self.tried.reasons, **reasons})

    def drop(self, *capabilities: int) -> None:
        """Capabilities that are not held."""
        assert self.capabilities is not None
        for bit in capabilities:
            self.capabilities &= ~(1 << bit)

    @property
    def host(self) -> Host:
        return Host(
            facts=self.tree.facts,
            tried=self.tried,
            capabilities=self.capabilities,
            files=self.files,
            environ=self.environ,
            is_root=self.is_root,
            image=self.image,
        )


def by_key(checks: list[Check]) -> dict[str, Check]:
    return {check.key: check for check in checks}
