# SPDX-License-Identifier: BSD-2-Clause
"""Explain an error from a function in which the kernel allows no probes.

Such functions are inline functions that the compiler kept separate (``__do_sys_X``, which gets the
arguments of ``__x64_sys_X``), and the kernel's library (``import_iovec()``). Their code is
available. Their arguments follow from the recorded arguments of the function that called them. If
these decide the path, the condition is known (:mod:`retsnoop_py.path.deduce`). If the path ends in
another function without probes, the search goes on there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from errno import EFAULT
from functools import partial
from pathlib import Path as Image
from typing import TYPE_CHECKING

from retsnoop_py.api.failing import syscall_name
from retsnoop_py.errors import RetsnoopError, UnavailableError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.model import session as to
from retsnoop_py.path.deduce import Argument, Behind, Called, Known
from retsnoop_py.path.machines import machine_named
from retsnoop_py.render.args.node import CUT, pointer
from retsnoop_py.session.paths import Path
from retsnoop_py.session.report import PathView
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.kallsyms import Symbol
    from retsnoop_py.path.analysis import Deduced, FunctionPaths
    from retsnoop_py.path.text import CodeSource
    from retsnoop_py.session.paths import Origin

__all__ = ["Functions", "callees", "deduced", "register_of"]

_LONG, _INT = 8, 4
_WORD = 0xFFFFFFFF
#: How many functions without probes are followed, one inside the other.
_MOST_LEVELS = 4
#: The depth of calls from a system call's function, and from the functions inlined in it.
_INSIDE = 2
_LONG_TYPES = ("size_t", "loff_t", "off_t", "u64", "__u64")


def callees(facts: KernelFacts, function: str) -> list[str]:
    """Return the functions that the second function of a system call calls by name.

    ``function`` is the first one. The result is empty without a second function, or if the code
    cannot be read.
    """
    try:
        with Kcore(facts.root / "proc/kcore") as source:
            second = f"__do_sys_{syscall_name(function)}"
            return list(Functions(facts, source).paths(second).calls())
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

    The calls of ``traced`` functions are used as well. Return None for a function that can be
    traced, and if code cannot be read. ``image`` is a vmlinux with DWARF; without it, the module
    searches for one.
    """
    if origin is None or origin.made != "callee" or not origin.callee:
        return None
    view = session.way(origin.seq)
    if view is None:
        return None
    # the images of the run were closed with it
    images = KernelImages(facts, image)
    try:
        with (
            Kcore(facts.root / "proc/kcore") as source,
            KernelSymbolizer(facts, SymbolizeMode.AUTO, images) as symbols,
        ):
            functions = Functions(facts, source, images)
            found = _Search(facts, session, functions, traced).found(origin, view)
            if found is None:
                return None
            symbol, inside = found
            path = Path(0, view.path.seq, 0, view.path.result, inside.hits)
            inner = PathView(path, inside.origin, partial(symbols.resolve, is_return=False))
            return session.told(inner, to.Func(symbol.name, hex(symbol.address)), origin.result)
    except RetsnoopError:
        return None


class Functions:
    """Functions of the running kernel by name, each read once from ``source``.

    ``images``: where the names of local variables come from, if anywhere.
    """

    def __init__(
        self, facts: KernelFacts, source: CodeSource, images: KernelImages | None = None
    ) -> None:
        self._facts = facts
        self._source = source
        self._images = images
        self._paths: dict[str, FunctionPaths] = {}

    def symbol(self, name: str) -> Symbol:
        """Return the symbol of a function. Raises UnavailableError unless one has the name."""
        found = self._facts.kallsyms.named(name)
        if len(found) != 1:
            raise UnavailableError(f"{name} is not the name of one function")
        return found[0]

    def paths(self, name: str) -> FunctionPaths:
        """Return a function with its code. Raises UnavailableError if that cannot be read."""
        from retsnoop_py.path.analysis import read_paths

        if name not in self._paths:
            function = _function_of(self._facts, self.symbol(name))
            variables = None
            if self._images is not None:
                variables = partial(self._images.variables, module=function.module)
            self._paths[name] = read_paths(self._facts, function, self._source, variables)
        return self._paths[name]


