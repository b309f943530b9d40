# SPDX-License-Identifier: BSD-2-Clause
"""How a call's result is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind
from retsnoop_py.session.results import MAX_ERRNO, error_of, number_of, value_of, width_of
from retsnoop_py.text import printable

if TYPE_CHECKING:
    from retsnoop_py.render import json_types as to

UNFINISHED = "[...]"

_PTR = int(FuncFlags.PTR)
_CANT_FAIL = int(FuncFlags.CANT_FAIL)
_BITS_64 = (1 << 64) - 1

# Numbers outside are rather bit patterns: they are written in hex.
_DECIMAL_MIN = -(1 << 30)
_DECIMAL_END = 1 << 20


def format_result(function: Function, register: int) -> str:
    """``[void]``, ``[NULL]``, ``[-EINVAL]``, ``[true]``, ``[CONSTANT]``, a number or ``[0x...]``.

    ``register`` is the raw result register; only the bits of the function's type count.
    """
    width = width_of(function, register)
    if width == 0:
        return "[void]"
    value = value_of(function, register)
    kind = function.result.kind
    is_pointer = bool(int(function.flags) & _PTR) or kind is ResultKind.PTR
    if is_pointer and value == 0:
        return "[NULL]"
    if kind is ResultKind.BOOL and not is_pointer:
        return "[true]" if value else "[false]"
    bits = (1 << width) - 1
    constants = function.result.values
    constant = next((name for name, one in constants if (one ^ value) & bits == 0), None)
    if constant is not None:
        return f"[{printable(constant)}]"
    error = _error_number(function, value, width)
    if error is not None:
        name = ERRNO_NAMES.get(error)
        return f"[-{name or error}]"
    if not is_pointer and _DECIMAL_MIN <= value < _DECIMAL_END:
        return f"[{value}]"
    return f"[{value & ((1 << width) - 1):#x}]"


def _error_number(function: Function, value: int, width: int) -> int | None:
    """The error number in a result, also where it does not count as a failure.

    An ``unsigned long`` in the last 4,095 is an error by the kernel's IS_ERR_VALUE(); narrower
    results that cannot fail are just numbers.
    """
    if width < 64 and int(function.flags) & _CANT_FAIL:
        return None
    if value >= 1 << 63:
        value -= 1 << 64
    return -value if -MAX_ERRNO <= value < 0 else None


def encode_result(function: Function, register: int) -> to.Result:
    """The same as an object of JSON."""
    from retsnoop_py.render import json_types as to

    error = error_of(function, register)
    return to.Result(
        hex(register & _BITS_64),
        format_result(function, register)[1:-1],
        number_of(function, register),
        None if error is None else ERRNO_NAMES.get(error, str(error)) if error else "NULL",
    )
