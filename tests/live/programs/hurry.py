# SPDX-License-Identifier: BSD-2-Clause
"""hurry.py [exhausted]: asks the kernel not to dawdle over RCU until stdin ends; has no file
descriptor left then, if so told, and asks once more.
"""

from __future__ import annotations

import os
import sys

from retsnoop_py.attach.guard import hurried


def exhaust() -> None:
    """Take every descriptor that the limit leaves."""
    try:
        while True:
            os.dup(0)
    except OSError:
        print("exhausted", flush=True)


with hurried(1000, system_changes=True):
    print("hurried", flush=True)
    sys.stdin.read()
    if sys.argv[1:] == ["exhausted"]:
        exhaust()
if sys.argv[1:] == ["exhausted"]:
    with hurried(1000, system_changes=True):
        print("again", flush=True)
