# SPDX-License-Identifier: BSD-2-Clause
"""Restricts itself by a Landlock rule set without rules, and becomes the command of its arguments.

It handles making directories and writing files (linux/landlock.h).
"""

import ctypes
import os
import struct
import sys

WRITE_FILE, MAKE_DIR = 1 << 1, 1 << 7
CREATE_RULESET, RESTRICT_SELF = 444, 446
PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    rights = struct.pack("Q", WRITE_FILE | MAKE_DIR)
    rules = libc.syscall(CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if rules < 0 or libc.syscall(RESTRICT_SELF, rules, 0) < 0:
        sys.exit(f"Landlock: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
