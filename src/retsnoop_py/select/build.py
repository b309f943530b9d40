# SPDX-License-Identifier: BSD-2-Clause
"""From lines of kallsyms to :class:`Function` values, with their types from BTF."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.flags import flags_for, result_for
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultType
from retsnoop_py.kernel.kallsyms import Symbol
from retsnoop_py.select.model import TypeSource

__all__ = ["build_functions"]

#: What compilers append to a copy of a function they changed the parameters of.
_VARIANT = re.compile(r"\.(?:isra|constprop|part|llvm)\..*")


def build_functions(
    facts: KernelFacts, indexes: Iterable[int], entries: Container[int]
) -> tuple[tuple[Function, ...], tuple[TypeSource, ...]]:
    """The functions on lines ``indexes`` of kallsyms, in that order, and the BTF they come from.

    Those in ``entries`` start sessions.
    """
    symbols = [(facts.kallsyms.symbol(index), index in entries) for index in indexes]
    modules = sorted({symbol.module for symbol, _ in symbols if symbol.module})
    types: dict[str | None, _Types] = {}
    for module in (None, *modules):
        names = [symbol.name for symbol, _ in symbols if symbol.module == module]
        btf = facts.btf if module is None else facts.module_btf(module)
        types[module] = _Types(btf, names)
    functions = tuple(types[symbol.module].function(symbol, entry) for symbol, entry in symbols)
    return functions, tuple(TypeSource(module, t.btf is not None) for module, t in types.items())


class _Types:
    """The prototypes of functions, looked up in one BTF."""

    def __init__(self, btf: Btf | None, names: list[str]) -> None:
        self.btf = btf
        wanted = {*names, *(_VARIANT.sub("", name) for name in names)}
        self._ids = btf.functions(wanted) if btf else {}

    def function(self, symbol: Symbol, entry: bool) -> Function:
        btf_id = self._ids.get(symbol.name)
        result, prototype = self._prototype(symbol.name, btf_id)
        flags = flags_for(symbol.name, result)
        return Function(
            name=symbol.name,
            address=symbol.address,
            size=symbol.size,
            flags=flags | FuncFlags.ENTRY if entry else flags,
            result=result_for(symbol.name, result),
            module=symbol.module,
            btf_id=btf_id,
            prototype=prototype,
        )

    def _prototype(self, name: str, btf_id: int | None) -> tuple[ResultType | None, str | None]:
        if self.btf is None:
            return None, None
        if btf_id is not None:
            return self.btf.prototype(btf_id)
        # A variant takes other parameters than its origin, but what it returns is the same.
        origin = self._ids.get(_VARIANT.sub("", name))
        return (self.btf.prototype(origin)[0], None) if origin is not None else (None, None)
