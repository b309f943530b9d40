# SPDX-License-Identifier: BSD-2-Clause
"""The basic blocks of a function, and how control goes from one to the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import takewhile

from retsnoop_py.path.insn import Flow, Insn, Machine, Memory, Names
from retsnoop_py.path.text import FunctionCode
from retsnoop_py.value import Value

__all__ = ["Block", "Graph", "cut"]

#: Functions that never return; the kernel's objtool has the whole list (noreturns.h).
_NO_RETURN = frozenset(
    {
        *("__stack_chk_fail", "panic", "nmi_panic", "do_exit", "make_task_dead", "do_group_exit"),
        *("__fortify_panic", "fortify_panic", "rewind_stack_and_make_dead", "usercopy_abort"),
        *("__module_put_and_kthread_exit", "kthread_exit", "kthread_complete_and_exit"),
    }
)
_PADDING = ("pad", "nop")
#: Maximum number of instructions that set up a jump through a table.
_TABLE_REACH = 40
#: After these instructions, the next one does not run.
_LEAVING = (Flow.JUMP, Flow.INDIRECT, Flow.RETURN)


class Block(Value):
    """Instructions that run one after the other.

    ``next`` are the indexes of the following blocks. A branch has first the block that is reached
    by falling through, then its target, or -1 for a target outside the function. A jump through a
    table has all its targets. ``exit`` is ``return`` or ``tail`` if the block leaves the function,
    else empty. For ``tail``, ``callee`` is the function's name. It is None if the target of the
    jump is unknown: outside the function, or through a table.
    """

    index: int
    insns: tuple[Insn, ...]
    next: tuple[int, ...] = ()
    exit: str = ""
    callee: str | None = None

    @property
    def start(self) -> int:
        """The address of the first instruction."""
        return self.insns[0].address

    @property
    def last(self) -> Insn:
        """The last instruction."""
        return self.insns[-1]

    @property
    def is_branch(self) -> bool:
        """True if the block ends in a conditional jump."""
        return self.last.flow is Flow.BRANCH

    @property
    def is_open(self) -> bool:
        """True if the block ends in an indirect jump."""
        return self.last.flow is Flow.INDIRECT


class Graph:
    """The blocks of a function of ``machine``, by address; ``entry`` is the index of the first one.

    If code that may run cannot be decoded, ``lost`` is the address where that code begins; else 0.
    """

    def __init__(
        self, machine: Machine, code: FunctionCode, blocks: tuple[Block, ...], lost: int = 0
    ) -> None:
        self.machine = machine
        self.code = code
        self.blocks = blocks
        self.lost = lost
        self._starts = [block.start for block in blocks]
        entry = self.at(code.address)
        self.entry = entry.index if entry else 0
        self.before: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            for index in dict.fromkeys(block.next):
                if index >= 0:
                    self.before[index].append(block.index)

    def at(self, address: int) -> Block | None:
        """Return the block that contains ``address``, or None."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self.blocks[index].last.end:
            return None
        return self.blocks[index]

    def insn_at(self, address: int) -> Insn | None:
        """Return the instruction that begins at ``address``, or None."""
        block = self.at(address)
        return next((one for one in block.insns if one.address == address), None) if block else None

    def reachable(self, start: int, without: int = -1) -> set[int]:
        """Return all blocks that may run after ``start``, on paths that do not pass ``without``."""
        waiting, seen = [start], {start}
        while waiting:
            index = waiting.pop()
            for following in self.blocks[index].next if index != without else ():
                if following >= 0 and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return seen

    def leading_to(self, block: int) -> set[int]:
        """Return the blocks from which ``block`` can be reached, and ``block`` itself."""
        waiting, found = [block], {block}
        while waiting:
            new = set(self.before[waiting.pop()]) - found
            found |= new
            waiting += new
        return found


def _no_memory(_address: int, _size: int) -> bytes:
    return b""


def cut(code: FunctionCode, machine: Machine, names: Names, memory: Memory = _no_memory) -> Graph:
    """Return the blocks of ``code``; ``names`` maps the targets of calls and jumps to symbols.

    ``memory`` reads the jump tables.
    """
    parts = [
        [_plain(one, machine, names) for one in machine.decode(part.code, part.address)]
        for part in code.parts
    ]
    parts = [list(_with_tables(part, code, machine, memory)) for part in parts]
    insns = {one.address: one for part in parts for one in part}
    leaders = _leaders(parts, insns, machine)
    runs = [run for part in parts for run in _runs(part, leaders)]
    runs = sorted((run for run in runs if run), key=lambda run: run[0].address)
    starts = {run[0].address: index for index, run in enumerate(runs)}
    blocks = tuple(_block(index, run, starts, code, names) for index, run in enumerate(runs))
    graph = Graph(machine, code, blocks)
    graph.lost = _lost(graph, parts)
    return graph


