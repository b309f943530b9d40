# SPDX-License-Identifier: BSD-2-Clause
"""EPERM, told apart: which of the kernel's reasons it is on this machine, for this user."""

from __future__ import annotations

import resource
from pathlib import Path

from retsnoop_py.load.model import Explanation

__all__ = ["why_denied"]

#: Bits of include/uapi/linux/capability.h. CAP_PERFMON and CAP_BPF came with 5.8.
_CAPABILITIES = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_TITLE = "Environment: Missing rights"


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
    """The explanation of an EPERM of this process, on Linux ``release``."""
    held = _effective()
    if not held >> _CAPABILITIES["CAP_SYS_ADMIN"] & 1:
        needed = ("CAP_BPF", "CAP_PERFMON") if release >= (5, 8) else ("CAP_SYS_ADMIN",)
        missing = [name for name in needed if not held >> _CAPABILITIES[name] & 1]
        if missing:
            switch = _read("/proc/sys/kernel/unprivileged_bpf_disabled")
            more = f" (kernel.unprivileged_bpf_disabled is {switch})" if switch else ""
            return Explanation(
                "rights-capability",
                _TITLE,
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{more}.",
                "Run as root, or with CAP_BPF, with CAP_PERFMON for tracing programs and"
                " CAP_NET_ADMIN for networking ones.",
            )
    lockdown = _read("/sys/kernel/security/lockdown")
    if "[confidentiality]" in lockdown:
        return Explanation(
            "rights-lockdown",
            _TITLE,
            "The kernel is locked down for confidentiality, which keeps BPF from reading memory.",
            "Boot without lockdown=confidentiality; Secure Boot may set it.",
        )
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if release < (5, 11) and limit != resource.RLIM_INFINITY:
        return Explanation(
            "rights-memlock",
            _TITLE,
            f"RLIMIT_MEMLOCK allows {limit:,} bytes, and before Linux 5.11 maps and programs count"
            " against it, with all others of this user.",
            "Raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in a unit; root may.",
        )
    lsm = _read("/sys/kernel/security/lsm")
    return Explanation(
        "rights",
        _TITLE,
        "Capabilities, lockdown and RLIMIT_MEMLOCK allow it: a security module"
        f" ({lsm or 'unknown which'}) or seccomp objects.",
        "dmesg and the audit log may name it; in a container, allow bpf in the seccomp profile.",
    )
