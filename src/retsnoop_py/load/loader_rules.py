# SPDX-License-Identifier: BSD-2-Clause
"""What libbpf and other loaders say where no verifier comes to speak, and what it means.

Each rule looks at one line. Lines that only repeat that something failed are no rule's. What is said
of maps and an errno alone is in ``map_rules`` and ``errno_rules``.
"""

from __future__ import annotations

import re

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.load import since
from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT, errno_in
from retsnoop_py.load.map_rules import MapFacts, explain_map
from retsnoop_py.load.model import Explanation, about_line

__all__ = ["explain_line", "is_of_map"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

_RULES: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "section-unknown",
        f"{_OBJECT}: Section of no program type",
        r"prog '(?P<name>[^']+)': missing BPF prog type, check ELF section name '(?P<section>[^']*)'"
        r"|unrecognized ELF section name '?(?P<section2>[^'\s]+)|failed to guess program type from"
        r" ELF section '(?P<section3>[^']+)'|invalid program section `(?P<section4>[^`]+)`",
        "libbpf tells a program's type by its section, and knows none for '{section}'.{near}",
        "Name the section as libbpf does: https://docs.kernel.org/bpf/libbpf/program_types.html",
    ),
    (
        "kfunc-missing",
        f"{_SUPPORT}: Kernel function that is not there",
        r"extern \((?:func|kfunc)[^)]*\) '(?P<name>\w+)': (?:not found|func_proto)"
        r"|kfunc '(?P<name2>\w+)' is referenced but|call to (?:unknown )?kfunc (?P<name3>\w+)"
        r"|kfunc \"?(?P<name4>\w+)\"?: (?:not found|unknown kfunc)"
        r"|kernel function '(?P<name5>\w+)' (?:not found|has incompatible)",
        "This kernel has no {name}() for BPF programs to call, or one with other parameters{since}.",
        "Declare it __weak and ask bpf_ksym_exists() before the call, or require the kernel that"
        " has it.",
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
        r"|kernel is missing symbol: (?P<name8>\w+)|resolve required ksyms: (?P<name9>\w+)",
        "The object refers to {name}, which this kernel does not have.",
        "Declare it __weak and compare its address with NULL before it is used.",
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
        r"|target for (?:fentry|fexit|lsm|tracing) (?P<name4>\S+).*not found",
        "The program is to be attached to {name}, and this kernel's BTF has no such function.",
        "Look for what it is called here: retsnoop-py functions '*{name}*'. Functions are renamed"
        " and inlined; a kprobe may take one that BTF does not have.",
    ),
    (
        "uprobe-target",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"failed to (?:create|attach to) u(?:ret)?probe '(?P<name>[^']+)'(?:[^:]*: )?(?P<why>.*)"
        r"|failed to resolve full path for '(?P<name2>[^']+)'|add legacy uprobe event for (?P<name3>\S+):"
        r"|could not resolve uprobe target `(?P<name4>[^`]+)`|error resolving symbol"
        r"|elf: (?:failed to find|couldn't find|ambiguous match for) (?:symbol )?'(?P<name5>[^']+)'"
        r"|uprobe.*symbol '?(?P<name6>[^':\s]+)'?:? not found|[Oo]ffset not found for symbol",
        "A uprobe is to be put on {name}, which is not there as it is named{why}: the file is not at that"
        " path in this mount namespace, or has no such symbol.",
        "Name the file as it is here (/proc/PID/root/... of a container), and a symbol that nm or nm -D"
        " lists: a stripped file keeps its dynamic ones alone, inlined functions have none.",
    ),
    (
        "usdt",
        f"{_ENVIRONMENT}: Attach target in a program's file",
        r"usdt: (?P<why>(?:failed|no |invalid|un|attaching|kernel doesn't|too many|ELF|libbpf doesn't).*)",
        "A static tracepoint of a program (USDT) cannot be used{why}.",
        "readelf -n FILE lists those it has, in its section .note.stapsdt; a shared library takes the"
        " process (-p PID), a semaphore Linux 4.20.",
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
        r"prog '(?P<prog>[^']+)': failed to create (?:k|kret)(?:ret)?probe '(?P<name>[^+']+)[^']*' perf"
        r" event: (?P<why>.*)|cannot attach kprobe\b(?: to (?P<name2>\w+))?(?P<why2>.*)"
        r"|[Ff]ailed to attach BPF program \S+ to k(?:ret)?probe b?'?(?P<name6>\w+)"
        r"|[Ff]ailed to attach BPF to k(?:ret)?probe"
        r"|failed to add (?:legacy )?kprobe (?:event )?for '(?P<name3>[^+']+)|"
        r"(?:creating|opening) k(?:ret)?probe.*?(?P<name4>\w+).*(?:no such file|not found)"
        r"|symbol '?(?P<name5>\w+)'?(?:: not found| not found.*kprobe)|\btoken (?P<name8>[\w.]+): not found"
        r"|failed to find a unique match for '(?P<name7>[^']+)'(?P<why3>.*)"
        r"|(?:attach_k(?:ret)?probe|perf_event_open(?:` failed|\(\) failed))\b.*(?:NotFound|[Nn]o such file|os error 2\b)",
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
        r"Program\s+(?:\S+ )?too large \((?P<count>\d+) insns\), at most (?P<most>\d+) insns",
        "bcc says so of each E2BIG. The program itself has {count} instructions; one below the limit"
        " of {most} was refused since the ways through it, with all rounds of its loops, come to more"
        " than 1,000,000 (131,072 before Linux 5.2).",
        "Let loops do fewer rounds, or use bpf_loop() (5.17); unrolled conditions multiply the ways.",
    ),
    (
        "tracepoint-arguments",
        f"{_SUPPORT}: Attach target",
        r"failed to attach to raw tracepoint '(?P<name>[^']+)': Invalid argument",
        "The program reads more arguments than raw tracepoint {name} has on this kernel: EINVAL at"
        " attaching.",
        "Compare with the tracepoint's TP_PROTO; arguments come and go with kernels:"
        " bpf_core_type_exists() of a type that came with them tells which it is.",
    ),
    (
        "tracepoint-missing",
        f"{_SUPPORT}: Attach target",
        r"failed to (?:determine|open|create|attach to raw) tracepoint '(?P<name>[^']+)'"
        r"|(?:reading|read)?.*tracepoint (?:id|ID).*?(?P<name2>\w+[:/]\w+).*(?:no such|not found)"
        r"|prog '(?P<prog>[^']+)': failed to (?:auto-)?attach.*(?P<name3>raw_tracepoint\S*)"
        r"|(?:trace event|tracepoint) (?P<name4>\S+?):? (?:file )?(?:not found|does not exist)"
        r"|tracing/events/(?P<name5>[\w/-]+)/id\b.*[Nn]o such file|perf_event_open_trace_point",
        "This kernel has no tracepoint {name}.",
        "List them: ls /sys/kernel/tracing/events. Tracepoints come and go with kernels and modules.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel module with BTF that cannot be read",
        r"load BTF for kmod (?P<name>[\w-]+): (?P<why>.*)",
        "The BTF of kernel module {name} cannot be read{why}. The loader reads that of all modules for"
        " CO-RE, whether the program is about them or not.",
        "Look at the size of /sys/kernel/btf/{name}: the module was built without its BTF. Unload it,"
        " or use a loader that goes on without (a later cilium/ebpf).",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        r"failed to find valid kernel BTF|Error loading vmlinux BTF|no (?:vmlinux|kernel) BTF"
        r"|(?:load(?:ing)?|find) (?:kernel|vmlinux) (?:spec|BTF|types?).*(?:not (?:found|supported)|no such)"
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
        r"|CO-RE relocat\w+.*?(?:no matching targets|not found|failed)(?P<name2>.*)"
        r"|(?:apply|fixup) CO-RE relocations:? (?P<name3>.*)|relo(?:cation)? .*: (?P<name4>no match.*)"
        r"|relo #\d+: .*(?:accesses field incorrectly|invalid new mem size|value too big|ambiguity).*"
        r"|failed to perform CO-RE relocations",
        "The program uses {name}, which this kernel does not have as the program knows it.",
        "Guard it with bpf_core_field_exists(), bpf_core_type_exists() or"
        " bpf_core_enum_value_exists(); retsnoop-py load names what the kernel has instead.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF is missing",
        r"BTF is required, but is missing or corrupted|BTF-defined maps? .*without BTF"
        r"|no BTF parsed for object|missing (?:or invalid )?BTF (?:section|data)",
        "The object has no BTF of its own (.BTF), which maps in .maps, externs and CO-RE take.",
        "Compile with -g, and strip with llvm-strip -g, which leaves BTF where it is.",
    ),
    (
        "btf-refused",
        f"{_OBJECT}: BTF that the kernel refuses",
        r"BTF loading error: (?P<err>-?\d+)|Error loading \.BTF into kernel: (?P<err2>-?\d+)"
        r"|load(?:ing)? BTF:? (?P<why>.*)|BTF (?:is|data) .*(?:invalid|malformed|corrupt)(?P<why2>.*)"
        r"|BPF_BTF_LOAD syscall (?:returned|failed)(?P<why3>.*)"
        r"|BTF debug data section '[^']*' rejected(?P<why4>.*)|BTF is mandatory, can't proceed",
        "The kernel refuses the object's own BTF{why}.",
        "Compile with a clang and a libbpf that know this kernel; without BTF, maps with spin locks,"
        " kptrs or timers, global functions and kfuncs do not work.",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"probe_loading\(\):\s?Invalid argument",
        "The kernel refuses even a trivial program (EINVAL): it has a part of BPF only, as RHEL 7 has,"
        " or it is older than the loader expects.",
        "Use a later kernel; a later libbpf tries programs of two types.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"bpf_object__probe_loading\(\): ?Operation not permitted"
        r"|[Oo]peration not permitted.*MEMLOCK|MEMLOCK may be too low"
        r"|(?:[Mm]aps?\b|_map|[Pp]rog(?:ram)?\b|bpf\(|BPF).*[Oo]peration not permitted"
        r"|permission error while running as root|unprivileged BPF is disabled|requires (?:CAP_|root)|must be (?:run )?(?:as )?root",
        EPERM_TEXT,
        EPERM_STEP,
    ),
    (
        "program-type-unsupported",
        f"{_SUPPORT}: Program type",
        r"(?P<name2>\w+) program type is not supported"
        r"|program type (?P<name>(?!is )\w+)(?: is)? not supported|prog(?:ram)? type.*(?:requires|>=) ?v?(?P<since>\d+\.\d+)",
        "This kernel has no programs of type {name}{since}.",
        "Require a kernel that has them.",
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
        r"prog '(?P<name>[^']+)': failed to attach: (?:Device or resource busy|-?EBUSY)",
        "The kernel cannot put the program's trampoline into the function it is for (fentry, fexit,"
        " fmod_ret): at its start is no hook of ftrace, or one that is somebody else's (a livepatch)."
        " The function's BTF says nothing of that.",
        "retsnoop-py functions NAME says whether it can be traced; trace its caller, or use a kprobe. A"
        " kernel without CONFIG_FUNCTION_TRACER has such hooks nowhere.",
    ),
    (
        "no-trampoline",
        f"{_SUPPORT}: BPF trampolines",
        r"prog '(?P<name>[^']+)': failed to attach: .*(?:-524|ENOTSUPP|error 524)",
        "This kernel has no BPF trampolines, which fentry, fexit, fmod_ret and lsm programs take: x86-64"
        " has them since Linux 5.5, arm64 since 6.0.",
        "Use a kprobe there, or require that kernel.",
    ),
    (
        "attach-busy",
        f"{_ENVIRONMENT}: Attach target is taken",
        r"(?:RTNETLINK|[Aa]ttach(?!: )|XDP|xdp|link_create|qdisc|clsact).*(?:[Rr]esource busy|[Ff]ile exists"
        r"|Exclusivity flag|already attached|EBUSY|EEXIST|os error 1[67]\b)|XDP program already attached"
        r"|Exclusivity flag on",
        "Another program is attached there already, or one in another mode of XDP.",
        "bpftool net and bpftool link list what is attached; detach it (ip link set dev DEV xdp off), say"
        " that it is to be replaced, or let several share the place (libxdp, tcx of Linux 6.6).",
    ),
    (
        "attach-unsupported",
        f"{_SUPPORT}: Attach target",
        r"(?:RTNETLINK|netdev|xdp|XDP).*(?:[Oo]peration not supported|EOPNOTSUPP|os error 95)"
        r"|(?:MTU|mtu) (?:is )?too (?:large|big).*(?:XDP|xdp)|(?:XDP|xdp).*(?:MTU|mtu) (?:is )?too (?:large|big)",
        "The interface's driver takes no program like this: it has no native XDP, or not at this MTU,"
        " number of queues or with LRO, or none in several buffers.",
        "Attach in generic mode (xdpgeneric, XDP_FLAGS_SKB_MODE), lower the MTU, or declare the section"
        " xdp.frags (5.18).",
    ),
    (
        "attach-refused",
        f"{_SUPPORT}: Attach target",
        r"Kernel error message: (?P<name>.+)",
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
        "qdisc-missing",
        f"{_ENVIRONMENT}: No queueing discipline to attach to",
        r"[Pp]arent [Qq]disc doesn't exist|Failed to find (?:specified )?qdisc|Invalid qdisc name",
        "The interface has no queueing discipline that takes programs of tc.",
        "tc qdisc add dev DEV clsact; since Linux 6.6 tcx needs none.",
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
        r"struct_ops init_kern (?P<name>\w+)(?: func ptr \w+)?: (?P<why>.+)"
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
        f"{_OBJECT}: Reference that cannot be resolved",
        r"(?P<why>(?:ELF contains non-\{.*|invalid relo|bad (?:call|data|arena data|subprog addr) relo).*|unexpected relo for.*"
        r"|extern relo failed.*|data relo failed.*|map relo failed to find map.*|no \.text section found yet.*"
        r"|unsupported relocation target|possible erroneous static qualifier.*|unsupported binding.*"
        r"|extern function \S+ is unsupported.*|unrecognized extern section.*|missing subprog addr relo.*"
        r"|function \S+ not found while relocating.*|error relocating (?:function|section|`).*"
        r"|reference to \"[^\"]*\" in section [^:]*: not supported.*)",
        "The loader cannot resolve a reference in the object{why}.",
        "Look for a function that is declared and not defined here (a library's, memcpy() of a size that"
        " is not known), a static map, and a global that an old libbpf takes initialised only. Compile"
        " with -O2.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"is not on BPF FS|(?:failed to|can't) pin (?:at|map|program|the object)|requested pinning\. pinning failed"
        r"|pin map to \S+: |already pinned|cannot find pinned map|error reusing pinned map",
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
        r"Unable to find kernel headers|Module kheaders not found",
        "bcc compiles on this machine, and the headers of the kernel that runs are not here.",
        "Install that kernel's headers (Debian: linux-headers-$(uname -r)), or use the CO-RE build of"
        " the tool (libbpf-tools), which needs none.",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"compiled without CONFIG_BPF_SYSCALL",
        "The kernel was built without CONFIG_BPF_SYSCALL, or the loader was.",
        "Use a kernel with CONFIG_BPF_SYSCALL=y; an iproute2 without libbpf or libelf says the same.",
    ),
    (
        "elf",
        f"{_OBJECT}: Not a BPF object",
        r"(?:elf: )?(?:failed to open .* as ELF|'[^']*' is not a valid .*(?:ELF|object file))(?P<why>.*)"
        r"|elf: (?:failed to|unexpected|corrupt|invalid|endianness)(?P<why2>.*)"
        r"|[Ii]nvalid (?:ELF|argument).*elf(?P<why3>.*)|bad magic number|error parsing ELF"
        r"|elf: '[^']*' (?:is not a|has unknown)(?P<why4>.*)|elf: \S+ is not a valid eBPF object"
        r"|elf: couldn't find symbol table|loading non-native endianness is unsupported"
        r"|sec '[^']+': (?:corrupted program|program at offset)|unexpected machine type for BPF ELF",
        "The file is no BPF object that libbpf can read{why}.",
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
        r"(?:map '(?P<name>[^']+)': (?:unsupported|unexpected|invalid|found|can't determine|conflicting)"
        r"|failed to (?:init|parse) (?:bss|legacy|user|BTF)?\s?(?:map|maps)"
        r"|error parsing map `(?P<name2>[^`]+)`)(?P<why>.*)",
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
        r"|use pinned map (?P<name3>[^:]+): .*|.*map spec is incompatible with existing map",
        "A map is pinned at {name} that has another type or size than this object's.",
        "Remove the pin, or give the map the definition of the pinned one.",
    ),
)
_COMPILED = [(row, re.compile(row[2])) for row in _RULES]
_MAP = re.compile(
    r"map '(?P<name>[^']+)': failed to create(?: inner map)?: (?P<why>.*)"
    r"|map (?P<name3>[\w.-]+): map create(?: without BTF)?: (?P<why3>.*)"
    r"|could not open bpf map: (?P<name6>[\w.-]+), error: (?P<why6>.*)"
    r"|bpf_create_map_xattr: (?P<why7>.*)"
    r"|[Ff]ailed to create (?:BPF )?map `?'?(?P<name4>[\w.-]+)[`']?.*?(?P<why4>(?:code|with|error|:).*)"
    r"|creating map (?P<name5>\S+?):? (?P<why5>.*)"
)


