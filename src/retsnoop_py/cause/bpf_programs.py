# SPDX-License-Identifier: BSD-2-Clause
"""BPF programs that are attached to a security hook, and the processes that hold them.

They are found after the failure, by the descriptors of all processes (/proc/PID/fdinfo). A program
that only a pin in the BPF file system holds is not found.
"""

from __future__ import annotations

from collections.abc import Iterator

from retsnoop_py.cause.search import Search
from retsnoop_py.cause.waiting import proc
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.value import Value

__all__ = ["LsmProgram", "lsm_programs"]

_BPF_LSM_MAC = "27"
#: The maximum number of programs in the result.
_MOST = 5


class LsmProgram(Value):
    """``id`` as in bpftool(8), ``name`` or "", ``holder``: ``python3 (PID 7)`` or ""."""

    id: int
    name: str
    holder: str

    def __str__(self) -> str:
        name = f"{self.name} " if self.name else ""
        return f"{name}(id {self.id})" + (f" of {self.holder}" if self.holder else "")


def lsm_programs(hook: str) -> tuple[list[LsmProgram], str]:
    """Return the programs that are attached to the function ``hook`` ("bpf_lsm_file_open").

    The second value is a sentence if the search took too long and ended, else "".
    """
    facts = KernelFacts()
    try:
        btf = facts.btf
        wanted = btf.find(hook, Kind.FUNC) if btf is not None else None
    except RetsnoopError:
        wanted = None
    found: dict[int, LsmProgram] = {}
    search = Search()
    for pid, descriptor in _of_bpf(search):
        fields = _fields(proc.text(pid, f"fdinfo/{descriptor}"))
        if fields.get("attach_type") != _BPF_LSM_MAC or "prog_id" not in fields:
            continue
        target = fields.get("target_btf_id")
        if wanted is not None and target is not None and int(target) != wanted:
            continue
        number = int(fields["prog_id"])
        if number not in found:
            name = _name(fields.get("prog_tag", ""))
            found[number] = LsmProgram(number, name, _holder(pid))
            if len(found) == _MOST:
                break
    return list(found.values()), search.remark


def _of_bpf(search: Search) -> Iterator[tuple[int, int]]:
    """Yield process and descriptor of each BPF link or program that a process has open."""
    for pid in search.processes():
        for descriptor, target in search.descriptors(pid):
            if target.startswith("anon_inode:bpf"):
                yield pid, descriptor


def _fields(text: str) -> dict[str, str]:
    rows = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in rows}


def _holder(pid: int) -> str:
    name = proc.comm(pid)
    return f"{name} (PID {pid})" if name else ""


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
