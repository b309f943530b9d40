# SPDX-License-Identifier: BSD-2-Clause
"""Instructions, blocks, ways and probes, on code written down by hand."""

from __future__ import annotations

import struct

import pytest

from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.follow import follow
from retsnoop_py.path.insn import Flow, Imm, Mem, Reg
from retsnoop_py.path.probes import pack_operands, place_probes
from retsnoop_py.path.text import FunctionCode, Part
from retsnoop_py.path.x86 import X86_64

START = 0xFFFFFFFF81000000


def graph(code: str, names: dict[int, str] | None = None) -> Graph:
    part = Part(START, bytes.fromhex(code))
    return cut(FunctionCode("f", None, (part,)), X86_64, (names or {}).get)


@pytest.mark.parametrize(
    ("code", "op", "operands"),
    [
        ("837f0404", "cmp", (Mem("rdi", None, 1, 4, 4), Imm(4, 4))),
        ("81fa63e2ffff", "cmp", (Reg("rdx", 4), Imm(-7581, 4))),
        ("f6c614", "test", (Reg("rdx", 1, high=True), Imm(20, 1))),
        ("488b04cd00000000", "mov", (Reg("rax", 8), Mem(None, "rcx", 8, 0, 8))),
        ("488b44c810", "mov", (Reg("rax", 8), Mem("rax", "rcx", 8, 16, 8))),
        ("488b0510000000", "mov", (Reg("rax", 8), Mem(None, None, 1, START + 7 + 16, 8))),
        (
            "65488b0425c0ff0100",
            "mov",
            (Reg("rax", 8), Mem(None, None, 1, 0x1FFC0, 8, "gs")),
        ),
        ("b8eaffffff", "mov", (Reg("rax", 4), Imm(-22, 4))),
    ],
)
def test_operands_are_read_from_the_text(code: str, op: str, operands: tuple[object, ...]) -> None:
    (insn,) = X86_64.decode(bytes.fromhex(code), START)
    assert (insn.op, insn.operands) == (op, operands)


def test_what_other_instructions_change_is_known() -> None:
    writes = {
        code: X86_64.decode(bytes.fromhex(code), START)[0].writes
        for code in ("f7e1", "f3a4", "0f31", "f00fb11a", "f00fc102")
    }
    assert {"rax", "rdx"} <= set(writes["f7e1"])
    assert {"rcx", "rsi", "rdi"} <= set(writes["f3a4"])
    assert {"rax", "rdx"} <= set(writes["0f31"])
    assert "rax" in writes["f00fb11a"]
    assert "rax" in writes["f00fc102"]


@pytest.mark.parametrize(
    "trap",
    ["0f0b", "0fb9c0", "67480fb93a", "670fb9400c", "0fb98312345678", "0fb904b3", "0fff0412", "d6"],
)
def test_what_follows_a_trap_of_any_kind_is_decoded(trap: str) -> None:
    insns = X86_64.decode(bytes.fromhex(trap + "b8eaffffff"), START)
    assert [one.flow for one in insns] == [Flow.STOP, Flow.NEXT]
    assert insns[1].operands == (Reg("rax", 4), Imm(-22, 4))


def test_code_that_is_not_understood_is_told_from_where_on() -> None:
    assert graph(BRANCHY).lost == 0
    assert graph("9090060000").lost == START + 2
    assert graph("90c3060000").lost == 0, "no instruction leads there"
    assert graph("90c30000060000").lost == 0, "not to the bytes that look like code either"
    assert graph("060000").lost == START
    assert graph("7401c3060000").lost == START + 3, "je leads there"


#: test edi,edi; je +6; mov eax,-22; ret; xor eax,eax; ret; int3
BRANCHY = "85ff7406b8eaffffffc331c0c3cc"


def test_code_is_cut_at_jumps_and_their_targets() -> None:
    blocks = graph(BRANCHY).blocks
    assert [block.start - START for block in blocks] == [0, 4, 10]
    assert [block.next for block in blocks] == [(1, 2), (), ()]
    assert [block.exit for block in blocks] == ["", "return", "return"]


def test_a_return_thunk_is_a_return_and_a_foreign_jump_a_tail_call() -> None:
    jump = "e9" + struct.pack("<i", 0x1000 - 5).hex()
    names = {START + 0x1000: "__x86_return_thunk"}
    assert graph(jump, names).blocks[0].exit == "return"
    block = graph(jump, {START + 0x1000: "other"}).blocks[0]
    assert (block.exit, block.callee) == ("tail", "other")


