# SPDX-License-Identifier: BSD-2-Clause
"""Register and memory values along the executed path, as expressions.

Each instruction that ran is followed in order. A value is a :class:`Node` that one instruction
made. Moves, spills and reloads keep the node. Therefore the node in the result register at the
return contains the place where the result was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import (
    INT,
    Flow,
    Imm,
    Insn,
    Machine,
    Mem,
    Names,
    Operand,
    Reg,
    user_copy,
)

__all__ = [
    "LOCAL_BYTES",
    "USER",
    "Flags",
    "Moment",
    "Node",
    "Run",
    "State",
    "apply",
    "evaluate",
    "run_block",
    "state_at_entry",
    "state_before",
    "value_returned",
]

_MASK = (1 << 64) - 1
#: The name of a load that was copied from the user's memory.
USER = "user"
#: The assumed size in bytes of a local variable, if its address is passed to a function.
LOCAL_BYTES = 512


class Node:
    """A value: its kind and where it was made.

    ``kind`` is one of:

    - ``const``: the constant ``value``
    - ``param``: an argument; ``name`` is its register
    - ``load``: ``size`` bytes at ``args[0]`` + ``value``; without an argument, at an absolute
      address; ``name`` is a segment, or :data:`USER`
    - ``call``: the result of the callee ``name``, None if its name is unknown
    - ``op``: the operation ``name`` on ``args``
    - ``stack``: the address at offset ``value`` from the stack pointer at the entry
    - ``left``: the value that the call ``args[0]`` left in a local variable, after it got the
      variable's address; the instruction at ``value`` reads the variable
    - ``cond``: the outcome of condition ``name`` of ``flags``
    - ``select``: ``args[0]`` if the condition ``name`` of ``flags`` holds, else ``args[1]``
    - ``current``: the running task
    - ``unknown``

    ``step`` is the number of the instruction in the run, ``at`` its address. ``memory``, of a load,
    is the address of the last instruction before it that stored a value in memory; of a call, 1 if
    memory may have changed before it, else 0.
    """

    __slots__ = ("args", "at", "flags", "kind", "memory", "name", "size", "step", "value")

    def __init__(  # noqa: PLR0913 - each kind has its own of them
        self,
        kind: str,
        step: int = -1,
        at: int = 0,
        *,
        value: int = 0,
        name: str | None = None,
        args: tuple[Node, ...] = (),
        size: int = 8,
        flags: Flags | None = None,
        memory: int = 0,
    ) -> None:
        self.kind = kind
        self.step = step
        self.at = at
        self.value = value
        self.name = name
        self.args = args
        self.size = size
        self.flags = flags
        self.memory = memory

    def __repr__(self) -> str:
        return f"Node({self.kind} {self.name or ''} {self.value:#x} {list(self.args)})"


class Flags(NamedTuple):
    """The operation that set the flags: ``op`` (``cmp``, ``test``, ...), ``left`` and ``right``."""

    insn: Insn
    op: str
    left: Node
    right: Node
    size: int


class Moment(NamedTuple):
    """A conditional jump, a conditional comparison or a jump through a table, when it ran.

    ``position`` is the position of its block on the path. ``regs`` and ``slots`` are the values of
    registers and of stack slots (offsets from the stack pointer at the entry).
    """

    step: int
    position: int
    insn: Insn
    flags: Flags | None
    regs: dict[str, Node]
    slots: dict[int, Node]


class Run(NamedTuple):
    """The evaluation of a path: its jumps, and the value of the result register at its end."""

    moments: list[Moment]
    result: Node
    steps: int
    #: For each step, the position of its block on the path.
    positions: list[int]


class State:
    """Registers, stack slots and flags."""

    def __init__(self, machine: Machine, names: Names, *, at_entry: bool) -> None:
        self.machine = machine
        self.names = names
        self.regs: dict[str, Node] = {machine.stack: Node("stack")}
        if machine.current:
            self.regs[machine.current] = Node("current")
        if at_entry:
            self.regs |= {name: Node("param", name=name) for name in machine.arguments}
        self.slots: dict[int, Node] = {}
        self.flags: Flags | None = None
        self.step = 0
        self.insn: Insn | None = None
        #: True if the current conditional comparison was executed; None if unknown.
        self.compared: bool | None = None
        #: The target of the current block's pointer call or jump; 0 if unknown.
        self.target = 0
        #: Offsets of local variables, once their addresses were passed to functions.
        self._given: list[int] = []
        #: Calls that got addresses of local variables, with the offsets of the variables.
        self._left: list[tuple[int, Node]] = []
        #: Slots that were written after such a call: only this function uses their space now.
        self._own: set[int] = set()
        #: Values written to memory, by base node, offset and size in bytes.
        self._written: dict[tuple[Node, int, int], Node] = {}
        #: The address of the last instruction that stored a value in memory.
        self.memory = 0
        #: True once memory may have changed, other than local variables.
        self.is_changed = False

    def copy(self) -> State:
        """Return a copy; changes of one do not affect the other."""
        made = State.__new__(State)
        vars(made).update(
            vars(self),
            regs=self.regs.copy(),
            slots=self.slots.copy(),
            _given=self._given.copy(),
            _left=self._left.copy(),
            _own=self._own.copy(),
            _written=self._written.copy(),
        )
        return made

    def make(self, kind: str, **fields: object) -> Node:
        """Return a node that the current instruction makes."""
        assert self.insn is not None
        return Node(kind, self.step, self.insn.address, **fields)  # type: ignore[arg-type]

    def const(self, value: int, size: int) -> Node:
        """Return a constant that the current instruction makes."""
        return self.make("const", value=_signed(value, size), size=size)

    def reg(self, name: str) -> Node:
        """Return the value of a register."""
        node = self.regs.get(name)
        if node is None:
            node = self.regs[name] = self.make("unknown", name=name)
        return node

    def address(self, memory: Mem) -> tuple[Node | None, int]:
        """Return base and displacement of a memory operand; the index is part of the base."""
        base = self.reg(memory.base) if memory.base else None
        disp = memory.disp
        index = self.reg(memory.at) if memory.at else None
        if index is not None and index.kind == "const" and base is not None:
            disp += index.value * memory.scale
        elif index is not None:
            scaled = self.make("op", name="*", args=(index, self.const(memory.scale, 8)))
            part = scaled if memory.scale > 1 else index
            base = self.make("op", name="+", args=(base, part)) if base else part
        while base is not None and base.kind == "op" and base.name == "+":
            right = base.args[1]
            if right.kind != "const":
                break
            disp += right.value
            base = base.args[0]
        if base is not None and base.kind == "const":
            return None, base.value + disp
        return base, disp

    def read(self, operand: Operand) -> Node:
        """Return the value of an operand."""
        if isinstance(operand, Imm):
            return self.const(operand.value, operand.size)
        if isinstance(operand, Mem):
            return self.load(operand)
        node = self.reg(operand.name)
        if operand.high:
            return self.make("op", name=">>", args=(node, self.const(8, 1)), size=1)
        if node.kind == "const" and operand.size < node.size:
            return self.make("const", value=_signed(node.value, operand.size), size=operand.size)
        return node

    def load(self, memory: Mem) -> Node:
        """Return the value of a memory operand."""
        base, disp = self.address(memory)
        if base is not None and base.kind == "stack" and not memory.segment:
            offset = base.value + disp
            if offset not in self.slots:
                self.slots[offset] = self._left_in(offset, memory.size)
            return self.slots[offset]
        if base is not None and (base, disp, memory.size) in self._written:
            return self._written[base, disp, memory.size]
        args = (base,) if base is not None else ()
        where = {"size": memory.size, "name": memory.segment, "memory": self.memory}
        return self.make("load", value=disp, args=args, **where)

    def _left_in(self, offset: int, size: int) -> Node:
        """Return the value of a slot that the function itself has not written."""
        for start, call in reversed(self._left):
            copied = self._copied(offset - start, size, call)
            if copied is not None:
                return copied
            if start == offset:
                at = self.insn.address if self.insn is not None else 0
                args = (call,)
                return Node(
                    "left", call.step, call.at, value=at, name=call.name, args=args, size=size
                )
            if _is_in(offset, (start,)):
                break  # the call may have changed it
        return self.make("unknown", name="stack", size=size)

    def _copied(self, offset: int, size: int, call: Node) -> Node | None:
        """Return bytes of a local variable as bytes of the user, if the call copied them."""
        numbers = user_copy(call.name)
        if numbers is None or offset < 0 or max(numbers) >= len(call.args):
            return None
        length, source = call.args[2 if numbers == (0, 1) else 1], call.args[numbers[1]]
        if length.kind != "const" or offset + size > length.value:
            return None
        where = {"size": size, "name": USER, "memory": self.memory}
        return self.make("load", value=offset, args=(source,), **where)

    def leave(self, call: Node) -> None:
        """Record the local variables that a call may change."""
        given = [one.value for one in call.args if one.kind == "stack"]
        self._left += [(start, call) for start in given]

    def write(self, operand: Operand, node: Node) -> None:
        """Give a register or memory operand a value."""
        if isinstance(operand, Reg):
            # a write to bits 8 to 15 leaves a register that is only partly known
            whole = self.make("unknown", name=operand.name) if operand.high else node
            self.regs[operand.name] = whole
        elif isinstance(operand, Mem):
            base, disp = self.address(operand)
            if base is not None and base.kind == "stack":
                self.slots[base.value + disp] = node
                self._own.add(base.value + disp)
            else:
                self._store(base, disp, operand, node)

    def _store(self, base: Node | None, disp: int, to: Mem, node: Node) -> None:
        """Record a written value, and forget all memory values that the write may have changed.

        Only values at the same base that do not overlap remain.
        """
        end = disp + to.size
        self.is_changed = True
        self.memory = self.insn.address if self.insn is not None else 0
        self._written = {
            key: one
            for key, one in self._written.items()
            if key[0] is base and (key[1] >= end or key[1] + key[2] <= disp)
        }
        if base is not None and not to.segment:
            self._written[base, disp, to.size] = node

    def forget_memory(self) -> None:
        """Forget the values in memory: any memory may have been overwritten."""
        self.is_changed = True
        self._written.clear()

    def forget(self) -> None:
        """Forget registers and stack slots, because blocks ran that were not recorded."""
        kept = (self.machine.stack, self.machine.current)
        self.regs = {name: node for name, node in self.regs.items() if name in kept}
        self.slots.clear()
        self._left.clear()
        self.flags = None
        self.forget_memory()

    def move_stack(self, by: int) -> None:
        """Add ``by`` to the stack pointer."""
        top = self.reg(self.machine.stack)
        if top.kind == "stack":
            self.regs[self.machine.stack] = self.make("stack", value=top.value + by)

    def binary(self, op: str, left: Node, right: Node, size: int) -> Node:
        """Return ``left op right``, folded if addresses and constants stay simple."""
        if left.kind == "const" and right.kind == "const":
            folded = _fold(op, left.value, right.value)
            if folded is not None:
                return self.const(folded, size)
        if right.kind == "const" and op in "+-":
            value = right.value if op == "+" else -right.value
            if left.kind == "stack":
                return self.make("stack", value=left.value + value)
            if left.kind == "op" and left.name == "+" and left.args[1].kind == "const":
                value += left.args[1].value
                left = left.args[0]
            if not value:
                return left
            args = (left, self.make("const", value=value))
            return self.make("op", name="+", args=args, size=size)
        return self.make("op", name=op, args=(left, right), size=size)

    def set_flags(self, op: str, left: Node, right: Node, size: int) -> None:
        """Set the flags by a comparison of two values."""
        assert self.insn is not None
        self.flags = Flags(self.insn, op, left, right, size)

    def forget_locals(self) -> None:
        """Forget local variables that had their addresses passed: a call may change them.

        Slots that were written later remain known. They belong to variables that reuse the space,
        or to variables that are initialized again, and their addresses will be passed again.
        """
        given = [
            node.value
            for name in self.machine.clobbered
            if (node := self.regs.get(name)) is not None and node.kind == "stack"
        ]
        self._given += given
        self._own = {one for one in self._own if not _is_in(one, given)}
        for offset in list(self.slots):
            if offset not in self._own and _is_in(offset, self._given):
                del self.slots[offset]


def _is_in(slot: int, locals_: Iterable[int]) -> bool:
    """Return True if a slot may belong to one of the local variables at these offsets."""
    return any(start <= slot < start + LOCAL_BYTES for start in locals_)


def _signed(value: int, size: int) -> int:
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def _fold(op: str, left: int, right: int) -> int | None:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case _:
            return None


_BINARY = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "mul": "*"}
_SHIFTS = {"shl": "<<", "shr": ">>", "sar": "sar"}


def _binary_part(state: State, insn: Insn, target: Reg, by: int) -> None:
    """Apply a constant to a part of a register, as an operation that keeps the other bits."""
    whole, mask = state.reg(target.name), (1 << 8 * target.size) - 1
    shift = 8 if target.high else 0
    bits, others = (by & mask) << shift, ~(mask << shift)
    size = INT if target.high else target.size
    state.set_flags(insn.op, whole, state.const(bits, size), size)
    constant = state.const(bits | others if insn.op == "and" else bits, state.machine.word)
    state.regs[target.name] = state.binary(_BINARY[insn.op], whole, constant, INT)


def _binary(state: State, insn: Insn) -> None:
    target, (first, source) = insn.operands[0], insn.compared
    is_part = target.size < INT and insn.op in ("and", "or", "xor")
    if is_part and isinstance(target, Reg) and isinstance(source, Imm):
        _binary_part(state, insn, target, source.value)
        return
    left, right = state.read(first), state.read(source)
    size = first.size
    same = isinstance(source, Reg) and source == first
    symbol = _BINARY[insn.op]
    if insn.flags:
        state.set_flags(insn.op, left, right, size)
    if same and insn.op in ("xor", "sub"):
        result = state.const(0, size)
    elif insn.op == "or" and right.kind == "const" and right.value == -1:
        result = state.const(-1, size)
    elif same and insn.op in ("and", "or"):
        result = left
    elif insn.op == "and" and right.kind == "const" and right.value == 0:
        result = state.const(0, size)
    else:
        result = state.binary(symbol, left, right, size)
    if isinstance(target, Reg) and target.name == state.machine.stack:
        if result.kind == "stack":
            state.regs[target.name] = result
        return
    state.write(target, result)


def _shift(state: State, insn: Insn) -> None:
    target = insn.operands[0]
    by = state.read(insn.operands[-1]) if len(insn.operands) > 1 else state.const(1, 1)
    left = state.read(insn.operands[1] if len(insn.operands) > 2 else target)
    result = state.make("op", name=_SHIFTS[insn.op], args=(left, by), size=target.size)
    state.write(target, result)
    if insn.flags:
        state.set_flags("result", result, by, target.size)


def _unary(state: State, insn: Insn) -> None:
    target = insn.operands[0]
    value = state.read(insn.operands[-1])
    size = target.size
    if insn.op in ("inc", "dec"):
        one = state.const(1 if insn.op == "inc" else -1, size)
        result = state.binary("+", value, one, size)
        state.set_flags("result", result, one, size)
    elif value.kind == "const":
        result = state.const(-value.value if insn.op == "neg" else ~value.value, size)
    else:
        name = "neg" if insn.op == "neg" else "~"
        result = state.make("op", name=name, args=(value,), size=size)
        if insn.flags:
            # carry: the value is not 0
            state.set_flags("neg", value, state.const(0, size), size)
    state.write(target, result)


def _extend(state: State, insn: Insn) -> None:
    target, source = insn.operands
    value = state.read(source)
    if value.kind == "load" and value.step == state.step and insn.op == "movsx":
        value.name = value.name or "signed"
    state.write(target, value)


def _conditional(state: State, insn: Insn) -> None:
    target = insn.operands[0]
    if insn.op == "set":
        state.write(
            target, state.make("cond", name=insn.condition, flags=state.flags, size=target.size)
        )
        return
    new = state.read(insn.operands[1])
    old = state.read(insn.operands[2]) if len(insn.operands) > 2 else state.read(target)
    if old is new:
        return
    state.write(
        target,
        state.make("select", name=insn.condition, flags=state.flags, args=(new, old)),
    )


def _sbb(state: State, insn: Insn) -> None:
    target, source = insn.operands
    if target == source:  # -1 if the carry was set, else 0
        carry = state.make("cond", name="b", flags=state.flags)
        state.write(target, state.make("op", name="neg", args=(carry,), size=target.size))
    else:
        state.write(target, state.make("unknown"))


def _compare(state: State, insn: Insn) -> None:
    left, right = insn.operands
    size = max(left.size, 1)
    first, second = state.read(left), state.read(right)
    if isinstance(left, Reg) and left.high and second.kind == "const" and first.args:
        # compare bits 8 to 15 of the whole register
        first, second, size = first.args[0], state.const(second.value << 8 & 0xFFFF, 4), 4
    state.set_flags(insn.op, first, second, size)


def _compare_if(state: State, insn: Insn) -> None:
    """Evaluate a conditional comparison; if it was not executed, the flags are a constant."""
    constant, left, right = insn.operands
    if state.compared is None:
        state.flags = None
    elif state.compared:
        state.set_flags("cmp", state.read(left), state.read(right), left.size)
    else:
        number = state.read(constant)
        state.set_flags("nzcv", number, number, 4)


def _push_pop(state: State, insn: Insn) -> None:
    operand = insn.operands[0] if insn.operands else None
    if operand is None:
        return
    if insn.op == "push":
        value = state.read(operand)
        state.move_stack(-8)
        top = state.reg(state.machine.stack)
        if top.kind == "stack":
            state.slots[top.value] = value
    else:
        top = state.reg(state.machine.stack)
        if top.kind == "stack" and top.value in state.slots:
            state.write(operand, state.slots[top.value])
        else:
            state.write(operand, state.make("unknown"))
        state.move_stack(8)


def _call(state: State, insn: Insn) -> None:
    target = insn.target or state.target
    name = state.names(target) if target else None
    if name and name.startswith(("__fentry__", "ftrace_", "mcount")):
        return  # a call of the tracer at the function's entry
    if insn.target and _read_of_user(state, name):
        return
    if insn.target and _keeps_registers(name):
        for start, register in state.machine.helpers:
            if str(name).startswith(start):
                state.regs[register] = state.make("call", name=name)
        return
    args = tuple(state.reg(one) for one in state.machine.arguments)
    changed = int(state.is_changed)
    state.forget_locals()
    if not _keeps_memory(name):
        state.forget_memory()
    for one in state.machine.clobbered:
        state.regs[one] = state.make("unknown", name=one)
    call = state.make("call", name=name, args=args, memory=changed)
    state.leave(call)
    state.regs[state.machine.result] = call
    state.flags = None


def _read_of_user(state: State, name: str | None) -> bool:
    """Apply a call of a helper that reads a number of the user; return False for another call."""
    for start, value, address in state.machine.user_reads:
        if name and name.startswith(start):
            size = int(name[-1]) if name[-1].isdigit() else state.machine.word
            number = state.load(Mem(address, None, 1, 0, size))
            state.regs |= {value: number, address: state.make("call", name=name)}
            return True
    return False


def _keeps_registers(name: str | None) -> bool:
    """Return True for assembly helpers that change only the registers in their contract."""
    return bool(name) and str(name).startswith(("__put_user_", "clear_bhb_loop"))


def _keeps_memory(name: str | None) -> bool:
    """Return True for functions that leave memory unchanged: they take or release locks."""
    return bool(name) and str(name).startswith(("__rcu_read_", "_raw_spin_unlock"))


def _move(state: State, insn: Insn) -> None:
    state.write(insn.operands[0], state.read(insn.operands[1]))


def _lea(state: State, insn: Insn) -> None:
    target, source = insn.operands
    if not isinstance(source, Mem):
        return
    base, disp = state.address(source)
    if base is None:
        state.write(target, state.const(disp, 8))
    else:
        state.write(target, state.binary("+", base, state.make("const", value=disp), 8))


def apply(state: State, insn: Insn) -> None:
    """Apply one instruction to ``state``."""
    if insn.flow is Flow.CALL:
        _call(state, insn)
    elif insn.flow is Flow.NEXT:
        act, operands = _ACTS.get(insn.op, (None, 0))
        if act is None or len(insn.operands) < operands:
            _other(state, insn)
        else:
            act(state, insn)


def _other(state: State, insn: Insn) -> None:
    if insn.op not in ("entry", "nop", "pad"):
        state.forget_memory()
    for name in insn.writes:
        state.regs[name] = state.make("unknown", name=name)
    if insn.flags:
        state.flags = None


#: The action of each operation, and how many operands the action needs.
_ACTS: dict[str, tuple[Callable[[State, Insn], None], int]] = {
    **dict.fromkeys(_BINARY, (_binary, 2)),
    **dict.fromkeys(_SHIFTS, (_shift, 1)),
    **dict.fromkeys(("neg", "not", "inc", "dec"), (_unary, 1)),
    **dict.fromkeys(("cmp", "test", "bt"), (_compare, 2)),
    "ccmp": (_compare_if, 3),
    **dict.fromkeys(("push", "pop"), (_push_pop, 1)),
    **dict.fromkeys(("movsx", "movzx"), (_extend, 2)),
    "cmov": (_conditional, 2),
    "set": (_conditional, 1),
    "sbb": (_sbb, 2),
    "mov": (_move, 2),
    "lea": (_lea, 2),
}


def _switched(state: State, graph: Graph, way: Way, position: int) -> Moment:
    """Return a jump through a table as a comparison: the target determines the index."""
    insn = state.insn
    assert insn is not None
    last = position + 1 >= len(way.blocks)
    target = 0 if last else graph.blocks[way.blocks[position + 1]].start
    fits = [index for index, one in enumerate(insn.table) if one == target]
    index = _index_of(state.read(insn.operands[0])) if insn.operands else None
    flags = None
    if index is not None and len(fits) == 1:
        compare = insn._replace(op="cmp", operands=())
        flags = Flags(compare, "cmp", index, state.const(fits[0], 8), 4)
    jump = insn._replace(condition="e")
    return Moment(state.step, position, jump, flags, dict(state.regs), dict(state.slots))


def _index_of(address: Node) -> Node | None:
    """Return the index from which a jump's address was computed: base + (table[index] << n)."""
    offset = address.args[1] if address.kind == "op" and address.name == "+" else address
    entry = offset.args[0] if offset.kind == "op" and offset.name == "<<" else offset
    place = entry.args[0] if entry.kind == "load" and entry.args else None
    if place is None or place.kind != "op" or place.name != "+":
        return None
    index = place.args[1]
    return index.args[0] if index.kind == "op" and index.name == "*" else index


