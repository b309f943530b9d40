# SPDX-License-Identifier: BSD-2-Clause
"""Why the function below a system call's entry gave its error, where nothing can follow that one.

``__x64_sys_X`` hands the arguments on to ``__do_sys_X``, which is an inline function that the
compiler kept apart: the kernel lets nobody probe it. Its code and its arguments are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path as Image
from typing import TYPE_CHECKING, Any

from retsnoop_py.api.failing import syscall_name
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.functions import FuncFlags, Function
from retsnoop_py.path.deduce import Argument
from retsnoop_py.render import json_types as to
from retsnoop_py.session.paths import Path
from retsnoop_py.session.report import PathView
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.kallsyms import Symbol
    from retsnoop_py.session.paths import Hit, Origin

__all__ = ["deduced"]

_LONG, _INT = 8, 4
_LONG_TYPES = ("size_t", "loff_t", "off_t", "u64", "__u64")


def deduced(
    facts: KernelFacts, session: Session, origin: to.Origin | None, image: Image | None = None
) -> to.Origin | None:
    """Why the callee that ``origin`` names gave what it did, if its arguments alone decide that.

    None for any other function, and where its code cannot be read. ``image`` is a vmlinux with
    DWARF, if it need not be looked for.
    """
    first = session.calls[0]
    if origin is None or origin.made != "callee" or origin.function.name != first.function.name:
        return None
    name, view = f"__do_sys_{syscall_name(first.function.name)}", session.way(first.seq)
    if origin.callee != name or view is None:
        return None
    try:
        found = facts.kallsyms.named(name)
        if len(found) != 1:
            return None
        told = _way(facts, session, found[0], view.path.result)
        if told is None:
            return None
        way, hit = told
        path = Path(0, view.path.seq, 0, view.path.result, (hit,))
        # that of the run was closed with it
        with KernelSymbolizer(facts, SymbolizeMode.AUTO, KernelImages(facts, image)) as symbols:
            inner = PathView(path, way, partial(symbols.resolve, is_return=False))
            return session.told(inner, to.Func(name, hex(found[0].address)), origin.result)
    except RetsnoopError:
        return None


def _way(
    facts: KernelFacts, session: Session, symbol: Symbol, result: int
) -> tuple[Origin, Hit] | None:
    """The way that the arguments of the system call lead through its second function."""
    from retsnoop_py.path.analysis import read_paths
    from retsnoop_py.path.machines import machine_named
    from retsnoop_py.path.text import Kcore

    machine, function = machine_named(facts.machine), _function(facts, session, symbol)
    given = dict(zip(machine.arguments, _given(session), strict=False))
    known = {register: one for register, one in given.items() if one is not None}
    with Kcore(facts.root / "proc/kcore") as source:
        return read_paths(facts, function, source).deduced(known, result)


def _function(facts: KernelFacts, session: Session, symbol: Symbol) -> Function:
    btf_id = facts.btf.find(symbol.name, Kind.FUNC) if facts.btf is not None else None
    result = session.calls[0].function.result
    return Function(symbol.name, symbol.address, symbol.size, FuncFlags(0), result, btf_id=btf_id)


def _given(session: Session) -> Iterator[Argument | None]:
    """The arguments of a system call in their order; None for one that is no number."""
    for one in session.calls[0].arguments or ():
        if not one.name:
            return
        value = _number(one.value)
        is_long = one.type.endswith("*") or "long" in one.type or one.type in _LONG_TYPES
        yield None if value is None else Argument(value, _LONG if is_long else _INT)


def _number(value: Any) -> int | None:
    if value is None:
        return 0
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            return None
    return None
