# SPDX-License-Identifier: BSD-2-Clause
"""Possible problems with an operation, a row for each: the reason and the advice.

``operation_rules`` selects a row by the errno, ``word_rules`` by the words of a complaint.
"""

from __future__ import annotations

from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT
from retsnoop_py.load.model import Explanation, about_line

__all__ = [
    "ATTACH_TITLE",
    "BUSY_PROBE",
    "CANNOT",
    "CLOSED",
    "CLOSED_FILE",
    "FULL_DISPATCHER",
    "GONE",
    "KPROBE_REFUSED",
    "LISTED",
    "MULTI_REFUSED",
    "NO_BTF",
    "NO_CALL",
    "NO_CGROUP",
    "NO_COUNTER",
    "NO_DEVICE",
    "NO_FILE",
    "NO_FUNCTION",
    "NO_FUNCTIONS",
    "NO_MEMORY",
    "NO_QDISC",
    "NO_STATIC",
    "NO_SYMBOL",
    "NO_TRACEPOINT",
    "REFUSED",
    "RIGHTS",
    "SEVERAL_FUNCTIONS",
    "TAKEN",
    "TC_REFUSED",
    "TITLES",
    "TOO_MANY",
    "TOO_OLD",
    "UPROBE_REFUSED",
    "UPROBE_STEP",
    "XSK_DOWN",
    "XSK_NO_MEMORY",
    "XSK_REFUSED",
    "Row",
    "explain_row",
    "quoted",
]

#: The id, the reason and the advice.
Row = tuple[str, str, str]

TITLES = {
    "rights": "Environment: Missing rights",
    "attach-busy": "Environment: Attach target is taken",
    "buffer": "Environment: Buffer for events",
    "descriptor": "Loader: Bad descriptor",
    "file-missing": "Environment: No such file",
    "interface-missing": "Environment: No such interface",
    "elf": "Object File: Not a BPF object",
    "loader-words": "Loader: Settings or a package that it does not understand",
    "map-definition": "Object File: Map definition",
    "map-entry": "Loader: Map entry",
    "object-btf": "Object File: BTF is missing",
    "kernel-headers": "Environment: Headers of the kernel are missing",
    "memory": "Limit: Memory",
    "name-missing": "Object File: No program or map of that name",
    "no-bpf": "Environment: No bpf(2)",
    "fault": "Loader: Bad address",
    "perf-event": "Environment: Performance event",
    "pin": "Environment: Pinning",
    "refused": "Verifier: Refused, and the log is missing",
    "qdisc-missing": "Environment: No queueing discipline to attach to",
    "kernel-btf": "Environment: Kernel without BTF",
    "cgroup-missing": "Environment: No cgroup of version 2",
    "test-run": "Loader: Trial run of a program",
    "tracefs": "Environment: tracefs",
    "usdt": "Environment: Attach target in a program's file",
    "uprobe-target": "Environment: Attach target in a program's file",
    "unsupported": "Kernel Support: Not supported",
}
ATTACH_TITLE = "Kernel Support: Attach target"

