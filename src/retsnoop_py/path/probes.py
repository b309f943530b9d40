# SPDX-License-Identifier: BSD-2-Clause
"""Where in a function probes go, and which operands they read.

A block gets one probe: at the comparison that its jump looks at, so that the registers are those
that decided; elsewhere at its first instruction. In the entry block it has to be behind what
ftrace hooks, for a call is known from there on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Operand, Reg
from retsnoop_py.value import Value

__all__ = ["BlockProbe", "is_odd_call", "pack_operands", "place_probes", "probe_of"]

#: ``struct path_operand`` of ``src/bpf/path.bpf.h``.
_OPERAND = struct.Struct("=BBBBIq")
_NOTHING = _OPERAND.pack(0, 0, 0xFF, 0xFF, 0, 0)
_REGISTER, _MEMORY = 1, 2
_NO_REGISTER = 0xFF
#: Bytes of a call on x86-64, as kprobes count them.
_CALL_SIZE = 5


class BlockProbe(Value):
    """A probe: of the block ``block`` of its function, at ``address``.

    ``compare`` is the comparison it is at, None at any other instruction. ``places`` are further
    addresses of the block, to be tried where the kernel refuses the first. One at a conditional
    comparison is two as hits count them, by whether it was made; ``held`` tells them apart.
    ``goes`` is what an instruction calls or jumps through, where it is at or before one that does.
    """

    block: int
    address: int
    compare: Insn | None
    places: tuple[int, ...] = ()
    held: bool | None = None
    goes: Operand | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads: the operands of the comparison, or where a call goes."""
        if self.goes is not None:
            return (self.goes,)
        return self.compare.compared if self.compare is not None else ()


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
        if not start <= insn.address < end
        and insn.op not in ("entry", "trap")
        and (graph.machine.probes_open or not is_odd_call(insn))
    ]
    if not usable:
        return None
    *before, last = block.insns
    if last.is_open and len(before) == (not graph.machine.probes_open) and usable:
        goes = before[0].pointer_of(last) if before else last.operands[0]
        if goes is not None:
            return BlockProbe(block.index, usable[0].address, None, goes=goes)
    compare = _comparison(graph, block, usable)
    others = tuple(one.address for one in usable if not compare or one.address != compare.address)
    if compare is not None:
        return BlockProbe(block.index, compare.address, compare, others[:3])
    return BlockProbe(block.index, others[0], None, others[1:4])


def is_odd_call(insn: Insn) -> bool:
    """Whether kprobes of x86-64 may come back from it to the wrong place."""
    return insn.goes_through or (insn.flow is Flow.CALL and insn.size != _CALL_SIZE)


def _behind_hook(graph: Graph) -> int:
    """Where a function begins that ftrace may hook: behind the call, or the NOP in its place."""
    block = graph.at(graph.code.address)
    return graph.machine.hook_end(block.insns) if block is not None else graph.code.address


def _comparison(graph: Graph, block: Block, usable: list[Insn]) -> Insn | None:
    """What sets the flags that the block's jump, cmov or setcc looks at last.

    A block that begins with a conditional comparison has its probe there, and looks at what the
    block before compared.
    """
    if block.insns[0].op == "ccmp":
        return _compares(block.insns[0]) if block.insns[0] in usable else None
    following = block.next[0] if len(block.next) == 1 else -1
    wanted = block.is_branch or (following >= 0 and graph.blocks[following].insns[0].op == "ccmp")
    for insn in reversed(block.insns):
        if any(step.op in ("cmov", "set") for step in insn.steps):
            wanted = True
        elif wanted and (insn.flags or insn.flow is Flow.CALL):
            compare = _compares(insn)
            return compare if insn in usable and compare.operands else None
    return None


def _compares(insn: Insn) -> Insn:
    """The part of an instruction that sets the flags."""
    return next((one for one in reversed(insn.steps) if one.flags), insn)


def pack_operands(operands: Sequence[Operand], registers: Mapping[str, int]) -> bytes:
    """The two ``struct path_operand`` of a probe; ``registers``: offsets in pt_regs."""
    packed = [_pack(one, registers) for one in operands]
    return b"".join((*packed, *[_NOTHING] * (2 - len(packed))))


def _pack(operand: Operand, registers: Mapping[str, int]) -> bytes:
    if isinstance(operand, Imm):
        return _NOTHING
    if isinstance(operand, Reg):
        at = registers.get(operand.name)
        if at is None:
            return _NOTHING
        return _OPERAND.pack(_REGISTER, operand.size, at, _NO_REGISTER, 0, 0)
    return _pack_memory(operand, registers)


def _pack_memory(operand: Mem, registers: Mapping[str, int]) -> bytes:
    if operand.segment or operand.size not in (1, 2, 4, 8):
        return _NOTHING
    base = registers.get(operand.base, _NO_REGISTER) if operand.base else _NO_REGISTER
    index = registers.get(operand.at, _NO_REGISTER) if operand.at else _NO_REGISTER
    disp = operand.disp
    disp = disp - (1 << 64) if disp >= 1 << 63 else disp
    return _OPERAND.pack(_MEMORY, operand.size, base, index, operand.scale, disp)
