# SPDX-License-Identifier: BSD-2-Clause
"""ctrl_c.py CMD...: runs CMD, a trace, on a terminal of its own, types Ctrl-C once it traces, and
prints all that the terminal showed and the exit status. CTRL_C_AT: it is typed once that is shown.
"""

from __future__ import annotations

import os
import pty
import sys

pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
shown, typed = b"", False
at = os.environb.get(b"CTRL_C_AT", b"Receiving data...")
while True:
    try:
        more = os.read(terminal, 1 << 16)
    except OSError:  # nobody has it open any more
        break
    shown += more
    if at in shown and not typed:
        typed = True
        os.write(terminal, b"\x03")
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
print(f"status {os.waitstatus_to_exitcode(status)}")
