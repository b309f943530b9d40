# SPDX-License-Identifier: BSD-2-Clause
"""Which functions a mechanism cannot take, known before the kernel refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.kernel.shapes import Shape, ShapeFlags, read_shapes
from retsnoop_py.settings import Mechanism

#: Mechanisms that find functions by their BTF, and call them from a BPF trampoline.
BY_BTF = frozenset({Mechanism.FSESSION_MULTI, Mechanism.FENTRY})

#: ``MAX_BPF_FUNC_ARGS`` of the kernel.
_MOST_PARAMS = 12

_FLAWS = (
    (ShapeFlags.VARIADIC, "takes a variable number of arguments"),
    (ShapeFlags.STRUCT_RESULT, "returns a struct"),
    (ShapeFlags.LARGE_PARAM, "takes a struct of more than 16 bytes by value"),
    (ShapeFlags.ODD_TYPE, "has a parameter or a result of a type that BTF cannot describe"),
)


class KernelFitness:
    """What BTF and the symbol list say about ``functions``, read once for all of them."""

    def __init__(self, facts: KernelFacts, functions: Sequence[Function]) -> None:
        self._facts = facts
        self._functions = functions

    @cached_property
    def _shapes(self) -> dict[int, Shape]:
        return read_shapes(self._facts, self._functions)

    def unfit(self, mechanism: Mechanism, function: Function) -> str | None:
        """Why ``mechanism`` cannot take ``function``; None if nothing speaks against it."""
        if mechanism not in BY_BTF:
            return None
        if function.btf_id is None:
            return f"{mechanism.value} finds functions by BTF, which does not know this one"
        if function.module and mechanism is Mechanism.FSESSION_MULTI:
            return f"{mechanism.value} takes functions of one BTF: the kernel's, not a module's"
        return self._flaw(mechanism, self._shapes[function.address])

    def _flaw(self, mechanism: Mechanism, shape: Shape) -> str | None:
        # From a BTF id the kernel goes to the first symbol of that name, which may be another.
        if shape.namesakes != 1:
            return f"{mechanism.value} cannot tell apart the {shape.namesakes} symbols of this name"
        if shape.params > _MOST_PARAMS:
            return f"{mechanism.value} takes functions of up to {_MOST_PARAMS} arguments"
        for flag, words in _FLAWS:
            if shape.flags & flag:
                return f"{mechanism.value} cannot call a function that {words}"
        return None
