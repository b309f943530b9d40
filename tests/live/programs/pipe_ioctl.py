# SPDX-License-Identifier: BSD-2-Clause
"""pipe_ioctl.py N: in a thread of that name, N ioctl() calls on a pipe that fail twice each.

The kernel asks do_vfs_ioctl() first, which does not know the command, and then the pipe, which
does not know it either: ENOTTY.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

PR_SET_NAME = 15

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NAME, b"pipe_ioctl")
read_end, _ = os.pipe()
for _ in range(int(sys.argv[1])):
    assert libc.ioctl(read_end, 0x1234, 0) == -1
    assert ctypes.get_errno() == errno.ENOTTY
