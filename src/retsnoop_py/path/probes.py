# SPDX-License-Identifier: BSD-2-Clause
"""Where in a function probes go, and which operands they read.

A block gets one probe: at the comparison that its jump looks at, so that the registers are those
that decided; elsewhere at its first instruction. In the entry block it has to be behind what
ftrace hooks, for a call is known from there on.
"""

from __future__ import annotations

import struct

from retsnoop_py.path import x86 as machine
from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Operand, Reg
from retsnoop_py.value import Value

__all__ = ["BlockProbe", "pack_operands", "place_probes", "probe_of"]

#: Bytes at a function's beginning that ftrace may hook: those of ENDBR64, and of a call.
_ENDBR, _CALL = 4, 5
#: ``struct path_operand`` of ``src/bpf/path.bpf.h``.
_OPERAND = struct.Struct("=BBBBIq")
_NOTHING = _OPERAND.pack(0, 0, 0xFF, 0xFF, 0, 0)
_REGISTER, _MEMORY = 1, 2
_NO_REGISTER = 0xFF


class BlockProbe(Value):
    """A probe: of the block ``block`` of its function, at ``address``.

    ``compare`` is the comparison it is at, None at any other instruction. ``places`` are further
    addresses of the block, to be tried where the kernel refuses the first.
    """

    block: int
    address: int
    compare: Insn | None
    places: tuple[int, ...] = ()


def place_probes(graph: Graph) -> list[BlockProbe]:
    """A probe for each block that can have one."""
    found = (probe_of(graph, block) for block in graph.blocks)
    return [probe for probe in found if probe is not None]


def probe_of(graph: Graph, block: Block) -> BlockProbe | None:
    """The probe of ``block``; None where it has no instruction for one."""
    start, end = graph.code.address, _behind_hook(graph)
    usable = [
        insn
        for insn in block.insns
        if not start <= insn.address < end and not insn.text.startswith(("endbr", "ud"))
    ]
    if not usable:
        return None
    compare = _comparison(block, usable)
    others = tuple(insn.address for insn in usable if compare is None or insn is not compare)
    if compare is not None:
        return BlockProbe(block.index, compare.address, compare, others[:3])
    return BlockProbe(block.index, others[0], None, others[1:4])


def _behind_hook(graph: Graph) -> int:
    """Where a function begins that ftrace may hook: behind the call, or the NOP in its place."""
    start = graph.code.address
    block = graph.at(start)
    for insn in block.insns[:2] if block is not None else ():
        is_hook = insn.flow is Flow.CALL or insn.text.startswith("nop")
        if is_hook and insn.size == _CALL and insn.address <= start + _ENDBR:
            return insn.end
    return start + _ENDBR + _CALL


def _comparison(block: Block, usable: list[Insn]) -> Insn | None:
    """What sets the flags that the block's jump, cmov or setcc looks at last."""
    wanted = block.is_branch
    for insn in reversed(block.insns):
        if insn.op in ("cmov", "set"):
            wanted = True
        elif wanted and (insn.flags or insn.flow is Flow.CALL):
            return insn if insn.op != "other" and insn in usable and insn.operands else None
    return None


def pack_operands(compare: Insn | None, registers: dict[str, int]) -> bytes:
    """The two ``struct path_operand`` of a comparison; ``registers``: offsets in pt_regs."""
    operands = compare.operands[:2] if compare is not None else ()
    packed = [_pack(one, registers) for one in operands]
    return b"".join((*packed, *[_NOTHING] * (2 - len(packed))))


def _pack(operand: Operand, registers: dict[str, int]) -> bytes:
    if isinstance(operand, Imm):
        return _NOTHING
    if isinstance(operand, Reg):
        at = registers.get(operand.name, _NO_REGISTER)
        return _OPERAND.pack(_REGISTER, operand.size, at, _NO_REGISTER, 0, 0)
    return _pack_memory(operand, registers)


def _pack_memory(operand: Mem, registers: dict[str, int]) -> bytes:
    if operand.segment or operand.size not in (1, 2, 4, 8):
        return _NOTHING
    base = registers.get(operand.base, _NO_REGISTER) if operand.base else _NO_REGISTER
    index = registers.get(operand.at, _NO_REGISTER) if operand.at else _NO_REGISTER
    disp = operand.disp
    disp = disp - (1 << 64) if disp >= 1 << 63 else disp
    return _OPERAND.pack(_MEMORY, operand.size, base, index, operand.scale, disp)


#: Offsets of registers in x86-64's ``struct pt_regs``, which is ABI.
PT_REGS = {
    name: 8 * place
    for place, name in enumerate(
        (
            *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx"),
            *("rdx", "rsi", "rdi"),
        )
    )
} | {machine.STACK: 152}
