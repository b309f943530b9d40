# SPDX-License-Identifier: BSD-2-Clause
"""A result register read as its function's type says.

The calling conventions define only the bits of the type: the rest of the register may hold
anything. So a result is cut to its width first. What a function's flags say goes before its
type: BPF helpers are all ``u64`` to BTF, and the flags know better.
"""

from __future__ import annotations

from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind

#: MAX_ERRNO of include/linux/err.h.
MAX_ERRNO = 4095

# Plain integers: an operation on an IntFlag costs a microsecond, and there are many.
_PTR = int(FuncFlags.PTR)
_SIGN32 = int(FuncFlags.SIGN32)
_CANT_FAIL = int(FuncFlags.CANT_FAIL)


def width_of(function: Function) -> int:
    """How many bits of the register belong to the result (0 for void)."""
    flags = int(function.flags)
    if flags & _PTR:
        return 64
    if flags & _SIGN32:
        return 32
    kind, size = function.result.kind, function.result.size
    if kind is ResultKind.VOID:
        return 0
    if kind is ResultKind.UNKNOWN:
        return 32
    if kind is ResultKind.BOOL:
        return 8
    return size * 8 if size in (1, 2, 4, 8) else 64


def value_of(function: Function, register: int) -> int:
    """The result as a number: signed where the type is, pointers unsigned, bool 0 or 1."""
    width = width_of(function)
    bits = register & ((1 << width) - 1)
    if function.result.kind is ResultKind.BOOL:
        return int(bits != 0)
    if _is_signed(function) and bits >> (width - 1) & 1:
        return bits - (1 << width)
    return bits


def error_of(function: Function, register: int) -> int | None:
    """The error a result stands for: a positive error number, 0 for NULL, None for none.

    Functions whose result cannot mean failure have none.
    """
    flags = int(function.flags)
    if flags & _CANT_FAIL or width_of(function) == 0:
        return None
    value = value_of(function, register)
    if flags & _PTR:
        if value == 0:
            return 0
        value -= 1 << 64
    return -value if -MAX_ERRNO <= value < 0 else None


def _is_signed(function: Function) -> bool:
    flags, result = int(function.flags), function.result
    if flags & _PTR or result.kind is ResultKind.VOID or result.kind is ResultKind.PTR:
        return False
    if flags & _SIGN32 or result.signed:
        return True
    # A 64-bit result that can fail: a helper that returns long, which BTF calls u64.
    return result.size == 8 and not flags & _CANT_FAIL
