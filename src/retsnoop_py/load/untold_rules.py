# SPDX-License-Identifier: BSD-2-Clause
"""Explain a failure for which a loader gives no reason.

Either the end of the loader's process is informative (a signal, a missing command, a timeout). Or
the failed operation has a few possible causes, which are listed with the likely ones first.
"""

from __future__ import annotations

import re

from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation_rows import quoted

__all__ = ["explain_end", "explain_untold"]

_UNTOLD = "Loader: Failed without a reason"
_ENDED = "Loader: The process ended"
_ASK = (
    "Run it again with full logging (-v, -d; libbpf_set_print(), LogLevel of cilium/ebpf), and give that"
    " log to explain."
)
_LOAD = f"{_ASK} `retsnoop-py load OBJECT`, as root, shows the cause."

#: Ends of a process: a pattern, an id, the meaning, the advice.
_ENDS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"exit (?:status|code):? 127\b|(?:sh|bash)\W.*: (?:command )?not found|executable file not found",
        "file-missing",
        "A command that it calls is not there (status 127 of a shell): clang, tc, ip, mount, modprobe or bpftool, say.",
        "Install it where the loader runs: in its container, not on the host.",
    ),
    (
        r"exec format error|ENOEXEC|cannot execute binary file|exit (?:status|code):? 126\b",
        "elf",
        "A program cannot run on this machine: it is built for another processor (an amd64 image"
        " on arm64), it is not executable, or it is not a program.",
        "Compare file PROGRAM with uname -m; take the image or package for this machine.",
    ),
    (
        r"signal: killed|\bSIGKILL\b|\bOOM[ -]?[Kk]ill|out of memory: kill|exit (?:status|code):? 137\b|^Killed$|\b(?:command|clang\S*|llc|cc1)\W{0,3} (?:\w+ )?Killed\b",
        "memory",
        "The loader was killed. Usually the kernel does this when memory is short or the cgroup's"
        " limit is reached (verifying and compiling need hundreds of MiB); a supervisor may also"
        " have timed out.",
        "dmesg has a line of the OOM killer if it was that; raise memory.max (resources.limits.memory), or the probe's time.",
    ),
    (
        r"SIGSEGV|[Ss]egmentation fault|\bsegfault\b|core dumped|terminate called after|SIGABRT|SIGBUS|nil pointer dereference|index out of range|[Aa]ssertion\b.*\bfailed|double free|stack smashing",
        "crashed",
        "The loader crashed. This is a bug in the loader or in one of its libraries. An earlier"
        " message of the kernel, if there was one, is above.",
        "Use a later release of the loader. Report the crash with the whole output.",
    ),
    (
        r"\bpanicked at\b",
        "loader-words",
        "The loader panicked at a step that it expects to succeed. The panic's text is the only"
        " information; its source line names the step.",
        "RUST_BACKTRACE=1 shows the way there; look for a first failure above.",
    ),
    (
        r"deadline exceeded|context canceled|timed? ?out\b|\btimeout\b|no response",
        "loader-words",
        "The operation timed out. The verifier can need many seconds for a large program, a"
        " compiler can too, or the other side does not answer.",
        "Give it more time and CPU, and read its log above.",
    ),
)
_BY_END = [(re.compile(row[0]), row) for row in _ENDS]

_PROGRAM = r"(?:(?<!_)e?bpf|prog(?:ram)?s?|objects?|obj|skel(?:eton)?s?|collections?|modules?|bytecode|(?:[ku](?:ret)?)?probes?|tracepoints?|sensors?|tracers?|filters?|hooks?|code|filler|schedulers?)"
_FAILS = r"(?:fail\w{0,20}(?: to| in)?|can ?n[o']t|can't|could ?n[o']t|couldn't|cannot|unable to|error(?: while| when| in)?|unsuccessful\w{0,20}|problem)"
#: Repeats have a limit: several unlimited ones would try each part of a line with each other part.
_ANY_NAME = r"(?<![\w.-])[\w.-]{1,60}"


