# SPDX-License-Identifier: BSD-2-Clause
"""Why a map cannot be created: by its errno, its definition, and what this Linux knows.

The kernel writes nothing about maps. What is certain is asked first, then a table of what may be
wrong, the likeliest first, and what its errno means for anything last.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from retsnoop_py.load import since
from retsnoop_py.load.errno_rules import explain_errno
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.value import Value

__all__ = ["MapFacts", "explain_map"]

_DEFINITION = "Object File: Map definition"
_TYPE = "Kernel Support: Map type"


class MapFacts(Value):
    """What is known of a map: ``kind`` is its type's number, 0 if not known, as ``entries`` of -1."""

    name: str
    kind: int = 0
    flags: int = 0
    entries: int = -1

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return f"map '{self.name}'" if self.name else "a map"

    @property
    def known(self) -> since.Known | None:
        """Its type; None where that is not known, by the object or by this tool."""
        return since.by_number("map_types", self.kind) if self.kind else None

    @property
    def type(self) -> str:
        """The name of its type, empty where it is not known."""
        return self.known.name if self.known else ""

    @property
    def is_of_pages(self) -> bool:
        """Whether its entries are a power of two of bytes, and pages, as a ring buffer takes."""
        return not (self.entries % 4096 | self.entries & (self.entries - 1))


#: What cilium/ebpf adds to the errno of a ring buffer.
_PAGED = re.compile(r"ring map size (\d+) not a multiple of page size (\d+)")
#: Maps of sections: ``.rodata``, ``prog.bss``, ``.rodata.str1.1``.
_GLOBAL_DATA = re.compile(r"(?:^|\w)\.(?:rodata|data|bss|kconfig)(?:\.|$)")
_MAP_INSTEAD = {
    "RINGBUF": "Use a BPF_MAP_TYPE_PERF_EVENT_ARRAY on kernels before 5.8, chosen at run time"
    " (bpf_map__set_type()).",
    "TASK_STORAGE": "Use a hash map keyed by the thread id on kernels before 5.11.",
    "BLOOM_FILTER": "Use a hash map on kernels before 5.16.",
    "USER_RINGBUF": "Use an array or a queue on kernels before 6.1.",
    "CGRP_STORAGE": "Use a hash map keyed by the cgroup id on kernels before 6.2.",
    "ARENA": "Use array and hash maps on kernels before 6.9.",
}
_PAGE_MULTIPLE = ("RINGBUF", "USER_RINGBUF")
_FOUR_BYTE_KEY = ("ARRAY", "PERCPU_ARRAY", "PROG_ARRAY", "PERF_EVENT_ARRAY", "CGROUP_ARRAY")
_KNOWN_FLAGS = 0x7FFFF
_NO_PREALLOC = 1
_SMALLER = (
    "Make max_entries smaller; BPF_F_NO_PREALLOC takes memory as entries come; a cgroup's"
    " memory limit counts as well (5.11)."
)


def _always(_: MapFacts) -> bool:
    return True


#: The errno, what is so of the map, and the explanation: id, title, reason, suggestion. Texts may
#: name what :func:`_texts` has.
_RULES: tuple[tuple[str, Callable[[MapFacts], object], str, str, str, str], ...] = (
    (
        "ENOMEM",
        _always,
        "map-too-large",
        "Limit: Map size",
        "The memory for {map}{size} cannot be had: ENOMEM.",
        _SMALLER,
    ),
    (
        "E2BIG",
        _always,
        "map-too-large",
        "Limit: Map size",
        "The memory for {map}{size} cannot be had: it is more than the kernel allows one map.",
        _SMALLER,
    ),
    (
        "EINVAL",
        lambda it: it.flags & ~_KNOWN_FLAGS,
        "map-flags",
        "Kernel Support: Map flags",
        "{map} asks for flags {unknown:#x}, which no map knows.",
        "Look at map_flags in its definition.",
    ),
    (
        "EINVAL",
        lambda it: it.type in _PAGE_MULTIPLE and not it.is_of_pages,
        "map-size",
        _DEFINITION,
        "max_entries of {map} are {entries}: a ring buffer takes a power of two of bytes"
        " that is a multiple of the page size.",
        "Round it up: 4096, 8192 ...; 256 KiB is usual.",
    ),
    (
        "EINVAL",
        lambda it: it.entries == 0,
        "map-size",
        _DEFINITION,
        "max_entries of {map} are 0 or missing.",
        "Set max_entries in its definition, or before it is loaded (bpf_map__set_max_entries()).",
    ),
    (
        "EINVAL",
        lambda it: it.type == "LPM_TRIE" and not it.flags & _NO_PREALLOC,
        "map-flags",
        _DEFINITION,
        "{map} is an LPM trie, which takes BPF_F_NO_PREALLOC in map_flags.",
        "Add __uint(map_flags, BPF_F_NO_PREALLOC).",
    ),
    (
        "EINVAL",
        lambda it: it.type,
        "map-definition",
        _DEFINITION,
        "The kernel does not take {map} as it is defined: sizes of key and value, number"
        " of entries or flags are not what a {type} map takes{key}.",
        "Compare the definition with https://docs.kernel.org/bpf/maps.html; flags are as"
        " young as kernels: one that this kernel does not know is EINVAL as well.",
    ),
    (
        "EINVAL",
        lambda it: not it.kind,
        "map-refused",
        "Kernel Support: Map that this kernel does not take",
        "The kernel does not take {map}: most often its type is younger than the kernel - a ring"
        " buffer takes Linux 5.8 - or else sizes, entries or flags are not what its type takes.",
        "Compare its type with `uname -r`; retsnoop-py load OBJECT says which it is. Before 5.8 a"
        " BPF_MAP_TYPE_PERF_EVENT_ARRAY does what a ring buffer does.",
    ),
)


