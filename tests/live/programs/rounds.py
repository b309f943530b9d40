# SPDX-License-Identifier: BSD-2-Clause
"""rounds.py ROUNDS MECHANISM GLOB...: attach and detach, over and over, in one process.

A thread makes failing bpf() calls all the while, and each round lets the programs see some of
them. Prints one line of JSON: functions, rounds, and the sessions' records that came out.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.fitness import KernelFitness
from retsnoop_py.attach.mass_attacher import attach
from retsnoop_py.attach.plan import AttachContext, make_plan
from retsnoop_py.capture.load import load
from retsnoop_py.capture.rights import raise_files, raise_memlock
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.reader import Reader
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.selection.select import select
from retsnoop_py.settings import SelectionSettings, Settings
from retsnoop_py.workload.cases import MapType, map_create

rounds, mechanism = int(sys.argv[1]), Mechanism(sys.argv[2])
settings = Settings(
    selection=SelectionSettings(entry=("*_sys_bpf",), allow=tuple(sys.argv[3:])),
    mechanism=mechanism,
)
calls: list[int] = [0]
stop = threading.Event()


def work() -> None:
    while not stop.is_set():
        map_create(MapType.ARRAY, key_size=8)
        calls[0] += 1
        time.sleep(0)  # else each round waits for this thread's turn to be over


raise_memlock()
facts = KernelFacts()
functions = select(facts, settings.selection).functions
raise_files(4 * len(functions))
features = Features(facts.require_btf().find("vfs_read", Kind.FUNC))
plan = make_plan(functions, mechanism, features, KernelFitness(facts, functions))
loaded = load(plan, settings, features, facts)
context = AttachContext(
    obj=loaded.obj,
    features=features,
    facts=facts,
    progress=lambda done, total: None,
    stopping=lambda: False,
)
worker = threading.Thread(target=work)
worker.start()
size, attached = 0, 0
with Reader(
    loaded.obj.map("events"), is_perf=loaded.is_perf, ring_bytes=8 << 20, limit_bytes=64 << 20
) as reader:
    reader.start()
    for _ in range(rounds):
        hooks = attach(plan, context)
        attached += hooks.count
        loaded.set_ready(True)
        seen = calls[0]
        while calls[0] < seen + 3:
            time.sleep(0)
        loaded.set_ready(False)
        hooks.detach(context)
        size += len(reader.take(0) or b"")
    stop.set()
    worker.join()
    reader.stop()
    while data := reader.take(0):
        size += len(data)
loaded.close()
print(json.dumps({"rounds": rounds, "attached": attached, "calls": calls[0], "bytes": size}))
