# SPDX-License-Identifier: BSD-2-Clause
"""Operations on maps, files, memory and processors: their words, and the meaning of each errno."""

from __future__ import annotations

from retsnoop_py.load.operation import COMMON, each, of
from retsnoop_py.load.operation_rows import LISTED, NO_BTF, NO_MEMORY, TOO_OLD

__all__ = ["OTHER_OPERATIONS", "PINNED"]

PINNED = of(
    r"/sys/fs/bpf\b|\bbpffs\b|BPF file ?system|\b(?:failed|unable) to pin\b|\bpinning\b|\bpin (?:map|prog\w*|link)s?\b",
    {
        **COMMON,
        "EPERM": (
            "rights",
            "the path is on no BPF file system - the kernel says EPERM of that, too - or rights are missing: CAP_BPF, and what"
            " file modes allow there.",
            "findmnt -t bpf says where one is: mount -t bpf bpf /sys/fs/bpf, and pin below it; run as root.",
        ),
        **each(
            "ENOENT EROFS EEXIST ENOTDIR EINVAL EBUSY ENODEV",
            (
                "pin",
                "the loader cannot pin or find the pin. The path is not on a BPF file system, is"
                " in use, is not writable, or does not exist; a container has its own"
                " /sys/fs/bpf.",
                "Run `mount -t bpf bpf /sys/fs/bpf`, or mount the host's one into the container,"
                " writable. `bpftool -f prog show` and `bpftool -f map show` list the pins.",
            ),
        ),
    },
    is_general=True,
)
OTHER_OPERATIONS = (
    of(
        r"set\w*\W(?:\w+ )?max[_ ]entries|bpf_map__set_\w+|resiz\w* (?:\w+ )?map",
        each(
            "EBUSY EINVAL",
            (
                "map-definition",
                "the map is made already (loaded, or taken over from a pin): its size and flags can be set before the load only.",
                "Set them between the open and the load of the object; remove the pin of an older one.",
            ),
        ),
    ),
    of(
        r"(?:updat|freez|insert|lookup|look up|delet|remov|put|writ|popul|add|read|set|iterat)\w*\W(?:[^:]{0,50}?\W)??(?:e?BPF )?(?:maps?|map element|hash ?map|prog array)\b"
        r"|key (?:does not|doesn't|already|too)\b|batch (?:lookup|update|delete)|lookup_and_delete|bpf_map_(?:update|lookup|delete|get_next)\w*|bpf_(?>\w*?map)\w*_elem|\bmap\b[^:]{0,40}\b(?:update|lookup|delete|insert)\w*|map (?:entry|element)",
        {
            **each(
                "ENOENT",
                (
                    "map-entry",
                    "the map has no entry with this key; or the map, or the descriptor or program"
                    " for the value, is gone.",
                    "`bpftool map dump name MAP` shows the contents. An array accepts keys below"
                    " max_entries.",
                ),
            ),
            **each(
                "E2BIG ENOSPC",
                (
                    "map-entry",
                    "the map is full, or the index is not below its max_entries.",
                    "Make max_entries larger, delete entries, or take a map that drops old ones (LRU).",
                ),
            ),
            **each(
                "EEXIST EBUSY",
                (
                    "map-entry",
                    "there is an entry already (BPF_NOEXIST), it is in use at this moment, or - of freezing - mapped for writing.",
                    "Update with BPF_ANY, or delete it first.",
                ),
            ),
            **each(
                "EINVAL",
                (
                    "map-entry",
                    "the kernel refuses this operation on this map: a flag or key that the map"
                    " type does not allow, a program of another type than the map's others (tail"
                    " calls), a value that is not a valid descriptor, or a command (a batch) that"
                    " this kernel does not have.",
                    "Compare the sizes of key and value with `bpftool map show`. Programs for"
                    " tail calls have one type, and must be loaded before they are stored.",
                ),
            ),
            **each(
                "EOPNOTSUPP ENOTSUPP",
                (
                    "map-entry",
                    "this type of map has no such operation, or not on this kernel: maps of programs cannot be"
                    " read, batches came with Linux 5.6 and type by type.",
                    "Process the entries one by one, and use only operations that the type"
                    " supports.",
                ),
            ),
            **each(
                "EPERM EACCES",
                (
                    "rights",
                    "the map is frozen or opened for the other direction (BPF_F_RDONLY, constants in .rodata),"
                    " or a capability is missing (CAP_BPF, CAP_SYS_ADMIN before 5.8), or an LSM objects.",
                    "Set constants before the load; open the map for writing, as root.",
                ),
            ),
            **each(
                "EBADF",
                (
                    "descriptor",
                    "the map, or the value for it, is not an open descriptor: never created, or"
                    " already closed.",
                    "Read the message about the map's creation, further up.",
                ),
            ),
            **each("ENOMEM", NO_MEMORY),
            **each(
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
    of(
        r"setrlimit|\b(?:rlimit\w*|memlock|lock(?:ed)? memory)\b[^:.]{0,20}:"
        r"|(?:rais|increas|remov|set|bump|adjust|lift|updat|chang)\w* (?:the )?(?:\w+ ){0,2}?(?:rlimit|(?:RLIMIT?_)?memlock|lock(?:ed)? memory)",
        each(
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
    of(
        r"(?:creat|open|init|new|set ?up|read)\w*\W(?:[^:]{0,40}?\W)??(?:perf|ring) ?(?:event )?(?:buf(?:fer)?|map|array|reader|ring|output)|ring(?:buf| ?buffer)__?new|perf_buffer__new|perf reader",
        {
            **COMMON,
            **each(
                "EINVAL ENOENT EBADF EOPNOTSUPP ENODEV",
                (
                    "buffer",
                    "the event buffer cannot be set up: the map has another type, the number of"
                    " pages is not a power of two, or a CPU is offline.",
                    "Open a map as its own type, ring buffer (Linux 5.8) or perf event array.",
                ),
            ),
        },
    ),
    PINNED,
    of(
        r"(?:kernel|vmlinux)\b[^:]{0,40}\bBTF\b|\bBTF\b[^:]{0,40}\b(?:kernel|vmlinux|search|discover|lookup)",
        {**COMMON, **each("ENOENT ENODATA ESRCH EINVAL EOPNOTSUPP", NO_BTF)},
        NO_BTF,
        is_general=True,
    ),
    of(
        r"/sys/kernel/(?:debug|tracing)\b|\b(?:debugfs|tracefs)\b",
        {
            **COMMON,
            **each(
                "ENOENT ENODEV",
                (
                    "tracefs",
                    "this file does not exist in debugfs or tracefs: the file system is not"
                    " mounted, or the kernel was built without the feature.",
                    "mount -t tracefs nodev /sys/kernel/tracing, mount -t debugfs nodev /sys/kernel/debug; a container"
                    " takes them from its host.",
                ),
            ),
        },
        is_general=True,
    ),
    of(
        r"\btrace_pipe\b",
        {
            **COMMON,
            **each(
                "EBUSY",
                (
                    "attach-busy",
                    "trace_pipe is read by another process: it has one reader at a time.",
                    "End the other reader (cat, bpftool prog tracelog, an agent), or make an instance in"
                    " /sys/kernel/tracing/instances.",
                ),
            ),
            **each(
                "ENOENT",
                (
                    "tracefs",
                    "tracefs is not mounted there.",
                    "mount -t tracefs nodev /sys/kernel/tracing; a container takes it from its host.",
                ),
            ),
        },
    ),
    of(
        r"\bkallsyms\b",
        {
            **each(
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
    of(
        r"\bcpu ?[#']?\d+\b",
        each(
            "ENODEV ENOENT ENXIO",
            (
                "perf-event",
                "that CPU is not there or offline: a loader that opens something for each possible CPU meets those"
                " that are not online.",
                "/sys/devices/system/cpu/online and possible list the CPUs. Bring the CPU online,"
                " or use a later loader, which skips offline ones.",
            ),
        ),
        is_general=True,
    ),
    of(
        r"test[_ -]?run|prog(?:ram)?[_ ]run\b|BPF_PROG_(?:TEST_)?RUN",
        {
            **COMMON,
            **each(
                "EINVAL ENOTSUPP EOPNOTSUPP EFAULT ENOSPC E2BIG",
                (
                    "test-run",
                    "the kernel does not run the program on demand like this: its type cannot be run so on this"
                    " kernel, the input is shorter than a packet's header (14 bytes), a context or flag is not for"
                    " this type, or the output buffer is too small.",
                    "Give at least 14 bytes of data, and no context if the type has none. Support"
                    " for test runs depends on the program type and the kernel (XDP and tc since"
                    " 4.12).",
                ),
            ),
        },
    ),
    of(
        r"bpf_(?:obj|prog|map|link|btf)_get_\w+|bpfGetFd\w+|BPF_(?:OBJ|PROG|MAP|LINK|BTF)_GET_\w+|get (?:prog|program|map|link|btf) (?:info|fd|id)|(?:prog|map|link) (?:info|by id)|prog_query|BPF_PROG_QUERY|query\w*\W(?:[^:]{0,20}?\W)??(?:bpf )?prog",
        {
            **COMMON,
            **each("EINVAL ENOTSUPP EOPNOTSUPP ENXIO E2BIG", TOO_OLD),
            **each(
                "ENOENT EBADF",
                (
                    "descriptor",
                    "no program, map or link has that ID: it was removed, or never loaded.",
                    "bpftool prog, bpftool map and bpftool link list what there is.",
                ),
            ),
        },
    ),
    of(
        r"mount\w*\W(?:[^:]{0,40}?\W)??(?:bpf|tracefs|debugfs|cgroup(?!s? ?v?1)|bpffs)",
        {
            **each(
                "EPERM EACCES EROFS EINVAL",
                (
                    "rights",
                    "a file system cannot be mounted here. This needs CAP_SYS_ADMIN in the user"
                    " namespace that owns the mount namespace; a container usually does not have"
                    " it.",
                    "Mount it on the host and hand it in (-v /sys/fs/bpf, -v /sys/kernel/tracing).",
                ),
            ),
            **each("ENODEV", TOO_OLD),
        },
    ),
)
