# SPDX-License-Identifier: BSD-2-Clause
"""From what a function returns to how the kernel side judges its result."""

from __future__ import annotations

from retsnoop_py.kernel.functions import FuncFlags, ResultKind, ResultType
from retsnoop_py.kernel.helpers import helper_result

__all__ = ["UNKNOWN_RESULT", "flags_for", "flags_of", "result_for"]

#: A function without BTF: most return int or nothing, and int is the one that can fail. Others
#: are told apart call by call: 64 bits that extend no 32 are no int.
UNKNOWN_RESULT = ResultType(ResultKind.UNKNOWN, 4, True, "")


def result_for(name: str, result: ResultType | None) -> ResultType:
    """What function ``name`` really returns, ``result`` being what BTF says, None if nothing.

    The two differ for BPF helpers, all of which the kernel compiles to return u64.
    """
    plain_u64 = result is None or (
        result.kind is ResultKind.INT and result.size == 8 and not result.signed
    )
    if plain_u64:
        return helper_result(name) or result or UNKNOWN_RESULT
    assert result is not None
    return result


def flags_for(name: str, result: ResultType | None) -> FuncFlags:
    """The flags of function ``name``, without ENTRY, from what BTF says it returns.

    Void, booleans, unsigned numbers and results of less than 32 bits cannot carry an error.
    A 32-bit one, an enum too, counts by its low half: the upper half of the register is
    whatever was left there. Everything else is read as 64 signed bits.
    """
    return flags_of(result_for(name, result))


def flags_of(result: ResultType) -> FuncFlags:
    """The flags of a function that really returns ``result``."""
    if result.kind is ResultKind.PTR:
        return FuncFlags.PTR
    unsigned = result.kind is ResultKind.INT and not result.signed
    if result.kind in (ResultKind.VOID, ResultKind.BOOL) or unsigned or result.size < 4:
        return FuncFlags.CANT_FAIL
    if result.kind is ResultKind.UNKNOWN:
        return FuncFlags.SIGN32 | FuncFlags.GUESSED
    return FuncFlags.SIGN32 if result.size == 4 else FuncFlags(0)
