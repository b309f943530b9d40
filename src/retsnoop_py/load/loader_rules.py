# SPDX-License-Identifier: BSD-2-Clause
"""What libbpf and other loaders say where no verifier comes to speak, and what it means.

Each rule looks at one line. Lines that only repeat that something failed are no rule's. What is said
of maps is in ``map_rules``, what an errno means for an operation in ``operation_rules``, and what it
means alone in ``errno_rules``.
"""

from __future__ import annotations

import re

from msgspec import structs

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.load import since
from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT, errno_in, explain_errno
from retsnoop_py.load.map_rules import MapFacts, explain_map
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.operation_rules import UPROBE_STEP, explain_operation, of_xsk
from retsnoop_py.load.prefilter import PatternSet

__all__ = ["explain_line", "is_of_map"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

_RULES: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"mkdir /sys/fs/bpf\W*: (?:operation not permitted|permission denied|no such file)",
        "There is no /sys/fs/bpf, and nobody but the kernel makes directories in sysfs: it has this one from Linux 4.4"
        " on with CONFIG_BPF_SYSCALL, and a container where sysfs is mounted.",
        "Look whether the kernel has bpf(2) at all (retsnoop-py doctor); mount the BPF file system elsewhere, or take the"
        " host's into the container.",
    ),
    (
        "section-unknown",
        f"{_OBJECT}: Section of no program type",
        r"prog '(?P<name>(?!xdp_dispatcher')[^']+)': missing BPF prog type, check ELF section name '(?P<section>[^']*)'"
        r"|unrecognized ELF section name '?(?P<section2>[^'\s]+)|failed to guess program type from"
        r" ELF section '(?P<section3>[^']+)'|invalid program section `(?P<section4>[^`]+)`"
        r"|program (?P<name2>[\w./-]+): program type is unspecified|program type is unspecified|of unspecified type",
        "The loader tells a program's type by its section, and knows none for {section}.{near}",
        "Name the section as libbpf does: https://docs.kernel.org/bpf/libbpf/program_types.html",
    ),
    (
        "descriptor",
        "Loader: Program that was not loaded",
        r"prog '(?P<name>[^']+)': can't attach (?:BPF program without FD|before loaded)",
        "Program '{name}' is to be attached and was not loaded: it is left out (autoload is off, or its section begins"
        " with ?), or its load failed.",
        "Load it (bpf_program__set_autoload()), or leave out its attachment as well; attach what was loaded alone.",
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
        "Where libxdp goes on without it, one program is loaded alone, and what libbpf says of xdp_pass,"
        " xdp_dispatcher or xdp-dispatcher.o is of that trial. Install libxdp's own files (LIBXDP_OBJECT_PATH),"
        " or set LIBXDP_SKIP_DISPATCHER=1.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"elf: failed to open (?P<name>\S+?): (?:No such file|-?ENOENT)"
        r"|[Cc]ouldn't find a BPF file with name (?P<name2>\S+)|error loading (?P<name3>\S+\.o)\b.*(?:[Nn]o such file|os error 2\b)"
        r"|open (?P<name4>\S+\.o): no such file|[Ee]rror opening (?:object )?file '?(?P<name5>[^'\s:]+)'?.*[Nn]o such file"
        r"|failed to open (?P<name7>\S+?\.o)\b.*(?:[Nn]o such file|ENOENT)"
        r"|exec: \W?(?P<name8>clang|llc|bpftool|tc|ip|mount|nsenter|modprobe)\W?: executable file not found|\b(?P<name9>clang|llc|bpftool|tc): (?:command )?not found"
        r"|(?:open|load)\w* (?:the )?(?:e?BPF )?(?:object|obj|module|collection|bytecode)\b(?: file)?(?:: [^:]*)?: no such file"
        r"|failed to open (?:BPF )?object (?:file )?'?(?P<name6>\S+\.o)'?: [Nn]o such file",
        "There is no file {name}.",
        "Look at where the loader searches: a relative path counts from the directory it was started in, and a"
        " container has files of its own.",
    ),
    (
        "name-missing",
        f"{_OBJECT}: No program or map of that name",
        r"[Cc]an't find (?:map|prog(?:ram)?) (?:w/|with) name:? (?P<name>\S+)|failed to find skeleton (?:map|program) '(?P<name2>[^']+)'"
        r"|(?:map|program) '(?P<name13>[^']+)' (?:doesn't|does not) exist|missing (?:map|program|variable) \W?(?P<name3>[\w.-]+)|no (?:map|program) named (?P<name4>\S+)"
        r"|(?:program|map|variable) (?:for|in|of) section '(?P<name15>[^']+)' (?:is )?(?:not found|missing)|[Cc]an(?:'t|not) find (?:map|prog(?:ram)?) '?(?P<name5>[\w.-]+)'?|(?:map|program) '(?P<name6>[^']+)' not found"
        r"|object file doesn't contain (?:prog|sec) (?P<name9>\S+)|Program section '(?P<name10>[^']+)' not found"
        r"|[Cc]ouldn't find (?:xdp program in bpf object|an eBPF program with)|no matching program|prog(?:ram)? (?:cannot be|is) nil|find (?:a |the )?(?:section|SEC)\W+(?P<name14>[\w/.-]+)|unknown section or eBPF function"
        r"|(?:couldn't|could not|failed to|unable to|can't) find (?:the )?(?:BPF |bpf |eBPF )?(?:map|program|prog|programSpec)\b(?! symbol)(?: fd)?(?: (?:in|at|for func|named|for))? ?'?(?P<name11>[\w./-]+)"
        r"|[Uu]nknown program (?P<name7>\w+)|(?:map|program) (?P<name8>[\w-]+) not found in (?:object|collection|file)",
        "The loader looks for {name}, and the object has no program or map that is called so.",
        "bpftool btf dump file OBJECT and llvm-objdump -h OBJECT list what is in it; a program goes by its"
        " function's name, with older loaders by its section's. Compile it anew if the sources moved on.",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"^(?:\S+\.(?:c|h|cc|bt)|<[\w -]+>):\d+:\d+: (?:fatal )?error: (?!Looks like the BPF stack)(?P<why>.*)|[Ff]ailed to compile BPF (?:module|program|text)(?P<why2>.*)|error compiling (?:e?BPF )?(?:module|program|text)"
        r"|Unable to initialize (?:BCC )?BPF program",
        "The program is compiled on this machine, and that fails{why}.",
        "The headers are to be those of the kernel that runs, and the tool (and its LLVM) no older than the"
        " kernel: types and macros move. A CO-RE build of the tool compiles nothing here.",
    ),
    (
        "log-buffer",
        "Loader: Log buffer too small",
        r"[Ll]og (?:buffer )?(?:is )?(?:not big enough|too small|truncated)|BPFTRACE_LOG_SIZE",
        "The verifier's log did not fit into the loader's buffer, which before Linux 6.4 makes the load fail; the"
        " program itself may be right.",
        "Load with a larger buffer (BPFTRACE_LOG_SIZE, LogSizeStart of cilium/ebpf), or without a log.",
    ),
    (
        "stack-size",
        "Verifier Limit: Stack is too deep",
        r"Stack size is too large|Looks like (?:you exceeded )?the BPF stack limit",
        "The variables of the program take more than the 512 bytes of stack that it has.",
        "Keep large ones in maps; bpftrace takes a lower on_stack_limit, BPFTRACE_MAX_STRLEN and"
        " fewer scratch variables.",
    ),
    (
        "map-replaced",
        "Loader: Map that takes another's place",
        r"using replacement map (?P<name>[^:\s]+): (?P<why>.*)|replacement map (?P<name2>\S+): .*incompatible",
        "The loader was given a map to use as {name}, and it is not like the object's own{why}.",
        "Make it from the same definition (type, sizes, entries, flags): a loader may add flags, as"
        " BPF_F_MMAPABLE to global data, in one place and not in the other.",
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
        "dmesg says which, for sched_ext; cat /sys/kernel/sched_ext/root/ops and bpftool struct_ops list what"
        " is registered.",
    ),
    (
        "buffer",
        f"{_ENVIRONMENT}: Buffer for events",
        r"failed to (?:mmap|open|enable) perf buffer(?: event)? on cpu #\d+: (?P<why>.*)|(?:user )?ringbuf: (?P<why2>failed .*|ring buf.*)"
        r"|failed to create perf ring for CPU \d+: (?P<why3>.*)|page count should be power of two(?P<why4>.*)|invalid page count (?P<why5>.*)"
        r"|[Cc]ould not open perf buffer(?P<why6>.*)|map '?\S+'? should be BPF_MAP_TYPE_PERF_EVENT_ARRAY|map fd=\d+ is not BPF_MAP_TYPE\w*RINGBUF",
        "The buffer that events are read from cannot be set up{why}.",
        "Its pages are a power of two and count as locked memory (ulimit -l, kernel.perf_event_mlock_kb, times"
        " the number of CPUs); a map is opened as what it is, ring buffer or perf event array.",
    ),
    (
        "cgroup-missing",
        f"{_ENVIRONMENT}: No cgroup of version 2",
        r"cgroup2 not mounted|(?:find|no|locate|detect) (?:a |the )?unified cgroup hierarchy(?P<why3>.*)|could not find a cgroup2 mount|can't open cgroup(?P<why>.*)|[Ff]ailed to (?:open|join|mount) cgroup(?!s? ?v?1)(?P<why2>.*)",
        "The program is attached to a cgroup of version 2, which is not there{why}.",
        "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with systemd.unified_cgroup_hierarchy=1.",
    ),
    (
        "tracefs",
        f"{_ENVIRONMENT}: tracefs",
        r"neither debugfs nor tracefs|\b(?:debugfs|tracefs)\b[^:,]{0,30} not mounted|open\(\S*/tracing/[ku]probe_events\): (?P<why>No such.*)"
        r"|(?:open(?:ing)?|can't create) (?:\S*/)?[ku]probe_events\b.*(?P<why3>-2\b|No such.*|ENOENT|nonexistent.*)"
        r"|/tracing/available_filter_functions\b.*(?P<why4>no such.*)"
        r"|(?:open|write|read|stat) \S*/tracing(?:/events)?/?: (?P<why2>no such file.*)|/sys/kernel/(?:debug/)?tracing: (?:is )?not mounted",
        "Probes are made by files in tracefs, and it is not mounted here, or the kernel has no such events{why}.",
        "mount -t tracefs nodev /sys/kernel/tracing; a container takes it from its host. CONFIG_KPROBE_EVENTS and"
        " CONFIG_UPROBE_EVENTS make the files.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"(?:[ku]probe_events|/tracing\b\S*|tracefs|debugfs).*(?:[Pp]ermission denied|not permitted|EACCES|EPERM|os error 1[3]?\b)",
        "The files of tracefs, which make probes, cannot be opened or written: its directory is root's alone, a"
        " container's profile (AppArmor, SELinux, a read-only mount) keeps it away, or the kernel is locked down.",
        "Run as root; in a container mount /sys/kernel/tracing for writing and allow it in the profile; see"
        " /sys/kernel/security/lockdown. Probes as perf events (Linux 4.17) need no such files.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"[Uu]nknown capability \"?'?(?P<name>CAP_(?:BPF|PERFMON))",
        "{name} came with Linux 5.8, and this kernel or this container engine does not know it.",
        "Give CAP_SYS_ADMIN instead there, which stood for it before, or use a later kernel and engine.",
    ),
    (
        "map-use",
        f"{_SUPPORT}: Map that this program cannot use",
        r"Tail call map (?P<why>owned by .*?)!?$",
        "A map of programs for tail calls takes programs of one type and kind only, that of the first one"
        " that uses it{why}.",
        "Have one such map for each program type; a pinned one from an earlier run is removed first.",
    ),
    (
        "global-data",
        f"{_SUPPORT}: Global data",
        r"kernel doesn't support (?:global data|read-only global)",
        "The object has global variables or constants, and this kernel knows none: they came with Linux 5.2.",
        "Require a later kernel; keep texts as arrays in the function (char text[] = ...), and settings in a map.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"Lockdown: (?P<name>\S+): (?P<why>.*) is restricted|kernel (?:is in )?lockdown(?P<why2>.*)|locked down(?P<why3>.*)",
        "The kernel is locked down{why}: in mode integrity it takes no kernel memory written by BPF, in mode"
        " confidentiality none read (bpf_probe_read_kernel() and the like), and no kprobes or tracefs.",
        "cat /sys/kernel/security/lockdown says which mode; boot without lockdown=..., which Secure Boot sets on some"
        " distributions. Programs that read user memory (bpf_probe_read_user()) or their context alone go on.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"Failed to attach BPF function with attach_type (?P<name>\d+)",
        "The kernel does not attach the program (attach type {name}). The errno is not to be relied on: bcc says"
        " EPERM for each failure (-1) with some versions of libbpf.",
        "Of a cgroup: name a directory of cgroup v2 (stat -fc %T DIR says cgroup2fs), and run as root.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel module with BTF that the kernel refuses",
        r"failed to validate module \[(?P<name>[^\]]+)\] BTF(?P<why>.*)",
        "The kernel refuses the BTF of module {name}{why}: it was built against another vmlinux than the one that"
        " runs, or by another pahole.",
        "Build kernel and modules together; CONFIG_MODULE_ALLOW_BTF_MISMATCH loads it without its BTF.",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"^(?!\s*#).*?(?P<name>CONFIG_(?!DEBUG_INFO_BTF|BPF_SYSCALL)\w+)[\"'`]?(?:=y)?(?:: | is | was | being |\W+)*(?:not (?:set|enabled|found|available)|missing|disabled|required|unset)"
        r"|not found\W+(?:(?:item|option|config)\W+)?(?P<name3>CONFIG_\w+)|(?:without|enable|requires?|missing|needs?|compiled with) (?:(?:kernel|config\w*|option|the) )*[\"'`]?(?P<name2>CONFIG_(?!DEBUG_INFO_BTF|BPF_SYSCALL)\w+)",
        "The kernel was built without {name}, which the loader asks for, or how it was built cannot be read here.",
        "Look for it in /boot/config-$(uname -r) or /proc/config.gz, and use a kernel that has it.",
    ),
    (
        "perf-event",
        f"{_ENVIRONMENT}: Performance event",
        r"invalid perf event FD (?P<name>-?\d+)",
        "What the program is to be attached to is no performance event: perf_event_open(2) failed before that, and its"
        " result ({name}) was passed on. Most virtual machines have no hardware counters; or the rights are missing"
        " (kernel.perf_event_paranoid), or the CPU is offline.",
        "Look at what perf_event_open() returned; take a software event (PERF_COUNT_SW_CPU_CLOCK) where there is no PMU.",
    ),
    (
        "perf-event",
        f"{_ENVIRONMENT}: Performance event",
        r"^(?!.*(?:probe|tracepoint|tracing/|`perf_event_open` failed)).*(?:perf[ _]event|perf_event_open)\b.*(?:[Nn]o such (?:file|device)|not supported|ENOENT|ENODEV|EOPNOTSUPP)",
        "The event that is to be counted or sampled is not there: most virtual machines have no hardware"
        " counters (cycles, instructions, cache misses).",
        "perf stat -e cycles true says the same; give the machine a PMU, or take a software event (cpu-clock).",
    ),
    (
        "lsm-missing",
        f"{_ENVIRONMENT}: Kernel without BPF's LSM",
        r"(?:load|attach|[Uu]nable|not (?:supported|enabled|available)).*(?:\bLSM BPF\b|BPF LSM\b|bpf LSM\b|BPF_LSM\b|lsm=bpf)"
        r"|(?:BPF LSM|LSM BPF|bpf lsm|BPF_PROG_TYPE_LSM)\b.*(?:not (?:supp|enab)|unsupported|missing|disabled)",
        "Programs of type LSM run where the kernel has the LSM of BPF, and it has not, or does not start it.",
        "CONFIG_BPF_LSM=y, and bpf in the list of /sys/kernel/security/lsm: boot with lsm=...,bpf (Linux 5.7).",
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
        "kfunc-missing",
        f"{_SUPPORT}: Kernel function with other parameters",
        r"extern \((?:func|kfunc)[^)]*\) '(?P<name>\w+)': func_proto|kernel function '(?P<name2>\w+)' has incompatible",
        "This kernel has {name}(), and its BTF gives it other parameters than the object{since}: it was compiled for"
        " another release, or the kernel's BTF was written by a pahole that does not know such functions.",
        "bpftool btf dump file /sys/kernel/btf/vmlinux format c has the kernel's own declaration; compile against it, or"
        " take the release of the object that is for this kernel.",
    ),
    (
        "kfunc-missing",
        f"{_SUPPORT}: Kernel function that is not there",
        r"extern \((?:func|kfunc)[^)]*\) '(?P<name>\w+)': not found"
        r"|kfunc '(?P<name2>\w+)' is referenced but|call to (?:unknown )?kfunc (?P<name3>\w+)"
        r"|kfunc \"?(?P<name4>\w+)\"?: (?:not found|unknown kfunc)"
        r"|kernel function '(?P<name5>\w+)' not found",
        "This kernel has no {name}() for BPF programs to call{since}.",
        "Declare it __weak and ask bpf_ksym_exists() before the call, or require the kernel that"
        " has it.",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"extern '(?P<name>CONFIG_\w+)' \(strong\)",
        "The object takes {name} from the kernel's configuration, which has no such option, or does not"
        " set it.",
        "Declare the extern __weak: it is 0 then where it is not set.",
    ),
    (
        "ksym-missing",
        f"{_SUPPORT}: Kernel symbol that is not there",
        r"extern \((?:var )?ksym[^)]*\) '(?P<name>\w+)'(?:\(strong\))?:"
        r" (?:not (?:found|resolved)|incompat|failed to find)"
        r"|failed to resolve extern (?P<name2>\w+)|extern '(?P<name3>\w+)' \(strong\)"
        r"|extern '(?P<name5>\w+)' is declared in kernel module"
        r"|failed to find BTF (?:ID )?for extern '(?P<name4>\w+)'"
        r"|kernel variable '(?P<name6>\w+)' (?:not found|has incompatible)|strong extern `(?P<name7>\w+)`"
        r"|failed to find the address for kernel symbol '(?P<name10>\w+)'"
        r"|kernel is missing symbol: (?P<name8>\w+)|resolve required ksyms: (?P<name9>\w+)",
        "The object refers to {name}, which this kernel does not have, or does not list: variables are in its list of"
        " symbols with CONFIG_KALLSYMS_ALL alone.",
        "grep -w {name} /proc/kallsyms says whether it is listed. Declare it __weak and compare its address with NULL before"
        " it is used.",
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
        r"|(?P<name2>\w+) is not found in vmlinux BTF|attach target (?P<name3>\S+) not found"
        r"|find target for (?:\S+ )?(?P<name5>[\w.]+):(?!.*parse types for module)"
        r"|find target (?:for \S+ )?in (?:vmlinux|modules)(?!.*parse types for module)"
        r"|target for (?:fentry|fexit|lsm|tracing) (?P<name4>\S+).*not found"
        r"|attach (?:Tracing|LSM)/\w+: (?:raw_tp )?(?P<name6>\w+) not supported",
        "The program is to be attached to {name}, and this kernel's BTF has no such function.",
        "Look for what it is called here: retsnoop-py functions '*{name}*'. Functions are renamed"
        " and inlined; a kprobe may take one that BTF does not have.",
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
        "The kernel puts no uprobe on {name}: what is there is no instruction that it can step over (ENOTSUPP) -"
        " most often the offset is in the middle of one, or is an address and no offset in the file.",
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
        "Somebody takes the probe event {name} out of tracefs, where it is not, or not any more: mostly a tool cleans up"
        " after an attachment that failed before.",
        "Look at what the tool says of attaching; cat /sys/kernel/tracing/kprobe_events lists what is there.",
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
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"error while loading shared libraries: (?P<name>[^:\s]+)",
        "The loader itself does not start: the library {name} is not where the dynamic linker looks, or does"
        " not fit it.",
        "ldd on the loader lists what it lacks; install the package that has that very version of the library,"
        " or set LD_LIBRARY_PATH.",
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
        r"(?:creating|opening) k(?:ret)?probe\b(?!.*\btoken ).*?(?P<name4>\w+).*(?:no such file|not found)"
        r"|(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?k(?:ret)?probe:(?P<name9>\S+?)'?[.:]?(?:\s|$)"
        r"|[Uu]nable to attach k(?:ret)?probe for (?P<name10>\S+)|[Cc]ould not resolve symbol:? (?P<name11>[\w.]*\w)"
        r"|[Ff]ailed to resolve kernel symbol:? (?P<name12>[\w.]*\w)|(?:(?P<name15>\w+) )?is not traceable \(either non-existing"
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
        "attach-section",
        f"{_OBJECT}: Section without a target",
        r"prog '(?P<prog>[^']+)': invalid format of section definition '(?P<section>[^']+)'"
        r"|prog '(?P<prog2>[^']+)': section '(?P<section2>[^']+)' missing '",
        "libbpf attaches a program of section '{section}' by nothing but itself only if it names"
        " all of its target.",
        "Name it in full - uprobe/BINARY:FUNCTION, usdt/BINARY:PROVIDER:NAME - or attach it by a call"
        " that is told (bpf_program__attach_uprobe_opts()).",
    ),
    (
        "too-large",
        "Verifier Limit: Program is too large to follow",
        r"processed 1000001 insns",
        "The verifier followed a million instructions without coming to the end of all ways through"
        " the program.",
        "Let loops do fewer rounds, or use bpf_loop() (5.17); unrolled conditions multiply the ways.",
    ),
    (
        "too-large",
        "Verifier Limit: Program is too large to follow",
        r"Program\s+(?:\S+ )?too large \((?P<count>\d+) insns\), at most (?P<most>\d+) insns",
        "bcc says so of each E2BIG. The program itself has {count} instructions; one below the limit"
        " of {most} was refused since the ways through it, with all rounds of its loops, come to more"
        " than 1,000,000 (131,072 before Linux 5.2).",
        "Let loops do fewer rounds, or use bpf_loop() (5.17); unrolled conditions multiply the ways.",
    ),
    (
        "tracepoint-arguments",
        f"{_SUPPORT}: Attach target",
        r"failed to attach to raw tracepoint '(?P<name>[^']+)': (?:Invalid argument|-EINVAL)",
        "The program reads more arguments than raw tracepoint {name} has on this kernel: EINVAL at"
        " attaching.",
        "Compare with the tracepoint's TP_PROTO; arguments come and go with kernels:"
        " bpf_core_type_exists() of a type that came with them tells which it is.",
    ),
    (
        "tracepoint-arguments",
        f"{_SUPPORT}: Attach target",
        r"failed to (?:create BPF link for|attach to) perf_event FD \d+: .*(?:-13\b|EACCES|Permission denied)"
        r"|\bperf[ _]link\b.*(?:EACCES|Permission denied)|PERF_EVENT_IOC_SET_BPF\b.*(?:EACCES|Permission denied)|\(BPF_LINK_CREATE, .*BPF_PERF_EVENT\b.*= -1 EACCES",
        "The kernel does not take the program for this event: EACCES of a tracepoint means that the program reads beyond"
        " the record that the tracepoint has on this kernel.",
        "Compare the struct that the program uses with /sys/kernel/tracing/events/GROUP/NAME/format: its fields, and those"
        " that all have in common, differ between kernels and builds; CO-RE (vmlinux.h) moves them.",
    ),
    (
        "tracepoint-missing",
        f"{_SUPPORT}: Attach target",
        r"failed to (?:determine|open|create|attach to raw) tracepoint '(?P<name>[^']+)'"
        r"|tracepoint (?:id|ID).*?(?P<name2>\w+[:/]\w+).*(?:no such|not found)"
        r"|prog '(?P<prog>[^']+)': failed to (?:auto-)?attach.*(?P<name3>raw_tracepoint\S*)"
        r"|(?:trace event|tracepoint) (?P<name4>\S+?):? (?:file )?(?:not found|does not exist)"
        r"|tracing/events/(?P<name5>[\w/-]+)/id\b.*[Nn]o such file|perf_event_open_trace_point"
        r"|(?:attach|load|enabl|find|creat)(?:ing|e)? probe:? '?(?:raw)?tracepoint:(?P<name7>\S+?)'?\.?(?:\s|$)"
        r"|[Ff]ailed to attach BPF (?:program \S+ )?to (?:raw )?tracepoint(?: (?P<name8>\S+))?|[Uu]nable to parse Tracepoint (?P<name9>\S+)"
        r"|[Uu]nable to attach (?:Raw )?[Tt]racepoint (?P<name10>\S+)|cannot read tracepoint id (?P<name11>\S+):"
        r"|(?:checking|creating|reading) trace event (?P<name6>\S+?)'?:? .*no such",
        "This kernel has no tracepoint {name}, or tracefs, where tracepoints are looked up, is not mounted here.",
        "List them: ls /sys/kernel/tracing/events; if that is empty: mount -t tracefs nodev /sys/kernel/tracing (a"
        " container takes it from its host). Tracepoints come and go with kernels and modules.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel module with BTF that cannot be read",
        r"load BTF for kmod (?P<name>[\w-]+): (?P<why>.*)|parse types for module (?P<name2>[\w-]+): (?P<why2>.*)",
        "The BTF of kernel module {name} cannot be read{why}. The loader reads that of all modules for CO-RE and"
        " to find what is attached to, whether the program is about them or not.",
        "Look at the size of /sys/kernel/btf/{name}: the module was built without its BTF. Unload it,"
        " or use a loader that goes on without (a later cilium/ebpf).",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        r"load(?:ing)? (?:and \w+ )?(?:e?BPF )?(?:object|skeleton|program|collection)s?\b.*(?:No such process|-3\b|ESRCH)",
        "libbpf says ESRCH where it finds no BTF of the kernel, or nothing in it that a CO-RE"
        " relocation of the object fits; its own warnings say which.",
        "ls -l /sys/kernel/btf/vmlinux: without it the kernel was built without CONFIG_DEBUG_INFO_BTF,"
        " or pahole failed then.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        r"failed to find valid kernel BTF|CONFIG_DEBUG_INFO_BTF\W+(?:is )?(?:not|missing|disabled|required)|(?:can ?not|could ?n[o']t|failed to|unable to|can't) (?:find|locate|read|parse|get|fetch|download) (?:\S+ ){0,3}?(?:vmlinux\b|BTF (?:for|of|file|data)\b(?! map| program| prog))|necessary BTF for CO-RE|[Uu]nsupported BTF_KIND:\d+|loading kernel BTF '[^']*': -\d|failed to load (?:vmlinux|module) BTF|Error loading vmlinux BTF|no (?:vmlinux|kernel) BTF"
        r"|(?:load(?:ing)?|find) (?:kernel|vmlinux) (?:spec|BTF|types?): .*"
        r"|no BTF found for kernel|/sys/kernel/btf/vmlinux.*[Nn]o such file|kernel doesn't have BTF"
        r"|kernel BTF is missing at|vmlinux BTF is not found|failed to parse target BTF"
        r"|failed to read kernel BTF|ksyms require kernel BTF|kernel is missing BTF, make sure"
        r"|kernel BTF is not available|failed to find '\.BTF' ELF section in /sys/kernel/btf",
        "The object needs the kernel's own BTF (CO-RE, fentry, kfuncs), and this kernel has none"
        " that the loader can read: CONFIG_DEBUG_INFO_BTF is off, or the BTF is newer than the"
        " loader.",
        "Use a kernel with CONFIG_DEBUG_INFO_BTF=y, a later libbpf, or give the loader the BTF of"
        " that kernel (btf_custom_path; BTFHub has some).",
    ),
    (
        "core-relocation",
        f"{_SUPPORT}: CO-RE relocation without a match",
        r"prog '(?P<prog>[^']+)': relo #\d+: (?:substituting insn|no matching targets found)[^<]*"
        r"(?P<name><.*)?"
        r"|CO-RE\b.*?(?:no such|no matching targets|not found|failed)(?P<name2>.*)"
        r"|(?:apply|fixup) CO-RE relocations:? (?!(?:.*: )?(?:load(?:ing)? (?:kernel|vmlinux)|no BTF))(?P<name3>.*)|relo(?:cation)? .*: (?P<name4>no match.*)"
        r"|relo #\d+: .*(?:accesses field incorrectly|invalid new mem size|value too big|ambiguity|unexpected|unrecognized).*"
        r"|relo #\d+: (?:error matching candidate|parsing .* failed|target candidate search failed|can't be)(?P<name5>.*)"
        r"|relo (?:#\d+ |\d+ )?at insn #\d+ can't|[Bb]ad CO-RE relocation"
        r"|failed to perform CO-RE relocations",
        "The program uses {name}, which this kernel does not have as the program knows it.",
        "Guard it with bpf_core_field_exists(), bpf_core_type_exists() or"
        " bpf_core_enum_value_exists(); retsnoop-py load names what the kernel has instead.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF is missing",
        r"BTF is required, but is missing or corrupted|load(?:ing)? BTF from (?:file )?\W?[^/]*\.o\b|load(?:ing)? BTF from file|BTF-defined maps? .*without BTF"
        r"|no BTF parsed for object|has no BTF information, so we can't|requires BTF information|missing (?:or invalid )?BTF (?:section|data)",
        "The object has no BTF of its own (.BTF), which maps in .maps, externs and CO-RE take.",
        "Compile with -g, and strip with llvm-strip -g, which leaves BTF where it is.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF that the loader cannot use",
        r"Error finalizing \.BTF(?P<why>.*)|(?:No|Invalid) offset found in symbol table for VAR (?P<name>\S+)",
        "The object's own BTF names a variable or section that its symbols do not have, as this libbpf understands"
        " them{why}. What is said of the file after that means the same.",
        "Use a libbpf (a bpftool) no older than the headers and the clang the object was compiled with, and compile anew.",
    ),
    (
        "btf-refused",
        f"{_OBJECT}: BTF that the kernel refuses",
        r"Error loading BTF: (?P<why5>.*)|BTF loading error: (?P<err>-?\d+)|Error loading \.BTF into kernel: (?P<err2>-?\d+)"
        r"|load(?:ing)? BTF:? (?!from|of|for)(?P<why>.*)|BTF (?:is|data) .*(?:invalid|malformed|corrupt)(?P<why2>.*)"
        r"|BPF_BTF_LOAD syscall (?:returned|failed)(?P<why3>.*)"
        r"|BTF debug data section '[^']*' rejected(?P<why4>.*)|BTF is mandatory, can't proceed|BTF types? (?:data|\[\d+\]) is malformed"
        r"|btf: type \[\d+\]: (?P<why6>.*)|Error loading ELF section \.BTF\S*: (?P<why7>.*)|error parsing BTF(?P<why8>.*)",
        "The kernel refuses the object's own BTF{why}.",
        "Compile with a clang and a libbpf that know this kernel; without BTF, maps with spin locks,"
        " kptrs or timers, global functions and kfuncs do not work.",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"probe_loading\(\):\s?(?:Invalid argument|-EINVAL)",
        "The kernel refuses even a trivial program (EINVAL): it has a part of BPF only, as RHEL 7 has,"
        " or it is older than the loader expects.",
        "Use a later kernel; a later libbpf tries programs of two types.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"bpf_object__probe\w*\(\): ?(?:Operation not permitted|Permission denied|-EPERM|-EACCES)|Failed to bump RLIMIT_MEMLOCK"
        r"|[Ff]ailed to (?:set|remove|raise|increase) (?:temporary )?(?:rlimit|memlock)"
        r"|kernel lockdown|Lockdown: .* is restricted"
        r"|[Oo]peration not permitted.*MEMLOCK|MEMLOCK may be too low"
        r"|(?:[Mm]aps?\b|_map|[Pp]rog(?:ram)?\b|bpf|BPF).*(?:[Oo]peration not permitted|-EPERM)"
        r"|permission error while running as root|unprivileged[ _]BPF(?:_disabled)?\b|do(?:es)? not have (?:\w+ )?permissions?|(?:insufficient|not enough|no sufficient|lack\w*(?: of)?) (?:permission|privilege|capabilit)\w*|are you root|run (?:it |this )?as root|root (?:privileges?|permissions?) (?:are |is )?(?:required|needed)|(?:missing|lack\w*|need\w*) (?:the )?(?:capability )?CAP_\w+|requires (?:CAP_|root)|must be (?:run )?(?:as )?root",
        EPERM_TEXT,
        EPERM_STEP,
    ),
    (
        "refused",
        "Verifier: Refused, and the log is missing",
        r"Kernel verifier blocks program loading|-4007\b",
        "The verifier refused the program, and what it said is not in this log: libbpf's error 4007 stands for that.",
        "Have libbpf's warnings printed (-vv, libbpf_set_print()), which have the log; retsnoop-py load does.",
    ),
    (
        "program-type-unsupported",
        f"{_SUPPORT}: Program type",
        r"(?P<name2>\w+) program type is not supported|Kernel doesn't support this program type"
        r"|program type (?P<name>(?!is )\w+)(?: is)? not supported|prog(?:ram)? type.*(?:requires|>=) ?v?(?P<since>\d+\.\d+)",
        "This kernel has no programs of type {name}{since}.",
        "Require a kernel that has them.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"^(?=.*not supported \(requires)(?:.*: )?(?P<name>[^:]+?) not supported \(requires (?:>= )?v?(?P<since>\d+\.\d+)",
        "This kernel has no {name}: that came with Linux {since}.",
        "Require that kernel, or do without where it is missing (features.Have... of cilium/ebpf asks).",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:^|: )(?:(?P<what2>[^:]*\be?BPF\b(?: is)? not (?:supported|available|enabled)[^:]*)|(?P<what>[^:]*\bBPF\b[^:]*\bnot supported (?:by|on|in) (?:the|this|your) kernel))",
        "The loader asked the kernel for what it needs, and found that it is not all there: {what}.",
        "retsnoop-py doctor says what this kernel can do; the loader's documents which Linux it needs.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:chained programs|native multi-uprobe links|program ids|attach cookies?|cookies) (?:are|is) not supported(?P<why>.*)"
        r"|providing an attach cookie is not supported",
        "This kernel does not have what the loader was asked for{why}.",
        "Require a later kernel (cookies came with 5.15, links of many kprobes with 5.18, of uprobes with 6.6).",
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
        r"(?P<name>\w+) is not found in prog's BTF|target (?:BPF )?program does(?:n't| not) have BTF"
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
        "The kernel cannot put the program's trampoline into the function it is for (fentry, fexit,"
        " fmod_ret): at its start is no hook of ftrace, or one that is somebody else's (a livepatch)."
        " The function's BTF says nothing of that. Or the machine has no trampolines (arm64 before 6.4).",
        "retsnoop-py functions NAME says whether it can be traced; trace its caller, or use a kprobe. A"
        " kernel without CONFIG_FUNCTION_TRACER has such hooks nowhere.",
    ),
    (
        "no-trampoline",
        f"{_SUPPORT}: BPF trampolines",
        r"prog '(?P<name>[^']+)': failed to attach: .*(?:-524|ENOTSUPP|error 524)",
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
        "bpftool net and bpftool link list what is attached; detach it (ip link set dev DEV xdp off), say"
        " that it is to be replaced, or let several share the place (libxdp, tcx of Linux 6.6).",
    ),
    (
        "attach-unsupported",
        f"{_SUPPORT}: Attach target",
        r"(?:RTNETLINK|[Nn]etlink|nlmsg|netdev|xdp|XDP).*(?:[Oo]peration not supported|EOPNOTSUPP|os error 95)"
        r"|(?:MTU|mtu) (?:is )?too (?:large|big).*(?:XDP|xdp)|(?:XDP|xdp).*(?:MTU|mtu) (?:is )?too (?:large|big)",
        "The interface's driver takes no program like this: it has no native XDP, or not at this MTU,"
        " number of queues or with LRO, or none in several buffers.",
        "Attach in generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE), lower the MTU, or declare the section"
        " xdp.frags (5.18).",
    ),
    (
        "qdisc-missing",
        f"{_ENVIRONMENT}: No queueing discipline to attach to",
        r"(?:[Cc]annot find specified (?:qdisc|filter)|specified qdisc kind|unknown (?:qdisc|filter)\b|qdisc kind is|TC classifier not found|specified .*(?:qdisc|filter).* (?:unknown|not found))(?P<why>.*)|[Pp]arent [Qq]disc doesn't exist|couldn't add a \"?clsact|Failed to find (?:specified )?qdisc|Invalid qdisc name",
        "The interface has no queueing discipline that takes programs of tc, or the kernel has none such (CONFIG_NET_SCH_INGRESS,"
        " CONFIG_NET_CLS_BPF, or their modules sch_ingress and cls_bpf are not there){why}.",
        "modprobe sch_ingress cls_bpf; tc qdisc add dev DEV clsact; since Linux 6.6 tcx needs none.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"Kernel error message: (?P<name>.+)"
        r"|^(?:Error: )?(?P<name2>.*(?:XDP expects|[Nn]ative XDP|Native and generic XDP|XDP in native mode|Underlying driver|Can't set XDP"
        r"|(?:to set|for|with|enable) XDP\b|XDP (?:is )?not supported|can not be attached to a device).*)",
        "The kernel does not attach the program, and says: {name}.",
        "That is the interface's driver, or the network stack; dmesg(1) may have more. Generic mode"
        " (xdpgeneric, XDP_FLAGS_SKB_MODE) asks nothing of a driver.",
    ),
    (
        "interface-missing",
        f"{_ENVIRONMENT}: No such interface",
        r"unknown network interface (?P<name>\S+)|Cannot find device \"?(?P<name2>[\w.-]+)"
        r"|no such network interface",
        "There is no network interface {name} in this network namespace.",
        "ip link lists them; a container has its own.",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"failed to open system Kconfig|cannot find a kconfig file"
        r"|extern \(kcfg\) '(?P<name>\w+)'.*(?:implies|isn't|doesn't fit|invalid|failed|not found|unre)"
        r"|config option \"?(?P<name2>\w+)\"? does not exist|kconfig (?P<name3>\w+) not found",
        "The object asks how the kernel is configured ({name}), which cannot be read, or is no such value.",
        "CONFIG_IKCONFIG_PROC gives /proc/config.gz, distributions /boot/config-$(uname -r), which a"
        " container may lack; declare the extern __weak, and of the option's type.",
    ),
    (
        "struct-ops-member",
        f"{_SUPPORT}: Table of functions",
        r"struct_ops init_kern (?P<name>\w+)(?: func ptr \w+)?: (?P<why>.+)|struct_ops (?:init|reloc)(?: (?P<name3>\w+))?: (?P<why3>.+)"
        r"|(?P<why2>\S+ doesn't exist in (?P<name2>\w+), but it has non-zero value)",
        "Table {name} sets a member that this kernel's struct does not have, or not like this{why}.",
        "Set the member to 0 before loading where the kernel lacks it (libbpf 1.4 and later leave out zero"
        " ones), or require a kernel that has it.",
    ),
    (
        "struct-ops-unused",
        f"{_OBJECT}: Table of functions",
        r'prog \'(?P<name>[^\']+)\': SEC\("struct_ops"\) program isn\'t referenced',
        "Program '{name}' is of section struct_ops, and no table of functions has it.",
        'Put it into a variable in SEC(".struct_ops"), or leave it out.',
    ),
    (
        "relocation",
        f"{_OBJECT}: Reference to a map that was not made",
        r"section `(?P<name>\d+)` not found, referenced by symbol|failed relocating map by section index (?P<name2>\d+)",
        "The program refers to section {name}, of which the loader made no map. aya makes none of .rodata, .data and"
        " .bss where its trials say that the kernel has no global data: before Linux 5.2, or where rights are missing"
        " for the trials themselves.",
        "Run as root (CAP_BPF); RUST_LOG=debug lists what aya found (bpf_global_data). If rights are there,"
        " llvm-readelf -S OBJECT says which section it is.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"avc: +denied +\{ (?P<name>[^}]+?) \}.*\btclass=(?:bpf|perf_event|capability2)\b",
        "SELinux denies it: its policy does not allow {name} for this program's domain.",
        "ausearch -m avc -ts recent | audit2allow -M NAME makes a module that allows it; or run the program in another"
        " domain (a container: --security-opt label=...), with the policy package of its release.",
    ),
    (
        "no-cgroup-bpf",
        f"{_ENVIRONMENT}: Kernel without BPF programs for cgroups",
        r"[Dd]etach\w* .*\bfrom cgroup\b.*(?:Invalid argument|EINVAL)",
        "The kernel takes no programs of this kind at cgroups, so it takes none away: CONFIG_CGROUP_BPF is off, or it is"
        " older than the kind. Of one that is merely not attached it says ENOENT.",
        "Nothing is lost but the filter itself; grep CGROUP_BPF /boot/config-$(uname -r) tells, and a later systemd"
        " asks first.",
    ),
    (
        "relocation",
        f"{_OBJECT}: Reference that cannot be resolved",
        r"map '' (?:doesn't|does not) exist|Relocation failed|(?P<why>(?:ELF contains non-\{.*|invalid relo|bad (?:call|data|arena data|subprog addr) relo).*|unexpected relo for.*"
        r"|extern relo failed.*|data relo failed.*|map relo failed to find map.*|no \.text section found yet.*"
        r"|unsupported relocation target|unknown symbol[ ,`].*|symbol `[^`]+` (?:does not appear|in section).*"
        r"|two or more symbols in section.*|program '[^']*' is static and not supported|can't relocate \S+ against.*"
        r"|call: \S+: .*|direct load: \S+: .*|failed to relocate (?:calls|data references).*|possible erroneous static qualifier.*|unsupported binding.*"
        r"|extern function \S+ is unsupported.*|unrecognized extern section.*|missing subprog addr relo.*"
        r"|function \S+ not found while relocating.*|error relocating (?:function|section|`).*|(?<!CO-RE )relocat\w+ .*(?:no such symbol|undefined|unresolved).*"
        r"|reference to \"[^\"]*\" in section [^:]*: not supported.*)",
        "The loader cannot resolve a reference in the object{why}.",
        "Look for a function that is declared and not defined here (a library's, memcpy() of a size that"
        " is not known), a static map, and a global that an old libbpf takes initialised only. Compile"
        " with -O2.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"multiple mount points detected at (?P<name>\S+?)\W*$",
        "{name} has several file systems mounted on it, one over the other, and the loader does not go on with that.",
        "findmnt lists them; umount the upper ones, and have one who mounts it: the host or the container.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"(?:load|open|get|reuse|retriev|find)\w* (?:the )?pinned \w+\b.*(?:denied|permitted|no such|invalid|not found)|cannot find pinned map"
        r"|obj[_ ]get(?:_path)?\W.*(?:no such|denied|permitted|invalid)|bpf-foreign: Failed to (?:determine filesystem|prepare foreign|get|open).*"
        r"|unable to get object (?P<name>/\S+?):|(?:open|get|load)\w* (?:program|map|link|object)?\W*(?P<name2>/\S*/bpf/\S+?)\W*: (?:no such|denied|permission|invalid)",
        "{name} cannot be opened as something pinned: nothing is pinned there, or not in this mount name space (a"
        " container has its own /sys/fs/bpf), it is of another kind, or may not be read.",
        "ls -l and bpftool -f prog show, map show say what is pinned where; have it pinned first, or take the host's"
        " /sys/fs/bpf into the container.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"is not on BPF FS|(?:failed to|can't) pin (?:at|map|program|the object)|requested pinning\. pinning failed"
        r"|pin map to \S+: |already pinned|(?:Obj|obj_)[Pp]in\b.*|invalid pin path|is not on a bpf filesystem"
        r"|(?:[Cc]ouldn't|[Cc]ould not|[Ff]ailed to|[Uu]nable to|[Cc]an't|[Ee]rror) (?:\w+ )?(?:un)?pin\b|pin directory|working bpffs"
        r"|(?:mount|create) .*(?:bpffs|BPF file ?system|-t bpf)\b(?!.*(?:denied|permitted)).*(?:fail|to pin)?|can't create dir '[^']*' to pin|without mounted eBPF fs"
        r"|[Ee]rror pinning|(?:pin|pinning) (?:map|program|prog|object|link)\b.*(?:[Ff]ile exists|permitted|denied|[Ii]nvalid|[Nn]o such)",
        "What is to be pinned cannot be: the path is on no BPF file system, exists already, or may not be"
        " written.",
        "mount -t bpf bpf /sys/fs/bpf; remove what an earlier run left there.",
    ),
    (
        "no-cgroup-bpf",
        f"{_ENVIRONMENT}: Kernel without what systemd takes",
        r"does not support BPF/cgroup|BPF (?:LSM|lsm) hook (?:is )?not enabled|bpf-lsm: .*not (?:enabled|supp)"
        r"|bpf-(?:firewall|devices|restrict-\w+|socket-bind): .*(?:not supported|isn't|not enabled)",
        "The kernel, or this container, has not what such filters of units take: CONFIG_CGROUP_BPF and"
        " cgroup v2, for restrictions of file systems an LSM of BPF.",
        "Boot with systemd.unified_cgroup_hierarchy=1; for the LSM with lsm=...,bpf. Otherwise the unit"
        " runs without that filter.",
    ),
    (
        "kernel-headers",
        f"{_ENVIRONMENT}: Headers of the kernel are missing",
        r"Unable to find kernel headers|Module kheaders not found|/lib/modules/\S+/build\)?: No such file",
        "bcc compiles on this machine, and the headers of the kernel that runs are not here.",
        "Install that kernel's headers (Debian: linux-headers-$(uname -r)), or use the CO-RE build of"
        " the tool (libbpf-tools), which needs none.",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"\bbpf(?:\(2\)|\(\)| system call| syscall) (?:is )?(?:not (?:available|supported|implemented|permitted)|unavailable|disabled|missing)|compiled without CONFIG_BPF_SYSCALL|probe_loading\(\):\s?(?:Function not impl|-ENOSYS)",
        "The kernel was built without CONFIG_BPF_SYSCALL, or the loader was.",
        "Use a kernel with CONFIG_BPF_SYSCALL=y; an iproute2 without libbpf or libelf says the same.",
    ),
    (
        "elf",
        f"{_OBJECT}: Section missing",
        r"(?P<name>\S+) doesn't provide kernel version",
        "{name} has no section 'version', which old versions of libbpf ask for.",
        'Use a later libbpf, or add: __u32 _version SEC("version") = LINUX_VERSION_CODE;',
    ),
    (
        "elf",
        f"{_OBJECT}: Not a BPF object",
        r"(?:elf: )?(?:failed to open .* as ELF|'[^']*' is not a valid .*(?:ELF|object file))(?P<why>.*)"
        r"|elf: (?:failed to|unexpected|corrupt|invalid|endianness)(?P<why2>.*)"
        r"|[Ii]nvalid (?:ELF|argument).*elf(?P<why3>.*)|bad magic number|error parsing ELF|\bParseError\((?P<why5>.*)\)"
        r"|elf: '[^']*' (?:is not a|has unknown)(?P<why4>.*)|elf: \S+ is not a valid eBPF object"
        r"|elf: couldn't find symbol table|^(?!.*u(?:ret)?probe).*(?:not an? (?:valid )?ELF|ELF: file too short|wrong endianness|invalid ELF|ELF (?:header|magic)\w*.*(?:invalid|bad|wrong))(?P<why6>.*)|loading non-native endianness is unsupported"
        r"|sec '[^']+': (?:corrupted |program at|symbol #|failed to (?:get|find)|invalid |no )"
        r"|failed to get (?:EHDR|ELF class|section names|e_shstrndx)|error parsing BPF object|symbol strings section missing"
        r"|BPF object format invalid|Something wrong in libelf|Endian mismatch|invalid (?:license|kver) section|unexpected machine type for BPF ELF",
        "The file is no BPF object that the loader can read{why}.",
        "Compile it with clang -target bpf -g -O2.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"legacy map definitions in '(?P<section>[^']+)' section",
        "The object defines maps in section '{section}', by struct bpf_map_def; libbpf 1.0 and later"
        " knows maps in .maps only.",
        'Define them as structs in SEC(".maps"); who has only this file loads it with the tool that it'
        " came with, or with libbpf 0.8.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"(?:map '(?P<name>[^']+)': (?=unsupported|unexpected|invalid|found|can't determine|conflicting|attr '|key |value |unknown"
        r"|map type isn't|should be|multi-level|inner def|'\w+' member|\w+ (?:type|spec|def) |prog-array|map-in-map|only single ARENA)"
        r"|failed to (?:init|parse) (?:bss|legacy|user|BTF)?\s?(?:map|maps)"
        r"|error parsing map `(?P<name2>[^`]+)`|BTF map `(?P<name3>[^`]+)`:|\.maps relo #\d+: |elf: sec '[^']*': (?:declared|to use global)"
        r"|both (?:key|value) and|'values' must be|duplicate map with the same name:)(?P<why>.*)",
        "libbpf does not understand the definition of map {name}{why}.",
        'Define it as a struct in SEC(".maps"); the form struct bpf_map_def went with libbpf 1.0.',
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"bad map relo against '(?P<name>[^']+)' in section '(?P<section>[^']+)'",
        "The program refers to map {name} in section '{section}', and libbpf 1.0 and later knows maps"
        " in .maps only.",
        'Define it as a struct in SEC(".maps"); who has only this file loads it with the tool that it'
        " came with, or with libbpf 0.8.",
    ),
    (
        "map-pinned",
        f"{_ENVIRONMENT}: Pinned map",
        r"couldn't reuse pinned map at '(?P<name>[^']+)': parameter mismatch"
        r"|map '(?P<name2>[^']+)': (?:failed to (?:auto-)?pin|couldn't retrieve pinned)"
        r"|use pinned map (?P<name3>[^:]+): |map spec is incompatible with existing map",
        "A map is pinned at {name} that has another type or size than this object's.",
        "Remove the pin, or give the map the definition of the pinned one.",
    ),
    # what says less than those above
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:requires?|needs?|minimum|at least|supported (?:only )?(?:from|since|on)|>=)\W+(?:\S+ ){0,3}?(?:linux|kernel)(?: version)?(?: of)?\W{1,4}v?(?P<since>\d+\.\d+)"
        r"|kernel (?:does not|doesn't|cannot) support|kernel is (?:too old|not supported)|(?:in|not )compatible with (?:this|your|the) kernel"
        r"|(?:linux|kernel)(?: version)?\W{1,4}(?:\S+ ){0,2}?(?:is )?(?:not supported|too old|unsupported|older than)\W*v?(?P<since2>\d+\.\d+)?",
        "The loader does not go on with this kernel{since}.",
        "Compare with uname -r, and look in the loader's documents for what it needs the later kernel for.",
    ),
)
_PATTERNS = PatternSet([row[2] for row in _RULES], re.IGNORECASE)
_MAP = re.compile(
    r"map '(?P<name>[^']+)': failed to create(?: inner map)?: (?P<why>.*)"
    r"|(?:map \"?(?P<name3>[\w.-]+)\"?: )?\bmap create(?: without BTF)?: (?P<why3>.*)"
    r"|could not open bpf map: (?P<name6>[\w.-]+), error: (?P<why6>.*)"
    r"|bpf_create_map_xattr: (?P<why7>.*)"
    r"|(?:can't|cannot|could not|couldn't|unable to|error) creat(?:e|ing) (?:the )?(?:e?BPF )?map:? ?(?:'?(?P<name9>[\w.-]+)'?)?: (?P<why10>.*)"
    r"|failed to create map \(name: '(?P<name8>[^']+)'\): (?P<why8>.*)|could not open bpf map: (?P<why9>[A-Z].*)"
    r"|[Ff]ailed to create (?:BPF )?map `?'?(?P<name4>[\w.-]+)[`']?.*?(?P<why4>(?:code|with|error|:).*)"
    r"|creating map (?P<name5>\S+?):? (?P<why5>.*)"
)


