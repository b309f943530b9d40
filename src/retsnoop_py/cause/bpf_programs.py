# SPDX-License-Identifier: BSD-2-Clause
"""BPF programs that are attached to a security hook, and the processes that hold them.

They are found after the failure, by the descriptors of all processes (/proc/PID/fdinfo). A program
that only a pin in the BPF file system holds is not found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from retsnoop_py.cause.waiting import proc
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.value import Value

__all__ = ["LsmProgram", "lsm_programs"]

_BPF_LSM_MAC = "27"
_PROC = Path("/proc")


class LsmProgram(Value):
    """``id`` as in bpftool(8), ``name`` or "", ``holder``: ``python3 (PID 7)`` or ""."""

    id: int
    name: str
    holder: str

    def __str__(self) -> str:
        name = f"{self.name} " if self.name else ""
        return f"{name}(id {self.id})" + (f" of {self.holder}" if self.holder else "")


def lsm_programs(hook: str) -> Iterator[LsmProgram]:
    """Yield the programs that are attached to the function ``hook`` ("bpf_lsm_file_open")."""
    facts = KernelFacts()
    try:
        btf = facts.btf
        wanted = btf.find(hook, Kind.FUNC) if btf is not None else None
    except RetsnoopError:
        wanted = None
    seen = set()
    for info in _PROC.glob("[0-9]*/fdinfo/*"):
        fields = _fields(info)
        if fields.get("attach_type") != _BPF_LSM_MAC or "prog_id" not in fields:
            continue
        target = fields.get("target_btf_id")
        if wanted is not None and target is not None and int(target) != wanted:
            continue
        number = int(fields["prog_id"])
        if number not in seen:
            seen.add(number)
            yield LsmProgram(number, _name(fields.get("prog_tag", "")), _holder(info.parent.parent))


def _fields(info: Path) -> dict[str, str]:
    try:
        if not os.readlink(info.parent.parent / "fd" / info.name).startswith("anon_inode:bpf"):
            return {}
        lines = info.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _holder(folder: Path) -> str:
    name = proc.comm(int(folder.name))
    return f"{name} (PID {folder.name})" if name else ""


def _name(tag: str) -> str:
    """The name of a program, by its symbol ``bpf_prog_TAG_NAME``."""
    prefix = f"bpf_prog_{tag}_"
    if not tag:
        return ""
    try:
        with open("/proc/kallsyms") as file:
            return next(
                (
                    line.split()[2].removeprefix(prefix)
                    for line in file
                    if prefix in line and line.rstrip().endswith("[bpf]")
                ),
                "",
            )
    except OSError:
        return ""
