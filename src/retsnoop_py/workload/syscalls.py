# SPDX-License-Identifier: BSD-2-Clause
"""The few raw system calls the cases are made of."""

from __future__ import annotations

import ctypes
import platform
import struct
from enum import IntEnum

#: (x86-64, arm64), from the kernel's syscall tables.
_NUMBERS = {"bpf": (321, 280), "mount": (165, 40), "openat": (257, 56), "nanosleep": (35, 101)}

_libc = ctypes.CDLL(None, use_errno=True)


class BpfCmd(IntEnum):
    """``enum bpf_cmd`` of linux/bpf.h, the part used here."""

    MAP_CREATE = 0
    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    PROG_LOAD = 5
    OBJ_GET = 7
    OBJ_GET_INFO_BY_FD = 15
    RAW_TRACEPOINT_OPEN = 17


class MapType(IntEnum):
    """``enum bpf_map_type`` of linux/bpf.h, the part used here."""

    HASH = 1
    ARRAY = 2
    PERCPU_ARRAY = 6
    STACK_TRACE = 7
    RINGBUF = 27


def syscall(name: str, *args: object) -> int:
    """Make the system call ``name``; its result, or a negative errno."""
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    result = int(_libc.syscall(ctypes.c_long(number), *args))
    return result if result >= 0 else -ctypes.get_errno()


def bpf(command: BpfCmd, attr: bytes) -> int:
    """Make the call with ``attr`` as the union's bytes; a descriptor, 0 or a negative errno."""
    buffer = ctypes.create_string_buffer(attr, len(attr))
    return syscall("bpf", ctypes.c_int(command), buffer, ctypes.c_uint(len(attr)))


def map_create(
    kind: int, key_size: int = 4, value_size: int = 4, max_entries: int = 1, flags: int = 0
) -> int:
    """BPF_MAP_CREATE; a descriptor or a negative errno."""
    attr = struct.pack("=5I", kind, key_size, value_size, max_entries, flags & 0xFFFFFFFF)
    return bpf(BpfCmd.MAP_CREATE, attr)


def map_element(command: BpfCmd, fd: int, key: int, value: int) -> int:
    """A lookup or update; ``key`` and ``value`` are addresses, 0 for NULL."""
    return bpf(command, struct.pack("=I4xQQQ", fd & 0xFFFFFFFF, key, value, 0))


def prog_load(instructions: bytes, *, count: int | None = None) -> int:
    """BPF_PROG_LOAD of a socket filter; a descriptor or a negative errno."""
    code = ctypes.create_string_buffer(instructions, max(len(instructions), 8))
    licence = ctypes.create_string_buffer(b"GPL")
    number = len(instructions) // 8 if count is None else count
    attr = struct.pack(
        "=IIQQIIQII", 1, number, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0
    )
    return bpf(BpfCmd.PROG_LOAD, attr)
