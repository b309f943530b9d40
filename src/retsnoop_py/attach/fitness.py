# SPDX-License-Identifier: BSD-2-Clause
"""Find functions that a mechanism cannot attach, before the kernel rejects them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.mechanism import Mechanism

if TYPE_CHECKING:
    from retsnoop_py.attach.trampoline import Trampolines


class KernelFitness:
    """The facts about ``functions``, read when a mechanism needs them."""

    def __init__(self, facts: KernelFacts, functions: Sequence[Function]) -> None:
        self._facts = facts
        self._functions = functions

    @cached_property
    def _trampolines(self) -> Trampolines:
        from retsnoop_py.attach.trampoline import Trampolines

        return Trampolines(self._facts, self._functions)

    def unfit(self, mechanism: Mechanism, ids: Iterable[int]) -> dict[int, str]:
        """Return why ``mechanism`` cannot attach functions, by id; others are not included."""
        if not (mechanism.row.by_symbol or mechanism.row.by_btf):
            return {}
        reasons = {number: self._flaw(mechanism, self._functions[number]) for number in ids}
        return {number: reason for number, reason in reasons.items() if reason is not None}

    def _flaw(self, mechanism: Mechanism, function: Function) -> str | None:
        if mechanism.row.by_symbol:
            named = self._facts.kallsyms.probe_places([function.address]) != [None]
            return None if named else f"{mechanism.value} has no unique symbol for it"
        if function.module and not mechanism.row.in_modules:
            return f"{mechanism.value} cannot trace functions of modules"
        flaw = self._trampolines.flaw(function)
        return f"{mechanism.value} {flaw}" if flaw else None
