# SPDX-License-Identifier: BSD-2-Clause
"""Explain a loader's message that matches no rule.

The message reports that something is missing, not supported, in use or forbidden. The nearest noun
in the message names the thing. Without such a word, the errno still describes the kernel's
objection.
"""

from __future__ import annotations

import re

from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT, ERRNO_TEXTS, RIGHTS_TITLE
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation_rows import (
    NO_BTF,
    NO_CGROUP,
    NO_COUNTER,
    NO_DEVICE,
    NO_FILE,
    NO_FUNCTION,
    NO_QDISC,
    NO_SYMBOL,
    NO_TRACEPOINT,
    TAKEN,
    Row,
    explain_row,
    quoted,
)
from retsnoop_py.load.untold_rules import explain_end, explain_untold

__all__ = ["explain_words", "is_understood"]

#: Errno values with the same meaning for every operation.
_TELLING = ("EPERM", "ENOMEM", "ENOSYS", "EOPNOTSUPP")
_NO_ACCESS = ("rights", RIGHTS_TITLE, EPERM_TEXT, EPERM_STEP)
_NO_ACCESS_TO_LOAD = (
    "refused",
    "Verifier: Refused, and the log is missing",
    "EACCES from a load usually comes from the verifier, and its log is not here. It can also"
    " mean that a file may not be read.",
    "Load with a log: log_level 1 and a buffer of some MiB; retsnoop-py load does.",
)
_ASK = (
    "Run it again with full logging (-v, -d; libbpf_set_print(), LogLevel of cilium/ebpf), and"
    " give that log to explain. `retsnoop-py doctor` reports what this kernel and this user can"
    " do."
)
_TRACE = (
    "To find the kernel function that returned it: retsnoop-py -e '*_sys_bpf' -a"
    " ':kernel/bpf/*.c' -- CMD"
)
_TRACE_PERF = (
    "To find the kernel function that returned it: retsnoop-py -e '*_sys_perf_event_open' -a"
    " ':kernel/events/*.c' -- CMD"
)

_UNKNOWN = "Loader: Unknown message"
#: Used if the message does not even name the operation.
_MOSTLY = (
    " The meaning of this message is unknown. Usual causes: missing privileges (root, CAP_BPF, a"
    " container's profile, kernel lockdown), a kernel that is too old or was built without BTF or"
    " the traced feature, a file system that is not mounted (tracefs, bpffs, cgroup2), or the"
    " verifier."
)
#: Meaning of an errno for any operation.
_MEANS = {
    "E2BIG": "more was passed than the kernel takes: a list that is full, attributes of a later kernel, a program"
    " that is too long",
    "EACCES": "it is not allowed: by the mode of a file, by an LSM, or - of a load - by the verifier",
    "EADDRINUSE": "the address is in use, usually by another run of the same program",
    "EAGAIN": "it cannot be done at this moment, or a limit of this user is reached",
    "EBADF": "a file descriptor is closed, or of another kind than the call takes",
    "EBUSY": "something else has it, or is using it at this moment",
    "ECONNREFUSED": "no process listens there: the daemon does not run",
    "EEXIST": "there is one already",
    "EFAULT": "the kernel could not read or write the memory behind a pointer",
    "EINTR": "a signal interrupted it, and tried again it may go on",
    "EINVAL": "the kernel does not take an argument, a flag or a type, or not these together; an older one may not"
    " know it",
    "EIO": "a file or a device could not be read or written",
    "EMFILE": "the process has as many files open as it may (ulimit -n)",
    "EMSGSIZE": "a message is larger than what takes it",
    "ENETDOWN": "the interface is down",
    "ENODATA": "there is nothing to read",
    "ENODEV": "a device, an interface or a counter is not there",
    "ENOENT": "a named object does not exist: a file, a function, a tracepoint, an entry of a map",
    "ENOEXEC": "a file is not of the format that was expected",
    "ENOPROTOOPT": "the kernel does not know that option of a socket",
    "ENOTDIR": "a part of the path is not a directory",
    "ENOTSUPP": "the kernel, its JIT or the driver cannot do that",
    "ENOTTY": "the kernel does not know that request for such a file",
    "ENXIO": "the device does not exist, or does not support the request",
    "ENOMEM": "memory is short, or a limit of memory is reached",
    "ENOSPC": "a disk or a table is full",
    "ENOSYS": "the kernel does not have that system call, or seccomp hides it",
    "EOPNOTSUPP": "the kernel, as it is configured, or the driver cannot do that",
    "EPERM": "it is not allowed: rights are missing, or an LSM or seccomp objects",
    "EPIPE": "the other side is gone",
    "ERANGE": "a number is out of range, or a buffer is too small",
    "EROFS": "the file system is mounted read-only",
    "ESRCH": "the process does not exist; from libbpf: nothing in the kernel's BTF matches",
    "ETIMEDOUT": "nothing answered in time",
}

