# SPDX-License-Identifier: BSD-2-Clause
"""Loaders' messages about object files: contents, references and sizes."""

from __future__ import annotations

from retsnoop_py.load.model import LineRule

__all__ = ["OBJECT_RULES"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"
_OBJECT = "Object File"

#: Each rule is an id, a title, a pattern, a reason and a suggestion; both may use the pattern's
#: groups.
OBJECT_RULES: tuple[LineRule, ...] = (
    (
        "library",
        "Loader: Library of another version",
        r"version \W?(?P<name>(?:GLIBC|GLIBCXX|LIBBPF|LIBXDP|ELFUTILS|LIBELF|ZLIB|CXXABI)_[\w.]+)\W? not found|undefined symbol: (?P<name2>\w+)|undefined reference to \W?(?P<name3>(?:libbpf|bpf|btf|xdp|xsk|libxdp|perf_buffer|ring_buffer|user_ring_buffer|elf|gelf)_\w+)",
        "The loader was built with another version of a library than the one that is here, which lacks {name}.",
        "Install that version of the library (libbpf, libxdp, libelf, libc), or build the loader"
        " on this system or statically. `ldd` shows the file that it finds.",
    ),
    (
        "library",
        "Loader: Library of another version",
        r"\b(?P<name>\w+) has non-zero extra bytes",
        "The loader was compiled with headers of a later libbpf than the one that it runs with, which does not know all fields of"
        " {name}.",
        "Install the libbpf that it was compiled for, or build it with its own (vendored, static)"
        " one. `ldd` shows the present one.",
    ),
    (
        "global-data",
        f"{_SUPPORT}: Global data",
        r"[Mm]ap \W?(?P<name>[\w.]+)\W? (?:mmap|initial value) pointer is NULL|(?:mmap|map into memory)(?>.*?\b(?P<name2>\.(?:rodata|bss|data))\b).*(?:fail|NULL|invalid)",
        "The program's variables (map '{name}') cannot be mapped into the loader's memory. This"
        " needs Linux 5.5 (BPF_F_MMAPABLE), and a completed load.",
        "Use a later kernel, or a release of the loader's library that writes them by bpf(2) where the kernel cannot map them;"
        " settings in a map of their own need neither.",
    ),
    (
        "library",
        "Loader: Library that is missing",
        r"\bld: (?:cannot find|unable to find library) -l(?P<name>[\w.+-]+)|Package '?(?P<name2>lib\w+)'?,? .*(?:not found|required by)|(?:could not|cannot|can't) find (?:the )?(?:library|package) \W?(?P<name3>lib(?:bpf|xdp|elf)\w*)",
        "The loader is built on this machine, and library {name} is not here to link with.",
        "Install the development package (Debian: libbpf-dev, libxdp-dev, libelf-dev, zlib1g-dev).",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"(?:[Nn]o available targets are compatible with triple|unknown target(?: triple)?|target|triple) \W{0,3}(?:name |triple )?\W{0,3}bpf(?:el|eb)?\b",
        "The compiler on this machine makes no code for BPF: its LLVM was built without that target.",
        "`llc --version` lists the targets. Install a clang with the bpf target (clang 10 or"
        " later for CO-RE).",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"(?<![\w/.-])(?P<name>[\w/.-]+\.h)\W{0,3}(?:: )?(?:file not found|[Nn]o such file)",
        "The program is compiled on this machine, and its header {name} is not there.",
        "asm/types.h is a library's of this architecture (gcc-multilib, -I/usr/include/$(uname -m)-linux-gnu), bpf/*.h libbpf's"
        " (libbpf-dev), vmlinux.h is made by bpftool btf dump file /sys/kernel/btf/vmlinux format c, linux/*.h come with the"
        " kernel's headers.",
    ),
    (
        "map-type-unsupported",
        f"{_SUPPORT}: Map type",
        r"error: unsupported map type: (?:maps/)?(?P<name>\w+)",
        "bcc cannot create a map of type '{name}': the kernel or bcc is too old (perf_output"
        " needs Linux 4.4, ringbuf needs 5.8 and bcc 0.16).",
        "Compare with uname -r and the version of bcc, which comes with the tools: take both from one release, and a later kernel.",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"error: (?:no member named \W|\W?struct \w+\W has no member named \W)(?P<name>rodata|bss|data|kconfig|maps|progs|links|struct_ops)\b",
        "The skeleton in the loader has no member {name}. Either its object has nothing of that"
        " kind (const volatile variables create .rodata, others .bss or .data), or an old bpftool"
        " generated it.",
        "Generate it again from the present object (bpftool gen skeleton OBJECT), and check that"
        " the program declares and uses the variable.",
    ),
    (
        "compile",
        "Loader: The program does not compile",
        r"LLVM ERROR: (?P<why2>.*)|(?:clang|llc|llvm\S*|cc1)?:? ?error: (?P<why>(?:unknown (?:target CPU|argument|attribute|builtin|type name)|unsupported (?:option|argument)|use of undeclared|no member named|incomplete (?:type|definition)|implicit declaration|redefinition of|invalid (?:application|operands)|error in backend|cannot select)\b.*)",
        "The program is compiled on this machine, and that fails{why}.",
        "If the compiler does not know an option or a CPU, use a later clang. If a name or a"
        " member is unknown, use the headers of the running kernel, or a source release that fits"
        " them.",
    ),
    (
        "section-unknown",
        f"{_OBJECT}: Section of no program type",
        r"prog '(?P<name>(?!xdp_dispatcher')[^']+)': missing BPF prog type, check ELF section name '(?P<section>[^']*)'"
        r"|unrecognized ELF section name '?(?P<section2>[^'\s]+)|failed to guess program type from"
        r" ELF section '(?P<section3>[^']+)'|invalid program section `(?P<section4>[^`]+)`"
        r"|program (?P<name2>[\w./-]+): program type is unspecified|program type is unspecified|of unspecified type|(?:unknown|unsupported) (?:ELF )?section (?:type|name)\b.*?(?:SEC\(\W?|: ?\W?)(?P<section5>[\w/.]+)",
        "The loader tells a program's type by its section, and knows none for {section}.{near}",
        "Name the section as libbpf does: https://docs.kernel.org/bpf/libbpf/program_types.html",
    ),
    (
        "descriptor",
        "Loader: Program that was not loaded",
        r"prog '(?P<name>[^']+)': can't attach (?:BPF program without FD|before loaded)",
        "Program '{name}' is to be attached and was not loaded: it is left out (autoload is off, or its section begins"
        " with ?), or its load failed.",
        "Load it (bpf_program__set_autoload()), or do not attach it. Attach only loaded programs.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"elf: failed to open (?P<name>\S+?): (?:No such file|-?ENOENT)"
        r"|[Cc]ouldn't find a BPF file with name (?P<name2>\S+)|error loading (?P<name3>\S+\.o)\b.*(?:[Nn]o such file|os error 2\b)"
        r"|open (?P<name4>\S+\.o): no such file|[Ee]rror opening (?:object )?file '?(?P<name5>[^'\s:]+)'?.*[Nn]o such file"
        r"|failed to open (?P<name7>\S+?\.o)\b.*(?:[Nn]o such file|ENOENT)"
        r"|exec: \W?(?P<name8>clang|llc|bpftool|tc|ip|mount|nsenter|modprobe)\W?: executable file not found|\b(?P<name9>clang|llc|bpftool|perf|tc|pahole|llvm-strip)(?: is|:)? (?:command )?not found"
        r"|(?:open|load)\w* (?:the )?(?:e?BPF )?(?:object|obj|module|collection|bytecode)\b(?: file)?(?:: [^:]*)?: no such file"
        r"|failed to open (?:BPF )?object (?:file )?'?(?P<name6>\S+\.o)'?: [Nn]o such file",
        "The file {name} does not exist.",
        "Look at where the loader searches: a relative path counts from the directory it was started in, and a"
        " container has files of its own.",
    ),
    (
        "name-missing",
        f"{_OBJECT}: No program or map of that name",
        r"[Cc]an't find (?:map|prog(?:ram)?) (?:w/|with) name:? (?P<name>\S+)|failed to find skeleton (?:map|program) '(?P<name2>[^']+)'"
        r"|(?:map|program) '(?P<name13>[^']+)' (?:doesn't|does not) exist|missing (?:map|program|variable) \W?(?P<name3>[\w.-]+)|no (?:map|program) named (?P<name4>\S+)"
        r"|(?:program|map|variable) (?:for|in|of) section '(?P<name15>[^']+)' (?:is )?(?:not found|missing)|[Cc]an(?:'t|not) find (?:map|prog(?:ram)?) '?(?P<name5>[\w.-]+)'?|(?<!for )(?:map|program) '(?P<name6>[^']+)' not found"
        r"|object file doesn't contain (?:prog|sec) (?P<name9>\S+)|Program section '(?P<name10>[^']+)' not found"
        r"|[Cc]ouldn't find (?:xdp program in bpf object|an eBPF program with)|no matching program|prog(?:ram)? (?:cannot be|is) nil|find (?:a |the )?(?:section|SEC)\W+(?P<name14>[\w/.-]+)|unknown section or eBPF function"
        r"|(?:couldn't|could not|failed to|unable to|can't) find (?:the )?(?:BPF |bpf |eBPF )?(?:map|program|prog|programSpec)\b(?! (?:symbol|on interface|with id|\(FD|headers?\b))(?: fd)?(?: (?:in|at|for func|named|for))? ?'?(?P<name11>[\w./-]+)"
        r"|[Uu]nknown program (?P<name7>\w+)|(?:map|program) (?P<name8>[\w-]+) not found in (?:object|collection|file)",
        "The loader looks for {name}, and the object has no program or map that is called so.",
        "`bpftool btf dump file OBJECT` and `llvm-objdump -h OBJECT` list the contents. A program"
        " has its function's name; older loaders use its section's name. Compile again if the"
        " sources have changed.",
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
        "The program's variables need more than the 512 bytes of stack.",
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
        "map-use",
        f"{_SUPPORT}: Map that this program cannot use",
        r"Tail call map (?P<why>owned by .*?)!?$",
        "A program array for tail calls accepts programs of one type only, the type of the first"
        " program that uses it{why}.",
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
        "`grep -w {name} /proc/kallsyms` shows if the kernel exports it. Declare it __weak and"
        " compare its address with NULL before the use.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"error while loading shared libraries: (?P<name>[^:\s]+)",
        "The loader itself does not start: the library {name} is not where the dynamic linker looks, or does"
        " not fit it.",
        "`ldd` on the loader lists missing libraries. Install the package with exactly that"
        " version, or set LD_LIBRARY_PATH.",
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
        "bcc prints this for each E2BIG. The program itself has {count} instructions. One below"
        " the limit of {most} is refused when its explored paths, with all loop iterations,"
        " exceed 1,000,000 instructions (131,072 before Linux 5.2).",
        "Let loops do fewer rounds, or use bpf_loop() (5.17); unrolled conditions multiply the ways.",
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
        "The program uses {name}, which this kernel does not have in this form.",
        "Guard it with bpf_core_field_exists(), bpf_core_type_exists() or"
        " bpf_core_enum_value_exists(). `retsnoop-py load` names the kernel's variant.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF is missing",
        r"BTF is required, but is missing or corrupted|load(?:ing)? BTF from (?:file )?\W?[^/]*\.o\b|load(?:ing)? BTF from file|BTF-defined maps? .*without BTF"
        r"|no BTF parsed for object|has no BTF information, so we can't|requires BTF information|missing (?:or invalid )?BTF (?:section|data)|\.BTF(?:\.ext)?\b (?:section |header )?(?:is )?(?:missing|not found|not present)|\bno \.BTF|(?:section )?header (?:is )?not found in \.BTF|^BTF(?:\.ext)? header not found",
        "The object has no BTF of its own (.BTF), which maps in .maps, externs and CO-RE take.",
        "Compile with -g, and strip with llvm-strip -g, which leaves BTF where it is.",
    ),
    (
        "object-btf",
        f"{_OBJECT}: BTF that the loader cannot use",
        r"Error finalizing \.BTF(?P<why>.*)|(?:No|Invalid) offset found in symbol table for VAR (?P<name>\S+)",
        "The object's BTF names a variable or section that this libbpf does not find among its"
        " symbols{why}. Later messages about the file have the same cause.",
        "Use a libbpf (a bpftool) at least as recent as the headers and the clang of the object,"
        " and compile again.",
    ),
    (
        "btf-refused",
        f"{_OBJECT}: BTF that the kernel refuses",
        r"Error loading BTF: (?P<why5>.*)|BTF loading error: (?P<err>-?\d+)|Error loading \.BTF into kernel: (?P<err2>-?\d+)"
        r"|load(?:ing)? BTF:? (?!from|of|for|spec|file|data)(?P<why>.*)|BTF (?:is|data) .*(?:invalid|malformed|corrupt)\w*(?P<why2>.*)"
        r"|BPF_BTF_LOAD syscall (?:returned|failed)(?P<why3>.*)"
        r"|BTF debug data section '[^']*' rejected(?P<why4>.*)|BTF is mandatory, can't proceed|BTF types? (?:data|\[\d+\]) is malformed"
        r"|btf: type \[\d+\]: (?P<why6>.*)|Error loading ELF section \.BTF\S*: (?P<why7>.*)|error parsing BTF(?P<why8>.*)",
        "The kernel refuses the object's own BTF{why}.",
        "Compile with a clang and a libbpf that know this kernel; without BTF, maps with spin locks,"
        " kptrs or timers, global functions and kfuncs do not work.",
    ),
    (
        "refused",
        "Verifier: Refused, and the log is missing",
        r"Kernel verifier blocks program loading|-4007\b",
        "The verifier refused the program, and its reason is not in this log: libbpf's error 4007"
        " means that.",
        "Have libbpf's warnings printed (-vv, libbpf_set_print()), which have the log; retsnoop-py load does.",
    ),
    (
        "struct-ops-member",
        f"{_SUPPORT}: Table of functions",
        r"struct_ops init_kern (?P<name>\w+)(?: func ptr \w+)?: (?P<why>.+)|struct_ops (?:init|reloc)(?: (?P<name3>\w+))?: (?P<why3>.+)"
        r"|(?<!\S)(?P<why2>\S+ doesn't exist in (?P<name2>\w+), but it has non-zero value)",
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
        "The program refers to section {name}, and the loader created no map for it. aya creates"
        " none for .rodata, .data and .bss if its probes find no support for global data: before"
        " Linux 5.2, or without the privileges for the probes.",
        "Run as root (CAP_BPF). RUST_LOG=debug prints the probes' results (bpf_global_data). With"
        " privileges, `llvm-readelf -S OBJECT` shows the section.",
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
        "elf",
        f"{_OBJECT}: Section missing",
        r"(?<!\S)(?P<name>\S+) doesn't provide kernel version",
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
        r"|BPF object format invalid|Something wrong in libelf|Endian mismatch|\b(?:big|little)[ -]endian\b.*\b(?:big|little)[ -]endian\b|(?<!\w)EM_BPF\b|(?:ELF|e_)? ?machine (?:type )?mismatch|invalid (?:license|kver) section|unexpected machine type for BPF ELF",
        "The file is not a BPF object that the loader can read{why}.",
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
        r"|map '(?P<name2>[^']+)': (?:failed to (?:auto-)?pin|couldn't retrieve pinned|error reusing pinned map)"
        r"|use pinned map (?P<name3>[^:]+): |map spec is incompatible with existing map"
        r"|map pinned at '?(?P<name4>[^\s']+)'? (?:has|is) .*(?:different|other|incompatible|mismatch|!=)|pinned map \W?(?P<name5>[\w./-]+)\W? .*(?:different|differs|incompatible|mismatch)",
        "A map is pinned at {name} that has another type or size than this object's.",
        "Remove the pin, or give the map the definition of the pinned one.",
    ),
)
