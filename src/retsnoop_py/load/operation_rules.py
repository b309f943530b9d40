# SPDX-License-Identifier: BSD-2-Clause
"""What an errno means for the operation that a loader says has failed, in whatever words.

Loaders word the same failure each in their own way; what they have in common is an operation (attach
a kprobe, enter a program into an interface, write to a map) and an errno. Lines that say more than
that are ``loader_rules``'. Of a chain of causes in one line ("a: b: c") the last one counts, which is
the innermost.
"""

from __future__ import annotations

import re

from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT, errno_in, says_errno
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation_rows import (
    ATTACH_TITLE,
    BUSY_PROBE,
    CANNOT,
    CLOSED,
    CLOSED_FILE,
    FULL_DISPATCHER,
    GONE,
    KPROBE_REFUSED,
    LISTED,
    MULTI_REFUSED,
    NO_BTF,
    NO_CALL,
    NO_CGROUP,
    NO_COUNTER,
    NO_DEVICE,
    NO_FILE,
    NO_FUNCTION,
    NO_FUNCTIONS,
    NO_MEMORY,
    NO_QDISC,
    NO_STATIC,
    NO_SYMBOL,
    NO_TRACEPOINT,
    REFUSED,
    RIGHTS,
    SEVERAL_FUNCTIONS,
    TAKEN,
    TC_REFUSED,
    TITLES,
    TOO_MANY,
    TOO_OLD,
    UPROBE_REFUSED,
    XSK_DOWN,
    XSK_NO_MEMORY,
    XSK_REFUSED,
    Row,
    explain_row,
)
from retsnoop_py.load.prefilter import PatternSet
from retsnoop_py.value import Value

__all__ = ["explain_operation", "of_xsk"]


class _Operation(Value):
    """What a loader tries: its words, and what an errno means for it.

    ``otherwise``: where no errno is named. ``is_general``: others that a
    line has words of say more.
    """

    words: str
    errors: dict[str, Row]
    otherwise: Row | None = None
    is_general: bool = False


#: What is called AF_XDP, by loaders and by their sources.
_XSK = r"\bxsk_|AF_XDP|\bxsk\b|\bumem\b|SockaddrXDP|sa_family=0x2c"


def _each(names: str, row: Row) -> dict[str, Row]:
    return dict.fromkeys(names.split(), row)


#: What every operation has in common, unless it says otherwise.
_COMMON = {
    **_each("EPERM EACCES", RIGHTS),
    **_each("ENOMEM ENOBUFS", NO_MEMORY),
    **_each("EMFILE ENFILE", TOO_MANY),
    **_each("ENOSYS", NO_CALL),
}
_ATTACHED = {
    **_COMMON,
    **_each("ENOENT ESRCH ENODEV ENXIO", GONE),
    **_each("EBUSY EEXIST", TAKEN),
    **_each("EOPNOTSUPP ENOTSUPP ENOTTY ENOPROTOOPT", CANNOT),
    **_each("EINVAL ERANGE", REFUSED),
    **_each("EBADF", CLOSED),
}
_PROBED = {**_ATTACHED, **_each("EBUSY EEXIST", BUSY_PROBE)}

_DO = r"(?:not found|(?:does not|doesn't) exist|attach|creat|enabl|open|register|install|add|start|set|writ|hook|link|perf_event)\w*"


def _of(
    words: str, errors: dict[str, Row], otherwise: Row | None = None, is_general: bool = False
) -> _Operation:
    return _Operation(words, errors, otherwise, is_general)