LISTED = (
    "`retsnoop-py functions NAME` shows if the function exists and can be traced; `ls"
    " /sys/kernel/tracing/events` lists tracepoints."
)
RIGHTS: Row = ("rights", EPERM_TEXT, EPERM_STEP)
NO_MEMORY: Row = (
    "memory",
    "there is not enough memory for it, or the cgroup's limit, or that on locked memory (ulimit -l,"
    " before Linux 5.11), does not allow it.",
    "Raise the limit (memory.max, LimitMEMLOCK=infinity), or make maps and buffers smaller.",
)
TOO_MANY: Row = (
    "memory",
    "the process has as many files open as it may: each probe, program, map and CPU takes one.",
    "ulimit -n 65536, or LimitNOFILE= of the unit.",
)
TOO_OLD: Row = (
    "unsupported",
    "this kernel, as it is configured, or this machine cannot do that.",
    "`retsnoop-py doctor` reports what this kernel supports. Look up the release that added the"
    " requested feature.",
)
NO_CALL: Row = (
    "no-bpf",
    "the kernel was built without this system call or a part of it (CONFIG_BPF_SYSCALL), or"
    " seccomp hides it.",
    "Use a kernel with CONFIG_BPF_SYSCALL=y, or a container profile that allows bpf and perf_event_open.",
)
GONE: Row = (
    "attach-target-missing",
    "the attach target does not exist.",
    "Check its name on this kernel (`retsnoop-py functions`, `ls /sys/kernel/tracing/events`, `ip"
    " link`), and that the program runs in the right namespaces.",
)
FULL_DISPATCHER: Row = (
    "attach-busy",
    "there is no room for another program: libxdp's dispatcher allows ten on an interface, and a"
    " driver may have no resources left.",
    "`xdp-loader status DEV` and `bpftool net` list the attached programs. Unload those that you"
    " do not need.",
)
TAKEN: Row = (
    "attach-busy",
    "another program is attached there. For a program on a kernel function (fentry, fexit, lsm),"
    " EBUSY can also mean that the function has no ftrace hook at its start, or that another tool"
    " uses the hook.",
    "`bpftool net` and `bpftool link` list the attached programs. Detach or replace the present"
    " one. `retsnoop-py functions NAME` shows if a function can be traced; a kernel without"
    " CONFIG_FUNCTION_TRACER has no such hooks.",
)
CANNOT: Row = (
    "attach-unsupported",
    "the kernel, this machine or the driver cannot do that.",
    "`retsnoop-py doctor` reports what this kernel supports. fentry needs trampolines (arm64:"
    " Linux 6.4), native XDP needs driver support.",
)
REFUSED: Row = (
    "attach-refused",
    "the kernel does not accept the program there: wrong program or attach type, a flag or mode"
    " that this kernel does not have, or a driver that refuses this MTU or number of queues.",
    "Look in dmesg and in the kernel's message (`ip -d`, libbpf's debug output) for the reason."
    " Try generic mode for XDP, and check the section's name for the type.",
)
CLOSED: Row = (
    "descriptor",
    "the program or the target is not a valid file descriptor of the right kind. It was closed,"
    " never opened, or (for a cgroup) is a directory outside cgroup v2.",
    "Keep the descriptor of the cgroup, link or map open until the program is attached, and check"
    " the result of the call that opened it.",
)
BUSY_PROBE: Row = (
    "attach-busy",
    "there is a probe event of this name, or one on this place, already, and it is in use or was left"
    " by another run.",
    "cat /sys/kernel/tracing/kprobe_events (uprobe_events) lists them; end who uses it, then echo"
    " '-:GROUP/NAME' >> that file. Probes as perf events (Linux 4.17) need no names.",
)
NO_FUNCTION: Row = (
    "kprobe-target",
    "the kernel has no function of that name that a kprobe can be put on: it is inlined, renamed, in a"
    " module that is not loaded, or closed to probes (notrace, .noinstr.text).",
    LISTED,
)
SEVERAL_FUNCTIONS: Row = (
    "kprobe-target",
    "several functions of the kernel have that name, and a kprobe by such a name alone is not taken (since Linux 6.6,"
    " and in older ones that this was carried back to).",
    "`grep -w NAME /proc/kallsyms` lists them. Give the address of one (`retsnoop-py functions"
    " NAME`), or use kprobe.multi, which attaches to all.",
)
NO_FUNCTIONS: Row = (
    "kprobe-target",
    "of the functions that probes are put on at once, one is not there as it is named, or ftrace has no hook in it; or the"
    " kernel's symbols are hidden, by which they are found (kernel.kptr_restrict).",
    f"Try it with kernel.kptr_restrict=0, and with single kprobes, which say the name. {LISTED}",
)
KPROBE_REFUSED: Row = (
    "kprobe-target",
    "the kernel puts no kprobe there: the function is closed to probes (.noinstr.text, the blacklist), or its"
    " code is not in memory (__init and __exit, or inlined everywhere),"
    " the offset is not the start of an instruction, a return probe is not at the start of a function,"
    " or the program was made for another kernel (before 5.0 its section 'version' counts).",
    f"/sys/kernel/debug/kprobes/blacklist lists the functions that cannot be probed. {LISTED}",
)
MULTI_REFUSED: Row = (
    "kprobe-target",
    "the kernel does not attach to many functions at once like this: it is older than that (kprobe.multi came with 5.18,"
    " kprobe.session with 6.12, CONFIG_FPROBE), the program was not loaded for it (its section is kprobe, or the loader did not"
    " set the attach type), or a function of the list is not there or has no hook of ftrace.",
    f"Name the section kprobe.multi, look at uname -r and CONFIG_FPROBE, or take single kprobes. {LISTED}",
)
#: Advice about the target of a uprobe.
UPROBE_STEP = (
    "Name the file as it is here (/proc/PID/root/... of a container), and a symbol that nm or nm -D"
    " lists: a stripped file keeps its dynamic ones alone, inlined functions have none."
)
NO_SYMBOL: Row = (
    "uprobe-target",
    "the uprobe's target does not exist under this name: the file is not at that path in this"
    " mount namespace, or it has no such symbol (or is stripped).",
    UPROBE_STEP,
)
UPROBE_REFUSED: Row = (
    "uprobe-target",
    "the kernel cannot put a uprobe there. The offset is not one of code in that file (an address"
    " instead of an offset, or the middle of an instruction), the instruction cannot be"
    " single-stepped, or the file is on a file system that cannot be mapped.",
    "Name the function instead of an address, or take the address less that of its segment, plus the"
    " segment's place in the file (readelf -lW).",
)
NO_STATIC: Row = (
    "usdt",
    "the program, or the process that was named, has no such static tracepoint (USDT): it was built without them, its"
    " libraries have them instead, or the file is not at that path in this mount namespace.",
    "readelf -n FILE lists those it has, in its section .note.stapsdt (tplist of bcc, too); languages' runtimes are built"
    " with them by --enable-dtrace or --with-dtrace.",
)
NO_TRACEPOINT: Row = (
    "tracepoint-missing",
    "this kernel has no such tracepoint, or tracefs, by which it is found, is not mounted here.",
    "ls /sys/kernel/tracing/events; mount -t tracefs nodev /sys/kernel/tracing if that is empty, as in"
    " a container. Tracepoints come and go with kernels, configurations and modules.",
)
NO_COUNTER: Row = (
    "perf-event",
    "the event that is to be counted or sampled is not there: most virtual machines have no hardware"
    " counters (cycles, instructions, cache misses).",
    "perf stat -e cycles true says the same; give the machine a PMU, or take a software event"
    " (cpu-clock).",
)
XSK_REFUSED: Row = (
    "attach-refused",
    "the kernel refuses the AF_XDP socket. Possible causes: the interface does not have that"
    " queue, a ring size is not a power of two, the umem is not page-aligned or its frame size"
    " does not divide a page, or the interface has an XDP program that the loader cannot use.",
    "`ethtool -l DEV` shows the number of queues. Try copy mode (XDP_COPY) and generic XDP, or"
    " load the program yourself (XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD).",
)
XSK_NO_MEMORY: Row = (
    "memory",
    "there is not enough memory for the AF_XDP socket's umem and rings, or the limit on locked memory is reached (ulimit -l);"
    " or the rings are not where the library looks: it is older or newer than the kernel's AF_XDP (before Linux 5.3), or the"
    " interface has no such queue.",
    "Run `ulimit -l unlimited`. Use a later libxdp (libbpf) and kernel. `ethtool -l DEV` shows"
    " the number of queues.",
)
XSK_DOWN: Row = (
    "attach-refused",
    "the AF_XDP socket cannot send or be woken. The interface is down, or the driver has not set"
    " up that queue: it restarted, has fewer queues, or does not support the socket's bind mode.",
    "`ip link` shows if it is up, `ethtool -l DEV` shows the number of queues. Try copy mode"
    " (XDP_COPY) and generic XDP.",
)
NO_CGROUP: Row = (
    "cgroup-missing",
    "the program needs a cgroup v2 directory, and the named one is not: it was removed, belongs"
    " to cgroup v1, or is not in this mount namespace.",
    "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with systemd.unified_cgroup_hierarchy=1;"
    " a container takes it from its host.",
)
NO_QDISC: Row = (
    "qdisc-missing",
    "the interface, or its queueing discipline that takes programs of tc, is not there.",
    "ip link lists interfaces; tc qdisc add dev DEV clsact (CONFIG_NET_SCH_INGRESS,"
    " CONFIG_NET_CLS_BPF); since Linux 6.6 tcx needs none.",
)
TC_REFUSED: Row = (
    "attach-refused",
    "the kernel refuses the tc filter. Possible causes: cls_bpf (act_bpf) is not built in or not"
    " loaded, or too old for the request (direct-action 4.4, tcx 6.6); the interface has no"
    " clsact; another filter has that priority and handle; the program's type is neither"
    " classifier nor action.",
    "`tc qdisc show dev DEV` and `tc filter show dev DEV egress` list the present ones. Run"
    " `modprobe cls_bpf sch_ingress` (in packages such as kmod-sched-bpf). The kernel's message"
    " has more, if the loader shows it.",
)
NO_BTF: Row = (
    "kernel-btf",
    "the kernel's own BTF cannot be read, by which the program is fitted to it: CONFIG_DEBUG_INFO_BTF is off, or it"
    " is older than 5.4 (4.18 with what distributions carry back).",
    "ls -l /sys/kernel/btf/vmlinux; use a kernel that has it, or give the loader the BTF of that kernel"
    " (BTFHub has some).",
)
NO_DEVICE: Row = (
    "interface-missing",
    "this network namespace has no interface of that name.",
    "ip link lists them; a container has its own.",
)


NO_FILE: Row = (
    "file-missing",
    "the file does not exist in this mount namespace.",
    "Look at where the loader searches: a relative path counts from the directory it was started in, and a"
    " container has files of its own.",
)
CLOSED_FILE: Row = (
    "rights",
    "that file may not be opened or written by this process: its owner and mode, an LSM (SELinux, AppArmor), or a"
    " file system that is mounted read-only.",
    "`ls -lZ` shows the owner. Run as the owner or root, or mount it for writing.",
)

#: Maximum number of characters of a line that are quoted in a sentence.
_QUOTED = 300


def quoted(line: str) -> str:
    """Return ``line`` for a sentence: of a long line only the end, with the innermost cause."""
    said = line.strip().rstrip(".: ")
    return said if len(said) <= _QUOTED else "..." + said[3 - _QUOTED :]


def explain_row(row: Row, line: str) -> Explanation:
    """Return the explanation of ``row`` for the operation that failed in ``line``."""
    id_, reason, suggestion = row
    title = TITLES.get(id_, ATTACH_TITLE)
    return about_line(id_, title, f"{quoted(line)}: {reason}", suggestion, line)