def _texts(it: MapFacts) -> dict[str, str | int]:
    return {
        "map": it.label,
        "type": it.type,
        "entries": it.entries,
        "size": f" ({it.entries:,} entries)" if it.entries >= 0 else "",
        "unknown": it.flags & ~_KNOWN_FLAGS,
        "key": " (its key has 4 bytes)" if it.type in _FOUR_BYTE_KEY else "",
    }


def explain_map(
    it: MapFacts, errno: str, release: tuple[int, int] = (0, 0), line: str = ""
) -> Explanation:
    """Why map ``it`` could not be created on Linux ``release``, (0, 0) where that is not known."""
    found = _by_line(it, errno, line) or _by_type(it, release, line)
    if found is not None:
        return found
    for number, is_so, id_, title, reason, suggestion in _RULES:
        if number == errno and is_so(it):
            return about_line(id_, title, reason.format_map(_texts(it)), suggestion, line)
    return explain_errno(errno, it.label, line=line)


def _by_line(it: MapFacts, errno: str, line: str) -> Explanation | None:
    """By what the loader adds, or how it calls the map."""
    if paged := _PAGED.search(line):
        return about_line(
            "map-size",
            _DEFINITION,
            f"max_entries of map '{it.name}' are {paged[1]}: a ring buffer takes a power of two of"
            f" bytes that is a multiple of the page size, which is {paged[2]} here.",
            "Set it to a multiple of getpagesize() before the load; arm64 kernels have pages of 4, 16"
            " or 64 KiB.",
            line,
        )
    if _GLOBAL_DATA.search(it.name) and errno == "EINVAL":
        return about_line(
            "global-data",
            "Kernel Support: Global data",
            f"Map '{it.name}' is one that libbpf makes of a section of variables or texts. Kernels"
            " before 5.2 know no global data, and some after it no such name of a map, flag"
            " (BPF_F_MMAPABLE came with 5.5) or size.",
            "Require a later kernel; keep texts as arrays in the function (char text[] = ...), and"
            " settings in a map. For .rodata.str*: bpf_printk() of libbpf 0.5 and later needs none.",
            line,
        )
    return None


def _by_type(it: MapFacts, release: tuple[int, int], line: str) -> Explanation | None:
    """By its type, if this Linux, or this tool, does not know that."""
    known, label = it.known, it.label[0].upper() + it.label[1:]
    if known is not None and release != (0, 0) and known.release > release:
        return about_line(
            "map-type-unsupported",
            _TYPE,
            f"{label} is of type {it.kind} (BPF_MAP_TYPE_{known.name}), which"
            f" came with Linux {known.since}; this is {release[0]}.{release[1]}.",
            _MAP_INSTEAD.get(
                known.name, "Require that kernel, or use a map of another type there."
            ),
            line,
        )
    if it.kind and known is None:
        last = since.table("map_types")[-1]
        return about_line(
            "map-type-unsupported",
            _TYPE,
            f"{label} is of type {it.kind}, which this kernel does not have, and"
            f" this tool does not know: the last it knows is {last.number} ({last.name}).",
            "Look at the type in its definition.",
            line,
        )
    return None
