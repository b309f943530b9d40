# SPDX-License-Identifier: BSD-2-Clause
"""bpftrace's messages about a script: its language, its types and probes, bpftrace's own limits.

bpftrace compiles a script before any system call, and reports errors with line and column.
"""

from __future__ import annotations

from retsnoop_py.load.model import LineRule

__all__ = ["LAST_SCRIPT_RULES", "SCRIPT_RULES"]

_COMPILE = "Loader: The program does not compile"
_SUPPORT = "Kernel Support"
#: The position in a script: ``stdin:1:2-3: ERROR: ``; the level is optional.
_AT = r"^(?:stdin|\S+\.bt|\S+):\d+(?::\d+-\d+|-\d+|:\d+): (?:ERROR: )?"

#: Each rule is an id, a title, a pattern, a reason and a suggestion; both may use the pattern's
#: groups.
SCRIPT_RULES: tuple[LineRule, ...] = (
    (
        "no-trampoline",
        f"{_SUPPORT}: BPF trampolines",
        r"(?:fentry|fexit|kfunc|kretfunc)\S* (?:probes? )?(?:is |are )?not available for your kernel",
        "bpftrace finds that this kernel has no programs of type fentry and fexit: they take BPF trampolines (Linux 5.5 on"
        " x86-64; 6.0 on arm64, and 6.4 for the kernel's functions) and the kernel's BTF, and a bpftrace that was built for both.",
        "`bpftrace --info` lists the supported features (btf, fentry). Without them, use a kprobe.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?<!\S)(?P<name>\S+)(?: function| helper| builtin)? (?:is )?not available for your kernel|[Mm]issing required kernel feature:? (?P<name2>\S+)",
        "The script takes {name} from the kernel, which does not have it: it is older, was built without, or hides it from"
        " this user.",
        "`bpftrace --info`, as root, lists the supported helpers, program types and iterators."
        " Look up the Linux release that added the feature of the script.",
    ),
    (
        "core-relocation",
        f"{_SUPPORT}: Type without such a member",
        r"(?P<type>(?:struct|union)(?:/union of type)? \W?[\w ]+\W?) (?:does not contain|has no) (?:a )?(?:field|member) named \W?(?P<name>\w+)",
        "The script reads member {name}, and {type} of this kernel has none that is called so: members are renamed and moved"
        " (task_struct.state is __state since 5.14), or a tracepoint has other fields here.",
        "bpftrace -lv 'struct NAME' and -lv tracepoint:GROUP:NAME show the members of this kernel.",
    ),
    (
        "kernel-btf",
        "Environment: Type that is not known",
        r"(?:[Uu]nknown struct(?:/union)?:?|[Cc]annot resolve unknown type|[Uu]nknown (?:type|typedef|enum):?|[Uu]nable to find (?:struct|type)) \W?(?P<name>(?:struct |union |enum )?\w+)",
        "The script names {name}, which bpftrace does not know: it takes types from the kernel's BTF, that of the modules that the"
        " probes name, and from headers that the script includes.",
        "`ls /sys/kernel/btf/vmlinux` shows if there is BTF. For a module's types, name the"
        " module in a probe, or #include its header (with the kernel's headers installed).",
    ),
    (
        "compile",
        _COMPILE,
        r"(?:[Uu]nknown|[Uu]ndefined or undeclared|[Uu]ndefined) (?:identifier|variable|function|macro|builtin|function call):? \W?(?P<name>[$@]?\w+)",
        "The script names {name}, which is not a variable, function or constant of this bpftrace."
        " C macros are not in the kernel's BTF; enumerators are.",
        "Include the header that defines it (#include <linux/...>, with the kernel's headers installed), write its number, or take"
        " a bpftrace that is as new as the script.",
    ),
    (
        "uprobe-target",
        "Environment: Attach target in a program's file",
        r"in the middle of (?:the|an) instruction|[Oo]ffset outside the function bounds|[Cc]ould not determine (?:instruction )?boundary",
        "bpftrace itself puts no probe there: the offset is not the start of an instruction of that function, or it cannot tell"
        " since the file has no symbols.",
        "`objdump -d FILE` shows the start of each instruction. --unsafe skips the check, and may"
        " crash the probed program.",
    ),
    (
        "loader-words",
        "Loader: A limit of its own",
        r"[Cc]an't attach to (?P<count>\d+) probes because it exceeds the current limit of (?P<most>\d+)",
        "The script names {count} probes, usually by patterns. bpftrace attaches at most {most}"
        " by default.",
        "Use a narrower pattern, or set BPFTRACE_MAX_PROBES. `bpftrace -l 'PATTERN'` lists the"
        " matches.",
    ),
    (
        "module-missing",
        "Environment: Kernel module that is not there",
        r"specified module (?P<name>\S+) in probe \S+ is not loaded",
        "Kernel module {name}, which the probe names, is not loaded.",
        "modprobe {name}; of a function that is built into the kernel the module is vmlinux.",
    ),
    (
        "usdt",
        "Environment: Attach target in a program's file",
        r"usdt probe must specify at least path or pid",
        "A static tracepoint (USDT) is in a program's file, and the script names neither file nor process.",
        "Write usdt:PATH:PROVIDER:NAME, or run it with -p PID.",
    ),
    (
        "compile",
        _COMPILE,
        r"Build hash mismatch",
        "The script was compiled ahead of time by another bpftrace than the one that runs it.",
        "Build it again (--aot) with the installed bpftrace.",
    ),
)
LAST_SCRIPT_RULES: tuple[LineRule, ...] = (
    (
        "compile",
        _COMPILE,
        rf"{_AT}(?P<why>(?:syntax|lexer|parser) error.*|.*(?:can (?:not|only) be used|builtin|\bexpects?\b|only supports?|should be attached|must (?:have|be)|should (?:have|be|not)|mismatch|redefin|invalid|unsupported|not supported|not allowed|too large|requires?|cannot|does not|needs).*)"
        r"|\bERROR: (?P<why2>(?:syntax|lexer|parser) error, .*)",
        "bpftrace rejects the script before it calls the kernel{why}.",
        "Read the line that it points at, in the documents of this release (bpftrace --version): words of the language change,"
        " and which builtins a probe has.",
    ),
)
