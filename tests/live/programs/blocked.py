# SPDX-License-Identifier: BSD-2-Clause
"""Blocks in open() of a FIFO, fails to open another, and goes on once RELEASE is there.

    blocked.py READY RELEASE

It makes READY when one thread blocks and the other's open() has failed with ENXIO.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

ready, release = map(Path, sys.argv[1:])
folder = Path(tempfile.mkdtemp())
blocking, failing = folder / "blocking", folder / "failing"
os.mkfifo(blocking)
os.mkfifo(failing)
threads = []


def block() -> None:
    # what /proc calls the thread, which in a PID namespace may be another id than its own
    threads.append(Path("/proc") / Path("/proc/thread-self").readlink())
    os.close(os.open(blocking, os.O_RDONLY))


blocked = threading.Thread(target=block)
blocked.start()
while not (threads and "fifo_open" in (threads[0] / "stack").read_text()):
    time.sleep(0.01)
try:
    os.close(os.open(failing, os.O_WRONLY | os.O_NONBLOCK))
except OSError:
    ready.touch()
while not release.exists():
    time.sleep(0.01)
os.close(os.open(blocking, os.O_WRONLY))
blocked.join()
