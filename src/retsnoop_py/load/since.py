# SPDX-License-Identifier: BSD-2-Clause
"""BPF features by number and name, with their first version of Linux: ``since.toml``."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from retsnoop_py.package import read
from retsnoop_py.text import parse_release
from retsnoop_py.value import Value

__all__ = ["Known", "attach_type_of", "by_name", "by_number", "names", "table"]


class Known(Value):
    """A helper, map type, program type ...: its number (0 if none) and first version of Linux."""

    name: str
    number: int
    since: str

    @property
    def release(self) -> tuple[int, int]:
        """Return the first version of Linux with the feature, for comparisons: (5, 17)."""
        return parse_release(self.since)


@functools.cache
def _tables() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = tomllib.loads(
        read(Path(__file__).with_name("since.toml")).decode()
    )
    return found


@functools.cache
def table(kind: str) -> tuple[Known, ...]:
    """Return all of ``kind``: helpers, map_types, program_types, attach_types, map_flags or kfuncs.

    Numbers count from 1 in the order of the file; they have a meaning for the first three kinds.
    """
    rows = [
        (name, release) for release, members in _tables().get(kind, {}).items() for name in members
    ]
    return tuple(Known(name, number, since) for number, (name, since) in enumerate(rows, 1))


def by_number(kind: str, number: int) -> Known | None:
    """Return the feature of ``kind`` with this number, or None."""
    rows = table(kind)
    return rows[number - 1] if 0 < number <= len(rows) else None


@functools.cache
def _by_name(kind: str) -> dict[str, Known]:
    return {row.name: row for row in table(kind)}


#: Section prefixes of libbpf with an attach type that is newer than the program type.
_SECTION_ATTACH = (
    ("kprobe.multi", "TRACE_KPROBE_MULTI"),
    ("kretprobe.multi", "TRACE_KPROBE_MULTI"),
    ("kprobe.session", "TRACE_KPROBE_SESSION"),
    ("uprobe.multi", "TRACE_UPROBE_MULTI"),
    ("uretprobe.multi", "TRACE_UPROBE_MULTI"),
    ("uprobe.session", "TRACE_UPROBE_SESSION"),
    ("fsession", "TRACE_FSESSION"),
    ("fentry", "TRACE_FENTRY"),
    ("fexit", "TRACE_FEXIT"),
    ("fmod_ret", "MODIFY_RETURN"),
    ("tp_btf", "TRACE_RAW_TP"),
    ("lsm_cgroup", "LSM_CGROUP"),
    ("lsm", "LSM_MAC"),
    ("iter", "TRACE_ITER"),
    ("tcx/ingress", "TCX_INGRESS"),
    ("tcx/egress", "TCX_EGRESS"),
    ("netkit/primary", "NETKIT_PRIMARY"),
    ("netkit/peer", "NETKIT_PEER"),
    ("netfilter", "NETFILTER"),
    ("sk_lookup", "SK_LOOKUP"),
    ("xdp/devmap", "XDP_DEVMAP"),
    ("xdp/cpumap", "XDP_CPUMAP"),
    ("cgroup/connect_unix", "CGROUP_UNIX_CONNECT"),
    ("cgroup/sendmsg_unix", "CGROUP_UNIX_SENDMSG"),
    ("cgroup/recvmsg_unix", "CGROUP_UNIX_RECVMSG"),
    ("cgroup/getpeername_unix", "CGROUP_UNIX_GETPEERNAME"),
    ("cgroup/getsockname_unix", "CGROUP_UNIX_GETSOCKNAME"),
    ("sk_reuseport/migrate", "SK_REUSEPORT_SELECT_OR_MIGRATE"),
)


def attach_type_of(section: str) -> Known | None:
    """Return the attach type of a section, if it is newer than the program type, or None."""
    for beginning, name in _SECTION_ATTACH:
        if section.startswith(beginning):
            return by_name("attach_types", name)
    return None


def by_name(kind: str, name: str) -> Known | None:
    """Return the feature of ``kind`` with this name, or None; ``bpf_`` may be omitted."""
    rows = _by_name(kind)
    return rows.get(name) or rows.get(name.removeprefix("bpf_"))


def names(kind: str) -> list[str]:
    """Return all names of ``kind``."""
    return [row.name for row in table(kind)]