class _Search:
    def __init__(
        self, facts: KernelFacts, session: Session, functions: Functions, traced: Collection[str]
    ) -> None:
        self._facts = facts
        self._session = session
        self._functions = functions
        self._traced = traced
        self._result = 0

    def found(self, origin: to.Origin, view: PathView) -> tuple[Symbol, Deduced] | None:
        """Return the innermost function that is known to have decided the result, and why."""
        self._result, name = view.path.result, origin.callee
        first = self._session.calls[0].function.name
        calls: list[Called] | None = None
        beside: frozenset[str] = frozenset()
        if origin.function.name == first and name == f"__do_sys_{syscall_name(first)}":
            known = self._of_system_call()
            beside = self._traced_in(name)
            calls = _made(self._session, beside) if beside else None
            beside = beside if calls is not None else frozenset()
        elif self._is_fault():
            return None
        else:
            known = self._functions.paths(origin.function.name).passed_at(
                view.origin.blocks, self._result, self._of_call(origin)
            )
        found: tuple[Symbol, Deduced] | None = None
        for _ in range(_MOST_LEVELS):
            if name is None or self._facts.traceable.contains(name):
                break
            try:
                paths = self._functions.paths(name)
            except RetsnoopError:  # its code cannot be read
                break
            inside = paths.deduced(known, self._result, calls or (), beside)
            if inside is None:
                break
            if inside.origin.decided is not None:
                found = self._functions.symbol(name), inside
            if not _is_passed_on(inside.origin):
                break
            if self._is_fault():
                break
            name, known = inside.origin.callee, inside.passed
            calls, beside = None, frozenset()
        return found

    def _is_fault(self) -> bool:
        """Return True for EFAULT: an access to the user's memory may have faulted in the library.

        A fault leaves the paths that the code has.
        """
        return not (self._result + EFAULT) & _WORD

    def _traced_in(self, name: str) -> frozenset[str]:
        """Return the traced functions that a function calls, without those that others call, too.

        These others are its callees without probes. A call that they make looks like its own.
        """
        called = self._functions.paths(name).calls()
        others: set[str] = set()
        for one in called.difference(self._traced):
            with suppress(RetsnoopError):
                others |= self._functions.paths(one).calls()
        return frozenset(called.intersection(self._traced) - others)

    def _of_system_call(self) -> Known:
        """Return the arguments of the system call by the registers of its second function."""
        registers = machine_named(self._facts.machine).arguments
        given = zip(registers, _given(self._session), strict=False)
        return {register: one for register, one in given if one is not None}

    def _of_call(self, origin: to.Origin) -> Known:
        """Return the recorded arguments of the call of ``origin`` by register."""
        rows = (one.call for one in self._session.stack or () if one.call is not None)
        arguments = next((one.arguments for one in rows if one.seq == origin.seq), None) or ()
        paths = self._functions.paths(origin.function.name)
        registers = paths.graph.machine.arguments
        known: dict[str | int | Behind, Argument] = {}
        for argument in arguments:
            number = paths.parameter(argument.name) if argument.name else None
            if number is None:
                continue
            register, value = registers[number], register_of(argument)
            if value is not None:
                known[register] = value
            for offset, one in _numbers(argument, paths.numbers_behind(argument.name)):
                known[Behind(register, offset)] = one
        return known


def _is_passed_on(origin: Origin) -> bool:
    """Return True if a function only passed on the result of another one."""
    is_test = origin.decided is not None and origin.decided.note != "check"
    return origin.made == "callee" and not is_test


def _numbers(
    given: to.Argument, members: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[int, Argument]]:
    """Yield the numbers in a recorded struct by offset; its zero members are not recorded."""
    if not isinstance(given.value, dict) or CUT in given.text:
        return
    for name, (offset, size) in members.items():
        number = given.value.get(name, 0)
        if isinstance(number, int):
            yield offset, Argument(number, size)


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


def _function_of(facts: KernelFacts, symbol: Symbol) -> Function:
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
