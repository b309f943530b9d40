# SPDX-License-Identifier: BSD-2-Clause
"""What loaders refuse by themselves, before or beside the kernel: cilium/ebpf, aya, tc of iproute2 and libxdp.

They look at an object, at a pinned map or at what is attached by their own rules, and say so in their own words.
"""

from __future__ import annotations

from retsnoop_py.load.model import LineRule

__all__ = ["OWN_RULES"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

#: Each is an id, a title, a pattern, a reason and a suggestion; both name the pattern's groups.
OWN_RULES: tuple[LineRule, ...] = (
    (
        "map-pinned",
        f"{_ENVIRONMENT}: Pinned map",
        r"^(?!.*replacement map)(?:.*?(?:Map specification differs from pinned|spec(?:ification)? and (?:pinned )?map (?:are |is )?(?:not compatible|incompatible|differ)|(?:is|are) (?:not compatible|incompatible) with (?:the )?(?:existing|pinned|spec))"
        r"|.*?(?P<name>(?:Type|KeySize|ValueSize|MaxEntries|Flags): \S+ changed to \S+)|.*?(?P<name2>(?:Type|Size key|Size value|Max elems|Flags):\s+\S+ \(obj\) != \S+ \(pin\)))",
        "A map is pinned at the path that this object's is to have, and it has another type, size or flag ({name}): an earlier"
        " release of the tool, or another tool, left it there.",
        "bpftool map show pinned PATH tells what it is; remove the pin once nobody uses it, or give the map the same definition.",
    ),
    (
        "program-size",
        "Verifier Limit: Program has too many instructions",
        r"Instructions:\s+(?P<count>\d+) \((?P<over>[1-9]\d*) over limit\)",
        "The program has {count} instructions, {over} more than tc counts as the kernel's limit: 4,096 before Linux 5.2, and of"
        " who lacks CAP_BPF since. A tc of that time says so on later kernels too, where the ways through the program count.",
        "Use Linux 5.2 or later, as root; split the program by tail calls, or make loops and functions of what is unrolled.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"BPF map symbols are not multiple|incompatible struct bpf_elf_map|[Dd]ifferent struct bpf_elf_map|struct bpf_elf_map (?:not supported|too small)|[Tt]oo many BPF maps in ELF",
        "tc reads the object's section maps by its own struct bpf_elf_map, and what is there has another size: libbpf's"
        " struct bpf_map_def, or one of another release.",
        'Define maps as structs in SEC(".maps") and use a tc with libbpf (tc -V says so), or by struct bpf_elf_map of this tc.',
    ),
    (
        "unsupported",
        "Loader: Built without what it takes",
        r"No ELF library support compiled in|No bpf syscall, kernel headers too old|compiled (?:without|against an old version of) (?:libbpf|libelf|libxdp|libbpf)"
        r"|(?:built|compiled) without (?P<name>\S+ support)",
        "The tool was built without what it takes to load objects{why}: libelf, libbpf, or headers that know bpf(2).",
        "Install a package of it that has them (tc -V and ip -V name libbpf), or build it where the -dev packages are.",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"(?:fail\w*|error|unable|cannot)\b.*\boptions?\W{1,3}-D\w+",
        "The program is compiled on this machine by bcc, with the options that the line shows, and that or what follows of it"
        " fails: mostly the headers of the kernel that runs are not here (bcc says so on its standard error), else the kernel"
        " does not take the program, or a target is missing.",
        "Install linux-headers-$(uname -r) and give /lib/modules and /usr/src to the container, or use a CO-RE (libbpf) build of"
        " the tool, which compiles nothing here.",
    ),
    (
        "attach-busy",
        f"{_ENVIRONMENT}: Attach target is taken",
        r"[Nn]ot enough free slots in the dispatcher",
        "libxdp's dispatcher, by which several XDP programs share an interface, takes ten, and has no place left.",
        "xdp-loader status DEV lists them; unload those that are not needed (xdp-loader unload DEV --id N).",
    ),
    (
        "attach-busy",
        f"{_ENVIRONMENT}: Attach target is taken",
        r"XDP dispatcher attached in mode (?P<mode>\d+), requested (?P<asked>\d+)",
        "XDP programs are attached to the interface in another mode (native, generic, offload) than is asked for now, and one"
        " interface has one mode.",
        "Ask for the same mode (xdp-loader -m), or unload what is there first (xdp-loader unload DEV --all).",
    ),
    (
        "xdp-dispatcher",
        f"{_SUPPORT}: Dispatcher of libxdp",
        r"(?:dispatcher|default program) version \d+ higher than supported|[Dd]ispatcher (?:v\d )?(?:version matches, but )?map size \d+|Expected a single map for dispatcher|Dispatcher version check failed|num_progs_enabled \d+ exceeds",
        "The dispatcher on that interface was put there by another release of libxdp, which this one does not understand.",
        "Unload it by the tool that loaded it (xdp-loader unload DEV --all), and have all tools use one libxdp.",
    ),
    (
        "attach-target-missing",
        f"{_ENVIRONMENT}: Nothing of the sort is attached",
        r"No XDP (?:program|dispatcher) (?:loaded|found) on (?P<name>[\w. -]+)|Program (?:with ID )?\d+ not loaded(?: on (?P<name2>\S+))?|Asked to unload prog \d+ but",
        "What is to be unloaded is not attached there, or not any more: nothing, or another program, is on that interface.",
        "xdp-loader status and bpftool net list what is attached, on which interface and in which mode.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target, which does not take the program",
        r"[Cc]an't use zero-copy and skb mode together",
        "AF_XDP without copies takes native XDP in the driver; generic XDP (skb mode) copies always.",
        "Leave out one of the two: native mode with zero copy, or generic mode with copies.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: BTF of the kernel, which the tool cannot read",
        r"(?:EHDR|ELF)\b.*/sys/kernel/btf/|/sys/kernel/btf/\S+.*(?:-4001|not (?:a )?valid ELF|bad magic)",
        "The tool takes /sys/kernel/btf/vmlinux for an ELF file, and it is BTF alone: tools of before Linux 5.5 (libbpf 0.0.6)"
        " read BTF only out of a file such as vmlinux.",
        "Take a later bpftool or libbpf, as new as the kernel; or give it a vmlinux with debug information.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: BTF that was given to the loader",
        r"failed to parse (?:target|custom|kernel) BTF\W+(?:-5|-21|-13|-EIO|-EISDIR|-EACCES)\b",
        "The file that the loader is to take for the kernel's BTF cannot be read: the path that it was given names a directory, or"
        " a file that is no BTF or ELF file with it, or may not be read.",
        "Look at the path (a variable or option of the loader names it); bpftool btf dump file FILE says whether it is BTF. Without"
        " the option it takes /sys/kernel/btf/vmlinux.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"(?:file )?(?P<name>/\S+) is not executable",
        "The loader puts uprobes on files alone whose mode lets them be executed, and {name} is not such a file: libraries mostly are"
        " not (mode 0644), and cilium/ebpf looks at it since 0.21.",
        "Take another release of the loader, or let the file be executed (chmod +x), which a library does not mind.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Debug information of the kernel is missing",
        r"[Cc]ould ?n[o']t find type die of (?P<name>\w+)|\bdebug_?info\w*\b[^:]{0,20} failed|no (?:kernel )?debug ?info(?:rmation)? (?:for|of|found)",
        "The tool finds where members are by the kernel's debug information (DWARF or BTF), and there is none here.",
        "Install the kernel's debug package (kernel-debuginfo, linux-image-...-dbg), or use a kernel with BTF"
        " (/sys/kernel/btf/vmlinux) and a tool that reads it.",
    ),
    (
        "name-missing",
        f"{_OBJECT}: Skeleton of another object",
        r"failed to (?:find skeleton|populate skeleton|find sub-?skeleton) (?P<name>(?:map|program|maps|progs|var\w*)\b.*)",
        "The skeleton that the loader is compiled with names {name}, which libbpf does not find in the object inside of it: the"
        " bpftool that made it and the libbpf that is linked are of different times (.rodata.str* are maps for some), or it was"
        " made of another object.",
        "Make the skeleton anew (bpftool gen skeleton OBJECT) by a bpftool of the same time as libbpf, and compile the loader.",
    ),
    (
        "log-buffer",
        "Loader: Log buffer too small",
        r"Log buffer too small to dump verifier log (?P<size>\d+) bytes",
        "The kernel refused the program, and the verifier's log is longer than the {size} bytes that tc gives it, so that its"
        " reason is not here. A log of that length is one of very many instructions: mostly the program is too complex to follow"
        " (131,072 instructions before Linux 5.2, 1,000,000 since).",
        "Load it by something that keeps the end of a log (retsnoop-py load, bpftool -d prog load, a tc with libbpf).",
    ),
    (
        "relocation",
        f"{_OBJECT}: Reference that cannot be resolved",
        r"unsatisfied (?P<name>map|program) reference",
        "An instruction of the program refers to a {name} that was not loaded with it: it is not in the collection, or the"
        " program was loaded alone.",
        "Load the whole collection, with its maps; leave out none that a program uses (also of global data: .rodata, .bss).",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"neither \S+ nor /proc/config\.gz provide|(?:open|read|pars|find)\w* (?:system |kernel )?[Kk]config\b(?!ur)",
        "The object has variables that are taken from the kernel's configuration (extern ... __kconfig), and the loader finds"
        " no file with it.",
        "Give it /boot/config-$(uname -r) (in a container: mounted from the host), or a kernel with CONFIG_IKCONFIG_PROC, which"
        " has /proc/config.gz; LINUX_KERNEL_VERSION alone takes neither.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"only (?:supports? running|runs?|works?) as (?:the )?root\b|\bsuper-?user privileges",
        "The tool runs as root alone, and looks at that before it asks the kernel for anything.",
        "Run it as root (sudo); in a container that takes --privileged, or CAP_SYS_ADMIN and the host's name spaces.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"/\w*proc/(?:\d+|self|PID)/(?:maps|mem|exe|root|environ|ns|fd|task)\S*: (?:permission denied|operation not permitted)",
        "The tool looks into another process (its mappings, its files), and may not: that takes CAP_SYS_PTRACE in the user name"
        " space of that process, and Yama, AppArmor or SELinux may object.",
        "Run as root of the host, in a container with --pid=host and CAP_SYS_PTRACE, and a profile that allows ptrace.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"token insufficiently privileged",
        "The BPF token that was given does not allow this command, type of map or program, or type of attachment: it is made"
        " of a BPF file system that was mounted without it.",
        "Mount that with delegate_cmds, delegate_maps, delegate_progs and delegate_attachs that have what is loaded.",
    ),
    (
        "core-relocation",
        f"{_SUPPORT}: CO-RE relocation without a match",
        r"instruction poisoned by CO-RE(?P<name>.*)|(?P<name2>(?:multiple (?:matching|candidate) (?:target )?types|(?:ambiguous|impossible) relocation|no signedness|multiple candidate target types).*)",
        "The program uses a type or member that this kernel does not have, has more than once, or has in another form{why}.",
        "Guard it with bpf_core_field_exists() or bpf_core_type_exists(); of a type that modules have too, name the one that is"
        " meant by its members.",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target, which does not take the program",
        r"invalid program type (?P<name>\w+), expected (?P<expected>[\w ,]+)|can't attach (?P<name2>[A-Z]\w+) to (?P<expected2>network namespace)|(?P<expected3>\w+) program required, got (?P<name3>\w+)",
        "The loader attaches programs of type {expected} by this call, and gives it one of type {name}: the section's name is of"
        " another type than the call, or another program was taken.",
        "Name the section for what the program is attached to, and look which program of the collection is passed.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"given file is not an executable or a shared object|offset \d+ is out of range of symbol (?P<name>\S+)",
        "A uprobe goes into a program or shared library (ELF of type EXEC or DYN), at an offset inside of a symbol; this file or"
        " offset is none.",
        "file PATH says what it is: a script or a wrapper starts another program, which is to be named.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"(?P<why>(?:Key|Value|key_?|value_?)[Ss]ize must be .*|unrecognized field \S+ in BTF map.*|both (?:key|value) and (?:key|value)_size given.*|inner maps can(?:'t|not) be pinned.*|outer map needs to be.*|(?:incorrect|conflicting) (?:key|value)_size .*)",
        "The loader does not take the definition of a map{why}.",
        'Define it as libbpf does, a struct in SEC(".maps"), with the sizes that its type asks for; a map type of a later libbpf'
        " takes a later release of the loader.",
    ),
    (
        "struct-ops-member",
        f"{_SUPPORT}: Table of functions",
        r"(?P<why>(?:struct_ops: |unmatched member type |member \S+ is not a func pointer|size mismatch for \S+: user=).*)",
        "A table of functions (struct_ops) of the object is not like the kernel's{why}.",
        "Compare with bpftool btf dump file /sys/kernel/btf/vmlinux format c; set members to 0 that this kernel lacks, or require"
        " a later one.",
    ),
    (
        "elf",
        f"{_OBJECT}: Object in a form that the loader does not know",
        r"(?P<why>(?:neither a call nor a load instruction|no (?:jump target found|symbol) at offset|(?:incorrect|unknown) relocation type|invalid symbol type|symbol \S+: (?:offset or size|size goes)"
        r"|section \S+: (?:no symbols|contains \d+ symbols|relocations are|unexpected)|data section \S+: |relocations are less than).*)",
        "The loader does not understand how the object is built{why}. It is compiled by a newer or an older clang than it knows,"
        " is stripped of its symbols, or was linked or made by something else than clang's target bpf.",
        "Compile with clang -target bpf -O2 -g and strip with llvm-strip -g alone; take a later release of the loader.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF that the loader cannot use",
        r"type id \d+: unknown kind|(?P<why>unknown kind: .*|(?:no valid BTF header|not enough bytes to unmarshal btf|BTF header length|(?:string table|types section) is out of bounds|incorrect magic value|header contains non-zero trailer).*)",
        "The loader does not understand BTF that it reads, the object's or the kernel's{why}: it is of a later clang, pahole or"
        " kernel than the loader (enum64 came with 5.19 and 6.0, decl_tag with 5.16), or the file is damaged.",
        "Take a later release of the loader; bpftool btf dump file FILE says whether the BTF is whole.",
    ),
    (
        "map-entry",
        "Loader: Map entry, which cannot be read or written",
        r"invalid (?P<what>key|value|buffer) size `?(?P<name>\d+)`?, expected (?P<expected>[\w -]*\d+)|can't (?:un)?marshal (?P<what2>key|value)",
        "The loader's type for the {what} of the map has another size than the map: {name}, where {expected} is expected.",
        "Share the struct with the program, with the same padding (repr(C), packed); values of maps per CPU are one for each"
        " possible CPU.",
    ),
    (
        "loader-words",
        "Loader: Calls in an order that its library does not take",
        r"the program (?:is (?P<why>already loaded|not loaded|not attached)|was (?P<why2>already attached))$|(?P<why3>load|prepare loading) can't be attempted twice|(?P<why4>object not yet loaded|unexpected program type|invalid map type \S+)",
        "The loader uses its library otherwise than that takes{why}: it loads or attaches twice, or attaches before the load;"
        " or what it takes for a program or map of one type is of another.",
        "Load each program once, then attach it; the type in the loader is that of the section's name or macro.",
    ),
)