def _lost(graph: Graph, parts: Sequence[list[Insn]]) -> int:
    """Return the address where decoding ended before the code did; 0 if all was decoded.

    What no instruction leads to is no code, such as the bytes behind a module's last function.
    """
    ran = (
        [graph.blocks[index].last for index in graph.reachable(graph.entry)] if graph.blocks else []
    )
    targets = {to for one in ran for to in (one.target, *one.table)}
    ends = {one.end for one in ran if one.flow not in _LEAVING}
    for part, insns in zip(graph.code.parts, parts, strict=True):
        end = insns[-1].end if insns else part.address
        is_entry = part.address == graph.code.address and not graph.blocks
        is_reached = is_entry or end in ends or any(end <= to < part.end for to in targets)
        if end < part.end and is_reached:
            return end
    return 0


def _plain(insn: Insn, machine: Machine, names: Names) -> Insn:
    """Return ``insn`` without the thunk in between."""
    if insn.flow not in (Flow.JUMP, Flow.CALL) or not insn.target:
        return insn
    # code that also runs before the kernel's relocation has a name with this prefix (7.3)
    name = (names(insn.target) or "").removeprefix("__pi_")
    if insn.flow is Flow.CALL and name in _NO_RETURN:
        return insn._replace(flow=Flow.STOP)
    return machine.plain(insn, name)


def _with_tables(
    part: list[Insn], code: FunctionCode, machine: Machine, memory: Memory
) -> Iterable[Insn]:
    """Yield the instructions of ``part``; indirect jumps have their targets."""
    for at, insn in enumerate(part):
        if insn.flow is Flow.INDIRECT:
            table = machine.table(part[max(0, at - _TABLE_REACH) : at + 1], memory)
            inside = list(takewhile(code.contains, table))
            yield insn._replace(table=tuple(inside))
        else:
            yield insn


def _is_trap(insn: Insn) -> bool:
    """Return True for the trap of WARN(), after which the kernel continues."""
    return insn.flow is Flow.STOP and insn.op == "trap"


def _leaders(parts: Iterable[list[Insn]], insns: dict[int, Insn], machine: Machine) -> set[int]:
    leaders = set()
    for part in parts:
        if part:
            leaders.add(part[0].address)
        for before, one in zip((None, *part), part, strict=False):
            if one.flow in (Flow.JUMP, Flow.BRANCH) and one.target in insns:
                leaders.add(one.target)
            leaders.update(target for target in one.table if target in insns)
            if one.flow not in (Flow.NEXT, Flow.CALL) and not _is_trap(one):
                leaders.add(one.end)
            if one.op == "ccmp":  # a separate probe records if it compares
                leaders.add(one.address)
            if one.is_open and (start := _probed_at(before, one, machine)):  # a probe reads it
                leaders.update((start.address, one.end))
    return leaders


def _probed_at(before: Insn | None, one: Insn, machine: Machine) -> Insn | None:
    """Return the instruction where a probe can read the target of ``one``, or None."""
    if machine.probes_open:
        return one
    return before if before is not None and before.pointer_of(one) is not None else None


def _runs(part: list[Insn], leaders: set[int]) -> Iterable[list[Insn]]:
    """Yield the instructions of each block of ``part``, without the padding between blocks."""
    run: list[Insn] = []
    for insn in part:
        if insn.address in leaders and run:
            yield run
            run = []
        if insn.op == "pad" and not run:
            continue
        run.append(insn)
    if run and not all(insn.op in _PADDING for insn in run):
        yield run


def _block(
    index: int, run: list[Insn], starts: dict[int, int], code: FunctionCode, names: Names
) -> Block:
    last = run[-1]
    behind = starts.get(last.end, -1)
    on = (behind,) if behind >= 0 else ()
    target = starts.get(last.target, -1)
    insns = tuple(run)
    match last.flow:
        case Flow.NEXT | Flow.CALL:
            return Block(index, insns, on)
        case Flow.STOP:
            return Block(index, insns, on if _is_trap(last) else ())
        case Flow.RETURN:
            return Block(index, insns, exit="return")
        case Flow.INDIRECT:
            found = dict.fromkeys(starts.get(one, -1) for one in last.table)
            inside = tuple(one for one in found if one >= 0)
            return Block(index, insns, inside, exit="" if inside else "tail")
        case Flow.JUMP if target >= 0:
            return Block(index, insns, (target,))
        case Flow.JUMP:
            return Block(index, insns, exit="tail", callee=names(last.target))
    if target >= 0 or code.contains(last.target):
        return Block(index, insns, (behind, target))
    return Block(index, insns, (behind, -1), exit="tail", callee=names(last.target))
