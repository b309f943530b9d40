# SPDX-License-Identifier: BSD-2-Clause
"""Explain an errno without other information; find the cause of EPERM on this machine.

Loaders write an errno as a number, as strerror(3) text or in their own words. The kernel returns
the same errno for many reasons, so the texts here give the likely reason and how to find out more.
"""

from __future__ import annotations

import re
import resource
from functools import lru_cache
from pathlib import Path

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.load.errno_words import ERRNO_WORDS
from retsnoop_py.load.model import Explanation, about_line

__all__ = [
    "EPERM_STEP",
    "EPERM_TEXT",
    "ERRNO_TEXTS",
    "RIGHTS_TITLE",
    "errno_in",
    "errno_name",
    "explain_errno",
    "explain_size",
    "is_errno",
    "says_errno",
    "why_denied",
]

#: Texts for an errno: strerror(3) and the loaders' own words.
_STRERROR = {
    **ERRNO_WORDS,
    "unknown error 524": "ENOTSUPP",
    "no such file": "ENOENT",
    "file does not exist": "ENOENT",
    "file already exists": "EEXIST",
    "nonexistent directory": "ENOENT",
    "invalid system call number": "ENOSYS",
}
#: The longest text in a line counts: "no such device or address" contains another text.
_BY_LENGTH = sorted(_STRERROR, key=len, reverse=True)
_SAID = re.compile("|".join(rf"\b{re.escape(said)}\b" for said in _BY_LENGTH))
#: First numbers that a line calls an errno, then numbers that only look like one. A plain -1 from a
#: function is not an errno.
_CALLED = re.compile(
    r"(?:strerror_r\(-?|unknown error -?(?!1\b)|errno\W{0,3}|os error |-1[ :,]*[\[(](?:errno[ :=]*)?)-?(\d{1,3})\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<!ret)(?<!return)(?<!returned)(?<!fd)(?<!rc)(?<![Rr]etval)"
    r"(?:[:=]\s*-|(?<! )\(-|(?:fail\w*|code|err\w*|ret) \(-|err(?:or)?[=:]\s?-?|error |code:? ?-?|\(rc=-(?!1\b))(\d{1,3})\b(?!\.)(?! in \S+\[)"
)

#: libbpf's form since 1.6: ``-EINVAL``.
_NAME = re.compile(r"\b(E[A-Z0-9]{2,14})\b")
_NAMES = frozenset(ERRNO_NAMES.values())

#: enum libbpf_errno of libbpf's libbpf.h, from 4000 on. The kernel has no such errno.
_LIBBPF_ERRORS = dict(
    enumerate(
        [
            "LIBELF",
            "FORMAT",
            "KVERSION",
            "ENDIAN",
            "INTERNAL",
            "RELOC",
            "LOAD",
            "VERIFY",
            "PROG2BIG",
            "KVER",
            "PROGTYPE",
        ],
        4000,
    )
)


@lru_cache(maxsize=4096)
def errno_in(text: str) -> str:
    """Return the name of the errno that a line ends with, or an empty string.

    It may be written as ``-22``, ``Invalid argument`` or ``os error 22``.
    """
    if said := _SAID.findall(text.lower()):
        return _STRERROR[said[-1]]
    for name in _NAME.findall(text):
        if name in _NAMES:
            return str(name)
    found = _CALLED.search(text) or _NUMBER.search(text)
    return ERRNO_NAMES.get(int(found[1]), "") if found else ""


def is_errno(text: str) -> bool:
    """Return True if ``text`` is only the text of an errno."""
    return text.lower() in _STRERROR


@lru_cache(maxsize=4096)
def says_errno(text: str) -> bool:
    """Return True if ``text`` contains the text of an errno."""
    return _SAID.search(text.lower()) is not None


def errno_name(number: int) -> str:
    """Return the name of an errno, of the kernel or of libbpf."""
    if number in _LIBBPF_ERRORS:
        return f"LIBBPF_{_LIBBPF_ERRORS[number]}"
    return ERRNO_NAMES.get(number, str(number))


