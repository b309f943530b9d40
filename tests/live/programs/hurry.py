# SPDX-License-Identifier: BSD-2-Clause
"""hurry.py: asks the kernel not to dawdle over RCU until stdin ends."""

from __future__ import annotations

import sys

from retsnoop_py.attach.guard import hurried

with hurried(1000, system_changes=True):
    print("hurried", flush=True)
    sys.stdin.read()
