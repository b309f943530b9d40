# SPDX-License-Identifier: BSD-2-Clause
"""arm64: instructions, blocks and probes, on code written down by hand."""

from __future__ import annotations

import struct

import pytest
from tests.unit.path.test_text import Source, Symbol, Symbols

from retsnoop_py.path.arm64 import ARM64
from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.decide import decide
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.follow import follow
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Reg
from retsnoop_py.path.probes import pack_operands, place_probes
from retsnoop_py.path.text import FunctionCode, Part, read_function

START = 0xFFFF800080010000
X0, X1, SP = Reg("x0", 8), Reg("x1", 8), Reg("sp", 8)
W0, W1, W3 = Reg("x0", 4), Reg("x1", 4), Reg("x3", 4)
TMP = Reg("tmp", 4)
NOP, SAVE_LINK, BTI, PACIASP, RET = 0xD503201F, 0xAA1E03E9, 0xD503245F, 0xD503233F, 0xD65F03C0
CALL, KPROBE, WARN = 0x94000400, 0xD4200080, 0xD4210000


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def decoded(word: int) -> Insn:
    (insn,) = ARM64.decode(code(word), START)
    return insn


def graph(*words: int) -> Graph:
    return cut(FunctionCode("f", None, (Part(START, code(*words)),)), ARM64, {}.get)


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        (0x7100101F, [("cmp", W0, Imm(4, 4))]),
        # cmp x0, w1, uxtw #2
        (
            0xEB21481F,
            [
                ("movzx", Reg("tmp", 8), W1),
                ("shl", Reg("tmp", 8), Imm(2, 1)),
                ("cmp", X0, Reg("tmp", 8)),
            ],
        ),
        # cmn x0, #1, lsl #12: IS_ERR()
        (0xB140041F, [("cmp", X0, Imm(-4096, 8))]),
        # ccmn w3, #1, #4, ne
        (0x3A411864, [("ccmp", Imm(4, 4), W3, Imm(-1, 4))]),
        # stp x29, x30, [sp, #-32]!
        (
            0xA9BE7BFD,
            [
                ("add", SP, SP, Imm(-32, 8)),
                ("mov", Mem("sp", None, 1, 0, 8), Reg("x29", 8)),
                ("mov", Mem("sp", None, 1, 8, 8), Reg("x30", 8)),
            ],
        ),
        # ldr w0, [x1], #4
        (0xB8404420, [("mov", W0, Mem("x1", None, 1, 0, 4)), ("add", X1, X1, Imm(4, 8))]),
        # ldp x1, x2, [x1, #8]: the second first, for the first is the address
        (
            0xA9408821,
            [
                ("mov", Reg("x2", 8), Mem("x1", None, 1, 16, 8)),
                ("mov", X1, Mem("x1", None, 1, 8, 8)),
            ],
        ),
        # movk x1, #0x1234, lsl #16
        (
            0xF2A24681,
            [("and", X1, X1, Imm(~0xFFFF0000, 8)), ("or", X1, X1, Imm(0x12340000, 8))],
        ),
        # csinv w0, w1, wzr, ne
        (0x5A9F1020, [("cmov", W0, W1, Imm(-1, 4))]),
        # cneg w0, w1, ne, which is csneg w0, w1, w1, eq
        (0x5A810420, [("neg", TMP, W1), ("cmov", W0, W1, TMP)]),
        (0x90000000, [("mov", X0, Imm(START - (1 << 64), 8))]),
        # ldtrh w0, [x0]
        (0x78400800, [("movzx", W0, Mem("x0", None, 1, 0, 2))]),
        (0xD5384100, [("mov", X0, Reg("sp_el0", 8))]),
        # ubfx w0, w1, #3, #4
        (0x53031820, [("shr", TMP, W1, Imm(3, 1)), ("and", W0, TMP, Imm(15, 4))]),
        (0x128002A0, [("mov", W0, Imm(-22, 4))]),
    ],
)
def test_what_an_instruction_does_is_read_from_the_text(
    word: int, steps: list[tuple[object, ...]]
) -> None:
    assert [(one.op, *one.operands) for one in decoded(word).steps] == steps


