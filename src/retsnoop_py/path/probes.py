# SPDX-License-Identifier: BSD-2-Clause
"""The places of probes in a function, and the operands that they read.

A block gets one probe. If the block has a deciding comparison, the probe is at the comparison and
reads the registers that decide. Otherwise the probe is at the first instruction. In the entry block
it must be behind ftrace's hook, because tracing of a call begins there.
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
#: Size of an x86-64 call in bytes, as kprobes assume it.
_CALL_SIZE = 5


class BlockProbe(Value):
    """A probe of block ``block``, at ``address``.

    ``compare`` is the comparison at that address, None for other instructions. ``places`` are
    further addresses in the block, to try if the kernel rejects the first. A probe at a conditional
    comparison counts as two probes, and ``held`` is True for the one with an executed comparison.
    ``goes`` is the pointer of a call or jump, if the probe is at such an instruction or before it.
    """

    block: int
    address: int
    compare: Insn | None
    places: tuple[int, ...] = ()
    held: bool | None = None
    goes: Operand | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands that the probe reads: those of the comparison, or a call's pointer."""
        if self.goes is not None:
            return (self.goes,)
        return self.compare.compared if self.compare is not None else ()


def place_probes(graph: Graph) -> list[BlockProbe]:
    """Return a probe for each block that can have one."""
    found = (probe_of(graph, block) for block in graph.blocks)
    return [probe for probe in found if probe is not None]


def probe_of(graph: Graph, block: Block) -> BlockProbe | None:
    """Return the probe of ``block``; None if no instruction can be probed."""
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
    """Return True if kprobes on x86-64 may return from a call to the wrong address."""
    return insn.goes_through or (insn.flow is Flow.CALL and insn.size != _CALL_SIZE)


def _behind_hook(graph: Graph) -> int:
    """Return the address behind ftrace's hook: behind the call, or the NOP in its place."""
    block = graph.at(graph.code.address)
    return graph.machine.hook_end(block.insns) if block is not None else graph.code.address


def _comparison(graph: Graph, block: Block, usable: list[Insn]) -> Insn | None:
    """Return the instruction that sets the flags for the block's last jump, cmov or setcc.

    A block that begins with a conditional comparison has its probe there. That comparison depends
    on the comparison of the previous block.
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
    """Return the part of an instruction that sets the flags."""
    return next((one for one in reversed(insn.steps) if one.flags), insn)


def pack_operands(operands: Sequence[Operand], registers: Mapping[str, int]) -> bytes:
    """Return the two ``struct path_operand`` of a probe; ``registers``: offsets in pt_regs."""
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
