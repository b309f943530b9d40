# SPDX-License-Identifier: BSD-2-Clause
"""What may be the matter with an operation, a row for each: what is said of it, and what to do.

``operation_rules`` tells by errno which it is, ``word_rules`` by the words of a complaint.
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

#: The id of a reason, what it is, and what to do.
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
    "retsnoop-py functions NAME says what is called so and whether it can be traced; ls"
    " /sys/kernel/tracing/events lists tracepoints."
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
    "retsnoop-py doctor says what this kernel can do; look up since when there is what was asked for.",
)
NO_CALL: Row = (
    "no-bpf",
    "the kernel was built without that system call or that part of it (CONFIG_BPF_SYSCALL), or seccomp hides it.",
    "Use a kernel with CONFIG_BPF_SYSCALL=y, or a container profile that allows bpf and perf_event_open.",
)
GONE: Row = (
    "attach-target-missing",
    "what the program is to be attached to is not there.",
    "Look at what it is called on this kernel (retsnoop-py functions, ls /sys/kernel/tracing/events,"
    " ip link), and whether the program sees the same name spaces.",
)
FULL_DISPATCHER: Row = (
    "attach-busy",
    "there is no room for one more program: libxdp's dispatcher takes ten on an interface, or a driver has no resources left"
    " for another.",
    "xdp-loader status DEV and bpftool net list what is attached; unload what is not needed.",
)
TAKEN: Row = (
    "attach-busy",
    "something is attached there already. Of a program on a function of the kernel (fentry, fexit, lsm) EBUSY"
    " says as well that there is no hook of ftrace at its start, or one of somebody else's.",
    "bpftool net and bpftool link list what is attached; detach it, or replace it. retsnoop-py functions NAME says"
    " whether a function can be traced; a kernel without CONFIG_FUNCTION_TRACER has such hooks nowhere.",
)
CANNOT: Row = (
    "attach-unsupported",
    "the kernel, this machine or the driver cannot do that.",
    "retsnoop-py doctor says what this kernel can do; fentry takes trampolines (arm64 since 6.4),"
    " native XDP a driver that has it.",
)
REFUSED: Row = (
    "attach-refused",
    "the kernel does not take the program there: another type of program or attachment, a flag or"
    " mode that it is too young for, or a driver that refuses this MTU or number of queues.",
    "dmesg and the kernel's own message (ip -d, libbpf's debug output) may say which; try generic"
    " mode for XDP, and the section's name for the type.",
)
CLOSED: Row = (
    "descriptor",
    "the program, or what it is to be attached to, is no open descriptor of the right kind: closed"
    " already, never opened, or, for a cgroup, a directory that is none of cgroup v2.",
    "Keep the cgroup, the link's or the map's descriptor open until the attachment is made, and look"
    " at what the call that opened it returned.",
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
    "grep -w NAME /proc/kallsyms lists them: give the address of one (retsnoop-py functions NAME), or take kprobe.multi,"
    " which attaches to all.",
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
    f"/sys/kernel/debug/kprobes/blacklist lists what is closed. {LISTED}",
)
MULTI_REFUSED: Row = (
    "kprobe-target",
    "the kernel does not attach to many functions at once like this: it is older than that (kprobe.multi came with 5.18,"
    " kprobe.session with 6.12, CONFIG_FPROBE), the program was not loaded for it (its section is kprobe, or the loader did not"
    " set the attach type), or a function of the list is not there or has no hook of ftrace.",
    f"Name the section kprobe.multi, look at uname -r and CONFIG_FPROBE, or take single kprobes. {LISTED}",
)
#: Where a uprobe is to be put.
UPROBE_STEP = (
    "Name the file as it is here (/proc/PID/root/... of a container), and a symbol that nm or nm -D"
    " lists: a stripped file keeps its dynamic ones alone, inlined functions have none."
)
NO_SYMBOL: Row = (
    "uprobe-target",
    "what the uprobe is to be put on is not there as it is named: the file is not at that path in this"
    " mount namespace, or has no such symbol (or no symbols that can be read).",
    UPROBE_STEP,
)
UPROBE_REFUSED: Row = (
    "uprobe-target",
    "the kernel puts no uprobe there: the offset is not one of code in that file (an address instead of"
    " an offset, or the middle of an instruction), what stands there is an instruction that it cannot"
    " step over, or the file lies where it cannot be mapped.",
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
    "the kernel does not take the AF_XDP socket: a queue that the interface does not have,"
    " rings whose sizes are no powers of two, a umem that is not aligned to pages or whose"
    " frames are of another size than 2,048 to a page, or an XDP program there that the"
    " loader does not know how to use.",
    "ethtool -l DEV says how many queues there are; try copy mode (XDP_COPY) and generic"
    " XDP, and load the program yourself (XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD).",
)
XSK_NO_MEMORY: Row = (
    "memory",
    "there is not enough memory for the AF_XDP socket's umem and rings, or the limit on locked memory is reached (ulimit -l);"
    " or the rings are not where the library looks: it is older or newer than the kernel's AF_XDP (before Linux 5.3), or the"
    " interface has no such queue.",
    "ulimit -l unlimited; use a later libxdp (libbpf) and kernel; ethtool -l DEV says how many queues there are.",
)
XSK_DOWN: Row = (
    "attach-refused",
    "the AF_XDP socket cannot send or be woken: its interface is down, or the driver has not set up that queue for"
    " it - it restarted, has fewer queues, or cannot do what the socket was bound for.",
    "ip link says whether it is up, ethtool -l DEV how many queues there are; try copy mode (XDP_COPY) and generic XDP.",
)
NO_CGROUP: Row = (
    "cgroup-missing",
    "the program is attached to a cgroup of version 2, and what was named is none: it is gone, of"
    " version 1, or not in this mount namespace.",
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
    "the kernel does not take the filter of tc: cls_bpf (act_bpf) is not built in or not loaded, or is older than what is asked"
    " for (direct-action 4.4, tcx 6.6); the interface has no clsact, or another filter has that priority and handle; or the"
    " program is of another type than classifier or action.",
    "tc qdisc show dev DEV and tc filter show dev DEV egress list what is there; modprobe cls_bpf sch_ingress (packages such as"
    " kmod-sched-bpf have them); the kernel's own message says more where the loader shows it.",
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
    "there is no such network interface in this network namespace.",
    "ip link lists them; a container has its own.",
)


NO_FILE: Row = (
    "file-missing",
    "there is no such file, or not in this mount name space.",
    "Look at where the loader searches: a relative path counts from the directory it was started in, and a"
    " container has files of its own.",
)
CLOSED_FILE: Row = (
    "rights",
    "that file may not be opened or written by this process: its owner and mode, an LSM (SELinux, AppArmor), or a"
    " file system that is mounted read-only.",
    "ls -lZ says whose it is; run as its owner or root, or mount it for writing.",
)

#: Characters of a line that are quoted in a sentence.
_QUOTED = 300


def quoted(line: str) -> str:
    """``line`` for a sentence: the end of a long one, where the innermost cause stands."""
    said = line.strip().rstrip(".: ")
    return said if len(said) <= _QUOTED else "..." + said[3 - _QUOTED :]


def explain_row(row: Row, line: str) -> Explanation:
    """What ``row`` says of the operation that failed in ``line``."""
    id_, reason, suggestion = row
    title = TITLES.get(id_, ATTACH_TITLE)
    return about_line(id_, title, f"{quoted(line)}: {reason}", suggestion, line)