@pytest.mark.parametrize(
    ("word", "compared", "condition"),
    [
        (0x37F80040, (W0, W0), "s"),  # tbnz w0, #31
        (0x36280040, (W0, Imm(32, 4)), "e"),  # tbz w0, #5
        (0xB4000043, (Reg("x3", 8), Reg("x3", 8)), "e"),  # cbz x3
    ],
)
def test_a_jump_that_compares_is_a_comparison_and_a_jump(
    word: int, compared: tuple[object, ...], condition: str
) -> None:
    insn = decoded(word)
    test, jump = insn.steps
    assert (test.op, test.operands, test.flags) == ("test", compared, True)
    assert (jump.flow, jump.condition, jump.target) == (Flow.BRANCH, condition, START + 8)
    assert insn.flow is Flow.BRANCH


def test_what_other_instructions_change_is_known() -> None:
    writes = {
        0xB8E00041: ("x1",),  # ldaddal w0, w1, [x2]
        0x8802FC20: ("x2",),  # stlxr w2, w0, [x1]
        0x48207C82: ("x0", "x1"),  # casp x0, x1, x2, x3, [x4]
        0x331D0C20: ("x0",),  # bfi w0, w1, #3, #4
        0xD50342DF: (),  # msr daifset, #2
    }
    assert {word: decoded(word).writes for word in writes} == writes
    assert not any(decoded(word).flags for word in writes)


def test_a_word_that_is_not_known_costs_one_register_and_the_flags() -> None:
    first, unknown, last = ARM64.decode(code(NOP, 0xFFFFFFE7, RET), START)
    assert (first.op, unknown.writes, unknown.flags) == ("nop", ("x7",), True)
    assert (last.flow, last.address) == (Flow.RETURN, START + 8)
    assert graph(NOP, 0xFFFFFFE7, RET).lost == 0


def test_what_follows_a_warning_is_of_the_function() -> None:
    blocks = graph(NOP, NOP, WARN, 0x128002A0, RET).blocks
    assert [block.exit for block in blocks] == ["return"]
    # somebody's probe is no end, and what it stands in for is not known
    assert decoded(KPROBE).flow is Flow.NEXT


#: stp; cmp w0, #7; ccmp w1, #4, #4, eq; b.ne +12; mov w0, #-22; b +8; mov w0, #0; ldp; ret
BOTH = (
    *(NOP, NOP, 0xA9BE7BFD, 0x71001C1F, 0x7A440824, 0x54000061),
    *(0x128002A0, 0x14000002, 0x52800000, 0xA8C27BFD, RET),
)


def test_a_conditional_comparison_begins_a_block_and_has_its_probe() -> None:
    blocks = graph(*BOTH)
    assert [block.start - START for block in blocks.blocks] == [0, 16, 24, 32, 36]
    assert [block.next for block in blocks.blocks] == [(1,), (2, 3), (4,), (4,), ()]
    first, second, *_ = place_probes(blocks)
    # the one looks at what the other compares only if this holds
    assert (first.address, second.address) == (START + 12, START + 16)
    assert first.compare is not None
    assert first.compare.operands == (W0, Imm(7, 4))
    assert second.compare is not None
    assert second.compare.compared == (W1, Imm(4, 4))


@pytest.mark.parametrize(
    ("held", "hits", "value"),
    # w0 != 7: nothing else was asked; w0 == 7 && w1 == 4 fails, w1 != 4 does not
    [(False, [0, 1, 3, 4], 7), (True, [0, 1, 3, 4], 4), (True, [0, 1, 2, 4], 4)],
)
def test_which_of_two_conditions_decided_is_known_by_whether_the_second_was_asked(
    held: bool, hits: list[int], value: int
) -> None:
    blocks = graph(*BOTH)
    asked = [held if hit == 1 else None for hit in hits]
    way = follow(blocks, hits, range(5), held=asked)
    decided = decide(blocks, way, Failure(0 if hits[2] == 3 else -22), {}.get).decided
    assert decided is not None
    assert decided.flags is not None
    assert decided.flags.right.value == value


def test_where_nobody_knows_whether_it_was_asked_nothing_is_made_up() -> None:
    blocks = graph(*BOTH)
    decided = decide(blocks, follow(blocks, [0, 1, 2, 4], range(5)), Failure(-22), {}.get).decided
    assert decided is not None
    assert decided.flags is None


