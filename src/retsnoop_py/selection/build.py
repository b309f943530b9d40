# SPDX-License-Identifier: BSD-2-Clause
"""From lines of kallsyms to :class:`Function` values, with their types from BTF."""

from __future__ import annotations

from collections.abc import Container, Iterable

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.flags import flags_of, result_for
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultType
from retsnoop_py.selection.model import TypeSource

__all__ = ["build_functions"]

#: What compilers append to a copy of a function they changed the parameters of.
_VARIANTS = (".isra.", ".constprop.", ".part.", ".llvm.")
#: A function that BTF does not know.
_NOTHING: tuple[ResultType | None, FuncFlags] = (None, FuncFlags(0))


def build_functions(
    facts: KernelFacts,
    indexes: Iterable[int],
    entries: Container[int],
    *,
    prototypes: bool = True,
) -> tuple[tuple[Function, ...], tuple[TypeSource, ...]]:
    """The functions at ``indexes`` of kallsyms, in that order, and the BTF they come from.

    Those in ``entries`` start sessions. Without ``prototypes`` they have none: writing them
    takes longer than all the rest.
    """
    chosen = list(indexes)
    symbols = list(facts.kallsyms.fields(chosen))
    modules = sorted({module for _, _, _, module in symbols if module})
    types: dict[str | None, _Types] = {}
    for one in (None, *modules):
        names = [name for _, _, name, module in symbols if module == one]
        btf = facts.btf if one is None else facts.module_btf(one)
        types[one] = _Types(btf, names, prototypes)
    functions = tuple(
        [
            types[symbol[3]].function(symbol, index in entries)
            for index, symbol in zip(chosen, symbols, strict=True)
        ]
    )
    return functions, tuple(TypeSource(module, t.btf is not None) for module, t in types.items())


def _origin(name: str) -> str:
    """``name`` without what a compiler has appended to it."""
    return name[: min([at for mark in _VARIANTS if (at := name.find(mark)) >= 0], default=None)]


class _Types:
    """What the functions of these names return, looked up in one BTF."""

    def __init__(self, btf: Btf | None, names: list[str], prototypes: bool) -> None:
        self.btf = btf
        self._prototypes = prototypes
        origins = {name: _origin(name) for name in names if "." in name}
        self._ids = btf.functions({*names, *origins.values()}) if btf else {}
        ids = list(self._ids.values())
        self._results = self._known(btf, ids) if btf else {}
        # A variant takes other parameters than its origin, but what it returns is the same.
        self._origins = {name: self._ids[o] for name, o in origins.items() if o in self._ids}

    @staticmethod
    def _known(btf: Btf, ids: list[int]) -> dict[int, tuple[ResultType, FuncFlags]]:
        """What the functions ``ids`` return by BTF, and the flags that follow."""
        returns = btf.returns(ids)
        kinds = {type_id: btf.result(type_id) for type_id in set(returns)}
        known = {type_id: (result, flags_of(result)) for type_id, result in kinds.items()}
        return {btf_id: known[type_id] for btf_id, type_id in zip(ids, returns, strict=True)}

    def function(self, symbol: tuple[int, int, str, str | None], entry: bool) -> Function:
        address, size, name, module = symbol
        btf_id = self._ids.get(name)
        by_btf, flags = self._results.get(btf_id or self._origins.get(name, 0), _NOTHING)
        result = result_for(name, by_btf)
        if result is not by_btf:
            flags = flags_of(result)
        if entry:
            flags |= FuncFlags.ENTRY
        prototype = None
        if self._prototypes and btf_id is not None and self.btf is not None:
            prototype = self.btf.prototype(btf_id)[1]
        return Function(name, address, size, flags, result, module, btf_id, prototype)
