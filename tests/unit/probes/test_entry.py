# SPDX-License-Identifier: BSD-2-Clause
"""Where a probe at the entry of a function goes, by arm64 prologues as compilers make them."""

from __future__ import annotations

import struct

import pytest

from retsnoop_py.probes.entry import behind_prologue, entry_offset

BTI_C, NOP, PACIASP = 0xD503245F, 0xD503201F, 0xD503233F
MOV_X9_X30, BL = 0xAA1E03E9, 0x97FFFF00
STP_FP_LR_PRE, MOV_FP_SP = 0xA9BD7BFD, 0x910003FD  # stp x29, x30, [sp, #-48]!; mov x29, sp
SUB_SP, STP_FP_LR, ADD_FP_SP = 0xD10183FF, 0xA9027BFD, 0x910083FD  # ... add x29, sp, #32
STP_X19_X20 = 0xA90153F3  # stp x19, x20, [sp, #16]
ADRP_X8, MOV_X19_X0, MRS_X9_SP_EL0 = 0x90001008, 0xAA0003F3, 0xD5384109
MOV_X1_X0, LDR_X1_X0, RET = 0xAA0003E1, 0xF9400001, 0xD65F03C0


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("hook", [(NOP, NOP), (MOV_X9_X30, BL)])
@pytest.mark.parametrize(
    ("before", "prologue"),
    [
        ((), (PACIASP, STP_FP_LR_PRE, MOV_FP_SP)),
        ((BTI_C,), (STP_FP_LR_PRE, MOV_FP_SP)),
        ((), (PACIASP, SUB_SP, STP_FP_LR, ADD_FP_SP)),
        ((), (PACIASP, STP_FP_LR_PRE, ADRP_X8, MRS_X9_SP_EL0, MOV_FP_SP)),
        ((), (PACIASP, STP_FP_LR_PRE, STP_X19_X20, MOV_X19_X0, MOV_FP_SP)),
    ],
)
def test_a_probe_goes_behind_the_frame_record(
    before: tuple[int, ...], hook: tuple[int, ...], prologue: tuple[int, ...]
) -> None:
    words = (*before, *hook, *prologue)
    assert behind_prologue(code(*words, STP_X19_X20, MOV_X1_X0)) == 4 * len(words)


@pytest.mark.parametrize("hook", [(NOP, NOP), (MOV_X9_X30, BL)])
@pytest.mark.parametrize("body", [MOV_X1_X0, LDR_X1_X0, RET, BL])
def test_what_the_function_was_given_is_never_passed_by(hook: tuple[int, ...], body: int) -> None:
    assert behind_prologue(code(*hook, body, STP_FP_LR_PRE, MOV_FP_SP)) == 8


def test_a_function_that_is_not_traced_may_have_no_place_but_its_first() -> None:
    assert behind_prologue(code(LDR_X1_X0, RET)) == 0
    assert behind_prologue(code(BL, RET)) == 0
    assert behind_prologue(b"") == 0


def test_on_x86_64_the_kernel_moves_the_probe() -> None:
    assert entry_offset("x86_64")(0xFFFFFFFF81000000, 100) == 0