_PINNED = _of(
    r"/sys/fs/bpf\b|\bbpffs\b|BPF file ?system|\b(?:failed|unable) to pin\b|\bpinning\b|\bpin (?:map|prog\w*|link)s?\b",
    {
        **_COMMON,
        "EPERM": (
            "rights",
            "the path is on no BPF file system - the kernel says EPERM of that, too - or rights are missing: CAP_BPF, and what"
            " file modes allow there.",
            "findmnt -t bpf says where one is: mount -t bpf bpf /sys/fs/bpf, and pin below it; run as root.",
        ),
        **_each(
            "ENOENT EROFS EEXIST ENOTDIR EINVAL EBUSY ENODEV",
            (
                "pin",
                "what is pinned there is not, or cannot be: the path is on no BPF file system, is taken already,"
                " may not be written, or is missing - a container has its own /sys/fs/bpf.",
                "mount -t bpf bpf /sys/fs/bpf, or take the host's into the container, for writing; bpftool -f prog"
                " show and map show say what is pinned where.",
            ),
        ),
    },
    is_general=True,
)
_OPERATIONS = (
    _of(
        rf"{_DO}\W(?:[^:]{{0,60}}?\W)??k(?:ret)?probes?\b|\bk(?:ret)?probes?\b[^:]{{0,40}}{_DO}|attach_k(?:ret)?probe"
        r"|(?<!debug/)kprobes/(?!blacklist)|perf_kprobe|required functions? for",
        {
            **_PROBED,
            **_each("ENOENT ENODEV ESRCH EILSEQ", NO_FUNCTION),
            **_each("EADDRNOTAVAIL", SEVERAL_FUNCTIONS),
            **_each("EINVAL ERANGE EDOM", KPROBE_REFUSED),
        },
        NO_FUNCTION,
    ),
    _of(
        r"\bk(?:ret)?probe[._-]?(?:multi|session)\b|\bmulti[- ]k(?:ret)?probes?\b|KprobeMulti\b",
        {**_PROBED, **_each("ENOENT ESRCH", NO_FUNCTIONS), **_each("EINVAL EDOM", MULTI_REFUSED)},
    ),
    _of(
        rf"{_DO}\W(?:[^:]{{0,60}}?\W)??usdt\b|\busdt\b[^:]{{0,40}}{_DO}",
        {
            **_PROBED,
            **_each("ENOENT ENODEV ESRCH", NO_STATIC),
            **_each("EINVAL ERANGE ENOTSUPP EIO EOPNOTSUPP", UPROBE_REFUSED),
        },
        NO_STATIC,
    ),
    _of(
        rf"{_DO}\W(?:[^:]{{0,60}}?\W)??(?:u(?:ret)?probes?\b|u\(ret\)probe)|\bu(?:ret)?probes?\b[^:]{{0,40}}{_DO}"
        r"|attach_u(?:ret)?probe|perf_uprobe",
        {
            **_PROBED,
            **_each("ENOENT ENODEV ESRCH ENOEXEC EISDIR ENOTDIR", NO_SYMBOL),
            **_each("EINVAL ERANGE ENOTSUPP EIO EOPNOTSUPP", UPROBE_REFUSED),
        },
        NO_SYMBOL,
    ),
    _of(
        rf"{_DO}\W(?:[^:]{{0,60}}?\W)??(?:trace ?point|trace ?event|raw_tp\b)|trace ?point[^:]{{0,40}}{_DO}|attach_\w*tracepoint"
        r"|open(?:ing)? (?:the )?event [\w-]+[/:]\w+",
        {**_PROBED, **_each("ENOENT ENODEV ESRCH", NO_TRACEPOINT)},
        NO_TRACEPOINT,
    ),
    _of(
        r"performance (?:monitor|counter|event)|perf[_ -]?event(?:_open|s?\b)(?! (?:array|map|reader|buffer|output))|PERF_EVENT_IOC",
        {
            **_ATTACHED,
            **_each("ENOENT ENODEV EOPNOTSUPP ENXIO", NO_COUNTER),
            **_each(
                "EPERM EACCES",
                (
                    "rights",
                    "performance events are closed to this process: kernel.perf_event_paranoid, CAP_PERFMON"
                    " (CAP_SYS_ADMIN before 5.8), a container's seccomp profile or an LSM.",
                    "Run as root or with CAP_PERFMON; sysctl kernel.perf_event_paranoid=1 or lower; in a"
                    " container a seccomp profile that allows perf_event_open.",
                ),
            ),
            **_each(
                "EINVAL",
                (
                    "attach-refused",
                    "the kernel does not open the event, or does not take the program for it: it is older than"
                    " programs on tracepoints (4.7) or on counters (4.9), the program's type is not the event's, or"
                    " the attributes ask for what this PMU does not have.",
                    "Compare the kernel's release with what the loader needs; dmesg may say more.",
                ),
            ),
            **_each(
                "EBUSY EEXIST",
                (
                    "attach-busy",
                    "the event is in use: a program is attached to it already, or another tool has the"
                    " counter for itself.",
                    "End the other tool, or open an event of your own.",
                ),
            ),
        },
        (
            "perf-event",
            "the event cannot be opened: most virtual machines have no hardware counters, or the rights are missing"
            " (kernel.perf_event_paranoid, CAP_PERFMON).",
            "Run as root; perf stat -e cycles true says whether there are counters; take a software event"
            " (cpu-clock) where there are none.",
        ),
        is_general=True,
    ),
    _of(
        _XSK,
        {
            **_ATTACHED,
            **_each(
                "EBUSY EEXIST",
                (
                    "attach-busy",
                    "another AF_XDP socket has this queue of the interface, or one that was just closed is"
                    " not gone yet; or an XDP program is there that is not to be replaced.",
                    "Wait until the old socket is gone (it is freed after a grace period), take another"
                    " queue, share the umem, and look at bpftool net and ss --xdp.",
                ),
            ),
            **_each("ENOENT ENODEV", NO_DEVICE),
            **_each("EINVAL", XSK_REFUSED),
            **_each("ENOMEM ENOBUFS", XSK_NO_MEMORY),
            **_each("ENXIO ENETDOWN", XSK_DOWN),
            **_each(
                "EOPNOTSUPP ENOTSUPP EPROTONOSUPPORT EAFNOSUPPORT EPROTOTYPE",
                (
                    "attach-unsupported",
                    "the driver has no zero copy or no native XDP, or the kernel no AF_XDP"
                    " (CONFIG_XDP_SOCKETS, Linux 4.18).",
                    "Bind with XDP_COPY, and attach in generic mode (XDP_FLAGS_SKB_MODE).",
                ),
            ),
        },
        XSK_REFUSED,
    ),
    _of(
        r"\bXDP\b(?! (?:expects|with))|set_link_xdp|bpf_xdp_attach|netdev|nlmsg error|attach BPF to device",
        {
            **_ATTACHED,
            **_each(
                "ENOMEM",
                (
                    "memory",
                    "the driver cannot set up what XDP takes: it has too few queues for it (virtio and some others want"
                    " one more for each CPU), or there is no memory for its rings.",
                    "dmesg says which; ethtool -l DEV has the queues: give the virtual machine twice as many as it has"
                    " CPUs, use fewer (ethtool -L), or try generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE).",
                ),
            ),
            **_each("ENODEV ENXIO ENOENT", NO_DEVICE),
            **_each("ENOSPC", FULL_DISPATCHER),
            **_each(
                "EACCES",
                (
                    "refused",
                    "attaching gives no EACCES: it is that of the load before it, where the verifier refused the"
                    " program, and what it said is not here.",
                    "Load with a log (xdp-loader -vv; retsnoop-py load).",
                ),
            ),
            **_each(
                "EINVAL ERANGE EMSGSIZE",
                (
                    "attach-refused",
                    "the kernel does not take the XDP program there: as a link that takes Linux 5.9; the"
                    " program is of another type, or loaded for another attach type or device; a flag or mode is"
                    " not known (offload to a NIC that has none); or the driver refuses this MTU, number of queues or LRO.",
                    "dmesg and the kernel's own message (ip -d, libbpf's debug output) may say which; try"
                    " generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE), which asks nothing of a driver.",
                ),
            ),
        },
    ),
    _of(
        r"\bqdisc|clsact|\btcx?\b(?=[^:]*(?:attach|filter|hook|link|program))|bpf_tc_|\bfilter\b(?=[^:]*(?:add|attach|replac|creat))"
        r"|tc filter|(?:add|attach|replac|creat)\w*\W(?:[^:]{0,30}?\W)??(?:tc|tcx|filter)\b",
        {
            **_ATTACHED,
            **_each("ENOENT", NO_QDISC),
            **_each("ENODEV ENXIO", NO_DEVICE),
            **_each("EINVAL ERANGE", TC_REFUSED),
        },
    ),
    _of(
        r"(?:RT)?NETLINK(?=.*(?:attach|bpf|xdp|qdisc|filter|clsact))|bpf\b[^:]*: netlink"
        r"|netlink (?:message|response|reply|error|ack\w*)",
        {**_ATTACHED, **_each("ENOENT", NO_QDISC), **_each("ENODEV ENXIO", NO_DEVICE)},
        is_general=True,
    ),
    _of(
        r"cgroup(?=.*(?:attach|BPF_))|(?:attach|link|open|join|BPF_PROG_ATTACH)\w*\W(?:[^:]{0,40}?\W)??(?:BPF_)?cgroup",
        {
            **_ATTACHED,
            **_each("ENOENT ENODEV ENOTDIR", NO_CGROUP),
            **_each("EBADF", CLOSED),
            **_each(
                "E2BIG",
                (
                    "attach-busy",
                    "64 programs of this kind are attached to the cgroup already, which is the most that it takes:"
                    " mostly one more was added each time, and none removed.",
                    "bpftool cgroup show DIR lists them; detach the old ones, or replace one (BPF_F_REPLACE, 5.6).",
                ),
            ),
            **_each(
                "EINVAL",
                (
                    "attach-refused",
                    "the kernel does not take the program for a cgroup: an attach type that it does not know"
                    " or that is not the program's, a flag of a later kernel (BPF_F_REPLACE came with 5.6,"
                    " links with 5.7), or flags that are not those of the programs there already.",
                    "bpftool cgroup tree lists what is attached, with its flags; compare the kernel's"
                    " release with what the loader needs.",
                ),
            ),
            **_each(
                "EPERM EACCES",
                (
                    "rights",
                    f"{EPERM_TEXT} Of a cgroup it is also said where a program is attached further up that"
                    " lets none be added below (without BPF_F_ALLOW_MULTI or BPF_F_ALLOW_OVERRIDE).",
                    f"{EPERM_STEP} bpftool cgroup tree lists what is attached.",
                ),
            ),
        },
    ),
    _of(
        r"attach|creat\w* (?:\w+ )?link|link_create|BPF_LINK_CREATE|\bset (?:link )?xdp|PERF_EVENT_IOC_SET_BPF",
        _ATTACHED,
        is_general=True,
    ),
    _of(
        r"set\w*\W(?:\w+ )?max[_ ]entries|bpf_map__set_\w+|resiz\w* (?:\w+ )?map",
        _each(
            "EBUSY EINVAL",
            (
                "map-definition",
                "the map is made already (loaded, or taken over from a pin): its size and flags can be set before the load only.",
                "Set them between the open and the load of the object; remove the pin of an older one.",
            ),
        ),
    ),
    _of(
        r"(?:updat|freez|insert|lookup|look up|delet|remov|put|writ|popul|add|read|set|iterat)\w*\W(?:[^:]{0,50}?\W)??(?:e?BPF )?(?:maps?|map element|hash ?map|prog array)\b"
        r"|key (?:does not|doesn't|already|too)\b|batch (?:lookup|update|delete)|lookup_and_delete|bpf_map_(?:update|lookup|delete|get_next)\w*|bpf_\w*map_?\w*_elem|\bmap\b[^:]{0,40}\b(?:update|lookup|delete|insert)\w*|map (?:entry|element)",
        {
            **_each(
                "ENOENT",
                (
                    "map-entry",
                    "there is no entry with this key, or the map, a file descriptor or program that was to be"
                    " stored there is gone.",
                    "bpftool map dump name MAP shows what is in it; an array takes keys below max_entries.",
                ),
            ),
            **_each(
                "E2BIG ENOSPC",
                (
                    "map-entry",
                    "the map is full, or the index is not below its max_entries.",
                    "Make max_entries larger, delete entries, or take a map that drops old ones (LRU).",
                ),
            ),
            **_each(
                "EEXIST EBUSY",
                (
                    "map-entry",
                    "there is an entry already (BPF_NOEXIST), it is in use at this moment, or - of freezing - mapped for writing.",
                    "Update with BPF_ANY, or delete it first.",
                ),
            ),
            **_each(
                "EINVAL",
                (
                    "map-entry",
                    "the kernel does not take that for this map: a flag or key that its type does not know, a"
                    " program of another type than the map's others (tail calls), a value that is no"
                    " descriptor of the right kind, or a call (a batch) that this kernel does not have.",
                    "Compare sizes of key and value with bpftool map show; programs for tail calls are all of"
                    " one type, and loaded before they are stored.",
                ),
            ),
            **_each(
                "EOPNOTSUPP ENOTSUPP",
                (
                    "map-entry",
                    "this type of map has no such operation, or not on this kernel: maps of programs cannot be"
                    " read, batches came with Linux 5.6 and type by type.",
                    "Do it entry by entry, and without what the type does not have.",
                ),
            ),
            **_each(
                "EPERM EACCES",
                (
                    "rights",
                    "the map is frozen or opened for the other direction (BPF_F_RDONLY, constants in .rodata),"
                    " or a capability is missing (CAP_BPF, CAP_SYS_ADMIN before 5.8), or an LSM objects.",
                    "Set constants before the load; open the map for writing, as root.",
                ),
            ),
            **_each(
                "EBADF",
                (
                    "descriptor",
                    "the map, or what is to be stored in it, is no open descriptor: never created, or closed"
                    " already.",
                    "Look at what is said of the map's creation, further up.",
                ),
            ),
            **_each("ENOMEM", NO_MEMORY),
            **_each(
                "EFAULT",
                (
                    "fault",
                    "the buffer for the key or the value is smaller than the map's key or value, or no memory"
                    " of the process.",
                    "Compare sizes with bpftool map show: values of maps per CPU are rounded up to 8 bytes,"
                    " times the possible CPUs.",
                ),
            ),
        },
    ),
    _of(
        r"setrlimit|\b(?:rlimit\w*|memlock|lock(?:ed)? memory)\b[^:.]{0,20}:"
        r"|(?:rais|increas|remov|set|bump|adjust|lift|updat|chang)\w* (?:the )?(?:\w+ ){0,2}?(?:rlimit|(?:RLIMIT?_)?memlock|lock(?:ed)? memory)",
        _each(
            "EPERM EACCES EINVAL",
            (
                "rights",
                "the limit on locked memory cannot be raised: that takes CAP_SYS_RESOURCE, which a container or a"
                " user without root does not have. Kernels before 5.11 count maps and programs against it.",
                "Run as root; LimitMEMLOCK=infinity in a unit, --ulimit memlock=-1 of docker. On 5.11 and later a"
                " loader may do without.",
            ),
        ),
    ),
    _of(
        r"(?:creat|open|init|new|set ?up|read)\w*\W(?:[^:]{0,40}?\W)??(?:perf|ring) ?(?:event )?(?:buf(?:fer)?|map|array|reader|ring|output)|ring(?:buf| ?buffer)__?new|perf_buffer__new|perf reader",
        {
            **_COMMON,
            **_each(
                "EINVAL ENOENT EBADF EOPNOTSUPP ENODEV",
                (
                    "buffer",
                    "the buffer that events are read from cannot be set up: the map is not of that type, a number"
                    " of pages is no power of two, or a CPU is not online.",
                    "A map is opened as what it is, ring buffer (Linux 5.8) or perf event array.",
                ),
            ),
        },
    ),
    _PINNED,
    _of(
        r"(?:kernel|vmlinux)\b[^:]{0,40}\bBTF\b|\bBTF\b[^:]{0,40}\b(?:kernel|vmlinux|search|discover|lookup)",
        {**_COMMON, **_each("ENOENT ENODATA ESRCH EINVAL EOPNOTSUPP", NO_BTF)},
        NO_BTF,
        is_general=True,
    ),
    _of(
        r"/sys/kernel/(?:debug|tracing)\b|\b(?:debugfs|tracefs)\b",
        {
            **_COMMON,
            **_each(
                "ENOENT ENODEV",
                (
                    "tracefs",
                    "there is no such file in debugfs or tracefs: it is not mounted there, or the kernel was built"
                    " without what the file is of.",
                    "mount -t tracefs nodev /sys/kernel/tracing, mount -t debugfs nodev /sys/kernel/debug; a container"
                    " takes them from its host.",
                ),
            ),
        },
        is_general=True,
    ),
    _of(
        r"\btrace_pipe\b",
        {
            **_COMMON,
            **_each(
                "EBUSY",
                (
                    "attach-busy",
                    "trace_pipe is read by another process: it has one reader at a time.",
                    "End the other reader (cat, bpftool prog tracelog, an agent), or make an instance in"
                    " /sys/kernel/tracing/instances.",
                ),
            ),
            **_each(
                "ENOENT",
                (
                    "tracefs",
                    "tracefs is not mounted there.",
                    "mount -t tracefs nodev /sys/kernel/tracing; a container takes it from its host.",
                ),
            ),
        },
    ),
    _of(
        r"\bkallsyms\b",
        {
            **_each(
                "EPERM EACCES",
                (
                    "rights",
                    "the kernel's list of symbols may not be read, or shows no addresses to this process"
                    " (kernel.kptr_restrict).",
                    "Run as root, with kernel.kptr_restrict at 0 or 1.",
                ),
            ),
        },
        (
            "kprobe-target",
            "the kernel's list of symbols has no such name, or shows no addresses to this process"
            " (kernel.kptr_restrict).",
            f"Run as root, with kernel.kptr_restrict at 0 or 1. {LISTED}",
        ),
    ),
    _of(
        r"\bcpu ?[#']?\d+\b",
        _each(
            "ENODEV ENOENT ENXIO",
            (
                "perf-event",
                "that CPU is not there or offline: a loader that opens something for each possible CPU meets those"
                " that are not online.",
                "/sys/devices/system/cpu/online and possible say which; bring it online, or use a later loader,"
                " which leaves such out.",
            ),
        ),
        is_general=True,
    ),
    _of(
        r"test[_ -]?run|prog(?:ram)?[_ ]run\b|BPF_PROG_(?:TEST_)?RUN",
        {
            **_COMMON,
            **_each(
                "EINVAL ENOTSUPP EOPNOTSUPP EFAULT ENOSPC E2BIG",
                (
                    "test-run",
                    "the kernel does not run the program on demand like this: its type cannot be run so on this"
                    " kernel, the input is shorter than a packet's header (14 bytes), a context or flag is not for"
                    " this type, or the output buffer is too small.",
                    "Give 14 bytes and more as data, no context where the type takes none; which types can be run"
                    " came kernel by kernel (XDP and tc with 4.12).",
                ),
            ),
        },
    ),
    _of(
        r"bpf_(?:obj|prog|map|link|btf)_get_\w+|bpfGetFd\w+|BPF_(?:OBJ|PROG|MAP|LINK|BTF)_GET_\w+|get (?:prog|program|map|link|btf) (?:info|fd|id)|(?:prog|map|link) (?:info|by id)|prog_query|BPF_PROG_QUERY|query\w*\W(?:[^:]{0,20}?\W)??(?:bpf )?prog",
        {
            **_COMMON,
            **_each("EINVAL ENOTSUPP EOPNOTSUPP ENXIO E2BIG", TOO_OLD),
            **_each(
                "ENOENT EBADF",
                (
                    "descriptor",
                    "there is no program, map or link of that number: it is gone, or was never loaded.",
                    "bpftool prog, bpftool map and bpftool link list what there is.",
                ),
            ),
        },
    ),
    _of(
        r"mount\w*\W(?:[^:]{0,40}?\W)??(?:bpf|tracefs|debugfs|cgroup(?!s? ?v?1)|bpffs)",
        {
            **_each(
                "EPERM EACCES EROFS EINVAL",
                (
                    "rights",
                    "a file system cannot be mounted here: that takes CAP_SYS_ADMIN in the name space that owns it,"
                    " and a container mostly has neither.",
                    "Mount it on the host and hand it in (-v /sys/fs/bpf, -v /sys/kernel/tracing).",
                ),
            ),
            **_each("ENODEV", TOO_OLD),
        },
    ),
)

