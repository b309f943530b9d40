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
        r"^(?!.*(?:load|attach)\w*[^:]*: error loading BPF program: )(?:.*?)(?:fail\w*|error|unable|cannot)\b.*\boptions?\W{1,3}-D\w+",
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
        f"{_ENVIRONMENT}: BTF of the kernel, which the tool cannot read",
        r"(?:CO-RE|BTF|kernel spec|vmlinux)\b.*bad magic number '\[159 235 .*in record at byte 0x0\b",
        "The tool takes the file that it found for the kernel's BTF for an ELF file such as a vmlinux, and it is BTF alone, whose"
        " first bytes (0xeb9f) are those in the line: a release of cilium/ebpf that is too old for it, or a place where a"
        " vmlinux is looked for and somebody put BTF.",
        "Take a later release of the tool, or of cilium/ebpf in it; BTF is found by itself at /sys/kernel/btf/vmlinux, and an ELF"
        " file with it at /boot/vmlinux-$(uname -r) and in /lib/modules and /usr/lib/debug.",
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
    (
        "elf",
        f"{_OBJECT}: Object in a form that the loader does not know",
        r"error parsing (?:e?BPF )(?:object|program)(?!s?:)",
        "The loader (aya) does not understand the object, and the line does not say at what: a section's name that this release"
        " of it does not know, the definition of a map, a relocation, or BTF of a later clang.",
        "Have it print the error with its causes (its Debug form, RUST_LOG=debug); llvm-objdump -h OBJECT lists the sections, which aya"
        " takes as it documents them for that release.",
    ),
    (
        "elf",
        f"{_OBJECT}: No program in it",
        r"(?:object file|object|ELF) (?:\S+ )?(?:doesn't|does not) contain any (?:e?bpf )?prog\w*|no (?:e?bpf )?programs? (?:found )?in (?:the )?(?:object|ELF)",
        "The object holds no program that this tool knows: nothing stands in a section that is named for one, or the file was not"
        " compiled for BPF.",
        'llvm-objdump -h OBJECT lists the sections: a function in .text is none until SEC("xdp") or the like is written before'
        " it. Compile with clang -target bpf -O2 -g -c.",
    ),
    (
        "relocation",
        f"{_OBJECT}: A function that is declared only",
        r"failed to find BTF for extern '(?P<name>\w+)'",
        "The object refers to {name}, which it does not define, and its own BTF does not describe it either: a function of the"
        " C library or of a header that is for no BPF, or a name that is not declared, taken for one defined elsewhere.",
        "Use what BPF has for it (bpf_htons(), bpf_ntohl() of bpf_endian.h, __builtin_memcpy()), or define it static"
        " __always_inline; a symbol of the kernel is declared extern with __ksym, and compiled with -g.",
    ),
    (
        "core-relocation",
        f"{_SUPPORT}: CO-RE relocation",
        r"(?:prog '(?P<prog>[^']+)': )?relo #\d+: target candidate search failed for \[\d+\] (?P<kind>struct|union|enum) ?:",
        "The program reads a member by a {kind} that has no name: one that is declared inside of another type, or for a variable"
        " alone. libbpf looks types up in the kernel by their names, and cannot look for this one.",
        "Read the member through the type with a name around it (BPF_CORE_READ(attr, insn_cnt) of a pointer to that type), or"
        " declare the inner one without preserve_access_index.",
    ),
    (
        "kprobe-target",
        f"{_SUPPORT}: Attach target",
        r"resolve symbol:? (?P<name>[\w.]+)\W+Use BPFTRACE_VMLINUX",
        "bpftrace looks {name} up in an uncompressed vmlinux with symbols, to see that the probe's offset is the start of an"
        " instruction, and finds no such file, or no such symbol in it. The kernel was not asked yet.",
        "Install the kernel's debug symbols, or name the file (BPFTRACE_VMLINUX=/usr/lib/debug/boot/vmlinux-$(uname -r));"
        " without an offset none is needed.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"(?:invalid|not a(?: valid)?) (?:BPF file ?system|bpffs)(?: path)?(?P<why>:? ?/\S+)?|BPF root is not a BPF file ?system",
        "No BPF file system is mounted where the loader pins what it loads, or looks for what is pinned{why}. An empty"
        " directory of sysfs is there, or a container's own.",
        "mount -t bpf bpf /sys/fs/bpf; a container takes the host's (-v /sys/fs/bpf:/sys/fs/bpf).",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"error: map not found: (?P<name>/\S+)",
        "The program takes over a map that is pinned at {name}, and there is none: nothing is pinned there, not in this mount"
        " namespace, or it may not be opened. It is not made by that.",
        "ls -l {name}; have the program that makes the map pin it first (bpftool map pin, bcc's BPF_TABLE_PUBLIC and pin()).",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"(?P<name>.*\bxdp\b.*(?:[Nn]umerical result out of range|\bERANGE\b|os error 34\b|strerror_r\(34\)).*)",
        "The interface's driver does not take XDP at this MTU (ERANGE): a packet is to fit into one page with what XDP puts"
        " before it, about 3,500 bytes of veth and others; of a veth the other end's MTU counts.",
        "ip link set dev DEV mtu 1500 at both ends, a program for several buffers (section xdp.frags, 5.18), or generic mode"
        " (xdpgeneric, XDP_FLAGS_SKB_MODE).",
    ),
    (
        "unsupported",
        "Loader: Built without what it takes",
        r"^(?:Error: )?(?:OCI runtime error: )?(?:crun: )?eBPF not supported\b",
        "crun was built without BPF (its build found no headers that know it), which keeps a container's devices by a program"
        " of its cgroup where cgroups are of version 2. It has not asked the kernel.",
        "Install a crun that has it (crun --version lists features), take runc, or boot with cgroups of version 1.",
    ),
    (
        "no-cgroup-bpf",
        f"{_ENVIRONMENT}: Kernel without BPF programs for cgroups",
        r"\bbpf create ``: (?:Invalid argument|EINVAL)",
        "The kernel does not take the program that decides of a container's devices, of type cgroup_device: CONFIG_CGROUP_BPF is"
        " off, or it is older than 4.15.",
        "zgrep -E 'CGROUP_BPF|BPF_SYSCALL' /proc/config.gz /boot/config-$(uname -r): both are to be y. cgroups of version 1 take"
        " no such program.",
    ),
    (
        "fault",
        "Loader: Bad address",
        r"\bbpf create ``: (?:Bad address|EFAULT)",
        "The kernel could not read what the container's runtime points to: a runtime of 32 bits on a kernel of 64 passes"
        " pointers in another form, or its log buffer is no memory of its own.",
        "file $(command -v crun runc) against uname -m: take the runtime, and the whole user space, of 64 bits, or a later one.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"(?:couldn't|could not|cannot|failed to) find asset (?:open )?(?P<name>[^\s:]+)",
        "The tool carries its objects in itself, and {name} is none of them: it chose a name for this kernel, BTF or library"
        " that it found nothing out about, or was built without that one.",
        "See the lines above for what it did not detect (a version, BTF, a container) and name that by its options (-b of"
        " ecapture, --ssl_version), or take a release that has it.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"map '?(?P<name>[\w.]+)'?: unsupported map linkage (?P<why>\w+)",
        "Map {name} is declared static, or in an unnamed namespace: libbpf and bpftool (when they make skeletons"
        " or link) take maps that are global, by their names.",
        "Take static away from the map; of C++ or a build tool that hides symbols (-fvisibility=hidden) compile the object"
        " without it.",
    ),
    (
        "elf",
        f"{_OBJECT}: Object in a form that the loader does not know",
        r"(?:[Pp]rogram '(?P<name>[^']+)'|\b[Pp]rog\w* \S+)? ?contains non-map related relo data pointing to section (?P<section>\d+)",
        "This libbpf relocates references to maps alone, and the program has one to section {section}: a text or an array with"
        " a value, which the compiler keeps in .rodata (as it does of a variable in the function without -O2), a global"
        " variable, or a function that is called. Global data came with libbpf 0.0.3 and Linux 5.2.",
        "Take a later bpftool or libbpf; on a kernel before 5.2 compile with -O2, and keep texts in arrays of the function (char"
        " text[] = ...) and settings in a map. llvm-objdump -h OBJECT says which section it is.",
    ),
    (
        "elf",
        f"{_OBJECT}: Object in a form that the loader does not know",
        r"failed to find program symbol at offset \d+",
        "libbpf finds no symbol of a function where the section's program begins: an old clang or llc writes functions as symbols"
        " without a type, or the object's symbols were stripped.",
        "readelf -sW OBJECT shows FUNC for a program as it is wanted; compile with clang 10 or later, and strip with llvm-strip"
        " -g alone.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"failed to pin (?:program|link) '?(?P<name>(?:k|u)(?:ret)?(?:probe|syscall)\S*|usdt\S*|perf_event\S*|(?:tp|tracepoint)/\S+)",
        "{name} is attached and its link to be pinned: before Linux 5.15 an attachment by a perf event is no BPF link, and cannot"
        " be; else the path is on no BPF file system, exists already, or may not be written.",
        "Load it without autoattach, by a loader that stays and holds the attachment; findmnt -t bpf and ls -l say what of the"
        " others it is.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"\b(?P<name>bpftool|perf) not found for kernel (?P<why>\S+)",
        "/usr/sbin/{name} is Ubuntu's script, which starts the {name} made for the very kernel that runs{why}, and no package of"
        " that is installed; a kernel from elsewhere (WSL, a cloud's own) has none.",
        "Install linux-tools-$(uname -r), or start another release's: ls /usr/lib/linux-tools/*/{name}. {name} of another kernel"
        " mostly does.",
    ),
)
