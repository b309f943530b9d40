# SPDX-License-Identifier: BSD-2-Clause
"""Follow the operands of the deciding condition back to the arguments of the system call.

The kernel's stack has the call of each function on the way. At each call, the code of the caller
shows which of its own arguments it passes on (:mod:`retsnoop_py.path.passed`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from retsnoop_py.api.deducing import Functions, register_of
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.arguments.plan import syscall_parameters
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.model import session as to
from retsnoop_py.model import why as told
from retsnoop_py.path.passed import Copied, FromUser, Own, call_before, passed, tail_calls
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.path.insn import Insn
    from retsnoop_py.path.text import CodeSource

__all__ = ["given_operands"]

#: An operand that is a parameter, or what a parameter points to: a number, or a member of a struct;
#: all bits of it, the bits of a mask, or its complement.
_PARAMETER = re.compile(
    r"(?P<not>~?)(?P<operand>(?P<pointed>\*?)(?P<name>[A-Za-z_]\w*)(?P<members>(?:(?:->|\.)\w+)*))"
    r"(?: & (?P<without>~?)(?P<mask>0x[0-9a-f]+|\d+))?"
)
#: Compared bits of a value: an operand may be narrower than the argument.
_WORD = 0xFFFFFFFF
#: The first address that a pointer can have.
_FIRST_ADDRESS = 0x1000


class _Level(Value):
    """A function on the kernel's stack, and the address to which its callee returns; 0: unknown."""

    function: str
    address: int
    arguments: tuple[to.Argument, ...]


class _Sought(Value):
    """An argument of a function by number, and which part of it the condition compared.

    ``members``: it is a pointer, and that member behind it. ``is_read``: what it points to.
    ``is_whole``: all bits of ``compared``.
    """

    argument: int
    members: str
    is_read: bool
    is_whole: bool
    compared: to.ConditionOperand


class _Stored(Value):
    """A value that a function stored in a struct of its own."""

    value: Own | FromUser


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
            found = [(search.given(decided_in.function.name, one), one) for one in operands]
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
        member = re.split(r"->|\.", matched["operand"])[-1]
        recorded = argument.value.get(member) if isinstance(argument.value, dict) else None
    else:
        number = register_of(argument)
        recorded = number.value if number is not None else None
    if not isinstance(recorded, int):
        return True
    mask = int(matched["mask"], 0) if matched["mask"] else _WORD
    compared = ~recorded if matched["not"] else recorded
    compared &= ~mask if matched["without"] else mask
    return not (operand.value ^ compared) & _WORD


