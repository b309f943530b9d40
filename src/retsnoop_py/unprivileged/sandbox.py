# SPDX-License-Identifier: BSD-2-Clause
"""Remove all privileges from the process that reads untrusted files.

After :func:`enter` the process has an unused user, no network, little memory, and only the system
calls that work on memory and on open files. An exploited libdw cannot create a socket or start a
process, and can open files only below /usr/lib/debug. It can only send an answer, which the parent
checks.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress

__all__ = ["enter"]

#: Bytes of memory, and of address space: the files are mapped there.
_MEMORY = 1 << 30
_ADDRESSES = 8 << 30
_NOBODY = 65534
#: User ids from here on are unused: they belong neither to users nor to containers.
_UNUSED = 0x70000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SIGKILL = 9
_SECCOMP_MODE_FILTER = 2
_RET_KILL_PROCESS, _RET_ERRNO, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_EPERM = 1

#: AUDIT_ARCH_* of linux/audit.h, and the allowed system calls with their numbers.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ALLOWED: dict[str, tuple[int, int | None]] = {
    # answers and requests
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "poll": (7, None),
    "ppoll": (271, 73),
    # open files
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "readv": (19, 65),
    "fcntl": (72, 25),
    # memory
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    # libbpf's placeholders of maps and programs, and the kernel's release
    "memfd_create": (319, 279),
    "uname": (63, 160),
    # the process itself
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "sched_yield": (24, 124),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
#: Also allowed if Landlock (Linux 5.13) can limit these calls to the debug files: libdw opens the
#: common file that dwz makes of several debug files, by its build id.
_OPEN: dict[str, tuple[int, int | None]] = {"open": (2, None), "openat": (257, 56)}
_DEBUG_FILES = "/usr/lib/debug"
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
#: All rights of Landlock's first version, and LANDLOCK_ACCESS_FS_READ_FILE.
_FILE_RIGHTS, _READ_FILE = 0x1FFF, 0x4

_LOAD, _EQUALS, _RETURN, _AND, _HAS = 0x20, 0x15, 0x06, 0x54, 0x45
_DENY, _ALLOW = (_RETURN, 0, 0, _RET_ERRNO | _EPERM), (_RETURN, 0, 0, _RET_ALLOW)
#: Offset of the flags of mmap(2), its fourth argument, in struct seccomp_data.
_FLAGS_OF_MMAP = 16 + 3 * 8
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWSDOWN = 0x01, 0x20, 0x100


def enter(memory: int | None = None, *, shares: bool = False) -> None:
    """Keep only the rights to read open files and to answer. All imports must be done before.

    ``memory``: the memory limit in bytes, 1 GiB by default. ``shares``: allow shared memory, which
    libbpf needs; it counts only as address space, which is then limited to twice ``memory``. A step
    that the kernel or a container does not allow is skipped; the others still apply.
    """
    libc = ctypes.CDLL(None)
    memory = memory or _MEMORY
    _limit(memory, 2 * memory if shares else _ADDRESSES)
    if os.geteuid() == 0:
        # If this fails, the system call filter still denies sockets.
        libc.unshare(_CLONE_NEWNET)
        _become_nobody()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    allowed = _ALLOWED | (_OPEN if _only_debug_files(libc) else {})
    code = _filter(os.uname().machine, allowed, shares=shares)
    if code:
        _load_filter(libc, code)


def _become_nobody() -> None:
    """Switch to a user that no other process has, else to nobody, else keep the user.

    Some containers have only one user. A traced command that runs as nobody could kill or stop a
    process of nobody.
    """
    for number in (_UNUSED + os.getpid(), _NOBODY):
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
            return


def _limit(memory: int, addresses: int) -> None:
    for limit, most in (
        (resource.RLIMIT_AS, addresses),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(limit)[1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(limit, (least, least))


def _only_debug_files(libc: ctypes.CDLL) -> bool:
    """Deny all files except the installed debug files; return False if that is not possible."""
    rights = struct.pack("=Q", _FILE_RIGHTS)
    rules = libc.syscall(_SYS_CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)
    if rules < 0:
        return False
    try:
        folder = os.open(_DEBUG_FILES, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    beneath = struct.pack("=Qi", _READ_FILE, folder)
    failed = libc.syscall(_SYS_ADD_RULE, rules, _RULE_PATH_BENEATH, beneath, 0)
    failed = failed or libc.syscall(_SYS_RESTRICT_SELF, rules, 0)
    os.close(folder)
    os.close(rules)
    return not failed


def _filter(
    machine: str, rows: Mapping[str, tuple[int, int | None]] = _ALLOWED, *, shares: bool = False
) -> bytes:
    """Return the filter as an array of struct sock_filter; empty for other machines.

    A denied system call returns EPERM, so a library that tries such a call goes on without it.
    Memory that RLIMIT_DATA does not count is denied: shared memory without a file, unless
    ``shares``, and stacks.
    """
    if machine not in _ARCHITECTURES:
        return b""
    audit, column = _ARCHITECTURES[machine]
    numbers = [row[column] for name, row in rows.items() if name != "mmap"]
    allowed = [number for number in numbers if number is not None]
    shared = _MAP_SHARED | _MAP_ANONYMOUS
    # struct seccomp_data: the number at offset 0, the architecture at 4
    steps: list[Sequence[int]] = [(_LOAD, 0, 0, 4), (_EQUALS, 1, 0, audit)]
    steps += [(_RETURN, 0, 0, _RET_KILL_PROCESS), (_LOAD, 0, 0, 0)]
    steps += [
        (_EQUALS, 0, 6, rows["mmap"][column] or 0),
        (_LOAD, 0, 0, _FLAGS_OF_MMAP),
        (_HAS, 2, 0, _MAP_GROWSDOWN),
        (_AND, 0, 0, shared),
        (_EQUALS, 1 if shares else 0, 1, shared),
        _DENY,
        _ALLOW,
    ]
    steps += [(_EQUALS, len(allowed) - index, 0, each) for index, each in enumerate(allowed)]
    steps += [_DENY, _ALLOW]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _load_filter(libc: ctypes.CDLL, code: bytes) -> None:
    """Load the filter ``code`` if the kernel has CONFIG_SECCOMP_FILTER."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0)
