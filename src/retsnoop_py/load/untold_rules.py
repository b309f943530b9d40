# SPDX-License-Identifier: BSD-2-Clause
"""What may be behind what a loader says has failed, where it does not say why.

Either its process ended in a way that says enough (a signal, a command that is not there, a time that was up), or
what it tried can fail for a few reasons, which are listed, the likeliest first.
"""

from __future__ import annotations

import re

from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation_rows import quoted

__all__ = ["explain_end", "explain_untold"]

_UNTOLD = "Loader: It fails, and does not say why"
_ENDED = "Loader: It ended"
_ASK = "Run it with all it can say (-v, -d; libbpf_set_print(), LogLevel of cilium/ebpf), and explain that."
_LOAD = f"{_ASK} retsnoop-py load OBJECT, as root, tells which of them it is."

#: How a process ends: a pattern, an id, what it means, what to do.
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
        "A program cannot be run here: it is built for another processor (an image of amd64 on arm64), it is not executable,"
        " or it is no program.",
        "Compare file PROGRAM with uname -m; take the image or package for this machine.",
    ),
    (
        r"signal: killed|\bSIGKILL\b|\bOOM[ -]?[Kk]ill|out of memory: kill|exit (?:status|code):? 137\b|^Killed$|\b(?:command|clang\S*|llc|cc1)\W{0,3} (?:\w+ )?Killed\b",
        "memory",
        "Somebody killed it: mostly the kernel, since memory was short or its cgroup's limit reached (verifying and compiling"
        " take hundreds of MiB), or a supervisor that waited too long.",
        "dmesg has a line of the OOM killer if it was that; raise memory.max (resources.limits.memory), or the probe's time.",
    ),
    (
        r"SIGSEGV|[Ss]egmentation fault|\bsegfault\b|core dumped|terminate called after|SIGABRT|SIGBUS|nil pointer dereference|index out of range|[Aa]ssertion\b.*\bfailed|double free|stack smashing",
        "crashed",
        "The loader itself crashed, which is a bug of its own or of a library's; what the kernel had said before, if"
        " anything, stands above.",
        "Take a later release of it; report it with the whole output.",
    ),
    (
        r"\bpanicked at\b",
        "loader-words",
        "It gave up (a panic) where it counts on no failure: the words of the panic are all that it says of it, and the line"
        " of its source names what it was about to do.",
        "RUST_BACKTRACE=1 shows the way there; look for a first failure above.",
    ),
    (
        r"deadline exceeded|context canceled|timed? ?out\b|\btimeout\b|no response",
        "loader-words",
        "It was given up, since it took longer than somebody waited: the verifier may follow a large program for many"
        " seconds, a compiler too, or what it waits for does not answer.",
        "Give it more time and processor, and see what it does meanwhile (its log above).",
    ),
)
_BY_END = [(re.compile(row[0]), row) for row in _ENDS]

_PROGRAM = r"(?:(?<!_)e?bpf|prog(?:ram)?s?|objects?|obj|skel(?:eton)?s?|collections?|modules?|bytecode|(?:[ku](?:ret)?)?probes?|tracepoints?|sensors?|tracers?|filters?|hooks?|code|filler|schedulers?)"
_FAILS = r"(?:fail\w*(?: to| in)?|can ?n[o']t|can't|could ?n[o']t|couldn't|cannot|unable to|error(?: while| when| in)?|unsuccessful\w*|problem)"


def _of(verb: str, noun: str) -> str:
    """A failure of ``verb`` on ``noun``: "failed to VERB the NOUN", "NOUN VERB failed", "error VERBing NOUN"."""
    begins, ends = r"(?<![a-zA-Z])", r"(?![a-zA-Z])"  # a function's name is words, too
    verb, noun = f"{begins}{verb}", f"{begins}{noun}{ends}"
    return (
        rf"{_FAILS}[^:]{{0,30}}?{verb}\w*(?:[^:]{{0,60}}?{noun})|{noun}[^:]{{0,40}}?{verb}\w*\W+(?:\w+ )?{_FAILS}"
        rf"|{verb}(?:[a-z]*)[\W_]+(?:\w+\W+){{0,3}}?{noun}[^:]{{0,40}}?{_FAILS}"
        rf"|{noun}.{{0,60}}?{_FAILS}[^:]{{0,30}}?{verb}\w*[^\w:]*(?:$|:)"
        rf"|{_FAILS}[^:]{{0,30}}?{noun}[\W_]*{verb}"
    )