#: What a loader says in the same words of a target that is not there, of one that is taken and of one
#: that it may not open: the errno tells which.
_OPENED = ("tracepoint-missing", "kprobe-target", "uprobe-target", "attach-target-missing")
_NOT_MISSING = (
    *("EPERM", "EACCES", "EBUSY", "EEXIST", "ENOMEM", "EMFILE", "EOPNOTSUPP", "EADDRNOTAVAIL"),
)
#: What stands where a name may, and is a word for the way of attaching.
_NO_NAME = ("multi", "session", "event", "events", "probe", "probes")
#: What is said of XDP programs means something else of sockets (AF_XDP).
_OF_XDP = ("attach-busy", "attach-unsupported", "interface-missing")
#: strace(1): a call of bpf(2) that failed, and the fields of a map.
_CALL = re.compile(r"\bbpf\((?P<command>BPF_\w+), (?P<fields>.*)\)\s+= -1 (?P<errno>E[A-Z0-9]+)\b")
_FIELD = re.compile(
    r"\b(map_type|key_size|value_size|max_entries|map_flags|map_name)=(\"[^\"]*\"|\w+)"
)


#: For which kernel a kprobe's program was made.
_KPROBE_FOR = re.compile(
    r"prog_type=BPF_PROG_TYPE_KPROBE,.*kern_version=KERNEL_VERSION\((?!0, 0, 0)(\d+), (\d+), (\d+)\)"
)
#: A map that is created, in other words, with an errno behind.
_MAP_MADE = re.compile(
    r"creat\w*\W(?:[^\s:]+ ){0,3}?maps?\b(?! (?:entry|base|dir|pin|path))(?:\W{1,3}(?P<name>@?[\w.-]+)\W{0,2})?.*?:",
    re.IGNORECASE,
)
#: Words one of which is in each line that a rule knows: most lines of a daemon have none.
_TOPICS = (
    *(
        "bpf",
        "map",
        "prog",
        "probe",
        "trac",
        "perf",
        "xdp",
        "btf",
        "co-re",
        "relo",
        "elf",
        "attach",
    ),
    *("link", "pin", "cgroup", "qdisc", "filter", "interface", "lsm", "kernel", "symbol", "kfunc"),
    *(
        "extern",
        "struct_ops",
        "verif",
        "insn",
        "mlock",
        "rlim",
        "lock",
        "cap_",
        "privilege",
        "root",
    ),
    *("permission", "permitted", "config", "ring", "buffer", "section", "license", "clang", "llvm"),
    *(
        "llc",
        ".o",
        ".c",
        ".h",
        "stack",
        "helper",
        "load",
        "xsk",
        "umem",
        "usdt",
        "skeleton",
        "mount",
    ),
    *(
        "exclusiv",
        "mtu",
        "netdev",
        "dispatcher",
        "event",
        "ksym",
        "object",
        "endian",
        "clsact",
        "tc",
    ),
    *("device", "module", "nlmsg", "cookie", "capability", "func", "cpu", "program", "header"),
    "sa_family",
)


