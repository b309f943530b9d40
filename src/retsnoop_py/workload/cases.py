# SPDX-License-Identifier: BSD-2-Clause
"""The cases: the system call, the expected errno and the deepest failing kernel function.

Kernels differ in inlining and in the order of checks, so a case has one or more
:class:`Outcome`. The errno selects the outcome. The stack must end in the first of its ``deepest``
functions that this kernel can trace. If two outcomes have the same errno, both are correct.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
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
    """Make the system call ``name``. Return its result or a negative errno."""
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    result = int(_libc.syscall(ctypes.c_long(number), *args))
    return result if result >= 0 else -ctypes.get_errno()


def bpf(command: BpfCmd, attr: bytes) -> int:
    """Make a BPF call with ``attr`` as the union's bytes.

    Return a descriptor, 0 or a negative errno.
    """
    buffer = ctypes.create_string_buffer(attr, len(attr))
    return syscall("bpf", ctypes.c_int(command), buffer, ctypes.c_uint(len(attr)))


def map_create(
    kind: int, key_size: int = 4, value_size: int = 4, max_entries: int = 1, flags: int = 0
) -> int:
    """Create a map (BPF_MAP_CREATE). Return a descriptor or a negative errno."""
    attr = struct.pack("=5I", kind, key_size, value_size, max_entries, flags & 0xFFFFFFFF)
    return bpf(BpfCmd.MAP_CREATE, attr)


def map_element(command: BpfCmd, fd: int, key: int, value: int) -> int:
    """Look up or update an element; ``key`` and ``value`` are addresses, 0 for NULL."""
    return bpf(command, struct.pack("=I4xQQQ", fd & 0xFFFFFFFF, key, value, 0))


def prog_load(instructions: bytes, *, count: int | None = None) -> int:
    """Load a socket filter (BPF_PROG_LOAD). Return a descriptor or a negative errno."""
    code = ctypes.create_string_buffer(instructions, max(len(instructions), 8))
    licence = ctypes.create_string_buffer(b"GPL")
    number = len(instructions) // 8 if count is None else count
    attr = struct.pack(
        "=IIQQIIQII", 1, number, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0
    )
    return bpf(BpfCmd.PROG_LOAD, attr)


_AT_FDCWD = -100
_UNKNOWN_FLAG = 1 << 30
_BAD_FD = 9999


# Importing dataclasses would take a third of the run time of a case.
class Outcome:
    """A possible outcome: a positive errno (0: success) and the deepest failing functions."""

    def __init__(self, errno: int, deepest: tuple[str, ...] = ()) -> None:
        self.errno = errno
        self.deepest = deepest


class Case:
    """A deterministic failure. ``run`` returns a negative errno, or 0 or more for success."""

    def __init__(
        self,
        name: str,
        what: str,
        run: Callable[[], int],
        outcomes: tuple[Outcome, ...],
        entry: str = "*_sys_bpf",
    ) -> None:
        self.name = name
        self.what = what
        self.run = run
        self.outcomes = outcomes
        self.entry = entry


def _closing(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return fd


def _on_hash(command: BpfCmd, key: bytes | None, value: bytes | None) -> int:
    fd = map_create(MapType.HASH)
    try:
        key_buffer = ctypes.create_string_buffer(key, len(key)) if key else None
        value_buffer = ctypes.create_string_buffer(value, len(value)) if value else None
        return map_element(
            command,
            fd,
            ctypes.addressof(key_buffer) if key_buffer else 0,
            ctypes.addressof(value_buffer) if value_buffer else 0,
        )
    finally:
        os.close(fd)


def _obj_get() -> int:
    path = ctypes.create_string_buffer(b"/sys/fs/bpf/retsnoop-py-missing")
    return bpf(BpfCmd.OBJ_GET, struct.pack("=QII", ctypes.addressof(path), 0, 0))


def _raw_tracepoint() -> int:
    name = ctypes.create_string_buffer(b"retsnoop_py_missing")
    attr = struct.pack("=QI4x", ctypes.addressof(name), _BAD_FD)
    return bpf(BpfCmd.RAW_TRACEPOINT_OPEN, attr)


def _info_by_fd() -> int:
    return bpf(BpfCmd.OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", _BAD_FD, 0, 0))


def _rejected_program() -> int:
    # exit without setting r0: the verifier rejects it with EACCES
    return _closing(prog_load(struct.pack("=BBhi", 0x95, 0, 0, 0)))


def _accepted_program() -> int:
    # r0 = 0; exit
    return _closing(prog_load(struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)))


def _open_missing() -> int:
    path = ctypes.c_char_p(b"/proc/retsnoop-py-missing")
    return syscall("openat", ctypes.c_int(_AT_FDCWD), path, ctypes.c_int(0), ctypes.c_int(0))


def _mount_unknown() -> int:
    names = [ctypes.c_char_p(text) for text in (b"none", b"/", b"retsnoop-py-missing")]
    return syscall("mount", *names, ctypes.c_ulong(0), None)


def _sleep() -> int:
    return syscall("nanosleep", struct.pack("=qq", 0, 200_000_000), None)


_BPF = ("__sys_bpf", "__x64_sys_bpf", "__arm64_sys_bpf")
_MAP_CREATE = ("map_create", *_BPF)
_ALLOC_CHECK = (Outcome(errno.EINVAL, ("array_map_alloc_check",)),)
_RINGBUF = (Outcome(errno.EINVAL, ("ringbuf_map_alloc", *_MAP_CREATE)),)

CASES = (
    Case(
        "bpf-map-bad-type",
        "create a map of type 0x7fffffff",
        lambda: map_create(0x7FFFFFFF),
        (Outcome(errno.EINVAL, _MAP_CREATE),),
    ),
    Case(
        "bpf-map-bad-flags",
        "create an array map with an unknown flag",
        lambda: map_create(MapType.ARRAY, flags=_UNKNOWN_FLAG),
        _ALLOC_CHECK,
    ),
    Case(
        "bpf-map-key-size-array",
        "create an array map with keys of 8 bytes",
        lambda: map_create(MapType.ARRAY, key_size=8),
        _ALLOC_CHECK,
    ),
    Case(
        "bpf-map-key-size-stack",
        "create a stack trace map with keys of 8 bytes",
        lambda: map_create(MapType.STACK_TRACE, key_size=8, value_size=8),
        (Outcome(errno.EINVAL, ("stack_map_alloc",)),),
    ),
    Case(
        "bpf-map-key-size-ringbuf",
        "create a ring buffer with keys",
        lambda: map_create(MapType.RINGBUF, key_size=1, value_size=0, max_entries=4096),
        _RINGBUF,
    ),
    Case(
        "bpf-map-key-size-hash",
        "create a hash map with keys of 0 bytes",
        lambda: map_create(MapType.HASH, key_size=0),
        (Outcome(errno.EINVAL, ("htab_map_alloc_check",)),),
    ),
    Case(
        "bpf-map-max-entries-array",
        "create an array map without entries",
        lambda: map_create(MapType.ARRAY, max_entries=0),
        _ALLOC_CHECK,
    ),
    Case(
        "bpf-map-max-entries-ringbuf",
        "create a ring buffer of 4095 bytes",
        lambda: map_create(MapType.RINGBUF, key_size=0, value_size=0, max_entries=4095),
        _RINGBUF,
    ),
    Case(
        "bpf-map-value-size-array",
        "create an array map with values of 2 GiB",
        lambda: map_create(MapType.ARRAY, value_size=0x80000000),
        (Outcome(errno.E2BIG, ("array_map_alloc_check",)),),
    ),
    Case(
        "bpf-map-value-size-percpu",
        "create a per-CPU array map with values of 1 MiB, more than the per-CPU allocator gives",
        lambda: map_create(MapType.PERCPU_ARRAY, value_size=1 << 20, max_entries=1024),
        (
            Outcome(errno.ENOMEM, ("pcpu_alloc", "__alloc_percpu_gfp", "bpf_map_alloc_percpu")),
            Outcome(errno.E2BIG, ("array_map_alloc_check",)),
        ),
    ),
    Case(
        "bpf-map-too-large",
        "create an array map of 64 GiB, for which vmalloc has NULL",
        lambda: map_create(MapType.ARRAY, value_size=32, max_entries=0x7FFFFFFF),
        (
            Outcome(errno.ENOMEM, ("__bpf_map_area_alloc", "bpf_map_area_alloc")),
            Outcome(errno.E2BIG, ("array_map_alloc",)),
        ),
    ),
    Case(
        "bpf-map-lookup-null-key",
        "look up a hash map with a NULL key",
        lambda: _on_hash(BpfCmd.MAP_LOOKUP_ELEM, None, bytes(4)),
        (Outcome(errno.EFAULT, ("vmemdup_user",)), Outcome(errno.EFAULT, ("memdup_user",))),
    ),
    Case(
        "bpf-map-lookup-missing",
        "look up a key that a hash map does not have",
        lambda: _on_hash(BpfCmd.MAP_LOOKUP_ELEM, bytes(4), bytes(4)),
        (Outcome(errno.ENOENT, ("bpf_map_copy_value", "map_lookup_elem", *_BPF)),),
    ),
    Case(
        "bpf-map-update-null-value",
        "update a hash map with a NULL value",
        lambda: _on_hash(BpfCmd.MAP_UPDATE_ELEM, bytes(4), None),
        (Outcome(errno.EFAULT, ("map_update_elem", *_BPF)),),
    ),
    Case(
        "bpf-map-bad-fd",
        "look up a map through a descriptor that is not open",
        lambda: map_element(BpfCmd.MAP_LOOKUP_ELEM, _BAD_FD, 0, 0),
        (Outcome(errno.EBADF, ("map_lookup_elem", *_BPF)),),
    ),
    Case(
        "bpf-info-bad-fd",
        "ask for information on a descriptor that is not open",
        _info_by_fd,
        (
            Outcome(errno.EBADFD, ("bpf_obj_get_info_by_fd", *_BPF)),
            Outcome(errno.EBADF, ("bpf_obj_get_info_by_fd", *_BPF)),
        ),
    ),
    Case(
        "bpf-prog-rejected",
        "load a program that the verifier rejects",
        _rejected_program,
        (Outcome(errno.EACCES, ("do_check_common", "bpf_check")),),
    ),
    Case(
        "bpf-prog-empty",
        "load a program of no instructions",
        lambda: _closing(prog_load(b"", count=0)),
        (Outcome(errno.E2BIG, ("bpf_prog_load", *_BPF)),),
    ),
    Case(
        "bpf-obj-missing",
        "open a pinned object that does not exist",
        _obj_get,
        (Outcome(errno.ENOENT, ("bpf_obj_do_get", "bpf_obj_get_user", *_BPF)),),
    ),
    Case(
        "bpf-raw-tracepoint-missing",
        "attach to a raw tracepoint through a bad program descriptor",
        _raw_tracepoint,
        (Outcome(errno.EBADF, ("bpf_raw_tracepoint_open", *_BPF)),),
    ),
    Case(
        "open-missing",
        "open a file that does not exist",
        _open_missing,
        (Outcome(errno.ENOENT, ("path_openat", "do_filp_open", "do_sys_openat2")),),
        entry="do_sys_openat2",
    ),
    Case(
        "mount-unknown",
        "mount a file system type that does not exist",
        _mount_unknown,
        (Outcome(errno.ENODEV, ("get_fs_type", "path_mount", "do_mount")),),
        entry="*_sys_mount",
    ),
    Case(
        "bpf-prog-accepted",
        "load a correct program: no failure, nothing to report",
        _accepted_program,
        (Outcome(0),),
    ),
    Case(
        "long-sleep",
        "sleep for 0.2 s: no failure, for -L and -S",
        _sleep,
        (Outcome(0, ("do_nanosleep", "hrtimer_nanosleep")),),
        entry="*_sys_nanosleep",
    ),
)
