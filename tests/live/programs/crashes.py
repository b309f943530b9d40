# SPDX-License-Identifier: BSD-2-Clause
"""crashes.py CMD...: runs each CMD, a line of a shell, under the witness of `why`, and prints why
its last process was killed, a line each.
"""

from __future__ import annotations

import os
import signal
import sys

from retsnoop_py.capture.rights import raise_memlock
from retsnoop_py.capture.witness import Witness
from retsnoop_py.cause.killed import killed
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts

FACTS = KernelFacts()
MAPPED = FACTS.require_btf().find("bpf_find_vma", Kind.FUNC) is not None


def reason(line: str) -> str:
    """Run a line of a shell; the reason, or what went wrong."""
    witness = Witness(FACTS.machine, finds_mappings=MAPPED)
    read, write = os.pipe()
    with witness:
        pid = os.fork()
        if not pid:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            os.read(read, 1)
            os.execv("/bin/bash", ["bash", "-c", line])
        witness.watch(pid, pid, is_command=True)
        os.write(write, b"!")
        os.waitpid(pid, 0)
    found = witness.found
    reasons = [one.text for end in found.ends if (one := killed(found, end)) is not None]
    return reasons[0] if reasons else f"nothing: {found.problem} {found.ends}"


raise_memlock()
for one in sys.argv[1:]:
    print(reason(one).replace("\n", " "), flush=True)