class _Found(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?" if key == "name" else ""


def is_of_map(line: str) -> bool:
    """Whether it says that a map could not be created."""
    return _MAP.search(line) is not None


def explain_line(line: str) -> Explanation | None:
    """What a line of a loader says went wrong; None for one that says nothing of its own."""
    if found := _MAP.search(line):
        groups = {key.rstrip("0123456789"): text for key, text in found.groupdict().items() if text}
        kind, entries = _hinted(groups.get("why", ""))
        error = errno_in(groups.get("why", ""))
        it = MapFacts(groups.get("name", ""), kind, entries=entries)
        return explain_map(it, error, line=line)
    for (id_, title, _, reason, suggestion), pattern in _COMPILED:
        if found := pattern.search(line):
            facts = _Found(
                {
                    key.rstrip("0123456789"): text.strip()
                    for key, text in found.groupdict().items()
                    if text
                }
            )
            _extend(id_, facts)
            why, step = reason.format_map(facts), suggestion.format_map(facts)
            if "name" not in facts:
                why, step = why.replace(" ?", ""), step.replace("*?*", "*NAME*")
            return about_line(id_, title, why, step, line)
    return None


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


def _extend(id_: str, facts: dict[str, str]) -> None:
    name = facts.get("name", "")
    if id_ == "kfunc-missing" and (known := since.by_name("kfuncs", name)):
        facts["since"] = f"; it came with Linux {known.since}"
    if id_ == "core-relocation":
        found = re.search(r"\] (.*?)(?: \(|>|$)", name)
        facts["name"] = found[1] if found else name or "a type, member or enumerator"
    if facts.get("why"):
        facts["why"] = ": " + facts["why"].lstrip(": ")
    elif facts.get("err"):
        number = abs(int(facts["err"]))
        facts["why"] = f": {ERRNO_NAMES.get(number, number)}"
    if id_ == "section-unknown":
        facts["near"] = _near_section(facts.get("section", ""))
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
    near = get_close_matches(section, _SECTIONS, 1) or get_close_matches(head, _SECTIONS, 1)
    if not near:
        return ""
    full = near[0] + (slash + rest if "/" not in near[0] else "")
    return f" Did you mean '{full}'?"
