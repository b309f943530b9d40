# SPDX-License-Identifier: BSD-2-Clause
"""The place of a probe at a function's entry: where tracing has recorded the call.

On x86-64 the kernel moves a kprobe at a function's first instruction to the place that the function
tracer patches, so both fire at the same moment. On arm64 a kprobe there fires before the function
tracer runs, so the call is not recorded yet. Also, a call by a register has no frame record there,
and its caller is missing from the kernel's stack. Both exist after the prologue, and the registers
x0 to x7 still hold the function's arguments.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

__all__ = ["EntryOffset", "behind_prologue", "entry_offset"]

#: Returns a probe's offset in bytes for a function's address and size.
EntryOffset = Callable[[int, int], int]

#: Bytes of an instruction, and maximum number of instructions in a prologue.
_WIDTH, _MOST = 4, 24
#: The code that the function tracer patches in, or a NOP each: ``mov x9, x30`` and a call.
_KEEP_LINK, _CALL = (0xFFFFFFFF, 0xAA1E03E9), (0xFC000000, 0x94000000)
#: NOP, BTI and PACIASP: hints, which do not change a function's arguments.
_HINT = (0xFFFFF01F, 0xD503201F)
#: The frame record is complete: ``mov x29, sp`` or ``add x29, sp, #N``.
_FRAME = (0xFF8003FF, 0x910003FD)
#: Registers to the stack: ``sub sp, sp, #N``, STP with and without moving SP, STR likewise.
_TO_STACK = (
    (0xFF8003FF, 0xD10003FF),
    (0xFFC003E0, 0xA98003E0),
    (0xFFC003E0, 0xA90003E0),
    (0xFFE00FE0, 0xF8000FE0),
    (0xFFC003E0, 0xF90003E0),
)
#: Into a register without an argument: ``mrs xN, sp_el0``, ADRP, MOV of a register.
_TO_REGISTER = ((0xFFFFFFE0, 0xD5384100), (0x9F000000, 0x90000000), (0xFFE0FFE0, 0xAA0003E0))
_ARGUMENTS, _LINK = 8, 30


def _is(word: int, *forms: tuple[int, int]) -> bool:
    return any(word & mask == value for mask, value in forms)


def behind_prologue(code: bytes) -> int:
    """Return the offset in bytes at which arm64's ``code`` has made its frame record.

    If there is none, or if other code comes first, return the offset behind the tracer's place.
    """
    words = [word for (word,) in struct.iter_unpack("<I", code[: len(code) & -_WIDTH])][:_MOST]
    hooked = 0
    for at, word in enumerate(words):
        if _is(word, _FRAME):
            return (at + 1) * _WIDTH
        if _is(word, _CALL) and at and _is(words[at - 1], _KEEP_LINK):
            hooked = at + 1
        elif _is(word, _HINT, _KEEP_LINK):
            # in an untraced function, all these are NOPs
            hooked = at + 1 if hooked == at else hooked
        elif not (
            _is(word, *_TO_STACK)
            or (_is(word, *_TO_REGISTER) and _ARGUMENTS <= word & 0x1F < _LINK - 1)
        ):
            break
    return hooked * _WIDTH


def entry_offset(machine: str) -> EntryOffset:
    """Return the function that finds the offset of entry probes on ``machine``.

    It reads the running kernel's code. The offset is 0 on x86-64, and if the kernel does not show
    its code.
    """
    if machine != "aarch64":
        return lambda _address, _size: 0
    from retsnoop_py.errors import RetsnoopError
    from retsnoop_py.kernel.kcore import Kcore

    def offset(address: int, size: int) -> int:
        try:
            with Kcore() as memory:
                return behind_prologue(memory.read(address, min(size, _MOST * _WIDTH)))
        except RetsnoopError:
            return 0

    return offset
