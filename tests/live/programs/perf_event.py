# SPDX-License-Identifier: BSD-2-Clause
"""A perf_event_open() that fails: a breakpoint that watches for nothing. Prints the errno."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

PERF_TYPE_BREAKPOINT = 5
SIZE = 112

number = 241 if platform.machine() == "aarch64" else 298
libc = ctypes.CDLL(None, use_errno=True)
attr = ctypes.create_string_buffer(struct.pack("=II", PERF_TYPE_BREAKPOINT, SIZE), SIZE)
args = (attr, ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_ulong(0))
if libc.syscall(ctypes.c_long(number), *args) < 0:
    print(errno.errorcode[ctypes.get_errno()])
