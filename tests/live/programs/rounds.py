# SPDX-License-Identifier: BSD-2-Clause
"""rounds.py ROUNDS MECHANISM GLOB... [--path GLOB]: attach and detach, over and over.

All in one process. A child makes failing bpf() calls all the while, and each round lets the
programs see some of them. (They do not see calls of the process that loaded them.) With --path
functions are followed block by block, too, and the probes in their blocks come and go with each
round. Prints one line of JSON: functions, blocks, rounds, and the bytes of records that came out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import time

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.fitness import KernelFitness
from retsnoop_py.attach.mass_attacher import attach
from retsnoop_py.attach.plan import AttachContext, make_plan
from retsnoop_py.capture.load import load
from retsnoop_py.capture.paths import PathProbes
from retsnoop_py.capture.rights import raise_files, raise_memlock
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.reader import Reader
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.selection.select import select
from retsnoop_py.settings import SelectionSettings, Settings
from retsnoop_py.workload.cases import MapType, map_create

parser = argparse.ArgumentParser()
parser.add_argument("rounds", type=int)
parser.add_argument("mechanism", type=Mechanism)
parser.add_argument("globs", nargs="*")
parser.add_argument("--path", action="append", default=[])
asked = parser.parse_args()
rounds, mechanism = asked.rounds, asked.mechanism
settings = Settings(
    selection=SelectionSettings(entry=("*_sys_bpf",), allow=tuple(asked.globs)),
    mechanism=mechanism,
    paths=tuple(asked.path),
)
calls = multiprocessing.RawValue(ctypes.c_uint64)


def work() -> None:
    while True:
        map_create(MapType.ARRAY, key_size=8)
        calls.value += 1
        time.sleep(0.001)  # attaching needs the CPU, too


# before the first thread
worker = multiprocessing.Process(target=work, daemon=True)
worker.start()
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
size, attached, blocks = 0, 0, 0
with Reader(
    loaded.obj.map("events"), is_perf=loaded.is_perf, ring_bytes=8 << 20, limit_bytes=64 << 20
) as reader:
    reader.start()
    for _ in range(rounds):
        hooks = attach(plan, context)
        attached += hooks.count
        paths = PathProbes(facts, plan.functions, None)
        if asked.path:
            paths.read(paths.matching(asked.path), settings.max_blocks)
            paths.attach(context)
            blocks += paths.count
        loaded.set_ready(True)
        seen = calls.value
        while calls.value < seen + 3:
            time.sleep(0)
        loaded.set_ready(False)
        paths.close()
        hooks.detach(context)
        size += len(reader.take(0) or b"")
    worker.kill()
    worker.join()
    reader.stop()
    while data := reader.take(0):
        size += len(data)
loaded.close()
told = {"attached": attached, "blocks": blocks, "calls": calls.value, "bytes": size}
print(json.dumps({"rounds": rounds, **told}))