_MISSING = (
    r"not (?:be )?found|no such|(?:does|do|did)(?: not|n't) exist|\bmissing\b|not present|not mounted|nonexistent"
    r"|(?:could|can)(?: ?not|n't) (?:be )?(?:find|locate|resolve|detect|determine)"
    r"|(?:does|do|did)(?: not|n't) (?:have|contain|include|provide)|\bhas no\b|\bno \w+ (?:for|of|in)\b"
    r"|(?:unable|failed) to (?:access|open|find|locate|resolve|look ?up|detect|determine)|there is no\b|\bno (?=(?:\S+ ){1,3}found)"
)
_UNSUPPORTED = (
    r"(?:not|n't) (?:\w+ )?(?:support|enabled|available|implemented|compiled)\w*|unsupported|unavailable|\btoo old\b"
    r"|\bno (?:\S+ ){1,3}support|\bnot? buil[dt]\b|\bdisabled\b|\brequires?\b|\bneeds\b|\bis needed\b|only (?:supported|available)"
)
_TAKEN = r"\balready\b|\bin use\b|\bbusy\b|\bconflict\w*|another (?:instance|process|program)|\blocked by\b"
_DENIED = r"\bdenied\b|not permitted|(?<!set )(?<!setting )(?<!change )\bpermissions?\b|\bprivileges?\b|\bcapabilit\w+|\bforbidden\b|\bas root\b"
_MALFORMED = (
    r"\binvalid\b|\bmalformed\b|\bcorrupt\w*|\bbad\b|\bwrong\b|not (?:a )?valid\b|\bunexpected\b"
)
_COMPLAINT = re.compile(
    rf"(?P<missing>{_MISSING})|(?P<malformed>{_MALFORMED})|(?P<unsupported>{_UNSUPPORTED})|(?P<taken>{_TAKEN})|(?P<denied>{_DENIED})",
    re.IGNORECASE,
)
_NOT_HERE: Row = (
    "unsupported",
    "the requested feature is missing: in this kernel or its configuration, on this machine, or"
    " in this build of the loader. Or the loader does not know the requested value (a wrong"
    " setting).",
    "Compare the kernel's release and configuration (uname -r, /boot/config-$(uname -r)) and the"
    " settings with the loader's documentation. `retsnoop-py doctor` reports what this kernel"
    " supports. A loader lists its built-in features (--version).",
)
_NO_TRACEFS: Row = (
    "tracefs",
    "probes and tracepoints are looked up in tracefs, which is not mounted there.",
    "mount -t tracefs nodev /sys/kernel/tracing; a container takes it from its host.",
)
_NO_BPFFS: Row = (
    "pin",
    "the BPF file system is not mounted there, or nothing of that name is pinned in it.",
    "mount -t bpf bpf /sys/fs/bpf, or take the host's into the container.",
)
_NO_HEADERS: Row = (
    "kernel-headers",
    "the program is compiled on this machine, and the headers of the kernel that runs are not here.",
    "Install them (Debian: linux-headers-$(uname -r)), or use a CO-RE build of the tool, which needs none.",
)
_NO_NAME: Row = (
    "name-missing",
    "the object has no program, map or section that is called so.",
    "`bpftool btf dump file OBJECT` and `llvm-objdump -h OBJECT` list the contents. Compile again"
    " if the sources have changed.",
)
#: Targets of an attachment. With these words, "already" means that the target is in use.
_HOOK = re.compile(
    r"attach|\bhook|\bsched|\bxdp|\btcx?\b|qdisc|interface|\blink|trace_pipe|\bqueue|\b[ku](?:ret)?probe|event\b|trac|dispatcher"
    r"|\bin use\b|\bbusy\b",
    re.IGNORECASE,
)
_NO_HOOK = re.compile(
    r"\b(?:pid ?file|lock|sockets?|port|container|sensor|handle|director\w*|polic\w+|specified|defined|deleted)\b",
    re.IGNORECASE,
)
#: Number of characters before "already" in which the subject is searched.
_NEAR = 80
_ALREADY: Row = (
    "loader-words",
    "it is there already, or it is done a second time: another instance of the tool runs, an earlier run left it, or two"
    " settings name the same.",
    "Look for another instance (ps; `bpftool prog show` names its programs). End it, or remove"
    " its remains. Compare the names in the settings.",
)
_TO_CGROUP = re.compile(r"\battach\w*\b.*\bcgroup", re.IGNORECASE)
_NOT_ATTACHED: Row = (
    "attach-refused",
    "the program is not attached to that cgroup, and the loader does not say why.",
    "It must be a cgroup v2 directory (`stat -fc %T DIR` prints cgroup2fs). Attaching needs"
    " CAP_NET_ADMIN and CAP_BPF, and CONFIG_CGROUP_BPF. `bpftool cgroup tree` lists the attached"
    " programs.",
)
#: The missing thing, by the nearest noun.
_NOUNS: tuple[tuple[str, Row], ...] = (
    (r"tracefs|debugfs|/tracing\b|/debug\b", _NO_TRACEFS),
    (r"bpffs|/sys/fs/bpf|bpf ?fs\b|BPF file ?system|\bpin(?:ned|path)?\b", _NO_BPFFS),
    (r"cgroups?(?:v2|2)?\b", NO_CGROUP),
    (r"\bBTF\b|vmlinux", NO_BTF),
    (r"headers?\b", _NO_HEADERS),
    (r"trace ?points?|trace event", NO_TRACEPOINT),
    (
        r"\bk(?:ret)?probes?\b|kernel (?:function|symbol)s?|kallsyms|\bf(?:entry|exit)\b",
        NO_FUNCTION,
    ),
    (
        r"\bu(?:ret)?probes?\b|librar(?:y|ies)|lib\w+\.so|\.so\b|executable|\bbinary\b|\busdt\b",
        NO_SYMBOL,
    ),
    (r"\bPMU\b|perf(?:ormance)? (?:events?|counters?)", NO_COUNTER),
    (r"interfaces?\b|\bnetdev|\bnic\b|\bifindex\b|\bnetwork device", NO_DEVICE),
    (r"\bqdisc|clsact", NO_QDISC),
    (r"\b(?:programs?|progs?|maps?|sections?|SEC)\b", _NO_NAME),
    (r"\bfiles?\b|\bpath\b|director(?:y|ies)|\.b?p?f?\.?o\b", NO_FILE),
)
#: Nouns with a known requirement.
_PLACES = tuple(row for row in _NOUNS if row[1] in (_NO_TRACEFS, _NO_BPFFS, NO_CGROUP, NO_COUNTER))
#: The invalid thing, by the nearest noun.
_FORMS: tuple[tuple[str, Row], ...] = (
    (
        r"\b(?:json|ya?ml|toml|config(?:uration)?|settings?|manifest|arguments?|options?|flags?|parameters?)\b",
        (
            "loader-words",
            "the loader does not understand a file of settings, an argument, or a package that comes with an object: it is of"
            " another release of the tool, or a field is missing or misspelt.",
            "Compare it with the documentation of this release. Build packages again with the"
            " compiler of the same release.",
        ),
    ),
    (
        r"\bBTF\b",
        (
            "object-btf",
            "the object's own BTF is not as the loader expects it.",
            "Compile again with -g and a clang version that the loader supports. Strip with"
            " llvm-strip -g.",
        ),
    ),
    (
        r"\bmaps?\b",
        (
            "map-definition",
            "the loader does not understand the definition of a map.",
            "Compare it with the formats that this loader supports: structs in .maps, or its own"
            " struct in section maps.",
        ),
    ),
    (
        r"\bELF\b|\bobject\b|\bsections?\b",
        (
            "elf",
            "the file is not as the loader expects an object.",
            "Compile it with clang -target bpf -g -O2, for the byte order of this machine.",
        ),
    ),
)
_FORM = re.compile(
    "|".join(f"(?P<n{at}>{words})" for at, (words, _) in enumerate(_FORMS)), re.IGNORECASE
)
_PLACE = re.compile(
    "|".join(f"(?P<n{at}>{words})" for at, (words, _) in enumerate(_PLACES)), re.IGNORECASE
)
#: A file's path.
_PATH = re.compile(r"(?<![\w/.-])\.{0,2}(?:/[\w.+-]+){2,}|(?<![\w+-])[\w+-]+\.(?:bpf\.)?o\b")
_NOUN = re.compile(
    "|".join(f"(?P<n{at}>{words})" for at, (words, _) in enumerate(_NOUNS)), re.IGNORECASE
)