def evaluate(graph: Graph, way: Way, names: Names) -> Run:
    """Evaluate the instructions of ``graph`` along ``way``."""
    state = State(graph.machine, names, at_entry=not way.is_cut)
    moments: list[Moment] = []
    positions: list[int] = []
    for position in range(len(way.blocks)):
        run_block(state, graph, way, position, moments)
        positions += [position] * (state.step - len(positions))
    last = graph.blocks[way.blocks[-1]] if way.blocks else None
    return Run(moments, value_returned(state, last), state.step, positions)


def value_returned(state: State, last: Block | None) -> Node:
    """Return the value of the result register if the function ends with the block ``last``.

    A function that jumps to another one ends with a call.
    """
    if last is None or last.exit != "tail":
        return state.reg(state.machine.result) if state.insn else Node("unknown")
    state.insn = last.last
    name = state.names(state.target) if state.target else None
    args = tuple(state.reg(one) for one in state.machine.arguments)
    return state.make("call", name=last.callee or name, args=args, memory=int(state.is_changed))


def state_at_entry(graph: Graph, names: Names) -> State:
    """Return the values at the start of the function."""
    return State(graph.machine, names, at_entry=True)


def state_before(graph: Graph, way: Way, names: Names, position: int) -> State:
    """Return the values at the start of the block at ``position`` on ``way``."""
    state = State(graph.machine, names, at_entry=not way.is_cut)
    for before in range(position):
        run_block(state, graph, way, before, [])
    return state


def run_block(state: State, graph: Graph, way: Way, position: int, moments: list[Moment]) -> None:
    """Evaluate the block at ``position``; add its jumps to ``moments``."""
    index = way.blocks[position]
    if position in way.gaps and graph.before[index]:  # else a fault led there
        state.forget()
    state.compared = way.compared(position)
    state.target = way.target(position)
    for insn in graph.blocks[index].insns:
        before = state.flags
        for step in insn.steps:
            state.insn = step
            if step.flow is Flow.BRANCH or step.op == "ccmp":
                regs, slots = dict(state.regs), dict(state.slots)
                moments.append(Moment(state.step, position, step, state.flags, regs, slots))
            elif step.table:
                moments.append(_switched(state, graph, way, position))
            apply(state, step)
        if insn.flow is Flow.BRANCH:  # such a jump compares by itself and keeps the flags
            state.flags = before
        state.step += 1
