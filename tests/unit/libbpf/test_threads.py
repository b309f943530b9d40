# SPDX-License-Identifier: BSD-2-Clause
"""libbpf's log belongs to the thread that called libbpf: runs may be in any thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from retsnoop_py.libbpf.object import OBJECTS

#: Opens damaged objects in four threads, and compares each log with that of one thread alone.
_PROGRAM = """
import sys, threading
from pathlib import Path
from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf.object import BpfObject, start_log

def opened(path):
    try:
        BpfObject(path).close()
    except BpfError as error:
        return error.log
    return "opened"

def work(path, expected):
    start_log(0)
    for _ in range(5000):
        got = opened(path)
        if got != expected:
            wrong.append((path.name, got, expected))
            return

wrong = []
start_log(0)
paths = [Path(one) for one in sys.argv[1:]]
alone = [opened(one) for one in paths]
assert all(alone) and len(set(alone)) == len(alone), alone
threads = [threading.Thread(target=work, args=pair) for pair in zip(paths, alone)]
for one in threads: one.start()
for one in threads: one.join()
assert not wrong, wrong
"""


def test_each_thread_reads_its_own_log(tmp_path: Path) -> None:
    whole = (OBJECTS / "trace.bpf.o").read_bytes()
    # e_machine of another machine (arm64 and x86-64 objects are EM_BPF), and no section headers
    foreign, headless = bytearray(whole), bytearray(whole)
    foreign[18:20], headless[40:48] = b"\x28\0", bytes(8)
    kinds = {
        "short": whole[:40],
        "text": b"not an object, but longer than the header of an ELF file" * 4,
        "foreign": bytes(foreign),
        "headless": bytes(headless),
    }
    for name, content in kinds.items():
        (tmp_path / name).write_bytes(content)
    words = [sys.executable, "-c", _PROGRAM, *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
