# SPDX-License-Identifier: BSD-2-Clause
"""What to capture of each traced function: made from facts, before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from retsnoop_py.kernel.arguments.calling_convention import REGISTERS
from retsnoop_py.kernel.arguments.model import ArgumentFacts
from retsnoop_py.kernel.arguments.semantics import load_semantics
from retsnoop_py.kernel.arguments.specs import Capture, Limits, by_prototype, plan_packer, registers
from retsnoop_py.kernel.arguments.syscalls import syscall_capture, syscall_name
from retsnoop_py.kernel.arguments.types import TypeTable
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.value import Value

__all__ = ["CapturePlan", "plan_captures"]

#: What compilers append to a copy of a function whose parameters they changed.
_CLONE = re.compile(r"\.(?:isra|constprop|part|cold)\b.*")
#: What clang appends to a static function that it made visible to other units, changing nothing.
_RENAMED = re.compile(r"\.llvm\.\d+$")
_NO_BTF = "registers: no BTF"
_CLONED = "registers: a clone of {}, its arguments may have moved"


class CapturePlan(Value):
    """The captures of functions and injected probes by id, and what a reader has to know."""

    captures: tuple[Capture, ...]
    facts: ArgumentFacts
    probes: tuple[Capture, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """How much is captured of each function."""
        return tuple([len(capture.by_context) for capture in self.captures])

    @property
    def probe_counts(self) -> tuple[int, ...]:
        """How much is captured at each injected probe."""
        return tuple([len(capture.by_context) for capture in self.probes])

    def packed(self, btf: Btf, *, trampolines: bool) -> list[bytes]:
        """``struct args_plan`` for each function, with ``trampolines`` then for each on these.

        Those of injected probes come last. ``btf`` is that of the object that reads them.
        """
        pack = plan_packer(btf)
        plans = [pack(capture.by_registers) for capture in self.captures]
        if trampolines:
            plans += [pack(capture.by_context) for capture in self.captures]
        return plans + [pack(capture.by_context) for capture in self.probes]


def plan_captures(
    facts: KernelFacts,
    functions: Sequence[Function],
    limits: Limits,
    plan_probes: Callable[[Limits, TypeTable], tuple[Capture, ...]] = lambda *_: (),
) -> CapturePlan:
    """What to capture of ``functions``, within ``limits``.

    ``plan_probes`` says the same of the injected probes. Raises DataError if the user's own
    semantics cannot be used.
    """
    types = TypeTable(load_semantics())
    captures = tuple([_capture(facts, function, limits, types) for function in functions])
    probes = plan_probes(limits, types)
    told = ArgumentFacts(
        functions=tuple([one.arguments for one in captures]),
        probes=tuple([one.arguments for one in probes]),
        types=tuple(types.types),
        tags=tuple(types.tags),
    )
    return CapturePlan(captures, told, probes)


def _capture(facts: KernelFacts, function: Function, limits: Limits, types: TypeTable) -> Capture:
    btf: Btf | None = facts.btf if function.module is None else facts.module_btf(function.module)
    machine = facts.machine if facts.machine in REGISTERS else "x86_64"
    if btf is not None and syscall_name(function.name):
        return syscall_capture(facts.root, btf, function.name, limits, types)
    btf_id = function.btf_id
    if btf is not None and btf_id is None and _RENAMED.search(function.name):
        btf_id = btf.find(_RENAMED.sub("", function.name), Kind.FUNC)
    if btf is not None and btf_id is not None:
        return by_prototype(btf, btf_id, machine, limits, types)
    origin = _CLONE.sub("", function.name)
    note = _NO_BTF if origin == function.name else _CLONED.format(origin)
    return registers(machine, note)
