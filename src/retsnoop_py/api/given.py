# SPDX-License-Identifier: BSD-2-Clause
"""Follow the operands of the deciding condition back to the arguments of the system call.

The kernel's stack has the call of each function on the way. At each call, the code of the caller
shows which of its own arguments it passes on (:mod:`retsnoop_py.path.passed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retsnoop_py.api.deducing import function_of, register_of
from retsnoop_py.errors import RetsnoopError, UnavailableError
from retsnoop_py.kernel.arguments.plan import syscall_parameters
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.model import session as to
from retsnoop_py.model import why as told
from retsnoop_py.path.passed import Copied, FromUser, Own, call_before, passed
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.path.analysis import FunctionPaths
    from retsnoop_py.path.text import CodeSource

__all__ = ["given_operands"]

#: An operand that is a parameter, or a member of the struct that a parameter points to; all bits
#: of it, the bits of a mask, or its complement.
_PARAMETER = re.compile(r"(~?)(([A-Za-z_]\w*)((?:(?:->|\.)\w+)*))(?: & (~?)(0x[0-9a-f]+|\d+))?")
#: Compared bits of a value: an operand may be narrower than the argument.
_WORD = 0xFFFFFFFF


class _Site(Value):
    """A function on the kernel's stack, and the address to which its callee returns."""

    function: str
    address: int


def given_operands(
    facts: KernelFacts, session: to.Session, decided_in: to.Origin | None
) -> tuple[told.GivenOperand, ...]:
    """Return which operands of a condition are arguments of the system call.

    ``decided_in`` is the call with the condition; the system call's function, or one on the kernel
    stack of ``session``. The result is empty if code or symbols cannot be read.
    """
    if decided_in is None or decided_in.decided is None or facts.btf is None:
        return ()
    operands = decided_in.decided.operands
    try:
        with Kcore(facts.root / "proc/kcore") as source:
            search = _Search(facts, session, source)
            found = [(search.given(decided_in.function.name, one.name), one) for one in operands]
    except (RetsnoopError, OSError):
        return ()
    arguments = next((one.call.arguments for one in session.stack or () if one.call), None) or ()
    kept = [one for one, operand in found if one is not None and _fits(one, operand, arguments)]
    return tuple(dict.fromkeys(kept))


def _fits(
    given: told.GivenOperand, operand: to.ConditionOperand, arguments: Sequence[to.Argument]
) -> bool:
    """Return False if the kernel changed the value before the comparison.

    The argument, or the struct that it points to, was recorded at the start of the call.
    """
    matched = _PARAMETER.fullmatch(operand.name)
    if operand.value is None or matched is None or given.argument > len(arguments):
        return True
    argument = arguments[given.argument - 1]
    recorded: object
    if given.member:
        member = re.split(r"->|\.", matched[2])[-1]
        recorded = argument.value.get(member) if isinstance(argument.value, dict) else None
    else:
        number = register_of(argument)
        recorded = number.value if number is not None else None
    if not isinstance(recorded, int):
        return True
    mask = int(matched[6], 0) if matched[6] else _WORD
    compared = (~recorded if matched[1] else recorded) & (~mask if matched[5] else mask)
    return not (operand.value ^ compared) & _WORD


class _Search:
    def __init__(self, facts: KernelFacts, session: to.Session, source: CodeSource) -> None:
        assert facts.btf is not None
        self._facts = facts
        self._source = source
        self._sites = list(_sites(session))
        first = self._sites[0].function if self._sites else ""
        #: By offset in ``struct pt_regs``: number from 1 and name of the system call's parameters.
        self._parameters = {
            offset: (number, name)
            for number, (offset, name, _) in enumerate(
                syscall_parameters(facts.root, facts.btf, first), 1
            )
        }
        self._first = first
        calls = [one.call for one in session.stack or () if one.call and not one.call.interrupt]
        #: The innermost call. The stack was read when it returned, so it has no frame.
        self._last = calls[-1].function.name if calls else ""
        self._paths: dict[str, FunctionPaths] = {}

    def given(self, function: str, operand: str) -> told.GivenOperand | None:
        """Return which argument of the system call an operand in ``function`` is, or None."""
        matched = _PARAMETER.fullmatch(operand)
        if matched is None or not self._parameters:
            return None
        operand, name, is_member = matched[2], matched[3], bool(matched[4])
        if function in (self._first, self._second):
            found = [one for one in self._parameters.values() if one[1] == name]
            return None if is_member or not found else told.GivenOperand(operand, *found[0])
        callers = self._callers_of(function)
        number = self._paths_of(function).parameter(name) if callers else None
        if number is None:
            return None
        value: Own | Copied | FromUser | None = Own(number)
        is_copied, callee = False, function
        for site in reversed(callers):
            assert isinstance(value, Own)
            value = self._passed(site, callee, value.argument)
            is_fit = isinstance(value, Copied if is_member else FromUser) and not is_copied
            if is_fit and isinstance(value, (Copied, FromUser)):
                value, is_copied = value.source, True
            if not isinstance(value, Own) or value.add:
                return None
            if site.function == self._first:
                is_register = value.argument == 0 and len(value.loads) == 1
                found_at = self._parameters.get(value.loads[0]) if is_register else None
                if found_at is None or (is_member and not is_copied):
                    return None
                return told.GivenOperand(operand, *found_at, is_copied)
            if value.loads:
                return None
            callee = site.function
        return None

    @property
    def _second(self) -> str:
        return re.sub(r"^__\w+?_sys_", "__do_sys_", self._first)

    def _callers_of(self, function: str) -> list[_Site]:
        """Return the functions on the stack that called ``function``, outermost first.

        Return an empty list if the stack does not have the function.
        """
        names = [one.function for one in self._sites]
        if function in names:
            return self._sites[: names.index(function)]
        return self._sites if function == self._last else []

    def _passed(self, site: _Site, callee: str, argument: int) -> Own | Copied | FromUser | None:
        """Return what a function passed as an argument at the call on the stack."""
        paths = self._paths_of(site.function)
        call = call_before(paths.graph, site.address)
        if call is None or (call.target and paths.name_of(call.target) != callee):
            return None
        return passed(paths.graph, call, argument, paths.name_of)

    def _paths_of(self, name: str) -> FunctionPaths:
        """Return a function with its code. Raises UnavailableError if that cannot be read."""
        from retsnoop_py.path.analysis import read_paths

        if name not in self._paths:
            found = self._facts.kallsyms.named(name)
            if len(found) != 1:
                raise UnavailableError(f"{name} is not the name of one function")
            function = function_of(self._facts, found[0])
            self._paths[name] = read_paths(self._facts, function, self._source)
        return self._paths[name]


def _sites(session: to.Session) -> Iterator[_Site]:
    """Yield the frames of the kernel's stack from the system call's function on."""
    rows: Sequence[to.StackEntry] = session.stack or ()
    is_inside = False
    for one in rows:
        is_inside = is_inside or (one.call is not None and not one.call.interrupt)
        frame = one.frame
        if is_inside and frame is not None and frame.symbol and not frame.hidden:
            yield _Site(frame.symbol, frame.address)
