# SPDX-License-Identifier: BSD-2-Clause
"""branches.py GLOB...: traces a failing bpf() call with branch records, where no CPU has any.

The perf events that would make the CPUs keep branches are left out, so that the programs ask for
them in vain. Prints one line of JSON: for each session the error that was given instead.
"""

from __future__ import annotations

import json
import os
import sys

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.fitness import KernelFitness
from retsnoop_py.attach.mass_attacher import attach
from retsnoop_py.attach.plan import AttachContext, make_plan
from retsnoop_py.capture.load import load
from retsnoop_py.capture.rights import raise_memlock
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.reader import Reader
from retsnoop_py.selection.select import select
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.layouts import btf_layouts
from retsnoop_py.settings import (
    FilterSettings,
    Mechanism,
    SelectionSettings,
    Settings,
    ViewSettings,
)
from retsnoop_py.workload.cases import MapType, map_create

settings = Settings(
    selection=SelectionSettings(entry=("*_sys_bpf",), allow=tuple(sys.argv[1:])),
    filters=FilterSettings(pids=(os.getpid(),)),
    views=ViewSettings(lbr=1 << 1 | 1 << 5, call_trace=True, interim=True),
)
raise_memlock()
facts = KernelFacts()
functions = select(facts, settings.selection).functions
features = Features(facts.require_btf().find("vfs_read", Kind.FUNC))
plan = make_plan(functions, Mechanism.AUTO, features, KernelFitness(facts, functions))
loaded = load(plan, settings, features, facts)
context = AttachContext(
    obj=loaded.obj,
    features=features,
    facts=facts,
    progress=lambda done, total: None,
    stopping=lambda: False,
)
collector = Collector(functions, btf_layouts(Btf(loaded.obj.btf())))
errors: list[int | None] = []
with Reader(
    loaded.obj.map("events"), is_perf=loaded.is_perf, ring_bytes=8 << 20, limit_bytes=64 << 20
) as reader:
    reader.start()
    hooks = attach(plan, context)
    loaded.set_ready(True)
    for _ in range(3):
        map_create(MapType.ARRAY, key_size=8)
    loaded.set_ready(False)
    hooks.detach(context)
    reader.stop()
    while data := reader.take(0):
        errors += [s.branches and s.branches.error for s in collector.feed(data)]
loaded.close()
print(json.dumps(errors))