class _Found(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?" if key == "name" else ""


def is_of_map(line: str) -> bool:
    """Whether it says that a map could not be created."""
    return _MAP.search(line) is not None


def explain_line(line: str) -> Explanation | None:
    """What a line of a loader says went wrong; None for one that says nothing of its own."""
    line = line.strip()
    low = line.lower()
    if not any(topic in low for topic in _TOPICS):
        return None
    if call := _CALL.search(line):
        told = _explain_call(call, line)
        if told is not None:
            return told
    if found := _MAP.search(line):
        groups = {key.rstrip("0123456789"): text for key, text in found.groupdict().items() if text}
        kind, entries = _hinted(groups.get("why", ""))
        error = errno_in(groups.get("why", ""))
        it = MapFacts(groups.get("name", ""), kind, entries=entries)
        return explain_map(it, error, line=line)
    for number, found in _PATTERNS.search(line):
        id_, title, _, reason, suggestion = _RULES[number]
        facts = _Found(
            {
                key.rstrip("0123456789"): text.strip()
                for key, text in found.groupdict().items()
                if text
            }
        )
        if _is_other(id_, facts, line) and (told := explain_operation(line)) is not None:
            return told
        if reason is EPERM_TEXT:
            told = explain_operation(line)
            if told is not None and told.id == id_ and not told.reason.endswith(EPERM_TEXT):
                return told
        _extend(id_, facts)
        why, step = reason.format_map(facts), suggestion.format_map(facts)
        if "name" not in facts:
            why, step = why.replace(" ?", ""), step.replace("*?*", "*NAME*")
        step = step.replace("*a function*", "*NAME*")
        return about_line(id_, title, why, step, line)
    if made := _MAP_MADE.search(line):
        told = _explain_made(made["name"] or "", line)
        if told is not None:
            return told
    return explain_operation(line)


def _is_other(id_: str, facts: dict[str, str], line: str) -> bool:
    """Whether the operation of ``line`` knows better than the rule what its errno means."""
    errno = errno_in(line)
    return (
        (id_ in _OPENED and errno in _NOT_MISSING)
        or (id_ == "kprobe-target" and errno == "EINVAL")
        or (id_ in _OF_XDP and of_xsk(line))
        or facts.get("name") in _NO_NAME
    )


def _explain_made(name: str, line: str) -> Explanation | None:
    """Of a map that is created; None where the line does not say that it failed."""
    if error := errno_in(line):
        return explain_map(MapFacts(name), error, line=line)
    if not re.match(r"\W*(?:error|fail)", line, re.IGNORECASE):
        return None
    label = f"Map {name}" if name else "A map"
    return about_line(
        "map-refused",
        f"{_SUPPORT}: Map that cannot be created",
        f"{label} cannot be created, and the errno is not told: mostly it is that of locked memory (ulimit -l, before"
        " Linux 5.11), of missing rights, or of a type that is younger than the kernel.",
        "strace -f -e bpf COMMAND shows the errno and the map's type; run as root with ulimit -l unlimited.",
        line,
    )


def _explain_call(call: re.Match[str], line: str) -> Explanation | None:
    """Of a call as strace(1) writes it, where its fields or its errno say more than its words."""
    if call["command"] == "BPF_MAP_CREATE":
        fields = dict(_FIELD.findall(call["fields"]))
        kind = fields.get("map_type", "")
        sizes = [_number(fields.get(one, "")) for one in ("max_entries", "key_size", "value_size")]
        it = MapFacts(
            fields.get("map_name", "").strip('"'),
            max(_number(kind), 0) or _map_number(kind.removeprefix("BPF_MAP_TYPE_")),
            max(_number(fields.get("map_flags", "")), 0),
            *sizes,
        )
        return explain_map(it, call["errno"], line=line)
    if call["command"] == "BPF_PROG_LOAD":
        told = explain_errno(call["errno"], "a program", line)
        version = _KPROBE_FOR.search(call["fields"])
        return _for_another(told, version) if told.id == "invalid" and version else told
    if call["command"] == "BPF_BTF_LOAD" and call["errno"] not in ("EPERM", "ENOMEM", "ENOSYS"):
        return explain_line(f"Error loading BTF: {call['errno']}")
    return None


def _for_another(told: Explanation, version: re.Match[str]) -> Explanation:
    """What is told of a kprobe's program that says for which kernel it was made."""
    release = f"{version[1]}.{version[2]}.{version[3]}"
    return structs.replace(
        told,
        reason=f"{told.reason} The program is a kprobe's, made for Linux {release}: kernels before 5.0 take such a"
        " one only if that is the kernel that runs.",
        suggestion=f"Compare with uname -r: the version comes of the headers that the loader was built with, or finds."
        f" {told.suggestion}",
    )


def _number(text: str) -> int:
    """Of a field, in decimal or 0x; -1 where it is not there, or has a name."""
    return int(text, 0) if re.fullmatch(r"\d+|0x[0-9a-f]+", text) else -1


def _hinted(why: str) -> tuple[int, int]:
    """The type of a map and its entries, by what cilium/ebpf adds to an errno; 0 and -1 if nothing."""
    if "MaxEntries may be incorrectly set to zero" in why:
        return 0, 0
    if "NO_PREALLOC flag may need to be set for map type LPMTrie" in why:
        return _map_number("LPM_TRIE"), -1
    return 0, -1


def _map_number(name: str) -> int:
    known = since.by_name("map_types", name)
    return known.number if known else 0


#: What is said of where a line has no name.
_UNNAMED = {
    "attach-target-missing": "a function",
    "file-missing": "of the name that the loader has",
    "kconfig": "its options",
    "name-missing": "one",
    "pin": "It",
}


def _relocated(said: str) -> str:
    """What a relocation is for, out of what libbpf says of it."""
    found = re.search(r"\] (.*?)(?: \(|>|$)", said)
    what = re.sub(r"\s*: -?\d+$", "", found[1] if found else said)
    if what in ("struct", "union", "enum"):
        article = "an" if what == "enum" else "a"
        return f"{article} {what} without a name (so it cannot be found)"
    return what or "a type, member or enumerator"


def _extend(id_: str, facts: dict[str, str]) -> None:
    name = facts.get("name", "")
    if id_ == "kfunc-missing" and (known := since.by_name("kfuncs", name)):
        facts["since"] = f"; it came with Linux {known.since}"
    if id_ == "core-relocation":
        facts["name"] = _relocated(name)
    if facts.get("why"):
        facts["why"] = ": " + facts["why"].lstrip(": ").rstrip(".!")
    elif facts.get("err"):
        number = abs(int(facts["err"]))
        facts["why"] = f": {ERRNO_NAMES.get(number, number)}"
    if "name" not in facts and id_ in _UNNAMED:
        facts["name"] = _UNNAMED[id_]
    if id_ == "section-unknown":
        section = facts.get("section", "")
        facts["near"] = _near_section(section)
        facts["section"] = f"'{section}'" if section else f"that of {facts.get('name', 'this one')}"
    if id_ == "unsupported" and "name" not in facts and facts.get("since"):
        facts["since"] = f": it asks for Linux {facts['since']}"
    if id_ == "program-type-unsupported":
        known = since.by_name("program_types", name.upper())
        release = facts.get("since") or (known.since if known else "")
        facts["since"] = f": they came with Linux {release}" if release else ""


#: Sections people mistype most, by libbpf's own table of them.
_SECTIONS = (
    *(
        "kprobe",
        "kretprobe",
        "ksyscall",
        "kretsyscall",
        "uprobe",
        "uretprobe",
        "usdt",
        "kprobe.multi",
    ),
    *("kretprobe.multi", "kprobe.session", "uprobe.multi", "uprobe.session", "tracepoint", "tp"),
    *(
        "raw_tracepoint",
        "raw_tp",
        "tp_btf",
        "fentry",
        "fexit",
        "fmod_ret",
        "freplace",
        "lsm",
        "iter",
    ),
    *("syscall", "xdp", "xdp.frags", "tc", "tcx/ingress", "tcx/egress", "classifier", "action"),
    *("netkit/primary", "netkit/peer", "perf_event", "socket", "sk_msg", "sk_lookup", "sockops"),
    *("sk_skb/stream_parser", "sk_skb/stream_verdict", "cgroup_skb/ingress", "cgroup_skb/egress"),
    *("cgroup/skb", "cgroup/sock_create", "cgroup/connect4", "cgroup/connect6", "cgroup/bind4"),
    *("cgroup/dev", "cgroup/sysctl", "cgroup/getsockopt", "cgroup/setsockopt", "lwt_in", "lwt_out"),
    *("lwt_xmit", "flow_dissector", "struct_ops", "netfilter", "lirc_mode2", "sk_reuseport"),
)


def _near_section(section: str) -> str:
    from difflib import get_close_matches

    head, slash, rest = section.partition("/")
    if known := since.attach_type_of(section):
        return (
            f" It is one that later releases of libbpf know; what it stands for came with Linux"
            f" {known.since}."
        )
    near = get_close_matches(section.lower(), _SECTIONS, 1) or get_close_matches(
        head.lower(), _SECTIONS, 1
    )
    if not near:
        return ""
    full = near[0] + (slash + rest if "/" not in near[0] else "")
    if full != section:
        return f" Did you mean '{full}'?"
    return (
        f" If it means '{head}': libbpf 1.0 and later takes nothing behind the name of a type that has no"
        " target, and an older one may not know it yet."
    )