_DETACHING = _of(
    r"\bdetach|\bunload\w* (?:XDP|program|BPF)",
    {
        **_COMMON,
        **_each(
            "ENOENT EINVAL ENODEV ENXIO EBADF ESRCH",
            (
                "attach-target-missing",
                "nothing of the sort is attached there, or not any more, or by another way: a link goes with its"
                " descriptor or pin, an XDP program in the mode it was attached in.",
                "bpftool net, bpftool link and bpftool cgroup tree list what is attached.",
            ),
        ),
        **_each("EBUSY EEXIST", TAKEN),
    },
)
_NAMES = PatternSet([operation.words for operation in _OPERATIONS], re.IGNORECASE)
_XSK_NAMED = re.compile(_XSK, re.IGNORECASE)
_DETACHES = re.compile(_DETACHING.words, re.IGNORECASE)
#: What loaders call an errno by themselves.
_SAID = {
    "not found": "ENOENT",
    "does not exist": "ENOENT",
    "doesn't exist": "ENOENT",
    "already exists": "EEXIST",
    "not supported": "EOPNOTSUPP",
    "unsupported": "EOPNOTSUPP",
}
#: As Go names the file of a failed call: "open /sys/fs/bpf/x: no such file or directory".
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
    **_each("ENOENT ENOTDIR", NO_FILE),
    **_each("EACCES EPERM EROFS", CLOSED_FILE),
}
_FAILS = re.compile(
    r"fail|err\b|errno|error|could ?n[o']t|can ?n[o']t|can't|unable|[\w)\]\"'>]: (?:invalid|no such|operation|permission|device)"
    r"|not permitted|denied|not found|none of the|not supported|not exist",
    re.IGNORECASE,
)
#: Without an errno only words as clear as these say that it was the operation that failed.
_PLAINLY = re.compile(
    r"(?:fail\w*(?: to)?|could ?n[o']t|can ?n[o']t|can't|unable to|error(?: while| when)?)\W+(?:be )?"
    r"(?:attach|enabl|creat|regist|install|hook|start|open|set ?up|init|alloc|bind|configur)|none of the required"
    r"|(?:attach|search|discover|lookup|creat|regist|install|init|open|bind)\w*(?:\(\))? (?:has |was )?(?:failed|error)\b|failed: aborting",
    re.IGNORECASE,
)
#: A probe as kprobe_events and uprobe_events take it: ``p:GROUP/EVENT TARGET``.
_DEFINITION = re.compile(
    r"\b[pr]\d*:(?:(?P<group>[^\s/\"]+)/)?(?P<event>[^\s\"]+) (?P<target>[^\s\"]+)"
)
_GOOD_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: MAX_EVENT_NAME_LEN of kernel/trace/trace.h, with the 0 at its end.
_MOST_NAME = 64
#: What names no operation: where a message comes from in a loader's source (``cgroups/devices.c:33``),
#: how a program is called (``program b'tracepoint__sched'``), and which are meant (``programs attached to``).
_NO_OPERATION = re.compile(
    r"\S*\w\.(?:c|cc|cpp|go|rs|h|py)\b(?::\d+)?|\b[Pp]rog(?:ram)? (?:b?'[^']*'|\w*__\w+)"
    r"|(?<=programs) attached|(?<=progs) attached"
)
#: A load, which the verifier refuses; what the program is for does not matter.
_LOADS = re.compile(r"fail\w* to load (?:BPF )?program|loading BPF program", re.IGNORECASE)


def _named(line: str) -> list[_Operation]:
    """The operations that ``line`` names, the last first, and behind them those that say less."""
    at = {}
    line = _NO_OPERATION.sub("", line)
    for number in _NAMES.candidates(line):
        starts = [found.start() for found in _NAMES.pattern(number).finditer(line)]
        if starts:
            at[number] = (_OPERATIONS[number].is_general, -max(starts), number)
    return [_OPERATIONS[number] for number in sorted(at, key=at.__getitem__)]


def _ill_named(line: str) -> Explanation | None:
    """Of a probe whose event tracefs refuses for its name; None where the name is one."""
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
    """Whether it is about a socket of AF_XDP, or its memory."""
    return _XSK_NAMED.search(line) is not None


def explain_operation(line: str) -> Explanation | None:
    """What an operation failed for, by its errno; None where a line tells of neither."""
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
    operations = [_PINNED] if in_bpffs else [_DETACHING] if _DETACHES.search(line) else _named(line)
    row = next((one.errors[errno] for one in operations if errno in one.errors), None)
    if row is None and operations and not errno_in(line) and _PLAINLY.search(line):
        row = operations[0].otherwise
    return explain_row(row, line) if row is not None else None
