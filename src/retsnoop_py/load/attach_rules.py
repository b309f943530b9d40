# SPDX-License-Identifier: BSD-2-Clause
"""Loaders' messages about the attach target of a program."""

from __future__ import annotations

from retsnoop_py.load.model import LineRule, about
from retsnoop_py.load.operation_rows import UPROBE_STEP

__all__ = ["ATTACH_RULES"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

#: Each rule is an id, a title, a pattern, a reason and a suggestion; both may use the pattern's
#: groups.
ATTACH_RULES: tuple[LineRule, ...] = (
    (
        "sched-ext-exit",
        "Kernel: Scheduler that was put out",
        r"sched_ext: BPF scheduler \W*+(?P<name>\w[\w.-]*+)\W*+(?<= )(?:errored, disabling|disabled \((?!unregistered from (?:user ?space|BPF))(?P<why>[^)]*)\))"
        r"|(?:sched_ext: |EXIT: )(?P<why2>(?:runnable task stall|watchdog|.*failed to run for).*)"
        r"|sched_ext: (?P<why3>(?:\S+: )?(?:ops\.\w+\(\) failed|scx_bpf_error|invalid |runtime error|init failed|.*not allowed).*)"
        r"|EXIT: (?P<why4>(?!unregistered from)[\w ]*(?:error|fail|stall|unregistered from the main kernel|SysRq)\w*.*)"
        r"|(?P<why5>(?:(?<!\S)\S+ )?triggered exit kind (?!(?:0|1|64|65):)\d+)",
        "The scheduler (sched_ext) was loaded, and the kernel disabled it again; all tasks use"
        " the kernel's own scheduler now{why}. A stall means that a runnable task did not run for"
        " longer than the scheduler's timeout (30 s at most). An error means an invalid request"
        " of the scheduler, or an error from one of its functions.",
        "The text around it is the kernel's dump: the task, the CPU, the queue (dmesg; the tool's"
        " own output after EXIT). Use a release of the scheduler that supports this kernel."
        " Report the problem with that dump.",
    ),
    (
        "xdp-dispatcher",
        "Kernel Support: Dispatcher of libxdp",
        r"libxdp: Failed to load program '?(?P<name>[\w.-]+)'?: (?:Argument list too long|Invalid argument)",
        "libxdp loads program '{name}' as an extension of its dispatcher (freplace), and the"
        " kernel refuses that. It needs Linux 5.6, and 5.10 for more than one program on an"
        " interface; an older kernel does not know the fields (E2BIG).",
        "Compare with `uname -r`, or load it without libxdp (ip link set dev DEV xdp obj FILE sec"
        " SECTION). Later releases of libxdp skip the dispatcher with LIBXDP_SKIP_DISPATCHER=1."
        " On a later kernel, read the verifier's log (-vv).",
    ),
    (
        "xdp-dispatcher",
        f"{_SUPPORT}: Dispatcher of libxdp",
        r"libxdp: (?:Compatibility check for dispatcher program|Failed to attach (?:test )?program (?:\S+ )?to dispatcher)"
        r"[^:]*: (?P<why>.*)|libxdp: Failed to attach (?:test )?program (?:\S+ )?to dispatcher(?:: (?P<why2>.*))?"
        r"|Couldn't find a BPF file with name (?P<file>xdp-dispatcher\.o)|Couldn't open BPF file 'xdp-dispatcher"
        r"|prog 'xdp_(?:pass|dispatcher)': BPF program load failed: (?P<why3>(?:-?EINVAL|Invalid argument).*)"
        r"|prog 'xdp_dispatcher': (?P<why4>missing BPF prog type).*",
        "libxdp cannot use its dispatcher, which lets several programs share an interface{why}: that takes"
        " freplace (Linux 5.10, CONFIG_DEBUG_INFO_BTF, and trampolines: arm64 since 6.0), and its file"
        " xdp-dispatcher.o.",
        "If libxdp continues without it, it loads one program alone; libbpf's messages about"
        " xdp_pass, xdp_dispatcher or xdp-dispatcher.o come from this attempt. Install libxdp's"
        " own files (LIBXDP_OBJECT_PATH), or set LIBXDP_SKIP_DISPATCHER=1.",
    ),
    (
        "struct-ops-refused",
        f"{_SUPPORT}: Table of functions",
        r"[Ff]ailed to attach struct[_ ]ops?\b(?P<why>.*)|attach_struct_ops(?P<why2>.*)|struct_ops\b.*\bregister\w*\b(?P<why6>.*)"
        r"|map '(?P<name>[^']+)': failed to auto-attach(?P<why3>.*)|[Cc]an't register struct_ops (?P<name2>\w+)(?P<why4>.*)"
        r"|attach StructOps: (?P<why5>.*)",
        "The kernel has this table of functions (struct_ops) and does not register it{why}: another one is in"
        " its place (EBUSY, EEXIST), a value in it is not allowed (E2BIG, EINVAL, as a timeout too long), or a"
        " function that it must have is missing.",
        "Look in dmesg for the reason, for sched_ext. `cat /sys/kernel/sched_ext/root/ops` and"
        " `bpftool struct_ops` list the registered ones.",
    ),
    (
        "interface-missing",
        f"{_ENVIRONMENT}: No such interface",
        r"unknown network interface (?P<name>\S+)|Cannot find device \"?(?P<name2>[\w.-]+)"
        r"|\b(?:network )?(?:interface|iface|device|link) \W?(?P<name3>[\w.@-]+)\W?:? (?:.*: )?(?:(?:was |is )?not found|(?:does not|doesn't) exist|no such (?:network )?(?:interface|device))"
        r"|\b(?:link|(?:network )?interface) (?:was |is )?not found(?:: (?P<name4>\S+))?|no such network interface|(?:invalid|unknown|no such) (?:network )?(?:interface|ifindex)(?: name)?:? \W?(?P<name5>[\w.-]+)",
        "This network namespace has no interface {name}.",
        "ip link lists them; a container has its own.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"Failed to attach BPF function with attach_type (?P<name>\d+)",
        "The kernel does not attach the program (attach type {name}). The errno is not to be relied on: bcc says"
        " EPERM for each failure (-1) with some versions of libbpf.",
        "For a cgroup, name a directory of cgroup v2 (`stat -fc %T DIR` prints cgroup2fs), and"
        " run as root.",
    ),
    (
        "perf-event",
        f"{_ENVIRONMENT}: Performance event",
        r"invalid perf event FD (?P<name>-?\d+)",
        "The attach target is not a performance event: perf_event_open(2) failed before, and its"
        " result ({name}) was passed on. Most virtual machines have no hardware counters; or"
        " privileges are missing (kernel.perf_event_paranoid), or the CPU is offline.",
        "Check the result of perf_event_open(). Without a PMU, use a software event"
        " (PERF_COUNT_SW_CPU_CLOCK).",
    ),
    (
        "perf-event",
        f"{_ENVIRONMENT}: Performance event",
        r"^(?!.*(?:probe|tracepoint|tracing/|`perf_event_open` failed|find (?:BPF |bpf |eBPF )?map\b)).*(?:perf[ _]event|perf_event_open)\b.*(?:[Nn]o such (?:file|device)|not supported|ENOENT|ENODEV|EOPNOTSUPP)",
        "The event that is to be counted or sampled is not there: most virtual machines have no hardware"
        " counters (cycles, instructions, cache misses).",
        "perf stat -e cycles true says the same; give the machine a PMU, or take a software event (cpu-clock).",
    ),
    (
        "attach-busy",
        f"{_ENVIRONMENT}: Attach target is taken",
        r"[ku]probe_events\b.*(?:[Rr]esource busy|EBUSY|[Ff]ile exists|EEXIST)",
        "There is a probe event of this name in tracefs already, and it is in use, or was left by another run.",
        "cat /sys/kernel/tracing/kprobe_events lists them; end who uses it, then echo '-:GROUP/NAME' >> that file."
        " Probes as perf events (Linux 4.17) need no names.",
    ),
    (
        "struct-ops-missing",
        f"{_SUPPORT}: Table of functions",
        r"struct_ops init_kern: struct (?P<name>\w+) is not found in kernel BTF"
        r"|struct_ops (?P<name2>\w+): .*(?:is not found|not supported)",
        "The object has a table of functions (struct_ops) of struct {name}, which this kernel does"
        " not have: it is younger, or was configured without it.",
        "Require that kernel, or leave the table out there (bpf_map__set_autocreate()).",
    ),
    (
        "attach-target-missing",
        f"{_SUPPORT}: Attach target",
        r"failed to find kernel BTF type ID_? of '(?P<name>[^']+)'"
        r"|\b(?P<name2>\w+) is not found in vmlinux BTF|attach target (?P<name3>\S+) not found"
        r"|find target for (?:\S+ )?(?P<name5>[\w.]+):(?!.*parse types for module)"
        r"|find target (?:for \S+ )?in (?:vmlinux|modules)(?!.*parse types for module)"
        r"|target for (?:fentry|fexit|lsm|tracing) (?P<name4>\S+).*not found|(?<!kernel )(?:function|func|hook|symbol) \W?(?P<name7>\w+)\W? (?:is |was )?not found in (?:\S+ )?BTF"
        r"|attach (?:Tracing|LSM)/\w+: (?:\w+ )?(?P<name6>\w+) not supported",
        "The program is to be attached to {name}, and this kernel's BTF has no such function.",
        "Look for its name on this kernel: retsnoop-py functions '*{name}*'. Functions are"
        " renamed and inlined. A kprobe can also use a function that BTF does not have.",
    ),
    (
        "attach-target-missing",
        f"{_SUPPORT}: Attach target",
        r"[Nn]o probes (?:to attach|matched|found)|Attachment failed for all probes",
        "Nothing that the program names can be attached to: no function, tracepoint or symbol is called so.",
        "bpftrace -l 'PATTERN' and retsnoop-py functions list what there is; a stripped file has few symbols.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"resolve symbol:? ?(?P<name>\S+):(?:BEGIN|END)_trigger",
        "bpftrace puts a uprobe on itself for BEGIN and END, and {name} has no such symbol: the executable is stripped.",
        "Install its debug symbols (bpftrace-dbgsym), or a later release, which needs none.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"failed to (?:create|attach to) u(?:ret)?probe '(?P<name>[^']+)'.*(?:-524|error 524|ENOTSUPP)",
        "The kernel refuses the uprobe on {name}: it cannot single-step the instruction there"
        " (ENOTSUPP). Usually the offset is in the middle of an instruction, or is an address"
        " instead of a file offset.",
        "Name the function instead of an address, or take the address less that of its segment, plus the segment's"
        " place in the file (readelf -lW).",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"failed to (?:create|attach to) u(?:ret)?probe '(?P<name>[^']+)'(?:[^:]*: )?(?P<why>.*)"
        r"|failed to resolve full path for '(?P<name2>[^']+)'|add legacy uprobe event for (?P<name3>\S+):"
        r"|could not resolve uprobe target `(?P<name4>[^`]+)`|error resolving symbol"
        r"|elf: (?:failed to find|couldn't find|ambiguous match for) (?:symbol )?'(?P<name5>[^']+)'"
        r"|(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?u(?:ret)?probe:(?P<name7>\S+?)'?[.:]?(?:\s|$)"
        r"|could not resolve (?:symbol|address):? ?(?P<name12>[./]\S*:\S*[^\s.])"
        r"|error: ?no symbol section|no symbols? (?:found|section|table)|could not determine address of symbol (?P<name8>.+)|[Uu]nable to find offset for binary (?P<name9>\S+)"
        r"|[Uu]nable to attach u(?:ret)?probe for binary (?P<name10>\S+)|[Ff]ailed to attach BPF to u(?:ret)?probe"
        r"|failed to attach u\(ret\)probe.*?: (?P<why11>.*)|couldn't find symbol matching (?P<name11>\S+)"
        r"|uprobe.*symbol '?(?P<name6>[^':\s]+)'?:? not found|[Oo]ffset not found for symbol",
        "A uprobe is to be put on {name}, which is not there as it is named{why}: the file is not at that"
        " path in this mount namespace, or has no such symbol.",
        UPROBE_STEP,
    ),
    (
        "usdt",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?usdt:(?P<why2>\S+)|usdt context (?P<why3>.*)|usdt: (?P<why>(?:failed|no |invalid|un|attaching|kernel doesn't|too many|ELF|libbpf doesn't).*)",
        "A static tracepoint of a program (USDT) cannot be used{why}.",
        "readelf -n FILE lists those it has, in its section .note.stapsdt; a shared library takes the"
        " process (-p PID), a semaphore Linux 4.20.",
    ),
    (
        "attach-target-missing",
        f"{_ENVIRONMENT}: Probe event that is gone",
        r"trace_[ku]probe: Event (?P<name>\S+) doesn't exist",
        "A tool removes the probe event {name} from tracefs, and it does not exist there (any"
        " more). Usually a tool cleans up after a failed attachment.",
        "Read the tool's messages about attaching. `cat /sys/kernel/tracing/kprobe_events` lists"
        " the present events.",
    ),
    (
        "kprobes-missing",
        f"{_ENVIRONMENT}: Kernel without kprobes",
        r"devices/k(?:ret)?probe/type\b.*(?:[Nn]o such file|not found)",
        "This kernel offers no kprobes as perf events: it is older than Linux 4.17, was built without"
        " CONFIG_KPROBE_EVENTS, or /sys is not mounted here.",
        "Look at `retsnoop-py doctor`, or attach by tracefs (legacy kprobes), as libbpf does by itself.",
    ),
    (
        "kprobe-target",
        f"{_SUPPORT}: Attach target",
        r"arch-specific fallback for \W*(?P<name14>\w+)|"
        r"prog '(?P<prog>[^']+)': failed to create (?:k|kret)(?:ret)?probe '(?P<name>[^+']+)[^']*' perf"
        r" event: (?P<why>.*)|cannot attach kprobe\b(?: to (?P<name2>\w+))?(?P<why2>.*)"
        r"|[Ff]ailed to attach BPF program \S+ to k(?:ret)?probe b?'?(?P<name6>\w+)"
        r"|[Ff]ailed to attach BPF (?:program \S+ )?to k(?:ret)?probe"
        r"|failed to add (?:legacy )?kprobe (?:event )?for '(?P<name3>[^+']+)|"
        r"(?:creating|opening) k(?:ret)?probe\b(?!.*\btoken )\W*+(?P<name4>\w++).*(?:no such file|not found)"
        r"|(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?k(?:ret)?probe:(?P<name9>\S+?)'?[.:]?(?:\s|$)"
        r"|[Uu]nable to attach k(?:ret)?probe for (?P<name10>\S+)|[Cc]ould not resolve symbol:? (?P<name11>[\w.]*\w)"
        r"|[Ff]ailed to resolve kernel symbol:? (?P<name12>[\w.]*\w)|(?:\b(?P<name15>\w+) )?is not traceable \(either non-existing"
        r"|(?:couldn't|could not) (?:enable|attach|start) (?:probe )?k(?:ret)?probe[ /](?P<name13>[\w.]+)"
        r"|kprobe_events\b.*[Nn]o such file|couldn't find one or more symbols|missing kernel symbol|legacy kprobe perf_event_open\(\) failed"
        r"|symbol '?(?P<name5>\w+)'?(?:: not found| not found.*kprobe)|\btoken (?P<name8>[\w.]+): not found"
        r"|failed to find a unique match for '(?P<name7>[^']+)'(?P<why3>.*)"
        r"|(?:attach_k(?:ret)?probe|perf_event_open(?:` failed|\(\) failed))\b.*(?:NotFound|[Nn]o such file|ENOENT|os error 2\b)",
        "The kernel has no function {name} that a kprobe can be put on: it is inlined, renamed, in a"
        " module that is not loaded, or closed to probes (notrace, .noinstr.text).",
        "retsnoop-py functions '*{name}*' lists what can be traced, and why others cannot.",
    ),
    (
        "attach-hook",
        f"{_SUPPORT}: Attach target",
        r"\b(?i:lsm)\b.*\bnot supported",
        "The kernel cannot attach LSM programs. They need CONFIG_BPF_LSM, bpf in the list of active"
        " security modules (lsm=), and BPF trampolines (arm64: Linux 6.4).",
        "`cat /sys/kernel/security/lsm` lists the active modules. Without trampolines, use kprobes.",
    ),
    (
        "attach-section",
        f"{_OBJECT}: Section without a target",
        r"prog '(?P<prog>[^']+)': invalid format of section definition '(?P<section>[^']+)'"
        r"|prog '(?P<prog2>[^']+)': section '(?P<section2>[^']+)' missing '",
        "libbpf attaches a program of section '{section}' by nothing but itself only if it names"
        " all of its target.",
        "Name it in full (uprobe/BINARY:FUNCTION, usdt/BINARY:PROVIDER:NAME), or attach it with a"
        " call that takes the target (bpf_program__attach_uprobe_opts()).",
    ),
    (
        "tracepoint-arguments",
        f"{_SUPPORT}: Attach target",
        r"failed to attach to raw tracepoint '(?P<name>[^']+)': (?:Invalid argument|-EINVAL)",
        "The program reads more arguments than raw tracepoint {name} has on this kernel: EINVAL at"
        " attaching.",
        "Compare with the tracepoint's TP_PROTO. Arguments differ between kernels: check for a"
        " type of the same release with bpf_core_type_exists().",
    ),
    (
        "tracepoint-arguments",
        f"{_SUPPORT}: Attach target",
        r"failed to (?:create BPF link for|attach to) perf_event FD \d+: .*(?:-13\b|EACCES|Permission denied)"
        r"|\bperf[ _]link\b.*(?:EACCES|Permission denied)|PERF_EVENT_IOC_SET_BPF\b.*(?:EACCES|Permission denied)|\(BPF_LINK_CREATE, (?>.*?BPF_PERF_EVENT\b).*= -1 EACCES",
        "The kernel does not take the program for this event: EACCES of a tracepoint means that the program reads beyond"
        " the record that the tracepoint has on this kernel.",
        "Compare the struct that the program uses with /sys/kernel/tracing/events/GROUP/NAME/format: its fields, and those"
        " that all have in common, differ between kernels and builds; CO-RE (vmlinux.h) moves them.",
    ),
    (
        "tracepoint-missing",
        f"{_SUPPORT}: Attach target",
        r"failed to (?:determine|open|create|attach to raw) tracepoint '(?P<name>[^']+)'"
        r"|tracepoint (?:id|ID)(?=.*(?:no such|not found)).*?(?P<name2>\w+[:/]\w+)"
        r"|prog '(?P<prog>[^']+)': failed to (?:auto-)?attach.*(?P<name3>raw_tracepoint\S*)"
        r"|(?:trace event|tracepoint) (?P<name4>\S+?):? (?:file )?(?:not found|does not exist)"
        r"|tracing/events/(?P<name5>[\w-]++(?:/[\w-]++){0,3}?)/id\b.*[Nn]o such file|perf_event_open_trace_point"
        r"|(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?(?:raw)?tracepoint:(?P<name7>\S+?)'?\.?(?:\s|$)"
        r"|[Ff]ailed to attach BPF (?:program \S+ )?to (?:raw )?tracepoint(?: (?P<name8>\S+))?|[Uu]nable to parse Tracepoint (?P<name9>\S+)"
        r"|[Uu]nable to attach (?:Raw )?[Tt]racepoint (?P<name10>\S+)|cannot read tracepoint id \W*(?:\S{0,200}/events/)?(?P<name11>[\w/]+?)(?:/id)?\W{0,2}:"
        r"|(?:checking|creating|reading) trace event (?P<name6>\S+?)'?:? .*no such",
        "This kernel has no tracepoint {name}, or tracefs, where tracepoints are looked up, is not mounted here.",
        "List them: ls /sys/kernel/tracing/events; if that is empty: mount -t tracefs nodev /sys/kernel/tracing (a"
        " container takes it from its host). Tracepoints come and go with kernels and modules.",
    ),
    (
        "attach-section",
        f"{_OBJECT}: Section without a target",
        r"prog '(?P<name>[^']+)': no BTF-based attach target is specified",
        "Program '{name}' is attached by BTF, and neither its section nor the loader says to what.",
        'Name it - SEC("fentry/FUNCTION") - or call bpf_program__set_attach_target() before the load.',
    ),
    (
        "freplace-target",
        f"{_SUPPORT}: Attach target, of a program that replaces a function",
        r"\b(?P<name>\w+) is not found in prog's BTF|target (?:BPF )?program does(?:n't| not) have BTF"
        r"|attach program FD is not set",
        "The program takes the place of a function ({name}) of another program, which does not have it,"
        " or has no BTF, or was not given.",
        "Load that program first, with BTF; the function must be global, and not inlined.",
    ),
    (
        "attach-hook",
        f"{_SUPPORT}: Attach target",
        r"prog '(?P<name>[^']+)': failed to attach: (?:Device or resource busy|Resource busy|-?EBUSY)"
        r"|(?:attach|attaching) probe:? '?(?:kfunc|kretfunc|fentry|fexit):\S+|[Ff]ailed to attach BPF to (?:entry|exit|fmod_ret) kernel func",
        "The kernel cannot put the program's trampoline into the target function (fentry, fexit,"
        " fmod_ret). The function has no ftrace hook at its start, or another user has it (a"
        " livepatch); BTF does not show this. Or the machine has no trampolines (arm64 before"
        " 6.4).",
        "`retsnoop-py functions NAME` shows if it can be traced. Trace its caller, or use a"
        " kprobe. A kernel without CONFIG_FUNCTION_TRACER has no such hooks.",
    ),
    (
        "no-trampoline",
        f"{_SUPPORT}: BPF trampolines",
        r"prog '(?P<name>[^']+)': failed to attach: .*(?:-524|ENOTSUPP|error 524)|\b(?:fentry|fexit|fmod_ret|trampolines?)\b.*(?:\b524\b|ENOTSUPP)",
        "This kernel has no BPF trampolines, which fentry, fexit, fmod_ret and lsm programs take: x86-64"
        " has them since Linux 5.5, arm64 since 6.0, and there for the kernel's functions since 6.4.",
        "Use a kprobe there, or require that kernel.",
    ),
    (
        "attach-busy",
        f"{_ENVIRONMENT}: Attach target is taken",
        r"Netlink-based XDP prog detected|not using a dispatcher, can't replace|Existing dispatcher version"
        r"|already (?:loaded in HW mode|attached to a dispatcher)"
        r"|(?:RTNETLINK|XDP|qdisc|clsact|\btcx?\b).*(?:[Rr]esource busy|[Ff]ile exists"
        r"|Exclusivity flag|already attached|EBUSY|EEXIST|os error 1[67]\b)|XDP program already attached"
        r"|Exclusivity flag on",
        "Another program is attached there already, or one in another mode of XDP.",
        "`bpftool net` and `bpftool link` list the attached programs. Detach the present one (ip"
        " link set dev DEV xdp off), request its replacement, or share the hook (libxdp, tcx of"
        " Linux 6.6).",
    ),
    (
        "attach-unsupported",
        f"{_SUPPORT}: Attach target",
        r"(?:RTNETLINK|[Nn]etlink|nlmsg|netdev|xdp|XDP).*(?:[Oo]peration not supported|EOPNOTSUPP|os error 95)"
        r"|(?:MTU|mtu) (?:is )?too (?:large|big).*(?:XDP|xdp)|(?:XDP|xdp).*(?:MTU|mtu) (?:is )?too (?:large|big)",
        "The interface's driver refuses this program: it has no native XDP, or not with this MTU,"
        " number of queues or LRO, or it does not support multi-buffer packets.",
        "Attach in generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE), lower the MTU, or declare the section"
        " xdp.frags (5.18).",
    ),
    (
        "qdisc-missing",
        f"{_ENVIRONMENT}: No queueing discipline to attach to",
        r"(?:[Cc]annot find specified (?:qdisc|filter)|specified qdisc kind|unknown (?:qdisc|filter)\b|qdisc kind is|TC classifier not found|specified (?>.*?(?:qdisc|filter)).* (?:unknown|not found))(?P<why>.*)|[Pp]arent [Qq]disc doesn't exist|What is \"clsact\"|couldn't add a \"?clsact|Failed to find (?:specified )?qdisc|Invalid qdisc name",
        "The interface has no queueing discipline that takes programs of tc, or the kernel has none such (CONFIG_NET_SCH_INGRESS,"
        " CONFIG_NET_CLS_BPF, or their modules sch_ingress and cls_bpf are not there){why}.",
        "modprobe sch_ingress cls_bpf; tc qdisc add dev DEV clsact; since Linux 6.6 tcx needs none.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"Kernel error message: (?P<name>.+)"
        r"|^(?:Error: )?(?P<name2>.*(?:XDP expects|[Nn]ative XDP|Native and generic XDP|XDP in native mode|Underlying driver|Can't set XDP"
        r"|(?:to set|for|with|enable) XDP\b(?! (?:program|prog|socket|failsafe|filter|file|map|link|hook|mode|state|object|code))|XDP (?:is )?not supported|can not be attached to a device).*)",
        "The kernel does not attach the program, and says: {name}.",
        "The refusal comes from the interface's driver or the network stack; dmesg(1) may have"
        " more. Generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE) needs no driver support.",
    ),
    (
        "attach-unsupported",
        f"{_SUPPORT}: Attach target",
        r"(?P<name>"
        + about(
            r"\bXDP\b",
            r"\bLRO\b|GRO.HW|channel count|\bqueues?\b|\brings?\b|headroom|XDP resources|multi-?buffer|frame size|page size|too (?:few|many|large|small)",
        )
        + r"(?!.*(?:AF_XDP|xsk|umem|socket|perf|ringbuf)).*)"
        r"|(?P<name2>^.*\bfree TX rings\b.*)",
        "The interface's driver does not take XDP as the interface is set up, and says: {name}.",
        "Change that with `ethtool -K DEV lro off`, `ethtool -L DEV` (fewer queues; some drivers"
        " need half of them free) and `ip link set dev DEV mtu 1500`. Generic mode (xdpgeneric,"
        " XDP_FLAGS_SKB_MODE) needs no driver support.",
    ),
)
