# SPDX-License-Identifier: BSD-2-Clause
"""Processes of every kind a command can have; each makes one failing bpf() call of its own.

Prints the pid of each that failed, one per line. ``stage`` is what an exec'd copy is to do.
"""

from __future__ import annotations

import os
import sys
import threading

from retsnoop_py.workload.cases import MapType, map_create


def fail() -> None:
    assert map_create(MapType.ARRAY, key_size=8) < 0
    os.write(1, f"{os.getpid()}\n".encode())


def child(work: object) -> None:
    pid = os.fork()
    if pid == 0:
        work()  # type: ignore[operator]
        os._exit(0)
    os.waitpid(pid, 0)


def execs() -> None:
    os.execv(sys.executable, [sys.executable, __file__, "exec'd"])


def double_fork() -> None:
    """The grandchild outlives its parent; a pipe tells when it is done."""
    read, write = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(read)
            fail()
            os._exit(0)
        os._exit(0)
    os.close(write)
    os.wait()
    os.read(read, 1)


def main() -> None:
    fail()
    if len(sys.argv) > 1:
        return
    child(fail)
    child(execs)
    child(lambda: child(fail))
    double_fork()
    child(lambda: (fail(), os._exit(0)))
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    for _ in range(17):
        child(fail)


main()