@pytest.mark.parametrize(
    ("thunk", "register"),
    [
        ("__x86_indirect_thunk_r11", "r11"),
        ("__pi___x86_indirect_thunk_r11", "r11"),
        ("__x86_indirect_thunk_array", "rax"),
    ],
)
def test_a_call_through_a_thunk_reads_its_register(thunk: str, register: str) -> None:
    call = "e8" + struct.pack("<i", 0x1000 - 12 - 5).hex() + "c3"
    names = {START + 0x1000: thunk}
    code = graph("90" * 12 + call, names)
    before, insn = code.blocks[1].insns
    assert insn.flow is Flow.CALL
    assert (insn.target, insn.operands) == (0, (Reg(register, 8),))
    # in front of it: of some calls the kernel that probes them comes back to the wrong place
    probe = place_probes(code)[1]
    assert (probe.address, probe.operands) == (before.address, insn.operands)
    assert code.blocks[2].start == insn.end


@pytest.mark.parametrize(
    ("before", "is_read"),
    [
        ("4c89e7", True),  # mov rdi, r12
        ("4d8b11", True),  # mov r10, [r9]
        ("49c7c200000000", False),  # mov r10, 0
        ("4531d2", False),  # xor r10d, r10d
        ("4d85d2", True),  # test r10, r10
        ("4152", True),  # push r10
        ("415a", False),  # pop r10
        ("e800000000", False),  # a call
    ],
)
def test_no_probe_stands_at_a_call_through_a_pointer(before: str, is_read: bool) -> None:
    """``2e e8``, with a prefix as gcc makes it: kprobes would go on in the middle of it."""
    at = 12 + len(before) // 2
    call = "2ee8" + struct.pack("<i", 0x1000 - at - 6).hex() + "4889c3c3"
    code = graph("90" * 12 + before + call, {START + 0x1000: "__x86_indirect_thunk_r10"})
    probes = place_probes(code)
    places = {place for probe in probes for place in (probe.address, *probe.places)}
    assert START + at not in places
    assert [probe.address for probe in probes if probe.goes] == [START + 12] * is_read


def test_a_block_is_probed_at_what_decides() -> None:
    code = "90" * 16 + BRANCHY
    probes = place_probes(graph(code))
    assert probes[0].compare is not None
    assert probes[0].compare.text.startswith("test edi, edi")
    assert probes[0].address == START + 16
    # what ftrace hooks is never probed: a call is not known before
    assert all(probe.address >= START + 9 for probe in probes)


@pytest.mark.parametrize("start", ["f30f1efa0f1f440000", "f30f1efae800100000", "0f1f440000"])
def test_a_probe_stands_right_behind_what_ftrace_hooks(start: str) -> None:
    probes = place_probes(graph(start + BRANCHY))
    assert probes[0].address == START + len(start) // 2
    assert probes[0].compare is not None


def test_operands_are_packed_as_the_bpf_side_has_them() -> None:
    (insn,) = X86_64.decode(bytes.fromhex("3b54b710"), START)  # cmp edx, [rdi + rsi*4 + 16]
    left, right = struct.iter_unpack("=BBBBIq", pack_operands(insn.compared, X86_64.pt_regs))
    assert left == (1, 4, 96, 0xFF, 0, 0)
    assert right == (2, 4, 112, 104, 4, 16)
    assert pack_operands((), X86_64.pt_regs) == bytes([0, 0, 0xFF, 0xFF, *[0] * 12]) * 2


def test_a_way_is_filled_in_where_one_block_only_can_have_run() -> None:
    # je over a jump to a common end: the middle has no probe
    code = graph("85ff7402" + "eb00" + "31c0c3")
    starts = [block.start - START for block in code.blocks]
    assert starts == [0, 4, 6]
    way = follow(code, [0, 2], {0, 2})
    assert way.blocks in ((0, 2), (0, 1, 2))
    assert way.ends
    assert not way.gaps


def test_hits_that_no_jump_connects_are_told() -> None:
    code = graph(BRANCHY)
    way = follow(code, [1, 2], {0, 1, 2})
    assert way.gaps == {1}


def test_a_way_that_does_not_begin_at_the_entry_was_cut() -> None:
    code = graph(BRANCHY)
    assert follow(code, [2], {0, 1, 2}).is_cut
    assert not follow(code, [0, 2], {0, 1, 2}).is_cut
    assert not follow(code, [2], {1, 2}).is_cut


def test_a_way_that_does_not_reach_a_return_is_told() -> None:
    assert not follow(graph(BRANCHY), [0], {0, 1, 2}).ends
