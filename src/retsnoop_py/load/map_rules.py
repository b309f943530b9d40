# SPDX-License-Identifier: BSD-2-Clause
"""Explain why a map cannot be created: by its errno, its definition, and this version of Linux.

The kernel writes no message about maps. Certain causes are checked first, then a table of possible
causes, the likely ones first, and finally the general meaning of the errno.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from retsnoop_py.load import since
from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT, RIGHTS_TITLE, explain_errno
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.value import Value

__all__ = ["MapFacts", "explain_map"]

_DEFINITION = "Object File: Map definition"
_TYPE = "Kernel Support: Map type"


class MapFacts(Value):
    """Facts about a map: ``kind`` is its type's number, 0 if unknown.

    ``entries``, and the bytes of a ``key`` and a ``value``, are -1 if unknown.
    """

    name: str
    kind: int = 0
    flags: int = 0
    entries: int = -1
    key: int = -1
    value: int = -1

    @property
    def label(self) -> str:
        """Return the map's name for a sentence."""
        return f"map '{self.name}'" if self.name else "a map"

    @property
    def known(self) -> since.Known | None:
        """Return the map's type; None if the object or retsnoop-py does not know it."""
        return since.by_number("map_types", self.kind) if self.kind else None

    @property
    def type(self) -> str:
        """Return the name of the map's type; empty if unknown."""
        return self.known.name if self.known else ""

    @property
    def is_of_pages(self) -> bool:
        """Return True if max_entries is valid for a ring buffer: a power of two, in whole pages."""
        return not (self.entries % 4096 | self.entries & (self.entries - 1))


#: cilium/ebpf's addition to the errno of a ring buffer.
_PAGED = re.compile(r"ring map size (\d+) not a multiple of page size (\d+)")
#: cilium/ebpf's addition if it knows the first kernel with a feature.
_NEWER = re.compile(r"map create: (?:\S+: )?(.+?) not supported \(requires (?:>= )?v?(\d+\.\d+)")
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
#: Maximum bytes of a key that fits on a program's stack, of a per-CPU value, of any value, and of a
#: stack trace.
_MOST_KEY, _MOST_PER_CPU, _MOST_VALUE, _MOST_STACK = 512, 32768, 4 << 20, 127 * 8
#: Maps that store a value with a kernel object.
_STORAGES = ("SK_STORAGE", "INODE_STORAGE", "TASK_STORAGE", "CGRP_STORAGE")
_SMALLER = (
    "Make max_entries smaller; BPF_F_NO_PREALLOC takes memory as entries come; a cgroup's"
    " memory limit counts as well (5.11)."
)


def _always(_: MapFacts) -> bool:
    return True


#: The errno, a condition on the map, and the explanation: id, title, reason, suggestion. The texts
#: may use the names of :func:`_texts`.
_RULES: tuple[tuple[str, Callable[[MapFacts], object], str, str, str, str], ...] = (
    (
        "E2BIG",
        lambda it: it.key > _MOST_KEY and "HASH" in it.type,
        "map-definition",
        _DEFINITION,
        "{map} has keys of {key_size:,} bytes: a key is put together on the stack of a program, which"
        " has 512.",
        "Use a shorter key, or a hash of the key.",
    ),
    *(
        (
            errno,
            lambda it: it.value > _MOST_PER_CPU and "PERCPU" in it.type,
            "map-too-large",
            "Limit: Map size",
            "{map} has values of {value_size:,} bytes: a value of each CPU has 32,768 at most.",
            "Split the value into several entries, or take an array that all CPUs share.",
        )
        for errno in ("ENOMEM", "E2BIG")
    ),
    (
        "E2BIG",
        lambda it: it.value > _MOST_VALUE,
        "map-too-large",
        "Limit: Map size",
        "{map} has values of {value_size:,} bytes, which is more than the kernel gives one element.",
        "Split the value into several entries.",
    ),
    (
        "E2BIG",
        lambda it: it.type == "CPUMAP",
        "map-too-large",
        "Limit: Map size",
        "{map} has more entries ({entries:,}) than this kernel is built for CPUs (NR_CPUS).",
        "Size it by the CPUs there are (libbpf_num_possible_cpus()) before the load.",
    ),
    (
        "ENOTSUPP",
        lambda it: it.type.startswith("LRU") and it.flags & _NO_PREALLOC,
        "map-flags",
        _DEFINITION,
        "{map} is an LRU map, which is always preallocated: BPF_F_NO_PREALLOC is not allowed.",
        "Leave that flag out.",
    ),
    (
        "EAGAIN",
        _always,
        "rights",
        RIGHTS_TITLE,
        "The kernel itself does not answer EAGAIN where a map is created: something in front of bpf(2) did, a filter of system calls"
        " (seccomp) of a container, a snap or a unit (SystemCallFilter=) that gives this errno.",
        "Allow bpf(2): a seccomp profile that permits bpf, a snap in classic or developer mode, a"
        " unit without the filter. `grep Seccomp /proc/self/status` there prints 2 if there is a"
        " filter.",
    ),
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
        "{map}{size} is more than the kernel allows one map: too many entries, too large a key or value, or -"
        " of a map of CPUs - more entries than the kernel is built for CPUs (NR_CPUS).",
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
        lambda it: it.type in _STORAGES and (it.entries > 0 or not it.flags & _NO_PREALLOC),
        "map-definition",
        _DEFINITION,
        "{map} stores a value with each {owner}: it needs max_entries 0, keys of type int, and"
        " BPF_F_NO_PREALLOC in map_flags.",
        "Define it so: __uint(map_flags, BPF_F_NO_PREALLOC); __type(key, int); __type(value, ...);",
    ),
    (
        "EINVAL",
        lambda it: it.type in ("HASH_OF_MAPS", "ARRAY_OF_MAPS"),
        "map-definition",
        _DEFINITION,
        "{map} contains maps. Its definition does not describe the inner map, or the kernel does"
        " not allow that type.",
        "Describe the inner map: __array(values, struct { ... });",
    ),
    (
        "EINVAL",
        lambda it: it.type == "STACK_TRACE" and (it.value % 8 or it.value > _MOST_STACK),
        "map-definition",
        _DEFINITION,
        "{map} has values of {value_size:,} bytes: a stack is addresses of 8 bytes each, 127 at most"
        " (kernel.perf_event_max_stack).",
        "Let a value be an array of __u64, of up to 127.",
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
        "The kernel refuses {map}: {since}the sizes of key and value, the number of entries or"
        " the flags are not valid for a {type} map{key}.{sizes}",
        "Compare the definition with https://docs.kernel.org/bpf/maps.html; flags are as"
        " young as kernels: one that this kernel does not know is EINVAL as well.",
    ),
    (
        "EINVAL",
        lambda it: not it.kind,
        "map-refused",
        "Kernel Support: Map that this kernel does not take",
        "The kernel refuses {map}. Usually the kernel is too old for the map type (a ring buffer"
        " needs Linux 5.8). Otherwise sizes, entries or flags are not valid for the type, or the"
        " map has a name and the kernel is older than 4.15 (with a loader that does not probe).",
        "Compare its type with `uname -r`; `retsnoop-py load OBJECT` shows the cause. Before 5.8,"
        " use a BPF_MAP_TYPE_PERF_EVENT_ARRAY instead of a ring buffer.",
    ),
)