#: What says of itself what it is, whatever was tried.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"\b(?:need|must|should|ha[sv])\w* (?:to )?(?:be )?(?:set|specif|configur|provid|enabl|defin)|\bnot configured\b|config\w*\W+(?:is )?(?:error|invalid|missing)|invalid config|no \w+ (?:specified|configured|provided)",
        "It asks for a setting of its own, before anything is loaded.",
        "Look for that setting in the loader's documents and in its configuration.",
    ),
    (
        r"\b(?:could not|couldn't|cannot|can't|failed to|unable to|error)\b[^:]{0,40}\boffsets?\b|\bguessing\b|\badapt\w*\b[^:]*\bkernel|\bkernel (?:offsets?|adapt)|\b(?:version|offsets?)\b[^:]{0,40}\b(?:not (?:found|known|supported|detected)|unknown|unsupported)|(?:unknown|unsupported|detect|determin)\w* (?:\w+ ){0,3}(?:version|offsets?)",
        "The loader does not know this version of what it looks at (a library, a runtime, a kernel), of which it has to know where"
        " members are.",
        "Take a later release of it, or tell it the version; look whether it looks at the right file (a static binary has no"
        " such library).",
    ),
)
_CAUSES = (
    *_CAUSES,
    (
        r"\bkernel\b[^:]{0,60}\b(?:might|may|could|seems?)\b[^:]{0,12}\b(?:not (?:be )?|in|un)(?:compatible|supported)|\b(?:incompatible|unsupported) kernel",
        "The loader has tried, and lays it on the kernel: it is older than what the programs use, was built without what they take"
        " (CONFIG_BPF_EVENTS, CONFIG_KPROBES, CONFIG_FTRACE_SYSCALLS, BTF), tracefs or debugfs is not mounted or locked down, or the"
        " object is of another release than the loader.",
        "retsnoop-py doctor says what this kernel can do; retsnoop-py load OBJECT, as root, says what it refuses.",
    ),
)
#: What is tried, and why that may fail.
_TRIED: tuple[tuple[str, str, str], ...] = (
    (
        _of(r"(?:detach|unload|clos|destroy|clean|unpin|remov|delet|unregist|stop)", r"[\w.-]+"),
        "What is to be taken away is not there (any more), or was attached by another way; nothing that still runs is lost by"
        " that.",
        "bpftool net, bpftool link and bpftool prog list what is left; look above for what failed first.",
    ),
    (
        _of(
            r"(?:creat|open|init|new|set ?up|start|instantiat|read|build|mmap|map)",
            r"(?:(?:ring|perf) ?(?:buf\w*|rings?|readers?)|ringbuf\w*)",
        ),
        "A buffer for events fails mostly for locked memory (ulimit -l, kernel.perf_event_mlock_kb, before Linux 5.11), for files"
        " that are open (one for each CPU), a size that is no power of two, a kernel that has none of that kind (ring buffers"
        " came with 5.8), or a map of another kind.",
        "ulimit -l unlimited, ulimit -n 65536; bpftool map show says of which kind a map is.",
    ),
    (
        _of("alloc", r"[\w.-]+"),
        "There was no memory for it, of the process, of its cgroup or of the kernel; or a size is not set, and a wild number.",
        "free -m and memory.max say how much there is; make maps and buffers smaller.",
    ),
    (
        _of("compil", r"[\w.-]+"),
        "The program is compiled on this machine: the compiler (clang, llc) is not there or too old, headers are missing (the"
        " kernel's, libbpf's), or do not fit the source.",
        "The compiler's own words above say which; a CO-RE build compiles nothing here.",
    ),
    (
        _of(r"(?:creat|(?<!un)load|init|set ?up|prepar)", r"maps?"),
        "A map is refused mostly for locked memory (ulimit -l, before Linux 5.11), missing rights, a type that is younger than the"
        " kernel, or a size or flag that its type does not take.",
        "strace -f -e bpf COMMAND shows the errno and the map's type; run as root with ulimit -l unlimited.",
    ),
    (
        _of(
            r"(?:open|updat|lookup|look up|delet|insert|populat|freez|writ|read|iterat|add|put|set|get|fetch|access)",
            r"(?:maps?|elem(?:ent)?s?|map entr\w+)",
        ),
        "An entry of a map fails mostly since the map is full, the key is not there, the map is not the one that was meant (not"
        " loaded, or by another run), or is read-only.",
        "bpftool map show and bpftool map dump name MAP say what is there.",
    ),
    (
        _of(
            r"(?:get|find|open|join|creat|resolv|validat|mount|read|look ?up|add|insert)",
            r"cgroups?(?:v2|_?path)?",
        ),
        "A cgroup is not found mostly since the file system of version 2 is not mounted where the loader looks (/sys/fs/cgroup,"
        " or below it in a mixed setup), the container sees a name space of its own, or the process or container has ended.",
        "stat -fc %T /sys/fs/cgroup says cgroup2fs of version 2; give the loader the host's, or the path (--cgroup-path or the"
        " like).",
    ),
    (
        _of(
            r"(?:get|duplicat|dup|retriev|obtain|fetch|read)",
            r"(?:(?:prog(?:ram)?|map|link|btf)s?[ _]?(?:file descriptors?|fds?|ids?|info\w*))",
        ),
        "What is asked of a program, map or link fails mostly since it is gone or was never loaded (what failed first stands"
        " above), rights are missing (CAP_SYS_ADMIN to open one by its number), or files are used up (ulimit -n).",
        "bpftool prog show and bpftool map show, as root, list what is there.",
    ),
    (
        _of(r"(?:attach|link|hook|enabl|install|instrument)", r"[\w.-]+")
        + rf"|{_FAILS}[^:]{{0,30}}?(?:set|apply|add)\w*(?: \w+){{0,2}} (?:e?bpf |socket )?filters?\b|PERF_EVENT_IOC_(?:SET_BPF|ENABLE)\W+failed",
        "Attaching fails mostly since the target is not there as it is named (a function that is inlined or renamed, a tracepoint"
        " of another kernel, an interface of another name space), another program is there, rights are missing (CAP_PERFMON"
        " and kernel.perf_event_paranoid for tracing, CAP_NET_ADMIN for networking), or the kernel cannot attach so.",
        f"{_ASK} strace -f -e bpf,perf_event_open,openat COMMAND shows the errno.",
    ),
    (
        _of(r"(?:open|pars|read|find|locat|extract|unpack)", rf"{_PROGRAM}"),
        "An object cannot be opened mostly since the file is not there, is no BPF object, or is of another time than the loader"
        " (maps in section maps with libbpf 1.0, BTF that it does not know).",
        "file OBJECT, llvm-readelf -S OBJECT and retsnoop-py load OBJECT say which.",
    ),
    (
        _of(r"(?:pars|load|get|read|find|dump|init|create|generat)", r"(?:BTF|btf|types?)"),
        "BTF that cannot be used is the kernel's (none in /sys/kernel/btf, CONFIG_DEBUG_INFO_BTF) or the object's (compiled"
        " without -g, or by a compiler that is newer than the loader).",
        "ls -l /sys/kernel/btf/vmlinux; bpftool btf dump file FILE reads either.",
    ),
    (
        _of(r"(?:(?:re)?load|instantiat|creat|verif|inject)", rf"{_PROGRAM}"),
        "A load fails mostly since the verifier refuses a program (its log is not here), rights are missing (root, CAP_BPF, a"
        " container's seccomp profile, a locked-down kernel), the kernel is older than what the program uses or was built"
        " without it, or without BTF, or the object file is not there, not for this kernel, or in a form that the loader itself"
        " does not take.",
        _LOAD,
    ),
    (
        _of(r"(?:init\w*|start|set ?up|setup|run|open|prepar|bring up)", rf"{_PROGRAM}")
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
    """What ``line`` says of how a process ended; None if nothing."""
    for pattern, (_, id_, means, step) in _BY_END:
        if pattern.search(line):
            return about_line(id_, _ENDED, f"The loader says: {quoted(line)}. {means}", step, line)
    return None


#: Characters of a line that are looked at, from its end: the patterns try each place with each other.
_MOST_READ = 600


#: Files, whose names have words in them.
_NAMES = re.compile(r"(?<![\w/.-])(?:/[\w.+-]+){2,}|[\w+-]+\.(?:bpf\.)?o\b")


def explain_untold(line: str) -> Explanation | None:
    """Why what ``line`` says was tried may have failed; None where it names nothing that is tried.

    Of several things that it names the first counts: what follows is how, or what for.
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
