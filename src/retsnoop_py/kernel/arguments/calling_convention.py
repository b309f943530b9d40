# SPDX-License-Identifier: BSD-2-Clause
"""The locations of arguments by the calling conventions.

x86-64: System V ABI, 3.2.3; arm64: AAPCS64, 6.8.2. The kernel passes no arguments in vector
registers. BPF trampolines store all words in the order of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["REGISTERS", "STACK_SLOT", "Location", "Passed", "locations"]

WORD = 8
#: Maximum size of a value in registers, in bytes.
_IN_REGISTERS = 16
#: The slot of the stack pointer: ARGS_SP of src/bpf/args.bpf.h.
STACK_SLOT = 15

#: The registers for arguments, in order.
REGISTERS = {
    "x86_64": ("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
    "aarch64": ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"),
}
#: At a function's first instruction the return address is on top of the stack (x86-64) or in a
#: register (arm64).
_STACK_START = {"x86_64": WORD, "aarch64": 0}


class Passed(NamedTuple):
    """A parameter for the conventions: size and alignment in bytes.

    ``is_packed``: it has unaligned members.
    """

    size: int
    alignment: int = WORD
    is_packed: bool = False


class Location(NamedTuple):
    """The location of a parameter: ``words`` slots from ``slot`` on, or ``offset`` bytes from it.

    ``by_reference``: the location has the parameter's address.
    """

    slot: int
    words: int
    offset: int = 0
    by_reference: bool = False

    @property
    def on_stack(self) -> bool:
        """Return True if the parameter is ``offset`` bytes above the stack pointer."""
        return self.slot == STACK_SLOT


def locations(
    machine: str, parameters: Sequence[Passed], *, trampoline: bool = False
) -> list[Location]:
    """Return the location of each parameter on ``machine`` (a key of :data:`REGISTERS`).

    ``trampoline``: in the context of a program that a BPF trampoline calls.
    """
    if trampoline:
        return _in_context(parameters)
    return _on_x86(parameters) if machine == "x86_64" else _on_arm64(parameters)


def _words(size: int) -> int:
    return -(-size // WORD)


def _in_context(parameters: Sequence[Passed]) -> list[Location]:
    found, slot = [], 0
    for one in parameters:
        found.append(Location(slot, _words(one.size)))
        slot += _words(one.size)
    return found


def _on_x86(parameters: Sequence[Passed]) -> list[Location]:
    found = []
    register, stack = 0, _STACK_START["x86_64"]
    registers = len(REGISTERS["x86_64"])
    for one in parameters:
        words = _words(one.size)
        if one.size <= _IN_REGISTERS and not one.is_packed and register + words <= registers:
            found.append(Location(register, words))
            register += words
            continue
        # A parameter that does not fit goes to the stack as a whole. Later, smaller ones may fit a
        # register.
        if one.alignment > WORD and (stack - WORD) % one.alignment:
            stack += WORD
        found.append(Location(STACK_SLOT, words, stack))
        stack += words * WORD
    return found


def _on_arm64(parameters: Sequence[Passed]) -> list[Location]:
    found = []
    register, stack = 0, _STACK_START["aarch64"]
    registers = len(REGISTERS["aarch64"])
    for passed in parameters:
        by_reference = passed.size > _IN_REGISTERS
        one = Passed(WORD) if by_reference else passed
        words, wide = _words(one.size), one.alignment > WORD
        if wide:
            register += register % 2
        if register + words <= registers:
            found.append(Location(register, words, by_reference=by_reference))
            register += words
            continue
        register = registers  # after the first parameter on the stack, all others are on the stack
        if wide:
            stack += stack % _IN_REGISTERS
        found.append(Location(STACK_SLOT, words, stack, by_reference))
        stack += words * WORD
    return found
