# SPDX-License-Identifier: BSD-2-Clause
"""Interpret a result register by the type of its function.

The calling conventions define only the bits of the type: the rest of the register is undefined.
Therefore a result is first cut to its width. The flags of a function have precedence over its
type: BTF describes BPF helpers as ``u64``, and the flags are more precise.
"""

from __future__ import annotations

from retsnoop_py.kernel.errno import MAX_ERRNO
from retsnoop_py.kernel.functions import ERROR_SHIFT, FuncFlags, Function, ResultKind

# Plain integers: an operation on an IntFlag costs a microsecond, and there are many.
_PTR = int(FuncFlags.PTR)
_SIGN32 = int(FuncFlags.SIGN32)
_CANT_FAIL = int(FuncFlags.CANT_FAIL)
_NULL_OK = int(FuncFlags.NULL_OK)
_GUESSED = int(FuncFlags.GUESSED)
_BITS_64 = (1 << 64) - 1


def width_of(function: Function, register: int) -> int:
    """Return the number of bits of the register that belong to the result (0 for void).

    The result of a function without a type is an int, unless the upper half of the register is
    not the sign extension of one.
    """
    flags = int(function.flags)
    if flags & _PTR:
        return 64
    if flags & _SIGN32:
        return 64 if flags & _GUESSED and not _extends_32(register) else 32
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
    width = width_of(function, register)
    bits = register & ((1 << width) - 1)
    if function.result.kind is ResultKind.BOOL:
        return int(bits != 0)
    if _is_signed(function) and bits >> (width - 1) & 1 and not _is_wide_guess(function, width):
        return bits - (1 << width)
    return bits


def number_of(function: Function, register: int) -> int | None:
    """The result as a number where it is one: None for pointers and void."""
    is_pointer = int(function.flags) & _PTR or function.result.kind is ResultKind.PTR
    if is_pointer or not width_of(function, register):
        return None
    return value_of(function, register)


def error_of(function: Function, register: int) -> int | None:
    """Return the error of a result: a positive error number, 0 for NULL, None for no error.

    Functions that cannot fail have no errors, and ordinary results of a function
    (``selection/ordinary.py``) do not count as errors.
    """
    flags = int(function.flags)
    if flags & _CANT_FAIL or width_of(function, register) == 0:
        return None
    value = value_of(function, register)
    if flags & _PTR:
        if value == 0:
            return None if flags & _NULL_OK else 0
        value -= 1 << 64
    return -value if -MAX_ERRNO <= value < 0 and -value != flags >> ERROR_SHIFT else None


def _extends_32(register: int) -> bool:
    """Return True if the upper half of the register is zero, or the sign of the lower half."""
    bits = register & _BITS_64
    return not bits >> 32 or bits >> 31 == (1 << 33) - 1


def _is_wide_guess(function: Function, width: int) -> bool:
    """Return True for a result of unknown type that is not an int."""
    return width == 64 and int(function.flags) & _GUESSED != 0


def _is_signed(function: Function) -> bool:
    flags, result = int(function.flags), function.result
    if flags & _PTR or result.kind is ResultKind.VOID or result.kind is ResultKind.PTR:
        return False
    if flags & _SIGN32 or result.signed:
        return True
    # A 64-bit result that can fail: a helper that returns long, which BTF calls u64.
    return result.size == 8 and not flags & _CANT_FAIL