@pytest.mark.parametrize("start", [(), (BTI,)])
@pytest.mark.parametrize("hook", [(NOP, NOP), (SAVE_LINK, NOP), (SAVE_LINK, CALL), (KPROBE, NOP)])
def test_a_function_that_is_traced_reads_as_if_it_were_not(
    start: tuple[int, ...], hook: tuple[int, int]
) -> None:
    """Calls further on are its own; a probe stands behind what ftrace hooks, and PACIASP."""
    body = code(*start, *hook, PACIASP, 0xA9BE7BFD, CALL, RET)
    found = read_function(Symbol(len(body)), Symbols(), Source(body), ARM64)  # type: ignore[arg-type]
    assert found is not None
    first = SAVE_LINK if hook[0] == SAVE_LINK else NOP
    assert found.parts[0].code == code(*start, first, NOP, PACIASP, 0xA9BE7BFD, CALL, RET)
    blocks = cut(found, ARM64, {}.get)
    assert place_probes(blocks)[0].address == found.address + 4 * (len(start) + 3)


def test_operands_are_packed_as_the_bpf_side_has_them() -> None:
    shifted = decoded(0xEB21481F)  # cmp x0, w1, uxtw #2
    packed = pack_operands(shifted.steps[-1].compared, ARM64.pt_regs)
    left, right = struct.iter_unpack("=BBBBIq", packed)
    assert left == (1, 8, 0, 0xFF, 0, 0)
    assert right == (0, 0, 0xFF, 0xFF, 0, 0)  # what is computed in it, no register has
    assert ARM64.pt_regs["x30"] == 240
    assert ARM64.pt_regs["sp"] == 248


def test_the_functions_that_make_a_number_are_found() -> None:
    assert ARM64.makes(code(NOP, 0x128002A0), -22)  # mov w0, #-22
    assert ARM64.makes(code(NOP, 0x928002A3), -22)  # mov x3, #-22
    assert not ARM64.makes(code(NOP, 0x128002A0), -21)
    assert not ARM64.makes(code(0x3100581F), -22)  # cmn w0, #22
    assert not ARM64.makes(b"\0" + code(0x128002A0), -22)


def test_a_veneer_of_a_module_leads_on() -> None:
    assert ARM64.veneer(code(0x90000010, 0x9119E210, 0xD61F0200), START) == START + 0x678
    older = code(0x92824690, 0xF2AACF10, 0xF2D35790, 0xD61F0200)
    assert ARM64.veneer(older, START) == 0xFFFF9ABC5678EDCB
    assert ARM64.veneer(code(*BOTH), START) is None


def test_a_jump_table_is_read_as_far_as_its_index_was_compared() -> None:
    """Entries are offsets from an address in the code, in words."""
    table = 0xFFFF800080020000
    words = (
        *(NOP, NOP, 0x71000C1F, 0x54000128),  # cmp w0, #3; b.hi +36
        *(0x90000081, 0x91000021),  # adrp x1, table; add x1, x1, #0
        *(0x38604821, 0x10000062, 0x8B218841, 0xD61F0020),  # ldrb; adr x2; add; br x1
        *(0x128002A0, RET, 0x12800000, RET),
    )
    asked: list[tuple[int, int]] = []

    def memory(address: int, size: int) -> bytes:
        asked.append((address, size))
        return bytes([0, 2, 0, 2, 7])[:size]

    blocks = cut(FunctionCode("f", None, (Part(START, code(*words)),)), ARM64, {}.get, memory)
    assert asked == [(table, 4)]
    (jump,) = [block for block in blocks.blocks if block.is_open]
    assert [at - START for at in jump.last.table] == [40, 48, 40, 48]
    assert [blocks.blocks[one].start - START for one in jump.next] == [40, 48]
    assert not jump.exit


def test_the_pointer_that_ftrace_keeps_before_the_next_function_is_no_code() -> None:
    """Seen on 7.3: a probe at it had the kernel crash at the next call of that function."""
    ops = struct.pack("<Q", 0xFFFFA765F5D42008)
    assert ARM64.own(code(NOP, RET) + ops) == code(NOP, RET)
    assert ARM64.own(code(NOP, NOP, NOP, RET)) == code(NOP, NOP, NOP, RET)