def _of(verb: str, noun: str) -> str:
    """Return a pattern for a failure of ``verb`` on ``noun``, in several word orders.

    Examples: "failed to VERB the NOUN", "NOUN VERB failed", "error VERBing NOUN".
    """
    begins, ends = r"(?<![a-zA-Z])", r"(?![a-zA-Z])"  # a function's name contains words, too
    verb, noun = f"{begins}{verb}", f"{begins}{noun}{ends}"
    return (
        rf"{_FAILS}[^:]{{0,30}}?{verb}\w{{0,20}}(?:[^:]{{0,60}}?{noun})|{noun}[^:]{{0,40}}?{verb}\w{{0,20}}\W+(?:\w+ )?{_FAILS}"
        rf"|{verb}(?:[a-z]{{0,20}})[\W_]+(?:\w+\W+){{0,3}}?{noun}[^:]{{0,40}}?{_FAILS}"
        rf"|{noun}.{{0,60}}?{_FAILS}[^:]{{0,30}}?{verb}\w{{0,20}}[^\w:]*(?:$|:)"
        rf"|{_FAILS}[^:]{{0,30}}?{noun}[\W_]*{verb}"
    )


#: Messages that name their cause, for any operation.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"\b(?:need|must|should|ha[sv])\w* (?:to )?(?:be )?(?:set|specif|configur|provid|enabl|defin)|\bnot configured\b|config\w*\W+(?:is )?(?:error|invalid|missing)|invalid config|no \w+ (?:specified|configured|provided)",
        "It asks for a setting of its own, before anything is loaded.",
        "Look for that setting in the loader's documents and in its configuration.",
    ),
    (
        r"\b(?:could not|couldn't|cannot|can't|failed to|unable to|error)\b[^:]{0,40}\boffsets?\b|\bguessing\b|\badapt\w*\b[^:]*\bkernel|\bkernel (?:offsets?|adapt)|\b(?:version|offsets?)\b[^:]{0,40}\b(?:not (?:found|known|supported|detected)|unknown|unsupported)|(?:unknown|unsupported|detect|determin)\w* (?:\w+ ){0,3}(?:version|offsets?)",
        "The loader needs the offsets of struct members, and does not have them for this version"
        " of the library, runtime or kernel.",
        "Use a later release of the loader, or set the version by option. Check that it reads the"
        " right file (a static binary has no such library).",
    ),
)
_CAUSES = (
    *_CAUSES,
    (
        r"\bkernel\b[^:]{0,60}\b(?:might|may|could|seems?)\b[^:]{0,12}\b(?:not (?:be )?|in|un)(?:compatible|supported)|\b(?:incompatible|unsupported) kernel",
        "The loader failed and blames the kernel. Possible causes: the kernel is older than the"
        " features in use, or was built without them (CONFIG_BPF_EVENTS, CONFIG_KPROBES,"
        " CONFIG_FTRACE_SYSCALLS, BTF); tracefs or debugfs is not mounted or is locked down; the"
        " object is from another release than the loader.",
        "`retsnoop-py doctor` reports what this kernel supports; `retsnoop-py load OBJECT`, as"
        " root, shows what it refuses.",
    ),
)
#: Operations, and their possible causes of failure.
_TRIED: tuple[tuple[str, str, str], ...] = (
    (
        _of(r"(?:detach|unload|clos|destroy|clean|unpin|remov|delet|unregist|stop)", _ANY_NAME),
        "What is to be taken away is not there (any more), or was attached by another way; nothing that still runs is lost by"
        " that.",
        "`bpftool net`, `bpftool link` and `bpftool prog` list the rest. Find the first failure"
        " above.",
    ),
    (
        _of(
            r"(?:creat|open|init|new|set ?up|start|instantiat|read|build|mmap|map)",
            r"(?:(?:ring|perf) ?(?:buf\w{0,20}|rings?|readers?)|ringbuf\w{0,20})",
        ),
        "Usual causes for an event buffer: the limit of locked memory (ulimit -l,"
        " kernel.perf_event_mlock_kb, before Linux 5.11), the limit of open files (one per CPU),"
        " a size that is not a power of two, a kernel without this kind (ring buffers need 5.8),"
        " or a map of another type.",
        "Try `ulimit -l unlimited` and `ulimit -n 65536`. `bpftool map show` shows a map's type.",
    ),
    (
        _of("alloc", _ANY_NAME),
        "Memory ran out in the process, its cgroup or the kernel; or a size was never set and has"
        " a random value.",
        "`free -m` and memory.max show the available memory. Make maps and buffers smaller.",
    ),
    (
        _of("compil", _ANY_NAME),
        "The program is compiled on this machine: the compiler (clang, llc) is not there or too old, headers are missing (the"
        " kernel's, libbpf's), or do not fit the source.",
        "Read the compiler's messages above. A CO-RE build compiles nothing on the target.",
    ),
    (
        _of(r"(?:creat|(?<!un)load|init|set ?up|prepar)", r"maps?"),
        "Usual causes for a refused map: the limit of locked memory (ulimit -l, before Linux"
        " 5.11), missing privileges, a map type that the kernel does not have, or a size or flag"
        " that the type does not allow.",
        "strace -f -e bpf COMMAND shows the errno and the map's type; run as root with ulimit -l unlimited.",
    ),
    (
        _of(
            r"(?:open|updat|lookup|look up|delet|insert|populat|freez|writ|read|iterat|add|put|set|get|fetch|access)",
            r"(?:maps?|elem(?:ent)?s?|map entr\w{1,20})",
        ),
        "Usual causes for a map entry: the map is full, the key does not exist, it is another map"
        " (not loaded, or from another run), or the map is read-only.",
        "`bpftool map show` and `bpftool map dump name MAP` show the contents.",
    ),
    (
        _of(
            r"(?:get|find|open|join|creat|resolv|validat|mount|read|look ?up|add|insert)",
            r"cgroups?(?:v2|_?path)?",
        ),
        "Usual causes for a missing cgroup: cgroup v2 is not mounted where the loader looks"
        " (/sys/fs/cgroup, or below it in a hybrid setup), the container has its own namespace,"
        " or the process or container has ended.",
        "stat -fc %T /sys/fs/cgroup says cgroup2fs of version 2; give the loader the host's, or the path (--cgroup-path or the"
        " like).",
    ),
    (
        _of(
            r"(?:get|duplicat|dup|retriev|obtain|fetch|read)",
            r"(?:(?:prog(?:ram)?|map|link|btf)s?[ _]?(?:file descriptors?|fds?|ids?|info\w{0,20}))",
        ),
        "Usual causes for a program, map or link: it was removed or never loaded (see the first"
        " failure above), privileges are missing (CAP_SYS_ADMIN to open one by ID), or the limit"
        " of open files is reached (ulimit -n).",
        "`bpftool prog show` and `bpftool map show`, as root, list the present ones.",
    ),
    (
        _of(r"(?:attach|link|hook|enabl|install|instrument)", _ANY_NAME)
        + rf"|{_FAILS}[^:]{{0,30}}?(?:set|apply|add)\w*(?: \w+){{0,2}} (?:e?bpf |socket )?filters?\b|PERF_EVENT_IOC_(?:SET_BPF|ENABLE)\W+failed",
        "Usual causes for an attachment: the target does not exist under that name (an inlined or"
        " renamed function, a tracepoint of another kernel, an interface of another namespace),"
        " another program is attached, privileges are missing (CAP_PERFMON and"
        " kernel.perf_event_paranoid for tracing, CAP_NET_ADMIN for networking), or the kernel"
        " does not support this attach type.",
        f"{_ASK} strace -f -e bpf,perf_event_open,openat COMMAND shows the errno.",
    ),
    (
        _of(r"(?:open|pars|read|find|locat|extract|unpack)", rf"{_PROGRAM}"),
        "Usual causes for an object: the file does not exist, is not a BPF object, or does not"
        " fit the loader's version (section maps with libbpf 1.0, BTF of a later compiler).",
        "Check with `file OBJECT`, `llvm-readelf -S OBJECT` and `retsnoop-py load OBJECT`.",
    ),
    (
        _of(r"(?:pars|load|get|read|find|dump|init|create|generat)", r"(?:BTF|btf|types?)"),
        "BTF that cannot be used is the kernel's (none in /sys/kernel/btf, CONFIG_DEBUG_INFO_BTF) or the object's (compiled"
        " without -g, or by a compiler that is newer than the loader).",
        "ls -l /sys/kernel/btf/vmlinux; bpftool btf dump file FILE reads either.",
    ),
    (
        _of(r"(?:(?:re)?load|instantiat|creat|verif|inject)", rf"{_PROGRAM}"),
        "Usual causes for a load: the verifier refuses a program (the log is missing here),"
        " privileges are missing (root, CAP_BPF, a container's seccomp profile, kernel lockdown),"
        " the kernel is too old for the program or was built without a feature or BTF, or the"
        " object file is missing, for another kernel, or in a format that the loader does not"
        " support.",
        _LOAD,
    ),
    (
        _of(r"(?:init|start|set ?up|setup|run|open|prepar|bring up)", rf"{_PROGRAM}")
        + rf"|{_PROGRAM}\b[^:]{{0,30}}\bnot (?:loaded|initiali[sz]ed|started|running|available)",
        "Starting takes loading and attaching: the verifier refuses a program, rights are missing (root, CAP_BPF, a container's"
        " seccomp profile), the kernel is too old or has no BTF, or a target is not there.",
        _LOAD,
    ),
    (
        r"(?:load|open|find)\w* (?:\w+ ){0,2}?(?:librar\w+|\S+\.so\S*)|\.so\b",
        "A shared library cannot be loaded: it is not at that path, is for another machine, or lacks symbols that it needs.",
        "ls -l and ldd on it; install the package that has it, in the version that the loader wants.",
    ),
)
_BY_CAUSE = [(re.compile(row[0], re.IGNORECASE), row) for row in _CAUSES]
_BY_TRY = [(re.compile(row[0], re.IGNORECASE), row) for row in _TRIED]