def explain_words(line: str, errno: str, of_bpf: bool = True) -> Explanation:
    """Explain a loader's message that matches no rule, by its complaint or its errno.

    ``of_bpf``: the message is about BPF; otherwise only the errno is explained.
    """
    said = quoted(line)
    if (ended := explain_end(line)) is not None and (not errno or ended.id in ("elf", "crashed")):
        return ended
    if not of_bpf and errno:
        means = f" {errno}: {_MEANS[errno]}." if errno in _MEANS else ""
        return about_line("loader-words", _UNKNOWN, f"The loader says: {said}.{means}", _ASK, line)
    known = ERRNO_TEXTS[errno] if errno in _TELLING else _NO_ACCESS if errno == "EACCES" else None
    if "load" in line:
        known = {
            "EACCES": _NO_ACCESS_TO_LOAD,
            "EINVAL": ERRNO_TEXTS["EINVAL"],
            "ENOSPC": ERRNO_TEXTS["ENOSPC"],
        }.get(errno, known)
    if known is not None:
        id_, title, reason, suggestion = known
        return about_line(id_, title, f"The loader says: {said}. {reason}", suggestion, line)
    if not errno and (row := _complaint(line)) is not None:
        id_, reason, step = row
        if row is _ALREADY:
            return about_line(id_, "Loader: There already", f"{said}: {reason}", step, line)
        return explain_row(row, line)
    if not errno and _TO_CGROUP.search(line):
        return explain_row(_NOT_ATTACHED, line)
    if not errno and (untold := explain_untold(line)) is not None:
        return untold
    means = f" {errno}: {_MEANS[errno]}." if errno in _MEANS else _MOSTLY if not errno else ""
    return about_line(
        "loader-words",
        _UNKNOWN,
        f"The loader says: {said}.{means}",
        f"{_ASK} {_trace(line)}" if errno in _MEANS else _ASK,
        line,
    )


