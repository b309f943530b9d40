# SPDX-License-Identifier: BSD-2-Clause
"""Explain the errno of a failed operation, for any words of the loader.

Loaders use different words for the same failure. All messages have an operation (attach a kprobe,
attach a program to an interface, write to a map) and an errno. ``loader_rules`` matches messages
with more information. In a chain of causes on one line ("a: b: c") the last and innermost one
counts.
"""

from __future__ import annotations

import re

from retsnoop_py.load.attach_operations import ATTACH_OPERATIONS, DETACHING, XSK
from retsnoop_py.load.errno_rules import errno_in, says_errno
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation import Operation, each
from retsnoop_py.load.operation_rows import ATTACH_TITLE, CLOSED_FILE, NO_FILE, TITLES, explain_row
from retsnoop_py.load.other_operations import OTHER_OPERATIONS, PINNED
from retsnoop_py.load.prefilter import PatternSet

__all__ = ["explain_operation", "of_xsk"]

OPERATIONS = (*ATTACH_OPERATIONS, *OTHER_OPERATIONS)
_NAMES = PatternSet([operation.words for operation in OPERATIONS], re.IGNORECASE)
_XSK_NAMED = re.compile(XSK, re.IGNORECASE)
_DETACHES = re.compile(DETACHING.words, re.IGNORECASE)
#: Loaders' own words for an errno.
_SAID = {
    "not found": "ENOENT",
    "does not exist": "ENOENT",
    "doesn't exist": "ENOENT",
    "already exists": "EEXIST",
    "not supported": "EOPNOTSUPP",
    "unsupported": "EOPNOTSUPP",
}
#: Go's form of a failed call with a file: "open /sys/fs/bpf/x: no such file or directory".
_OF_FILE = re.compile(
    r"\b(?:l?stat(?:fs)?|opendir|chdir|(?:fork/)?exec(?:ve)?|readlink|open(?:at)?|mkdir|read|write|unlink|remove|symlink|rename|access|readdir) ([\w.-]*/[^\s:]+)(?: /[^\s:]+)?: "
    r"(?=[\w ]+$|[\w ]+[,;:)\"'}])"
    r"|\[Errno \d+\] [\w ]+: b?'(?P<python>[^']+)'"
)
_OURS = (
    "/sys/fs/bpf",
    "/sys/kernel/",
    "/sys/bus/",
    "/sys/fs/cgroup",
    "/proc/kallsyms",
    "/proc/sys",
)
_FILE_ERRORS = {
    **each("ENOENT ENOTDIR", NO_FILE),
    **each("EACCES EPERM EROFS", CLOSED_FILE),
}
_FAILS = re.compile(
    r"fail|err\b|errno|error|could ?n[o']t|can ?n[o']t|can't|unable|[\w)\]\"'>]: (?:invalid|no such|operation|permission|device)"
    r"|not permitted|denied|not found|none of the|not supported|not exist",
    re.IGNORECASE,
)
#: Without an errno, only such clear words show that the operation failed.
_PLAINLY = re.compile(
    r"(?:fail\w*(?: to)?|could ?n[o']t|can ?n[o']t|can't|unable to|error(?: while| when)?)\W+(?:be )?"
    r"(?:attach|enabl|creat|regist|install|hook|start|open|set ?up|init|alloc|bind|configur)|none of the required"
    r"|(?:attach|search|discover|lookup|creat|regist|install|init|open|bind)\w*(?:\(\))? (?:has |was )?(?:failed|error)\b|failed: aborting",
    re.IGNORECASE,
)
#: A probe in the syntax of kprobe_events and uprobe_events: ``p:GROUP/EVENT TARGET``.
_DEFINITION = re.compile(
    r"\b[pr]\d*:(?:(?P<group>[^\s/\"]+)/)?(?P<event>[^\s\"]+) (?P<target>[^\s\"]+)"
)
_GOOD_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: MAX_EVENT_NAME_LEN of kernel/trace/trace.h, including the terminating 0.
_MOST_NAME = 64
#: Text that is not an operation: a location in a loader's source (``cgroups/devices.c:33``), the
#: name of a program (``program b'tracepoint__sched'``), a description (``programs attached to``).
_NO_OPERATION = re.compile(
    r"(?<!\S)\S*\w\.(?:c|cc|cpp|go|rs|h|py)\b(?::\d+)?|\b[Pp]rog(?:ram)? (?:b?'[^']*'|\w*__\w+)"
    r"|(?<=programs) attached|(?<=progs) attached"
)
#: A load that the verifier rejects; the program's purpose does not matter.
_LOADS = re.compile(r"fail\w* to load (?:BPF )?program|loading BPF program", re.IGNORECASE)


def _named(line: str) -> list[Operation]:
    """Return the operations in ``line``, the last one first, then the general ones."""
    at = {}
    line = _NO_OPERATION.sub("", line)
    for number in _NAMES.candidates(line):
        starts = [found.start() for found in _NAMES.pattern(number).finditer(line)]
        if starts:
            at[number] = (OPERATIONS[number].is_general, -max(starts), number)
    return [OPERATIONS[number] for number in sorted(at, key=at.__getitem__)]


def _ill_named(line: str) -> Explanation | None:
    """Explain a probe with an event name that tracefs rejects; None if the name is valid."""
    found = _DEFINITION.search(line)
    if found is None:
        return None
    event = found["event"]
    if len(event) < _MOST_NAME and _GOOD_NAME.fullmatch(event):
        return None
    id_ = "uprobe-target" if ":" in found["target"] else "kprobe-target"
    return about_line(
        id_,
        TITLES.get(id_, ATTACH_TITLE),
        f"The loader makes a probe on {found['target']} by tracefs, and calls its event '{event}' ({len(event)}"
        f" characters). The kernel takes names of fewer than {_MOST_NAME}, of letters, digits and _ alone.",
        "Give the loader a shorter path (a link, a mount), or the name of a function; a later one makes probes as"
        " perf events (Linux 4.17), which have no names. A file is for a uprobe, no kprobe.",
        line,
    )


def of_xsk(line: str) -> bool:
    """Return True if ``line`` is about an AF_XDP socket or its memory."""
    return _XSK_NAMED.search(line) is not None


def explain_operation(line: str) -> Explanation | None:
    """Explain a failed operation by its errno; None if ``line`` has neither."""
    if not (_FAILS.search(line) or says_errno(line)):
        return None
    if (load := _LOADS.search(line)) and "attach" not in line[load.end() :]:
        return None
    errno = errno_in(line) or next((name for said, name in _SAID.items() if said in line), "")
    if errno == "EINVAL" and (named := _ill_named(line)) is not None:
        return named
    file = _OF_FILE.search(line)
    path = (file[1] or file["python"]) if file is not None else ""
    if path and not path.startswith(_OURS) and errno in _FILE_ERRORS:
        return explain_row(_FILE_ERRORS[errno], line)
    in_bpffs = path.startswith("/sys/fs/bpf")
    operations = [PINNED] if in_bpffs else [DETACHING] if _DETACHES.search(line) else _named(line)
    row = next((one.errors[errno] for one in operations if errno in one.errors), None)
    if row is None and operations and not errno_in(line) and _PLAINLY.search(line):
        row = operations[0].otherwise
    return explain_row(row, line) if row is not None else None
