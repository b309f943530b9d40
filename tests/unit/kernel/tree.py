# SPDX-License-Identifier: BSD-2-Clause
"""A kernel made of files: what /proc and /sys show, written below a temporary directory."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.kernel.facts import KernelFacts

TRACING = "sys/kernel/tracing"


class Tree:
    """Writes the files of a kernel and reads them as facts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def facts(self) -> KernelFacts:
        return KernelFacts(self.root)

    def file(self, path: str, data: str | bytes) -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data.encode() if isinstance(data, str) else data)
        return full

    def kallsyms(self, *lines: str) -> Path:
        return self.file("proc/kallsyms", "".join(f"{line}\n" for line in lines))

    def traceable(self, *lines: str, addrs: bool = False) -> None:
        name = "available_filter_functions" + ("_addrs" if addrs else "")
        self.file(f"{TRACING}/{name}", "".join(f"{line}\n" for line in lines))

    def modules(self, *modules: tuple[str, int, int]) -> None:
        lines = [f"{name} {size} 0 - Live {address:#x}\n" for name, address, size in modules]
        self.file("proc/modules", "".join(lines))

    def btf(self, data: bytes, name: str = "vmlinux") -> None:
        self.file(f"sys/kernel/btf/{name}", data)

    def blacklist(self, *ranges: tuple[int, int]) -> None:
        lines = [f"{first:#x}-{beyond:#x}\tname\n" for first, beyond in ranges]
        self.file("sys/kernel/debug/kprobes/blacklist", "".join(lines))
