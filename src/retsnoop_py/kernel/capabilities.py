# SPDX-License-Identifier: BSD-2-Clause
"""Names of capabilities (include/uapi/linux/capability.h), which are macros and so not in BTF."""

from __future__ import annotations

__all__ = ["CAPABILITIES", "capability_name"]

#: By number, without ``CAP_``.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)


def capability_name(number: int) -> str:
    """Return a name such as ``CAP_SYS_ADMIN``, or ``capability 99`` for an unknown number."""
    if 0 <= number < len(CAPABILITIES):
        return f"CAP_{CAPABILITIES[number]}"
    return f"capability {number}"
