# SPDX-License-Identifier: BSD-2-Clause
"""stuck_reader.py NUMBER WORKLOAD CMD...: runs CMD, a trace whose output nobody reads, and beside
it WORKLOAD until CMD can write no more. Then CMD gets signal NUMBER again and again. Prints as a
line of JSON after which one of them all probes were gone, and after which one CMD was; its exit
status (negative: the signal that killed it); what it wrote.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

TRACING = Path("/sys/kernel/debug/tracing")
PATIENCE = 30
#: Signals within a tenth of a second are one request.
BETWEEN = 0.3
#: write(2) to standard output, as /proc/PID/syscall has it.
WRITING = f"{64 if platform.machine() == 'aarch64' else 1} 0x1 "


def probes() -> int:
    """How many hooks of any mechanism there are."""
    found = 0
    for path in (TRACING / "enabled_functions", TRACING.parent / "kprobes/list"):
        found += len(path.read_text().splitlines()) if path.exists() else 0
    return found


def blocked(pid: int) -> bool:
    """Whether it waits in write(2) for who reads its standard output."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith(WRITING)


before = probes()
command = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
assert command.stdout is not None
assert command.stderr is not None
said = b""
while b"Receiving data..." not in said:
    said += command.stderr.readline()
subprocess.run(shlex.split(sys.argv[2]), check=True, stdout=subprocess.DEVNULL)
while not blocked(command.pid):
    time.sleep(0.05)

sent = detached = 0
while command.poll() is None:
    command.send_signal(int(sys.argv[1]))
    sent += 1
    deadline = time.monotonic() + PATIENCE
    # A signal that is not yet delivered leaves it blocked: only what it brings about is waited for.
    while command.poll() is None and time.monotonic() < deadline:
        if not detached and probes() <= before and blocked(command.pid):
            detached = sent
            time.sleep(BETWEEN)
            break
        time.sleep(0.05)
out, err = command.communicate()
print(
    json.dumps(
        {
            "detached": detached,
            "ended": sent,
            "status": command.returncode,
            "out": out.decode(),
            "err": (said + err).decode(),
        }
    )
)