RIGHTS_TITLE = "Environment: Missing rights"
EPERM_TEXT = (
    "The kernel says EPERM, and some loaders EACCES, for several reasons: a capability is missing (CAP_BPF with CAP_PERFMON"
    " for tracing or CAP_NET_ADMIN for networking since 5.8, CAP_SYS_ADMIN before), in a container"
    " the seccomp profile keeps bpf(2) away (in a unit SystemCallFilter=), the kernel is locked down, an LSM objects, or - before"
    " 5.11 - RLIMIT_MEMLOCK is used up."
)
EPERM_STEP = (
    "Run as root with `ulimit -l unlimited`; in a container with --cap-add BPF,PERFMON,NET_ADMIN"
    " and a seccomp profile that allows bpf; see /sys/kernel/security/lockdown and dmesg."
)

ERRNO_TEXTS: dict[str, tuple[str, str, str, str]] = {
    "EPERM": ("rights", RIGHTS_TITLE, EPERM_TEXT, EPERM_STEP),
    "E2BIG": (
        "attributes-newer",
        "Kernel Support: Attributes of a later kernel",
        "E2BIG without a verifier log has two causes. The loader passes non-zero attributes that"
        " this kernel does not know (bpf_check_uarg_tail_zero). Or a program has more than"
        " 1,000,000 instructions (4,096 without CAP_BPF, and before Linux 5.2).",
        "Use a loader that probes the kernel's features, as libbpf does, or an older loader.",
    ),
    "ENOMEM": (
        "memory",
        "Limit: Memory",
        "There is not enough memory, or the cgroup's limit does not allow it.",
        "Make maps smaller, or raise the limit (memory.max).",
    ),
    "ENOSPC": (
        "log-buffer",
        "Loader: Log buffer too small",
        "The verifier's log did not fit into the loader's buffer, which before Linux 6.4 makes the"
        " load fail; the program itself may be right.",
        "Load with a larger buffer, or without a log.",
    ),
    "ENOTSUPP": (
        "unsupported",
        "Kernel Support: Not supported",
        "The kernel, its JIT or the driver does not support this (ENOTSUPP, 524). For a program"
        " that passed the verifier, the cause is the JIT, which is required if"
        " CONFIG_BPF_JIT_ALWAYS_ON is set, for kfuncs and for struct_ops. The JIT is off"
        " (net.core.bpf_jit_enable=0), or lacks a call or an instruction on this architecture, or"
        " the program is too long with hidden constants (net.core.bpf_jit_harden), or JIT memory"
        " ran out (net.core.bpf_jit_limit).",
        "Find the part: `retsnoop-py doctor` reports what this kernel supports. Try sysctl"
        " net.core.bpf_jit_enable=1, net.core.bpf_jit_harden=0, a larger net.core.bpf_jit_limit"
        " and a shorter program; if one helps, it is the JIT.",
    ),
    "EOPNOTSUPP": (
        "unsupported",
        "Kernel Support: Not supported",
        "The kernel's configuration or the driver does not support this (EOPNOTSUPP, 95). For"
        " struct_ops, the kernel knows the table but does not support a member that it sets.",
        "Find the part: `retsnoop-py doctor` reports what this kernel supports.",
    ),
    "ENOSYS": (
        "no-bpf",
        "Environment: No bpf(2)",
        "The kernel was built without CONFIG_BPF_SYSCALL, or seccomp hides the system call.",
        "Use a kernel with CONFIG_BPF_SYSCALL=y, or a container profile that allows bpf.",
    ),
    "EFAULT": (
        "fault",
        "Loader: Bad address",
        "The kernel could not read or write the loader's memory. A log that is longer than its"
        " buffer can cause this.",
        "Load with a larger log buffer.",
    ),
    "EBADF": (
        "descriptor",
        "Loader: Bad descriptor",
        "The program refers to a map that was not created, or is closed already.",
        "Read the messages about the maps.",
    ),
    "EINVAL": (
        "invalid",
        "Kernel Support: Refused without a word",
        "The kernel returned EINVAL and wrote no log. The kernel does not know an attribute,"
        " program type, attach type or flag, or does not allow the combination. If the loader"
        " requests no log at first (libbpf and cilium/ebpf), the verifier can be the cause too. A"
        " type is missing if the kernel is too old or was built without it (tracing needs"
        " CONFIG_BPF_EVENTS, cgroups CONFIG_CGROUP_BPF, LSM CONFIG_BPF_LSM). Before Linux 5.0 a"
        " kprobe program must name the exact version of the running kernel.",
        "Compare with `uname -r` and /boot/config-$(uname -r). To find the kernel function and"
        " line: retsnoop-py -e '*_sys_bpf' -a ':kernel/bpf/*.c' -- CMD",
    ),
    "ENOENT": (
        "errno",
        "Kernel: Refused without a word",
        "The loader got ENOENT. Either the object file does not exist, or the kernel did not find"
        " an object that the program names: a function or type in BTF, a program or a map.",
        "Check the path first: it may be relative, or of another mount namespace. Then read the"
        " loader's full log (-v, -d, %+v).",
    ),
    **dict.fromkeys(
        ("EAGAIN", "EINTR"),
        (
            "errno",
            "Kernel: Interrupted",
            "A signal came while the verifier was at work (Go's runtime sends many), and the kernel gave up the load.",
            "Try again; later releases of libbpf and cilium/ebpf do so by themselves, or keep signals away meanwhile.",
        ),
    ),
    "EACCES": (
        "refused",
        "Verifier: Refused, and the log is missing",
        "The verifier refused the program, and its reason is not in this log.",
        "Load with a log: log_level 1 and a buffer of some MiB; retsnoop-py load does.",
    ),
}


