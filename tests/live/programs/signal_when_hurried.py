# SPDX-License-Identifier: BSD-2-Clause
"""signal_when_hurried.py NUMBER CMD...: runs CMD, sends it signal NUMBER as soon as rcu_expedited
is set, and prints CMD's exit status (negative: the signal that killed it).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

EXPEDITED = Path("/sys/kernel/rcu_expedited")

command = subprocess.Popen(sys.argv[2:])
while EXPEDITED.read_text() != "1\n" and command.poll() is None:
    time.sleep(0.002)
command.send_signal(int(sys.argv[1]))
print(f"status {command.wait()}")
