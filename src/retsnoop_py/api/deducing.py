# SPDX-License-Identifier: BSD-2-Clause
"""Explain an error from a system call's second function, if that cannot be followed.

``__x64_sys_X`` passes its arguments to ``__do_sys_X``. That is an inline function that the compiler
kept separate, and the kernel does not allow probes in it. But its code and its arguments are
available, and the functions that it calls can be traced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path as Image
from typing import TYPE_CHECKING

from retsnoop_py.api.failing import syscall_name
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.model import session as to
from retsnoop_py.path.deduce import Argument, Called, Known
from retsnoop_py.render.args.node import pointer
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

__all__ = ["callees", "deduced", "function_of", "register_of"]

_LONG, _INT = 8, 4
#: The depth of calls from a system call's function, and from the functions inlined in it.
_INSIDE = 2
_LONG_TYPES = ("size_t", "loff_t", "off_t", "u64", "__u64")


def callees(facts: KernelFacts, function: str) -> list[str]:
    """Return the functions that the second function of a system call calls by name.

    ``function`` is the first one. The result is empty without a second function, or if the code
    cannot be read.
    """
    from retsnoop_py.kernel.kcore import Kcore
    from retsnoop_py.path.analysis import read_paths

    try:
        found = facts.kallsyms.named(f"__do_sys_{syscall_name(function)}")
        if len(found) != 1:
            return []
        with Kcore(facts.root / "proc/kcore") as source:
            return list(read_paths(facts, function_of(facts, found[0]), source).calls())
    except RetsnoopError:
        return []


def deduced(
    facts: KernelFacts,
    session: Session,
    origin: to.Origin | None,
    image: Image | None = None,
    traced: Collection[str] = (),
) -> to.Origin | None:
    """Return why the callee in ``origin`` returned its result, if its arguments decide that.

    The calls of ``traced`` functions are used as well. Return None for any other function, and if
    its code cannot be read. ``image`` is a vmlinux with DWARF; without it, the module searches for
    one.
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
        # the images of the run were closed with it
        images = KernelImages(facts, image)
        with KernelSymbolizer(facts, SymbolizeMode.AUTO, images) as symbols:
            told = _way(facts, session, found[0], view.path.result, traced, images)
            if told is None:
                return None
            way, hits = told
            path = Path(0, view.path.seq, 0, view.path.result, hits)
            inner = PathView(path, way, partial(symbols.resolve, is_return=False))
            return session.told(inner, to.Func(name, hex(found[0].address)), origin.result)
    except RetsnoopError:
        return None


def _way(
    facts: KernelFacts,
    session: Session,
    symbol: Symbol,
    result: int,
    traced: Collection[str],
    images: KernelImages,
) -> tuple[Origin, tuple[Hit, ...]] | None:
    """Return the path that the system call's arguments determine in its second function."""
    from retsnoop_py.kernel.kcore import Kcore
    from retsnoop_py.path.analysis import read_paths
    from retsnoop_py.path.machines import machine_named

    machine = machine_named(facts.machine)
    function = function_of(facts, symbol)
    given = dict(zip(machine.arguments, _given(session), strict=False))
    known: Known = {register: one for register, one in given.items() if one is not None}
    with Kcore(facts.root / "proc/kcore") as source:
        variables = partial(images.variables, module=function.module)
        paths = read_paths(facts, function, source, variables)
        beside = paths.calls().intersection(traced)
        calls = _made(session, beside) if beside else None
        if calls is None:
            return paths.deduced(known, result)
        return paths.deduced(known, result, calls, beside)


def _made(session: Session, names: Collection[str]) -> list[Called] | None:
    """Return the calls of functions ``names`` inside the system call, in order.

    Return None if calls may be missing.
    """
    found: dict[int, Called] = {}
    begun: list[tuple[int, str]] = []
    for event in session.trace or ():
        if isinstance(event, (to.Missing, to.ToldBefore)):
            return None
        if isinstance(event, to.ProbeHit) or event.depth != _INSIDE or event.interrupt:
            continue
        name = event.function.name
        if name not in names:
            continue
        if isinstance(event, to.Entered):
            begun.append((event.seq, name))
        else:
            if not begun or begun[-1][1] != name:
                return None
            size = min(session.traced(event.function).result.size, _LONG)
            value = event.result.raw & (1 << 8 * size) - 1
            found[begun[-1][0]] = Called(name, value, size)
    return None if len(found) != len(begun) or session.warnings else list(found.values())


def function_of(facts: KernelFacts, symbol: Symbol) -> Function:
    """Return a function that is not traced, for reading its code."""
    btf_id = facts.btf.find(symbol.name, Kind.FUNC) if facts.btf is not None else None
    result = ResultType(ResultKind.UNKNOWN)
    return Function(symbol.name, symbol.address, symbol.size, FuncFlags(0), result, btf_id=btf_id)


def _given(session: Session) -> Iterator[Argument | None]:
    """Yield the arguments of a system call in order; None for an argument without a number."""
    for one in session.calls[0].arguments or ():
        if not one.name:
            return
        yield register_of(one)


def register_of(given: to.Argument) -> Argument | None:
    """Return the number in the register of an argument; None if it was not recorded.

    For a pointer that was followed, only the target was recorded, without its address: ``&0`` and
    ``"0"`` are not null pointers.
    """
    if given.type.endswith("*"):
        if given.value is None and given.text == pointer(0):
            return Argument(0, _LONG)
        is_bare = isinstance(given.value, str) and given.text == given.value
        return Argument(int(given.value, 16), _LONG) if is_bare else None
    if not isinstance(given.value, int):
        return None
    is_long = "long" in given.type or given.type in _LONG_TYPES
    return Argument(given.value, _LONG if is_long else _INT)