#: Lines of a loader that had a verifier log and cut or omitted it. The ">" ends a cut line of
#: systemctl status.
_BEGAN_A_LOG = re.compile(
    r"line\(s\) omitted|[Vv]erifier output: ?\S"
    r"|load program: (?:invalid argument|permission denied): [^>]{1,300}>$"
)
_HAD_A_LOG = re.compile(rf"{_BEGAN_A_LOG.pattern}|[Pp]rog section '[^']*' rejected")
_TOO_LARGE = (
    "too-large",
    "Verifier Limit: Program is too large to follow",
    "The verifier gave up while it followed the program: the explored paths, with all loop"
    " iterations, exceed 1,000,000 instructions (131,072 before Linux 5.2).",
    "Let loops do fewer rounds, or use bpf_loop() (5.17); unrolled conditions multiply the ways. The"
    " whole log ends with the numbers (%+v of cilium/ebpf, verb of tc).",
)
#: libbpf loads again with a log. Without a log, the verifier did not reject the program.
_OF_LIBBPF = re.compile(r"prog '[^']+': ")
_TOO_LARGE_OR_NEWER = (
    "too-large",
    "Verifier Limit: Program is too large",
    "E2BIG from a load, without a log. Usually the explored paths, with all loop iterations,"
    " exceed the verifier's limit of 1,000,000 instructions (131,072 before Linux 5.2). Other"
    " causes: the program itself is longer than the limit (1,000,000; 4,096 without CAP_BPF, and"
    " before 5.2), or the loader passes attributes that this kernel does not know.",
    "Load with a log, which ends with the numbers if it was the verifier (retsnoop-py load does); then let loops"
    " do fewer rounds, or use bpf_loop() (5.17).",
)


_CUT = (
    "log-cut",
    "Loader: The log is cut",
    "The verifier refused the program. The loader's excerpt of the log does not include the"
    " reason.",
    "Have the whole log printed (%+v of cilium/ebpf's VerifierError, verb of tc, a larger buffer), and look"
    " at its last lines.",
)


def explain_errno(errno: str, label: str, line: str = "") -> Explanation:
    """Explain a failure of ``label`` from its errno alone."""
    row = ERRNO_TEXTS.get(errno)
    if errno in ("EINVAL", "EACCES") and _BEGAN_A_LOG.search(line):
        row = _CUT
    if errno == "E2BIG" and _HAD_A_LOG.search(line):
        row = _TOO_LARGE
    elif errno == "E2BIG" and not _OF_LIBBPF.search(line):
        row = _TOO_LARGE_OR_NEWER
    if row is not None:
        id_, title, reason, suggestion = row
        return about_line(id_, title, reason, suggestion, line)
    return about_line(
        "errno",
        "Kernel: Refused without a word",
        f"The kernel returned {errno or 'an error'} for {label}, and there is no log.",
        "To find the kernel function and line: retsnoop-py -e '*_sys_bpf' -a ':kernel/bpf/*.c' --"
        " CMD",
        line,
    )


