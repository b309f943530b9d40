# SPDX-License-Identifier: BSD-2-Clause
"""Operations that attach or detach: their words, and the meaning of each errno."""

from __future__ import annotations

from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT
from retsnoop_py.load.operation import ATTACHED, COMMON, DO, PROBED, each, of
from retsnoop_py.load.operation_rows import (
    CLOSED,
    FULL_DISPATCHER,
    KPROBE_REFUSED,
    MULTI_REFUSED,
    NO_CGROUP,
    NO_COUNTER,
    NO_DEVICE,
    NO_FUNCTION,
    NO_FUNCTIONS,
    NO_QDISC,
    NO_STATIC,
    NO_SYMBOL,
    NO_TRACEPOINT,
    SEVERAL_FUNCTIONS,
    TAKEN,
    TC_REFUSED,
    UPROBE_REFUSED,
    XSK_DOWN,
    XSK_NO_MEMORY,
    XSK_REFUSED,
)

__all__ = ["ATTACH_OPERATIONS", "DETACHING", "XSK"]

#: Names of AF_XDP in loaders and in their sources.
XSK = r"\bxsk_|AF_XDP|\bxsk\b|\bumem\b|SockaddrXDP|sa_family=0x2c"
ATTACH_OPERATIONS = (
    of(
        rf"{DO}\W(?:[^:]{{0,60}}?\W)??k(?:ret)?probes?\b|\bk(?:ret)?probes?\b[^:]{{0,40}}{DO}|attach_k(?:ret)?probe"
        r"|(?<!debug/)kprobes/(?!blacklist)|perf_kprobe|required functions? for",
        {
            **PROBED,
            **each("ENOENT ENODEV ESRCH EILSEQ", NO_FUNCTION),
            **each("EADDRNOTAVAIL", SEVERAL_FUNCTIONS),
            **each("EINVAL ERANGE EDOM", KPROBE_REFUSED),
        },
        NO_FUNCTION,
    ),
    of(
        r"\bk(?:ret)?probe[._-]?(?:multi|session)\b|\bmulti[- ]k(?:ret)?probes?\b|KprobeMulti\b",
        {**PROBED, **each("ENOENT ESRCH", NO_FUNCTIONS), **each("EINVAL EDOM", MULTI_REFUSED)},
    ),
    of(
        rf"{DO}\W(?:[^:]{{0,60}}?\W)??usdt\b|\busdt\b[^:]{{0,40}}{DO}",
        {
            **PROBED,
            **each("ENOENT ENODEV ESRCH", NO_STATIC),
            **each("EINVAL ERANGE ENOTSUPP EIO EOPNOTSUPP", UPROBE_REFUSED),
        },
        NO_STATIC,
    ),
    of(
        rf"{DO}\W(?:[^:]{{0,60}}?\W)??(?:u(?:ret)?probes?\b|u\(ret\)probe)|\bu(?:ret)?probes?\b[^:]{{0,40}}{DO}"
        r"|attach_u(?:ret)?probe|perf_uprobe",
        {
            **PROBED,
            **each("ENOENT ENODEV ESRCH ENOEXEC EISDIR ENOTDIR", NO_SYMBOL),
            **each("EINVAL ERANGE ENOTSUPP EIO EOPNOTSUPP", UPROBE_REFUSED),
        },
        NO_SYMBOL,
    ),
    of(
        rf"{DO}\W(?:[^:]{{0,60}}?\W)??(?:trace ?point|trace ?event|raw_tp\b)|trace ?point[^:]{{0,40}}{DO}|attach_\w*tracepoint"
        r"|open(?:ing)? (?:the )?event [\w-]+[/:]\w+",
        {**PROBED, **each("ENOENT ENODEV ESRCH", NO_TRACEPOINT)},
        NO_TRACEPOINT,
    ),
    of(
        r"performance (?:monitor|counter|event)|perf[_ -]?event(?:_open|s?\b)(?! (?:array|map|reader|buffer|output))|PERF_EVENT_IOC",
        {
            **ATTACHED,
            **each("ENOENT ENODEV EOPNOTSUPP ENXIO", NO_COUNTER),
            **each(
                "EPERM EACCES",
                (
                    "rights",
                    "performance events are closed to this process: kernel.perf_event_paranoid, CAP_PERFMON"
                    " (CAP_SYS_ADMIN before 5.8), a container's seccomp profile or an LSM.",
                    "Run as root or with CAP_PERFMON; sysctl kernel.perf_event_paranoid=1 or lower; in a"
                    " container a seccomp profile that allows perf_event_open.",
                ),
            ),
            **each(
                "EINVAL",
                (
                    "attach-refused",
                    "the kernel cannot open the event, or refuses the program for it. It is older"
                    " than programs on tracepoints (4.7) or on counters (4.9), the program's type"
                    " does not match the event, or this PMU does not support the attributes.",
                    "Compare the kernel's release with the loader's requirements; dmesg may have"
                    " more.",
                ),
            ),
            **each(
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
            "Run as root. `perf stat -e cycles true` shows if there are hardware counters."
            " Without them, use a software event (cpu-clock).",
        ),
        is_general=True,
    ),
    of(
        XSK,
        {
            **ATTACHED,
            **each(
                "EBUSY EEXIST",
                (
                    "attach-busy",
                    "another AF_XDP socket has this queue of the interface, or one that was just closed is"
                    " not gone yet; or an XDP program is there that is not to be replaced.",
                    "Wait until the old socket is gone (it is freed after a grace period), take another"
                    " queue, share the umem, and look at bpftool net and ss --xdp.",
                ),
            ),
            **each("ENOENT ENODEV", NO_DEVICE),
            **each("EINVAL", XSK_REFUSED),
            **each("ENOMEM ENOBUFS", XSK_NO_MEMORY),
            **each("ENXIO ENETDOWN", XSK_DOWN),
            **each(
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
    of(
        r"\bXDP\b(?! (?:expects|with))|set_link_xdp|bpf_xdp_attach|netdev|nlmsg error|attach BPF to device",
        {
            **ATTACHED,
            **each(
                "ENOMEM",
                (
                    "memory",
                    "the driver lacks resources for XDP: it has too few queues (virtio and some"
                    " others need one more for each CPU), or not enough memory for its rings.",
                    "Look in dmesg for the cause. `ethtool -l DEV` shows the queues: give the"
                    " virtual machine twice as many as CPUs, use fewer (ethtool -L), or try"
                    " generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE).",
                ),
            ),
            **each("ENODEV ENXIO ENOENT", NO_DEVICE),
            **each("ENOSPC", FULL_DISPATCHER),
            **each(
                "EACCES",
                (
                    "refused",
                    "attaching does not return EACCES. The error comes from the earlier load: the"
                    " verifier refused the program, and its log is not here.",
                    "Load with a log (xdp-loader -vv; retsnoop-py load).",
                ),
            ),
            **each(
                "EINVAL ERANGE EMSGSIZE",
                (
                    "attach-refused",
                    "the kernel refuses the XDP program: a BPF link needs Linux 5.9; the program"
                    " has another type, or was loaded for another attach type or device; a flag"
                    " or mode is not supported (offload on a NIC without it); or the driver"
                    " refuses this MTU, number of queues or LRO.",
                    "Look in dmesg and in the kernel's message (`ip -d`, libbpf's debug output)"
                    " for the cause. Generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE) needs no"
                    " driver support.",
                ),
            ),
        },
    ),
    of(
        r"\bqdisc|clsact|\btcx?\b(?=[^:]*(?:attach|filter|hook|link|program))|bpf_tc_|\bfilter\b(?=[^:]*(?:add|attach|replac|creat))"
        r"|tc filter|(?:add|attach|replac|creat)\w*\W(?:[^:]{0,30}?\W)??(?:tc|tcx|filter)\b",
        {
            **ATTACHED,
            **each("ENOENT", NO_QDISC),
            **each("ENODEV ENXIO", NO_DEVICE),
            **each("EINVAL ERANGE", TC_REFUSED),
        },
    ),
    of(
        r"(?:RT)?NETLINK(?=.*(?:attach|bpf|xdp|qdisc|filter|clsact))|bpf\b[^:]*: netlink"
        r"|netlink (?:message|response|reply|error|ack\w*)",
        {**ATTACHED, **each("ENOENT", NO_QDISC), **each("ENODEV ENXIO", NO_DEVICE)},
        is_general=True,
    ),
    of(
        r"cgroup(?=.*(?:attach|BPF_))|(?:attach|link|open|join|BPF_PROG_ATTACH)\w*\W(?:[^:]{0,40}?\W)??(?:BPF_)?cgroup",
        {
            **ATTACHED,
            **each("ENOENT ENODEV ENOTDIR", NO_CGROUP),
            **each("EBADF", CLOSED),
            **each(
                "E2BIG",
                (
                    "attach-busy",
                    "the cgroup already has 64 programs of this type, the maximum. Usually one is"
                    " added at each run and none is removed.",
                    "bpftool cgroup show DIR lists them; detach the old ones, or replace one (BPF_F_REPLACE, 5.6).",
                ),
            ),
            **each(
                "EINVAL",
                (
                    "attach-refused",
                    "the kernel does not take the program for a cgroup: an attach type that it does not know"
                    " or that is not the program's, a flag of a later kernel (BPF_F_REPLACE came with 5.6,"
                    " links with 5.7), or flags that are not those of the programs there already.",
                    "`bpftool cgroup tree` lists the attached programs with their flags. Compare"
                    " the kernel's release with the loader's requirements.",
                ),
            ),
            **each(
                "EPERM EACCES",
                (
                    "rights",
                    f"{EPERM_TEXT} Of a cgroup it is also said where a program is attached further up that"
                    " lets none be added below (without BPF_F_ALLOW_MULTI or BPF_F_ALLOW_OVERRIDE).",
                    f"{EPERM_STEP} `bpftool cgroup tree` lists the attached programs.",
                ),
            ),
        },
    ),
    of(
        r"attach|creat\w* (?:\w+ )?link|link_create|BPF_LINK_CREATE|\bset (?:link )?xdp|PERF_EVENT_IOC_SET_BPF",
        ATTACHED,
        is_general=True,
    ),
)

DETACHING = of(
    r"\bdetach|\bunload\w* (?:XDP|program|BPF)",
    {
        **COMMON,
        **each(
            "ENOENT EINVAL ENODEV ENXIO EBADF ESRCH",
            (
                "attach-target-missing",
                "nothing of the sort is attached there, or not any more, or by another way: a link goes with its"
                " descriptor or pin, an XDP program in the mode it was attached in.",
                "`bpftool net`, `bpftool link` and `bpftool cgroup tree` list the attached"
                " programs.",
            ),
        ),
        **each("EBUSY EEXIST", TAKEN),
    },
)