class _Search:
    def __init__(self, facts: KernelFacts, session: to.Session, source: CodeSource) -> None:
        assert facts.btf is not None
        self._levels = _levels(session)
        self._first = self._levels[0].function if self._levels else ""
        #: By offset in ``struct pt_regs``: number from 1 and name of the system call's parameters.
        self._parameters = {
            offset: (number, name)
            for number, (offset, name, _) in enumerate(
                syscall_parameters(facts.root, facts.btf, self._first), 1
            )
        }
        self._functions = Functions(facts, source)

    def given(self, function: str, compared: to.ConditionOperand) -> told.GivenOperand | None:
        """Return which argument of the system call an operand in ``function`` is, or None."""
        matched = _PARAMETER.fullmatch(compared.name)
        if matched is None or not self._parameters:
            return None
        operand, name, members = matched["operand"], matched["name"], matched["members"]
        # the kernel reads what an argument points to only as data of the user
        is_read = bool(matched["pointed"] or members)
        if function in (self._first, self._second):
            found = [one for one in self._parameters.values() if one[1] == name]
            return told.GivenOperand(operand, *found[0], is_read) if found else None
        names = [one.function for one in self._levels]
        at = names.index(function) if function in names else 0
        number = self._functions.paths(function).parameter(name) if at else None
        if number is None:
            return None
        sought = _Sought(number, members, is_read, matched["operand"] == compared.name, compared)
        for level in range(at, 0, -1):
            above = self._above(level, sought, name if level == at else "")
            if above is None:
                return None
            sought = above
            if self._levels[level - 1].function == self._second:
                found_at = next(islice(self._parameters.values(), sought.argument, None), None)
                break
        else:
            found_at = self._parameters.get(sought.argument)
        return told.GivenOperand(operand, *found_at, sought.is_read) if found_at else None

    @property
    def _second(self) -> str:
        return re.sub(r"^__\w+?_sys_", "__do_sys_", self._first)

    def _above(self, level: int, sought: _Sought, parameter: str) -> _Sought | None:
        """Return what the caller of a level passed on: an argument of its own.

        For the system call's own function that is an offset in ``struct pt_regs``. ``parameter`` is
        the name of a parameter with members, or an empty string.
        """
        value = self._passed(level, sought, parameter)
        if isinstance(value, Copied) and sought.members:
            value, sought = value.source, replace(sought, members="", is_read=True)
        elif isinstance(value, FromUser) and not sought.is_read:
            value, sought = value.source, replace(sought, is_read=True)
        elif isinstance(value, _Stored):
            value = value.value
            sought = replace(sought, members="", is_read=False)
            if isinstance(value, FromUser):
                value, sought = value.source, replace(sought, is_read=True)
        if not isinstance(value, Own) or value.add:
            return None
        loads, argument = list(value.loads), value.argument
        if level == 1:
            if argument or not loads:
                return None
            argument = loads.pop(0)
        if loads:
            # memory behind an argument: of the user, or the search does not reach the system call
            if sought.is_read or sought.members or len(loads) > 1:
                return None
            sought = replace(sought, is_read=True)
        return replace(sought, argument=argument)

    def _passed(
        self, level: int, sought: _Sought, parameter: str
    ) -> Own | Copied | FromUser | _Stored | None:
        """Return what a level's caller passed as an argument at the call on the stack."""
        caller, callee = self._levels[level - 1], self._levels[level]
        found = {self._passed_at(one, level, sought, parameter) for one in self._calls(level)}
        value = found.pop() if len(found) == 1 else None
        if isinstance(value, Own) and not value.loads:
            # a function that is not on the stack may be between them
            got = self._pointers(callee).get(sought.argument)
            had = self._pointers(caller).get(value.argument)
            value = value if None in (got, had) or got == had else None
        return value or self._same_pointer(caller, callee, sought)

    def _calls(self, level: int) -> list[Insn]:
        """Return the instructions in the caller that may have called a level."""
        caller, callee = self._levels[level - 1], self._levels[level]
        paths = self._functions.paths(caller.function)
        if not caller.address:
            return tail_calls(paths.graph, callee.function)
        call = call_before(paths.graph, caller.address)
        is_other = call is None or (call.target and paths.name_of(call.target) != callee.function)
        return [] if call is None or is_other else [call]

    def _passed_at(
        self, call: Insn, level: int, sought: _Sought, parameter: str
    ) -> Own | Copied | FromUser | _Stored | None:
        """Return what the caller of a level passed at a call or at a jump in its code."""
        paths = self._functions.paths(self._levels[level - 1].function)
        known = sought.compared.value if sought.is_whole else None
        value = known if not sought.is_read else None
        found = passed(paths.graph, call, sought.argument, paths, value=value)
        if found is None and sought.members and parameter:
            callee = self._functions.paths(self._levels[level].function)
            offset = callee.member_offset(parameter, sought.members)
            options = {"value": known, "member": offset}
            inside = passed(paths.graph, call, sought.argument, paths, **options)
            if offset is not None and isinstance(inside, (Own, FromUser)):
                return _Stored(inside)
        return found

    def _same_pointer(self, caller: _Level, callee: _Level, sought: _Sought) -> Own | None:
        """Return the argument of a caller with the recorded pointer that the callee got."""
        recorded = self._pointers(callee)
        same = [
            number
            for number, pointer in self._pointers(caller).items()
            if pointer == recorded.get(sought.argument)
        ]
        return Own(same[0]) if sought.is_read and len(same) == 1 else None

    def _pointers(self, level: _Level) -> dict[int, int]:
        """Return the recorded addresses by the number of their argument."""
        paths, found = self._functions.paths(level.function), {}
        for argument in level.arguments:
            number, address = paths.parameter(argument.name), _address(argument)
            if number is not None and address is not None:
                found[number] = address
        return found


def _address(argument: to.Argument) -> int | None:
    """Return the address in a pointer, or in a struct that has only a pointer (sockptr_t)."""
    value = argument.value
    if isinstance(value, dict) and len(value) == 1 and not argument.text.startswith("&"):
        value = next(iter(value.values()))
    if not isinstance(value, str) or not re.fullmatch("0x[0-9a-f]+", value):
        return None
    address = int(value, 16)
    return address if address >= _FIRST_ADDRESS else None


def _levels(session: to.Session) -> list[_Level]:
    """Return the functions on the kernel's stack from the system call's function on."""
    found: list[_Level] = []
    inner: list[_Level] = []
    for one in session.stack or ():
        call = one.call if one.call is not None and not one.call.interrupt else None
        frame = one.frame if one.frame is not None and not one.frame.hidden else None
        symbol = frame.symbol if frame is not None else None
        if not found and call is None:
            if frame is not None and symbol and symbol.startswith("__do_sys_"):
                # __x64_sys_X jumped to it
                inner = [_Level(symbol, frame.address, ())]
            continue
        name = call.function.name if call is not None else symbol
        if name:
            address = frame.address if frame is not None and symbol == name else 0
            found.append(_Level(name, address, (call.arguments if call is not None else ()) or ()))
            if inner:
                found, inner = [*found, *inner], []
    return found