def explain_end(line: str) -> Explanation | None:
    """Return the meaning of a process's end in ``line``, or None."""
    for pattern, (_, id_, means, step) in _BY_END:
        if pattern.search(line):
            return about_line(id_, _ENDED, f"The loader says: {quoted(line)}. {means}", step, line)
    return None


#: Number of characters that are searched, from the end of a line: the patterns compare all
#: positions.
_MOST_READ = 600


#: Files, whose names contain words.
_NAMES = re.compile(r"(?<![\w/.-])(?:/[\w.+-]+){2,}|(?<![\w+-])[\w+-]+\.(?:bpf\.)?o\b")


def explain_untold(line: str) -> Explanation | None:
    """Explain the operation that failed in ``line``; None if the line names none.

    If the line names several operations, the first one counts: the others are its means or purpose.
    """
    text = _NAMES.sub("it", line[-_MOST_READ:])
    row = next((row for pattern, row in _BY_CAUSE if pattern.search(text)), None)
    if row is None:
        tried = [
            (found.start(), row) for pattern, row in _BY_TRY if (found := pattern.search(text))
        ]
        row = min(tried, key=lambda one: one[0])[1] if tried else None
    if row is None:
        return None
    _, why, step = row
    return about_line(
        "loader-words", _UNTOLD, f"The loader says: {quoted(line)}. {why}", step, line
    )