_MEMBERS = (
    "unsupported",
    "Kernel Support: Map with members that this kernel does not take there",
    "The kernel supports the type of {map}, but not with this content. A lock, timer, list or"
    " kernel pointer (bpf_spin_lock, bpf_timer, __kptr) is not allowed in every map type (LRU"
    " maps allow none), nor in every kernel. Or a table of functions (struct_ops) has a member"
    " that this kernel does not know, or a device does not accept the map.",
    "Use a hash or array map for values with such a member, or keep the member in a map of its own.",
)
_RULES += tuple((error, _always, *_MEMBERS) for error in ("EOPNOTSUPP", "ENOTSUPP"))
_RULES += (("EACCES", _always, "rights", "Environment: Missing rights", EPERM_TEXT, EPERM_STEP),)


def _texts(it: MapFacts) -> dict[str, str | int]:
    return {
        "map": it.label,
        "type": it.type,
        "entries": it.entries,
        "size": f" ({it.entries:,} entries)" if it.entries >= 0 else "",
        "unknown": it.flags & ~_KNOWN_FLAGS,
        "since": f"it is older than {it.known.since}, which brought that type, or "
        if it.known
        else "",
        "key": " (its key has 4 bytes)" if it.type in _FOUR_BYTE_KEY else "",
        "key_size": it.key,
        "value_size": it.value,
        "owner": it.type.removesuffix("_STORAGE").lower().replace("cgrp", "cgroup"),
        "sizes": f" It has keys of {it.key:,} and values of {it.value:,} bytes, {it.entries:,} entries"
        f" and flags {it.flags:#x}."
        if it.key >= 0
        else "",
    }


def explain_map(
    it: MapFacts, errno: str, release: tuple[int, int] = (0, 0), line: str = ""
) -> Explanation:
    """Explain why map ``it`` could not be created on Linux ``release``, (0, 0) if unknown."""
    found = _by_line(it, errno, line) or _by_type(it, release, line)
    if found is not None:
        return found
    for number, is_so, id_, title, reason, suggestion in _RULES:
        if number == errno and is_so(it):
            text = reason.format_map(_texts(it))
            return about_line(id_, title, text[0].upper() + text[1:], suggestion, line)
    return explain_errno(errno, it.label, line=line)


def _by_line(it: MapFacts, errno: str, line: str) -> Explanation | None:
    """Return an explanation from the loader's additional text, or from the map's name."""
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
    if (newer := _NEWER.search(line)) and _GLOBAL_DATA.search(it.name):
        return about_line(
            "global-data",
            "Kernel Support: Global data",
            f"{it.label[0].upper()}{it.label[1:]} is a map that the loader creates for global variables or constants. This kernel does"
            f" not support them ({newer[1]}); they need Linux {newer[2]}.",
            "Require that kernel, or keep settings in a map that is declared, and texts in arrays of the function.",
            line,
        )
    if newer:
        return about_line(
            "map-type-unsupported",
            _TYPE,
            f"This kernel does not have what {it.label} takes ({newer[1]}): that came with Linux {newer[2]}.",
            "Require that kernel, or use a map of another type there.",
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
    """Return an explanation if this Linux, or retsnoop-py, does not know the map's type."""
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
