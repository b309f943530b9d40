# SPDX-License-Identifier: BSD-2-Clause
"""Messages of loaders that reject an object themselves: cilium/ebpf, aya, iproute2's tc, libxdp.

They check objects, pinned maps and attached programs by their own rules, and use their own words.
"""

from __future__ import annotations

from retsnoop_py.load.model import LineRule

__all__ = ["OWN_RULES"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

#: Each rule is an id, a title, a pattern, a reason and a suggestion; both may use the pattern's
#: groups.
OWN_RULES: tuple[LineRule, ...] = (
    (
        "map-pinned",
        f"{_ENVIRONMENT}: Pinned map",
        r"^(?!.*replacement map)(?:.*?(?:Map specification differs from pinned|spec(?:ification)? and (?:pinned )?map (?:are |is )?(?:not compatible|incompatible|differ)|(?:is|are) (?:not compatible|incompatible) with (?:the )?(?:existing|pinned|spec))"
        r"|.*?(?P<name>(?:Type|KeySize|ValueSize|MaxEntries|Flags): \S+ changed to \S+)|.*?(?P<name2>(?:Type|Size key|Size value|Max elems|Flags):\s+\S+ \(obj\) != \S+ \(pin\)))",
        "A map is pinned at the path that this object's is to have, and it has another type, size or flag ({name}): an earlier"
        " release of the tool, or another tool, left it there.",
        "`bpftool map show pinned PATH` shows the pinned map. Remove the pin when no program uses"
        " it, or give the map the same definition.",
    ),
    (
        "program-size",
        "Verifier Limit: Program has too many instructions",
        r"Instructions:\s+(?P<count>\d+) \((?P<over>[1-9]\d*) over limit\)",
        "The program has {count} instructions, {over} more than the limit that tc assumes. The"
        " limit of 4,096 applied to all programs before Linux 5.2, and still applies without"
        " CAP_BPF. An old tc prints this on later kernels too, where the verifier limits the"
        " explored paths instead.",
        "Use Linux 5.2 or later, as root. Split the program by tail calls, or turn unrolled code"
        " into loops and functions.",
    ),
    (
        "map-definition",
        f"{_OBJECT}: Map definition",
        r"BPF map symbols are not multiple|incompatible struct bpf_elf_map|[Dd]ifferent struct bpf_elf_map|struct bpf_elf_map (?:not supported|too small)|[Tt]oo many BPF maps in ELF",
        "tc reads the object's section maps by its own struct bpf_elf_map, and what is there has another size: libbpf's"
        " struct bpf_map_def, or one of another release.",
        'Define maps as structs in SEC(".maps") and use a tc that is linked with libbpf (see `tc'
        " -V`), or use the struct bpf_elf_map of this tc.",
    ),
    (
        "unsupported",
        "Loader: A library is missing in the build",
        r"No ELF library support compiled in|No bpf syscall, kernel headers too old|compiled (?:without|against an old version of) (?:libbpf|libelf|libxdp|libbpf)"
        r"|(?:built|compiled) without (?P<name>\S+ support)",
        "The tool was built without a library or header that it needs to load objects{why}:"
        " libelf, libbpf, or headers with bpf(2).",
        "Install a package of the tool that was built with them (`tc -V` and `ip -V` name"
        " libbpf), or install the -dev packages and build it.",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"^(?!.*(?:load|attach)[^:]*: error loading BPF program: )(?:.*?)(?:fail\w*|error|unable|cannot)\b.*\boptions?\W{1,3}-D\w+",
        "bcc compiles the program on this machine, with the options in the line. That or a later"
        " step failed. The most frequent cause is that the headers of the running kernel are not"
        " installed (bcc reports it on standard error). Otherwise the kernel refused the program,"
        " or a target is missing.",
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
        "The interface already has XDP programs in another mode (native, generic, offload). An"
        " interface can use one mode only.",
        "Request the same mode (xdp-loader -m), or unload the present programs first (xdp-loader"
        " unload DEV --all).",
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
        "`xdp-loader status` and `bpftool net` list the attached programs with interface and mode.",
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
        r"(?:EHDR|ELF)\b.*/sys/kernel/btf/|/sys/kernel/btf/\S.*(?:-4001|not (?:a )?valid ELF|bad magic)",
        "The tool takes /sys/kernel/btf/vmlinux for an ELF file, and it is BTF alone: tools of before Linux 5.5 (libbpf 0.0.6)"
        " read BTF only out of a file such as vmlinux.",
        "Take a later bpftool or libbpf, as new as the kernel; or give it a vmlinux with debug information.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: BTF of the kernel, which the tool cannot read",
        r"(?:CO-RE|BTF|kernel spec|vmlinux)\b(?>.*?bad magic number '\[159 235 ).*in record at byte 0x0\b",
        "The tool expects an ELF file such as a vmlinux for the kernel's BTF, and found raw BTF"
        " (it starts with 0xeb9f, the bytes in the line). Either the release of cilium/ebpf is"
        " too old, or a BTF file is at a path for vmlinux files.",
        "Take a later release of the tool, or of cilium/ebpf in it; BTF is found by itself at /sys/kernel/btf/vmlinux, and an ELF"
        " file with it at /boot/vmlinux-$(uname -r) and in /lib/modules and /usr/lib/debug.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: BTF that was given to the loader",
        r"failed to parse (?:target|custom|kernel) BTF\W+(?:-5|-21|-13|-EIO|-EISDIR|-EACCES)\b",
        "The loader cannot read the file with the kernel's BTF. The given path is a directory, or"
        " a file without BTF, or reading it is not permitted.",
        "Check the path (a variable or option of the loader sets it); `bpftool btf dump file"
        " FILE` shows if it is BTF. Without the option the loader reads /sys/kernel/btf/vmlinux.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"(?:file )?(?P<name>/\S+) is not executable",
        "The loader attaches uprobes only to files with the execute permission, and {name} does"
        " not have it. Libraries often have mode 0644; cilium/ebpf checks this since 0.21.",
        "Take another release of the loader, or let the file be executed (chmod +x), which a library does not mind.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Debug information of the kernel is missing",
        r"[Cc]ould ?n[o']t find type die of (?P<name>\w+)|\bdebug_?info\w*\b[^:]{0,20} failed|no (?:kernel )?debug ?info(?:rmation)? (?:for|of|found)",
        "The tool needs the kernel's debug information (DWARF or BTF) to find struct members."
        " This machine has none.",
        "Install the kernel's debug package (kernel-debuginfo, linux-image-...-dbg), or use a kernel with BTF"
        " (/sys/kernel/btf/vmlinux) and a tool that reads it.",
    ),
    (
        "name-missing",
        f"{_OBJECT}: Skeleton of another object",
        r"failed to (?:find skeleton|populate skeleton|find sub-?skeleton) (?P<name>(?:map|program|maps|progs|var\w*)\b.*)",
        "The skeleton in the loader names {name}, and libbpf does not find it in the embedded"
        " object. Either bpftool and libbpf are of different versions (some of them treat"
        " .rodata.str* as maps), or the skeleton was generated from another object.",
        "Generate the skeleton again (bpftool gen skeleton OBJECT) with a bpftool that matches"
        " libbpf, and compile the loader.",
    ),
    (
        "log-buffer",
        "Loader: Log buffer too small",
        r"Log buffer too small to dump verifier log (?P<size>\d+) bytes",
        "The kernel refused the program. The verifier's log is longer than tc's buffer of {size}"
        " bytes, so the reason is not shown. Such a long log has very many instructions: the"
        " program is probably too complex (limit: 131,072 instructions before Linux 5.2,"
        " 1,000,000 since).",
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
        "Mount the BPF file system with delegate_cmds, delegate_maps, delegate_progs and"
        " delegate_attachs that include the object's types.",
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
        r"invalid program type (?P<name>\w+), expected (?P<expected>[\w ,]+)|can't attach (?P<name2>[A-Z]\w+) to (?P<expected2>network namespace)|\b(?P<expected3>\w+) program required, got (?P<name3>\w+)",
        "The loader attaches programs of type {expected} by this call, and gives it one of type {name}: the section's name is of"
        " another type than the call, or another program was taken.",
        "Name the section after the attach target, and check which program of the collection is"
        " passed.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"given file is not an executable or a shared object|offset \d+ is out of range of symbol (?P<name>\S+)",
        "A uprobe needs a program or shared library (ELF type EXEC or DYN) and an offset inside a"
        " symbol. This file or offset is not valid.",
        "`file PATH` shows the file's type. A script or wrapper starts another program: name that"
        " one.",
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
        "Use a later release of the loader. `bpftool btf dump file FILE` shows if the BTF is"
        " complete.",
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
        "The loader uses its library incorrectly{why}: it loads or attaches twice, attaches"
        " before the load, or treats a program or map of one type as another.",
        "Load each program once, then attach it. In the loader, use the type that the section's"
        " name or macro sets.",
    ),
    (
        "elf",
        f"{_OBJECT}: Object in a form that the loader does not know",
        r"error parsing (?:e?BPF )(?:object|program)(?!s?:)",
        "The loader (aya) cannot parse the object. The line does not say where: an unknown"
        " section name, a map definition, a relocation, or BTF of a later clang.",
        "Have it print the error with its causes (its Debug form, RUST_LOG=debug); llvm-objdump -h OBJECT lists the sections, which aya"
        " takes as it documents them for that release.",
    ),
    (
        "elf",
        f"{_OBJECT}: No program in it",
        r"(?:object file|object|ELF) (?:\S+ )?(?:doesn't|does not) contain any (?:e?bpf )?prog\w*|no (?:e?bpf )?programs? (?:found )?in (?:the )?(?:object|ELF)",
        "The tool finds no program in the object. No section has the name of a program type, or"
        " the file was not compiled for BPF.",
        "`llvm-objdump -h OBJECT` lists the sections. A function in .text becomes a program with"
        ' SEC("xdp") or the like in front of it. Compile with clang -target bpf -O2 -g -c.',
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
        "The loader pins objects, or looks for pinned ones, at a path where no BPF file system is"
        " mounted{why}. The directory is an empty one of sysfs, or the container's own.",
        "mount -t bpf bpf /sys/fs/bpf; a container takes the host's (-v /sys/fs/bpf:/sys/fs/bpf).",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"error: map not found: (?P<name>/\S+)",
        "The program uses a map that should be pinned at {name}. No such pin exists in this mount"
        " namespace, or opening it is not permitted. The program does not create this map.",
        "ls -l {name}; have the program that makes the map pin it first (bpftool map pin, bcc's BPF_TABLE_PUBLIC and pin()).",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"^(?P<name>(?>.*?\bxdp\b).*(?:[Nn]umerical result out of range|\bERANGE\b|os error 34\b|strerror_r\(34\)).*)",
        "The interface's driver does not take XDP at this MTU (ERANGE): a packet is to fit into one page with what XDP puts"
        " before it, about 3,500 bytes of veth and others; of a veth the other end's MTU counts.",
        "ip link set dev DEV mtu 1500 at both ends, a program for several buffers (section xdp.frags, 5.18), or generic mode"
        " (xdpgeneric, XDP_FLAGS_SKB_MODE).",
    ),
    (
        "unsupported",
        "Loader: A library is missing in the build",
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
        "`zgrep -E 'CGROUP_BPF|BPF_SYSCALL' /proc/config.gz /boot/config-$(uname -r)`: both must"
        " be y. cgroup v1 does not support such programs.",
    ),
    (
        "fault",
        "Loader: Bad address",
        r"\bbpf create ``: (?:Bad address|EFAULT)",
        "The kernel could not read memory that the container runtime passed. Either a 32-bit"
        " runtime on a 64-bit kernel passes pointers in another layout, or the log buffer is"
        " invalid.",
        "file $(command -v crun runc) against uname -m: take the runtime, and the whole user space, of 64 bits, or a later one.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"(?:couldn't|could not|cannot|failed to) find asset (?:open )?(?P<name>[^\s:]+)",
        "The tool contains its objects, and {name} is not among them. It chose a name for this"
        " kernel, BTF or library without enough information, or was built without that object.",
        "Read the lines above: they show which detection failed (a version, BTF, a container)."
        " Set it by option (-b of ecapture, --ssl_version), or use a release that contains the"
        " object.",
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
        "Use a later bpftool or libbpf. On a kernel before 5.2, compile with -O2, keep strings in"
        " arrays of the function (char text[] = ...) and settings in a map. `llvm-objdump -h"
        " OBJECT` shows the section.",
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
        "{name} is attached, but its link cannot be pinned. Before Linux 5.15 an attachment by a"
        " perf event is not a BPF link. On later kernels the path is not on a BPF file system,"
        " exists already, or is not writable.",
        "Load it without autoattach, with a loader that keeps running and holds the attachment."
        " `findmnt -t bpf` and `ls -l` show which of the other causes applies.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"\b(?P<name>bpftool|perf) not found for kernel (?P<why>\S+)",
        "/usr/sbin/{name} is Ubuntu's script, which starts the {name} made for the very kernel that runs{why}, and no package of"
        " that is installed; a kernel from elsewhere (WSL, a cloud's own) has none.",
        "Install linux-tools-$(uname -r), or run the tool of another release: ls"
        " /usr/lib/linux-tools/*/{name}. {name} of another kernel usually works.",
    ),
)