def is_understood(line: str) -> bool:
    """Return True if ``line``, which has no errno, names its complaint or the operation."""
    return explain_words(line, "").title != _UNKNOWN


def _trace(line: str) -> str:
    """Return advice to trace the kernel, for the system call that ``line`` names."""
    return _TRACE_PERF if "perf_event_open" in line else _TRACE


def _complaint(line: str) -> Row | None:
    """Return the row for the last complaint in ``line``, by the nearest noun; None if none."""
    found = None
    for found in _COMPLAINT.finditer(line):  # noqa: B007 - the last one
        pass
    if found is None:
        return None
    if found["unsupported"]:
        return _nearest(_PLACE, _PLACES, line, found.span()) or _NOT_HERE
    if found["taken"]:
        near = line[max(found.start() - _NEAR, 0) :].rsplit(": ", 1)[-1]
        is_hook = _HOOK.search(line) is not None and _NO_HOOK.search(near) is None
        return TAKEN if is_hook else _ALREADY
    if found["denied"]:
        return "rights", EPERM_TEXT, EPERM_STEP
    if found["malformed"]:
        return _nearest(_FORM, _FORMS, line, found.span())
    row = _nearest(_NOUN, _NOUNS, line, found.span())
    return NO_FILE if row is _NO_NAME and _PATH.search(line, found.end()) else row


def _nearest(
    nouns: re.Pattern[str], rows: tuple[tuple[str, Row], ...], line: str, at: tuple[int, int]
) -> Row | None:
    nearest = min(nouns.finditer(line), key=lambda one: _distance(one.span(), at), default=None)
    return rows[int((nearest.lastgroup or "n0")[1:])][1] if nearest is not None else None


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    return max(one[0] - other[1], other[0] - one[1], 0)