#: The verifier itself usually returns EACCES or EINVAL.
_CUT_OR_RIGHTS = (
    "rights",
    "Environment: Missing rights",
    "The verifier's log is here and has no complaint, and the load ends in EPERM: what refuses it is a lockdown, an"
    " LSM, a limit (RLIMIT_MEMLOCK before 5.11, net.core.bpf_jit_limit) or a right that is missing. A loader may"
    " also say EPERM (-1) of whatever failed, and leave the verifier's reason out.",
    "See dmesg, /sys/kernel/security/lockdown and `ulimit -l`; load with a larger log buffer to see whether the"
    " log has a reason after all (retsnoop-py load does).",
)


def explain_cut(line: str, errno: str = "") -> Explanation:
    """Explain a load with a log that lacks the reason."""
    id_, title, reason, suggestion = _CUT_OR_RIGHTS if errno == "EPERM" else _CUT
    return about_line(id_, title, reason, suggestion, line)


_MOST_INSTRUCTIONS = 1_000_000


def explain_size(name: str, count: int) -> Explanation:
    """Explain E2BIG for a program of ``count`` instructions, which the kernel does not read."""
    if count > _MOST_INSTRUCTIONS:
        most = f"{_MOST_INSTRUCTIONS:,} (4,096 without CAP_BPF, and for all before Linux 5.2)"
    else:
        most = "4,096 of who lacks CAP_BPF (CAP_SYS_ADMIN before 5.8), and of all before Linux 5.2"
    return about_line(
        "program-size",
        "Verifier Limit: Program has too many instructions",
        f"Program '{name}' has {count:,} instructions with the functions it calls. The kernel takes"
        f" {most}, and reads no further.",
        "Turn unrolled code into loops (bpf_loop(), or no #pragma unroll), inlined code into"
        " functions (__noinline), and parts into programs joined by tail calls.",
    )


#: Bits of include/uapi/linux/capability.h. CAP_PERFMON and CAP_BPF were added in 5.8.
_CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def _effective() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    except OSError:
        pass
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def why_denied(release: tuple[int, int]) -> Explanation:
    """Return the explanation of an EPERM for this process, on Linux ``release``."""
    held = _effective()
    if not held >> _CAPABILITIES["CAP_SYS_ADMIN"] & 1:
        needed = ("CAP_BPF", "CAP_PERFMON") if release >= (5, 8) else ("CAP_SYS_ADMIN",)
        missing = [name for name in needed if not held >> _CAPABILITIES[name] & 1]
        if missing:
            switch = _read("/proc/sys/kernel/unprivileged_bpf_disabled")
            more = f" (kernel.unprivileged_bpf_disabled is {switch})" if switch else ""
            return Explanation(
                "rights-capability",
                RIGHTS_TITLE,
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{more}.",
                "Run as root, or with CAP_BPF, with CAP_PERFMON for tracing programs and"
                " CAP_NET_ADMIN for networking ones.",
            )
    lockdown = _read("/sys/kernel/security/lockdown")
    if "[confidentiality]" in lockdown:
        return Explanation(
            "rights-lockdown",
            RIGHTS_TITLE,
            "The kernel is locked down for confidentiality, which keeps BPF from reading memory.",
            "Boot without lockdown=confidentiality; Secure Boot may set it.",
        )
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if release < (5, 11) and limit != resource.RLIM_INFINITY:
        return Explanation(
            "rights-memlock",
            RIGHTS_TITLE,
            f"RLIMIT_MEMLOCK allows {limit:,} bytes, and before Linux 5.11 maps and programs count"
            " against it, with all others of this user.",
            "Raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in a unit; root may.",
        )
    lsm = _read("/sys/kernel/security/lsm")
    return Explanation(
        "rights",
        RIGHTS_TITLE,
        "Capabilities, lockdown and RLIMIT_MEMLOCK allow it: a security module"
        f" ({lsm or 'unknown which'}) or seccomp objects.",
        "dmesg and the audit log may name it; in a container, allow bpf in the seccomp profile.",
    )
