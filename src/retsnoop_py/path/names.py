# SPDX-License-Identifier: BSD-2-Clause
"""Expressions in C for what registers held: parameters, members, globals and called functions.

Names come from BTF, which every kernel has that can be traced, and of local variables from DWARF,
where there is a vmlinux with that. Where neither tells, there is no name: the instruction and the
numbers are shown then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.arguments.plan import syscall_parameters
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.path.bits import bit_test, fields_in
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.insn import INT, Flow, Insn, Machine, Mem, Names, Operand, Reg
from retsnoop_py.path.members import STRUCTS, Members, members_at
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.per_cpu import Part, PerCpu
from retsnoop_py.path.values import Flags, Node
from retsnoop_py.path.variables import Held, ReadVariables, VariablePlaces
from retsnoop_py.session.paths import OperandText

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.functions import Function

__all__ = ["Namer"]

_MASK = (1 << 64) - 1
_MAX_DEPTH = 8
_MAX_TEXT = 120
#: ``IS_ERR(x)`` is a comparison of the pointer, as an unsigned number, with this.
_MAX_ERRNO = (-4095, -4096)
#: Ranges that begin further away from 0 are none that people write, but addresses.
_MAX_START = 1 << 20
#: Per-CPU variables that are, or begin with, the running task: 6.2 has pcpu_hot, others theirs.
_CURRENT = frozenset({"current_task", "pcpu_hot", "const_pcpu_hot"})
_SIGNS = {
    "e": "==",
    "ne": "!=",
    "l": "<",
    "ge": ">=",
    "g": ">",
    "le": "<=",
    "b": "<",
    "ae": ">=",
    "a": ">",
    "be": "<=",
    "s": "<",
    "ns": ">=",
}
#: An amount that is a multiple of a page, or such a large one, is rather written in hex.
_PAGE, _FIRST_PATTERN = 4096, 1 << 48
#: Where the kernel's half of the addresses begins.
_FIRST_ADDRESS = 0xFFFF << 48
_UNSIGNED = frozenset({"b", "ae", "a", "be"})
_OPERATORS = {"+": "+", "-": "-", "&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>", "*": "*"}
#: Pointers followed one after the other: the first two and the last say what is walked.
_WALK = re.compile(r"([\w.?]+(?:\(\))?->[\w.?]+)(?:->[\w.?]+){3,}->([\w.?]+)")
#: What BTF has for kinds of DWARF.
_KINDS = {
    "number": (Kind.INT,),
    "enum": (Kind.ENUM, Kind.ENUM64),
    "struct": (Kind.STRUCT,),
    "union": (Kind.UNION,),
}
#: What leaves its first operand as it is.
_ASKING = ("cmp", "test", "bt", "ccmp", "push")


class _Named(NamedTuple):
    """An expression: its text, its BTF type (0: not known), and whether it needs no parentheses.

    ``points``: it is a pointer to that type (0: not known), for which BTF need not have one.
    """

    text: str
    type: int = 0
    is_atom: bool = True
    points: int | None = None

    @property
    def inner(self) -> str:
        """As an operand of another."""
        return self.text if self.is_atom else f"({self.text})"


class _Condition(NamedTuple):
    text: str


class Namer:
    """Names of what one ``function`` works on."""

    def __init__(
        self,
        facts: KernelFacts,
        function: Function,
        name_of: Names,
        machine: Machine,
        variables: ReadVariables | None = None,
    ) -> None:
        self._machine = machine
        self._facts = facts
        self._function = function
        self.name_of = name_of
        self._params: dict[str, _Named] | None = None
        #: Of a system call, by where ``struct pt_regs`` has them.
        self._given: dict[int, _Named] | None = None
        self._kallsyms: bytes | None = None
        self._data: dict[int, str | None] = {}
        self._graph: Graph | None = None
        self._members: Members | None = None
        #: Per-CPU variables, which BTF has of the kernel itself only.
        self._per_cpu: PerCpu | None = None
        #: BTF type ids by name: of what functions return, of DWARF's types, of pointers to structs.
        self._returned_types: dict[str, int] = {}
        self._dwarf_types: dict[tuple[str, str], int] = {}
        self._pointer_types: dict[str, int] = {}
        self._places = VariablePlaces(variables, machine) if variables is not None else None
        #: What DWARF calls what a comparison at hand reads.
        self._read: dict[Node, _Named] = {}

    def learn(self, graph: Graph) -> None:
        """Take the code from which it is told what of a union the function reads."""
        self._graph = graph
        btf = self._btf() if self._function.module is None else None
        self._per_cpu = PerCpu(btf, self._data_name) if btf is not None else None

    def condition(self, decided: Decided) -> _Condition:
        """What held when it was decided; empty where that cannot be said in C."""
        flags = decided.flags
        if flags is None:
            return _Condition("")
        self._read_sides(flags)
        return _Condition(_folded(self._comparison(flags, decided.condition) or ""))

    def operands(self, decided: Decided, hit: int) -> tuple[OperandText, ...]:
        """The operands of the comparison that are no constants; ``hit`` has their values."""
        flags = decided.flags
        if flags is None or hit < 0:
            return ()
        self._read_sides(flags)
        found = []
        raw = flags.insn.compared
        for side, node in enumerate((flags.left, flags.right)):
            is_again = side and node is flags.left
            if node.kind == "const" or side >= len(raw) or is_again or self._is_made(raw[side]):
                continue
            read = raw[side]
            start = _range_start(flags, decided.condition) if not side else None
            named = self._name(_looked_at(node, flags) if start is None else node.args[0])
            if start is not None and not named:
                start, named = None, self._name(node)
            if named is not None and not side and start is None:
                named = self._narrowed(named, node, flags, decided.condition)
            if named is None and self._of_fields(flags, decided.condition) is not None:
                continue  # the number that was compared is no member
            text = named.text if named else _operand_text(flags.insn, side)
            size = read.size
            if isinstance(read, Reg):
                if flags.op in ("test", "and") and flags.left is not flags.right:
                    size = max(size, self._held(node, named))
                if read.high and size == 1:
                    continue  # bits 8 to 15 of what is not known
                text = read.name if read.high and named is None else text
            elif isinstance(read, Mem) and (part := self._part(node, named)):
                whole, shift = part
                shifted = f" >> {shift}" if shift else ""
                text = f"{whole.inner}{shifted} & {(1 << 8 * size) - 1:#x}"
            signed = bool(named and named.type and self._is_signed(named.type))
            if node.kind == "call" and not (named and named.type):
                signed = True  # 0 or an error, mostly
            signed = signed or decided.condition in ("s", "ns", "l", "ge", "g", "le")
            own = OperandText(
                _folded(text)[:_MAX_TEXT], hit, side, min(size, 8), signed, start or 0
            )
            found.append(own)
        return tuple(found)

    def _is_made(self, read: Operand) -> bool:
        """Whether an instruction computes an operand before it compares: no probe can read it."""
        return isinstance(read, Reg) and read.name not in self._machine.pt_regs

    def _held(self, node: Node, named: _Named | None) -> int:
        """Bytes of the value that a register holds, of which an instruction may look at fewer."""
        if node.kind == "load":
            return node.size
        btf = self._btf()
        if node.kind != "param" or named is None or btf is None or not named.type:
            return 1
        return min(btf.size_of(named.type), 8)

    def _part(self, node: Node, named: _Named | None = None) -> tuple[_Named, int] | None:
        """The number of which a load reads some bytes only, and how many bits are before these.

        None where what it is ``named`` is as large as what it reads: a union may have both.
        """
        btf = self._btf()
        if node.kind != "load" or not node.args or btf is None:
            return None
        if named is not None and named.type and btf.size_of(named.type) == node.size:
            return None
        for size in (2, 4, 8):
            before = node.value % size
            if size <= node.size or before + node.size > size:
                continue
            whole = self._load(_load_like(node, node.value - before, size), 0)
            if whole is None or whole.text.endswith("?") or not whole.type:
                continue
            kind = btf.resolve(whole.type)
            if kind.kind in (Kind.INT, Kind.ENUM) and btf.size_of(whole.type) == size:
                return whole, 8 * before
        return None

    # -- conditions --

    def _comparison(self, flags: Flags, condition: str) -> str | None:
        sign = _SIGNS.get(condition)
        left, right = flags.left, flags.right
        if sign is None:
            return None
        fields = self._of_fields(flags, condition)
        if fields is not None:
            return fields
        found: _Named | None = None
        match flags.op:
            case "cmp" | "sub":
                return self._compared(flags, condition)
            case "bt" if condition in ("b", "ae"):
                return self._bit(left, right, "ne" if condition == "b" else "e")
            case "neg":  # the carry says whether it was 0
                found, condition = self._name(left), {"b": "ne", "ae": "e"}.get(condition, "")
            case "test" | "and" if left is right:
                found = self._name(left)
            case "result":
                found = self._name(left)
            case "test" | "and" if self._name(left) is None and right.kind == "const":
                part = self._part(left)
                mask = right.value & ((1 << 8 * left.size) - 1)
                found = part and self._masked(part[0], mask << part[1])
            case "test" | "and" | "or" | "xor" | "add":
                symbol = {"or": "|", "xor": "^", "add": "+"}.get(flags.op, "&")
                found = self._binary(symbol, left, right)
        return self._with_zero(found, condition)

    def _of_fields(self, flags: Flags, condition: str) -> str | None:
        """A comparison of bit fields, or of several small members that one load has."""
        test, btf = bit_test(flags, condition), self._btf()
        if test is None or btf is None:
            return None
        base = self._name(test.load.args[0])
        struct = self._target(base) if base is not None else 0
        if base is None or not struct or btf.resolve(struct).kind not in STRUCTS:
            return None
        start = 8 * test.load.value
        fields = fields_in(btf, struct, start, test.mask)
        if not fields or (len(fields) == 1 and not fields[0].is_bits):
            return None  # what is no part of a number is named as a number
        if len(fields) > 1 and test.sign not in ("==", "!="):
            return None
        texts = []
        for one in fields:
            value = test.value >> (one.start - start)
            if test.sign in ("==", "!="):
                value &= (1 << one.bits) - 1
            elif test.sign in (">=", "<") and test.value & (1 << one.start - start) - 1:
                value += 1
            right = self._constant(value, one.type)
            texts.append(f"{base.inner}->{one.text} {test.sign} {right}")
        return (" && " if test.sign == "==" else " || ").join(texts)

    def _compared(self, flags: Flags, condition: str) -> str | None:
        left, right = _looked_at(flags.left, flags), flags.right
        first, second = self._name(left), self._name(right)
        if first is None or second is None:
            return None
        if right.kind == "const" and right.value in _MAX_ERRNO and condition in _UNSIGNED:
            return f"IS_ERR({first.text})" if condition in ("a", "ae") else f"!IS_ERR({first.text})"
        start = _range_start(flags, condition)
        if start is not None and (whole := self._name(left.args[0])) is not None:
            return self._ranged(flags, condition, start, whole)
        first = self._narrowed(first, left, flags, condition)
        if right.kind == "const":
            value = right.value
            if value < 0 and (condition in _UNSIGNED or value < -4095):
                value &= 0xFFFFFFFF if flags.size <= INT else _MASK
            is_amount = condition not in ("e", "ne")
            second = _Named(self._constant(value, first.type, is_amount=is_amount))
            if not value and self._is_pointer(first):
                second = _Named("NULL")
        return f"{first.inner} {_SIGNS[condition]} {second.inner}"

    def _narrowed(self, named: _Named, node: Node, flags: Flags, condition: str) -> _Named:
        """A number of which a comparison looks at the lower bytes only, as the source casts it."""
        btf, read = self._btf(), flags.insn.compared[:1]
        if flags.op not in ("cmp", "sub") or node.kind == "load" or not named.type or btf is None:
            return named
        is_number = btf.resolve(named.type).kind is Kind.INT
        if not is_number or not isinstance(read[0], Reg) or btf.size_of(named.type) <= flags.size:
            return named
        sign = "u" if condition in _UNSIGNED or condition in ("e", "ne") else "s"
        return named._replace(text=f"({sign}{8 * flags.size}){named.inner}", is_atom=True)

    def _ranged(self, flags: Flags, condition: str, start: int, named: _Named) -> str:
        """A range, which compilers ask for by one comparison: `x - 1 > 9` is `x < 1 || x > 10`."""
        last = start + (flags.right.value & _MASK >> 64 - 8 * min(flags.size, 8))
        if condition in ("b", "ae"):
            last -= 1
        low, high = (self._constant(one, named.type, is_amount=True) for one in (start, last))
        if condition in ("a", "ae"):
            return f"{named.inner} < {low} || {named.inner} > {high}"
        return f"{named.inner} >= {low} && {named.inner} <= {high}"

    def _with_zero(self, named: _Named | None, condition: str) -> str | None:
        sign = _SIGNS.get(condition)
        if named is None or sign is None or condition in _UNSIGNED:
            return None
        zero = "NULL" if condition in ("e", "ne") and self._is_pointer(named) else "0"
        return f"{named.inner} {sign} {zero}"

    def _bit(self, left: Node, right: Node, condition: str) -> str | None:
        if right.kind == "const":
            mask = Node("const", value=1 << (right.value & 63))
            return self._with_zero(self._binary("&", left, mask), condition)
        first, second = self._name(left), self._name(right)
        if first is None or second is None:
            return None
        return f"({first.inner} >> {second.inner} & 1) {_SIGNS[condition]} 0"

    # -- expressions --

    def _name(self, node: Node, depth: int = 0) -> _Named | None:
        if depth > _MAX_DEPTH:
            return None
        return self._read.get(node) or self._expression(node, depth) or self._variable(node)

    def _expression(self, node: Node, depth: int) -> _Named | None:
        match node.kind:
            case "const":
                return _Named(self._constant(node.value, 0))
            case "param":
                return self._param(node.name or "")
            case "load":
                return self._load(node, depth)
            case "call":
                return self._called(node)
            case "current":
                return _Named("current", self._pointer_to("task_struct"))
            case "op" | "cond":
                return self._operation(node, depth)
            case "select":
                return self._least(node, depth)
        return None

    def _least(self, node: Node, depth: int) -> _Named | None:
        """min() or max(), which compilers make of a comparison and a conditional move."""
        flags = node.flags
        if flags is None or flags.op != "cmp":
            return None
        if _is_same_value(node.args[0], flags.right) and _is_same_value(node.args[1], flags.left):
            names = {"g": "min", "a": "min", "l": "max", "b": "max"}
        elif _is_same_value(node.args[0], flags.left) and _is_same_value(node.args[1], flags.right):
            names = {"g": "max", "a": "max", "l": "min", "b": "min"}
        else:
            return None
        what = names.get((node.name or "").removesuffix("e"))
        first, second = self._name(flags.left, depth + 1), self._name(flags.right, depth + 1)
        if what is None or first is None or second is None:
            return None
        return _Named(f"{what}({first.text}, {second.text})", first.type)

    def _constant(self, value: int, type_id: int, *, is_amount: bool = False) -> str:
        """A number as the source probably has it; ``is_amount``: something is larger or smaller."""
        enumerator = self._enumerator(value, type_id) if type_id else None
        if enumerator:
            return enumerator
        if -_PAGE <= value < _PAGE:
            return str(value)
        if is_amount and value < _FIRST_PATTERN and value % _PAGE not in (0, _PAGE - 1):
            return str(value)
        # of the kernel's addresses those count that begin a variable, as the head of a list
        name = self._data_name(value & _MASK) if value & _MASK >= _FIRST_ADDRESS else None
        return f"&{name}" if name else hex(value & _MASK)

    def _enumerator(self, value: int, type_id: int) -> str | None:
        btf = self._btf()
        if btf is None:
            return None
        kind = btf.resolve(type_id)
        if kind.kind not in (Kind.ENUM, Kind.ENUM64):
            return None
        for name, number in btf.enumerators(kind.id).items():
            if number == value:
                return name
        return None

    def _operation(self, node: Node, depth: int) -> _Named | None:
        name = node.name or ""
        if node.kind == "cond":
            text = self._comparison(node.flags, name) if node.flags is not None else None
            return None if text is None else _Named(text, is_atom=False)
        if name in ("~", "neg"):
            inner = self._name(node.args[0], depth + 1)
            sign = "~" if name == "~" else "-"
            return None if inner is None else _Named(f"{sign}{inner.inner}")
        symbol = {"sar": ">>"}.get(name, name)
        if symbol not in _OPERATORS:
            return None
        return self._binary(symbol, node.args[0], node.args[1], depth)

    def _binary(self, symbol: str, left: Node, right: Node, depth: int = 0) -> _Named | None:
        if symbol in "&|^+" and left.kind == "const" and right.kind != "const":
            left, right = right, left
        first, second = self._name(left, depth + 1), self._name(right, depth + 1)
        if first is None or second is None:
            return None
        if symbol == "+" and right.kind == "const" and self._is_pointer(first):
            return self._address_of(first, right.value)
        is_address = second.text.startswith("&")
        if symbol == "+" and right.kind == "const" and right.value < 0 and not is_address:
            symbol, second = "-", _Named(self._constant(-right.value, 0))
        if symbol in "&|^" and right.kind == "const":
            # `flags & ~(A | B)` is what people write where all but a few bits are asked for
            sign, mask = ("~", ~right.value) if right.value < 0 else ("", right.value)
            if right.size < INT:
                sign, mask = "", right.value & ((1 << 8 * right.size) - 1)
            second = _Named(sign + (str(mask) if mask < 10 else hex(mask)))
        text = f"{first.inner} {symbol} {second.inner}"
        return None if len(text) > _MAX_TEXT else _Named(text, is_atom=False)

    def _masked(self, named: _Named, mask: int) -> _Named:
        return _Named(f"{named.inner} & {mask if mask < 10 else hex(mask)}", is_atom=False)

    def _address_of(self, base: _Named, offset: int) -> _Named | None:
        btf = self._btf()
        target = self._target(base)
        if btf is None or not target or offset < 0 or btf.resolve(target).kind not in STRUCTS:
            return None
        found = list(members_at(btf, target, offset, 0))
        if len({text for text, _ in found}) != 1:
            return None
        return _Named(f"&{base.inner}->{found[0][0]}", 0)

    def _called(self, node: Node) -> _Named | None:
        if not node.name:
            return None
        name = node.name.partition(".")[0]  # what the compiler made of it is not in the source
        return _Named(f"{name}()", self._return_type(name))

    def _return_type(self, name: str) -> int:
        btf = self._btf()
        if btf is None:
            return 0
        if name not in self._returned_types:
            function = btf.find(name, Kind.FUNC)
            proto = btf.type(btf.type(function).arg) if function is not None else None
            self._returned_types[name] = proto.arg if proto is not None else 0
        return self._returned_types[name]

    def _param(self, register: str) -> _Named | None:
        if self._params is None:
            self._params = dict(self._read_params())
        if register not in self._params and self._places is not None and self._graph is not None:
            held = self._places.in_register(Reg(register, 8), self._graph.code.address)
            return self._of_variable(held) if held is not None else None
        return self._params.get(register)

    def _read_params(self) -> Iterator[tuple[str, _Named]]:
        btf, function = self._btf(), self._function
        if btf is None or function.btf_id is None:
            return
        registers = iter(self._machine.arguments)
        for param in btf.params(btf.type(function.btf_id).arg):
            size = btf.size_of(param.type_id)
            if not param.type_id or size > 16:
                if param.type_id and self._machine.large_by_address:
                    next(registers, None)
                continue
            for _ in range(max(1, -(-size // 8))):
                register = next(registers, None)
                if register is not None and size <= 8 and param.name:
                    yield register, _Named(param.name, param.type_id)

    def _load(self, node: Node, depth: int) -> _Named | None:
        if node.name == "gs" or not node.args:
            return self._global(node)
        asked = self._syscall_argument(node)
        if asked is not None:
            return asked
        part = self._per_cpu.read_by(node) if self._per_cpu is not None else None
        if part is not None:
            return self._member_of("per_cpu", part, node.size)
        base = self._name(node.args[0], depth + 1)
        if base is None or not self._target(base):
            return None  # by its own instruction DWARF may know it
        return self._behind(base, node.args[0], node.value, node.size)

    def _behind(self, base: _Named, held: Node | None, offset: int, size: int) -> _Named | None:
        """What is ``offset`` bytes behind a pointer, which ``held`` is."""
        btf, target = self._btf(), self._target(base)
        if btf is None or not target:
            return None
        if btf.resolve(target).kind not in STRUCTS:
            if offset or btf.size_of(target) != size:
                return None
            return _Named(f"*{base.inner}", target)
        found = self._fields(btf).fitting(held, target, offset, size)
        if not found:
            return None
        text, type_id, is_sure = found
        mark = "" if is_sure else "?"
        return _Named(f"{base.inner}->{text}{mark}", type_id)

    def _syscall_argument(self, node: Node) -> _Named | None:
        """What the program gave, which the function of a system call reads from its registers."""
        base, btf = node.args[0], self._btf()
        if btf is None or base.kind != "param" or base.name != self._machine.arguments[0]:
            return None
        if self._given is None:
            found = syscall_parameters(self._facts.root, btf, self._function.name)
            self._given = {offset: _Named(name, type_id) for offset, name, type_id in found}
        return self._given.get(node.value)

    def _global(self, node: Node) -> _Named | None:
        """A variable of the kernel's, or of the CPU's."""
        if node.args:
            return None
        name = self._data_name(node.value & _MASK)
        if node.name == "gs" and name not in _CURRENT and self._per_cpu is not None:
            part = self._per_cpu.at(node.value & _MASK)
            if part is not None:
                return self._member_of("this_cpu", part, node.size)
        if name is None:
            return None
        if node.name == "gs":
            if name in _CURRENT:
                return _Named("current", self._pointer_to("task_struct"))
            return _Named(f"this_cpu({name})")
        return _Named(name)

    def _member_of(self, macro: str, part: Part, size: int) -> _Named | None:
        """A per-CPU variable, or the member of it that is read; ``macro`` is of linux/percpu.h."""
        btf, text = self._btf(), f"{macro}({part.variable})"
        if btf is None:
            return None
        if btf.resolve(part.type).kind not in STRUCTS:
            is_whole = not part.offset and btf.size_of(part.type) == size
            return _Named(text, part.type) if is_whole else None
        found = self._fields(btf).fitting(None, part.type, part.offset, size)
        if found is None:
            return None
        member, type_id, is_sure = found
        return _Named(f"{text}.{member}{'' if is_sure else '?'}", type_id)

    def _data_name(self, address: int) -> str | None:
        if address not in self._data:
            if self._kallsyms is None:
                try:
                    self._kallsyms = (self._facts.root / "proc/kallsyms").read_bytes()
                except OSError:
                    self._kallsyms = b""
            self._data[address] = _symbol_at(self._kallsyms, address)
        return self._data[address]

    # -- local variables --

    def _read_sides(self, flags: Flags) -> None:
        """Ask DWARF what a comparison reads of which nothing else is known."""
        if self._places is None:
            return
        self._read.clear()  # a run that goes on has many
        for node, operand in zip((flags.left, flags.right), flags.insn.compared, strict=False):
            if node.kind == "const" or self._name(node) is not None:
                continue
            held = self._held_by(operand, flags.insn.address)
            if held is not None and self._fits(held, flags):
                self._read[node] = held

    def _fits(self, named: _Named, flags: Flags) -> bool:
        """Whether a comparison looks at all of a value, or at bits that may be said of it."""
        btf = self._btf()
        if named.points is not None or btf is None or not named.type:
            return flags.size in (0, self._machine.word)
        is_masked = flags.op in ("test", "and") and flags.right.kind == "const"
        return is_masked or btf.size_of(named.type) <= flags.size

    def _variable(self, node: Node) -> _Named | None:
        """What DWARF calls a value, by the instruction that read or made it."""
        if self._places is None or self._graph is None or node.kind == "const":
            return None
        address = node.value if node.kind == "left" else node.at
        block = self._graph.at(address)
        insns = block.insns if block is not None else ()
        insn = next((one for one in insns if one.address == address), None)
        if insn is None or insn.parts:
            return None
        if insn.op in ("mov", "movzx", "movsx") and isinstance(insn.operands[-1], Mem):
            found = self._held_by(insn.operands[-1], insn.address)
            if found is not None:
                return found
        into: Operand | None = None
        if insn.flow is Flow.CALL:
            name = self._machine.result if node.kind == "call" else node.name
            into = Reg(name or "", self._machine.word)
        elif insn.flow is Flow.NEXT and insn.operands and insn.op not in _ASKING:
            into = insn.operands[0]
        if not isinstance(into, Reg) or self._graph.at(insn.end) is not block:
            return None  # what is behind a jump is another block's
        held = self._places.in_register(into, insn.end)
        return self._of_variable(held) if held is not None else None

    def _held_by(self, operand: Operand, address: int) -> _Named | None:
        """What an instruction reads."""
        assert self._places is not None
        if isinstance(operand, Reg):
            held = self._places.in_register(operand, address)
            return self._of_variable(held) if held is not None else None
        if not isinstance(operand, Mem):
            return None
        held = self._places.in_memory(operand, address)
        if held is not None:
            return self._part_of(held, operand.size)
        held = self._places.behind(operand, address)
        if held is None:
            return None
        return self._behind(self._of_variable(held), None, held.offset, operand.size)

    def _part_of(self, held: Held, size: int) -> _Named | None:
        """What is in memory: a variable, or a member of one."""
        whole, btf = self._of_variable(held), self._btf()
        if held.variable.kind not in ("struct", "union") or held.variable.pointers:
            return whole if not held.offset and size == held.variable.size else None
        if btf is None or not whole.type:
            return None
        found = self._fields(btf).fitting(None, whole.type, held.offset, size)
        if found is None:
            return None
        text, type_id, is_sure = found
        return _Named(f"{whole.text}.{text}{'' if is_sure else '?'}", type_id)

    def _of_variable(self, held: Held) -> _Named:
        variable = held.variable
        known = self._type_of(variable.kind, variable.type) if variable.pointers < 2 else 0
        if variable.pointers:
            return _Named(variable.name, points=known)
        return _Named(variable.name, known)

    def _type_of(self, kind: str, name: str | None) -> int:
        """BTF's type for one of DWARF's; 0 where it has none."""
        btf = self._btf()
        kinds = _KINDS.get(kind)
        if btf is None or kinds is None or not name:
            return 0
        key = (kind, name)
        if key not in self._dwarf_types:
            found = btf.find(name, *kinds)
            if found is None and kind != "number":
                found = btf.find(name, Kind.TYPEDEF)
            self._dwarf_types[key] = btf.resolve(found).id if found is not None else 0
        return self._dwarf_types[key]

    # -- types --

    def _btf(self) -> Btf | None:
        module = self._function.module
        try:
            return self._facts.btf if module is None else self._facts.module_btf(module)
        except DataError:
            return None

    def _fields(self, btf: Btf) -> Members:
        if self._members is None:
            self._members = Members(btf, self._function.name, self._graph)
        return self._members

    def _target(self, named: _Named) -> int:
        """What a pointer points to; 0 for what is no pointer."""
        btf = self._btf()
        if named.points is not None or btf is None or not named.type:
            return named.points or 0
        kind = btf.resolve(named.type)
        return kind.arg if kind.kind is Kind.PTR else 0

    def _is_pointer(self, named: _Named) -> bool:
        btf = self._btf()
        if named.points is not None or btf is None or not named.type:
            return named.points is not None
        return btf.resolve(named.type).kind is Kind.PTR

    def _is_signed(self, type_id: int) -> bool:
        btf = self._btf()
        if btf is None:
            return False
        kind = btf.resolve(type_id)
        return kind.kind is Kind.INT and btf.int_encoding(kind.id)[0]

    def _pointer_to(self, name: str) -> int:
        """A pointer to ``struct name``: that of the first member that is one, for it has an id."""
        btf = self._btf()
        if btf is None:
            return 0
        if name not in self._pointer_types:
            self._pointer_types[name] = _find_pointer(btf, name)
        return self._pointer_types[name]


def _find_pointer(btf: Btf, name: str) -> int:
    struct = btf.find(name, Kind.STRUCT)
    if struct is None:
        return 0
    # struct task_struct has pointers to its own kind: real_parent, parent
    for member in btf.members(struct):
        kind = btf.resolve(member.type_id)
        if kind.kind is Kind.PTR and btf.resolve(kind.arg).id == struct:
            return member.type_id
    return 0


def _symbol_at(text: bytes, address: int) -> str | None:
    at = text.find(b"%016x " % address)
    if at < 0 or (at and text[at - 1 : at] != b"\n"):
        return None
    line = text[at : text.index(b"\n", at)].split()
    return line[2].decode(errors="replace") if len(line) >= 3 else None


def _load_like(node: Node, offset: int, size: int) -> Node:
    """A load from the same base."""
    return Node("load", node.step, node.at, value=offset, name=node.name, args=node.args, size=size)


def _is_same_value(one: Node, other: Node) -> bool:
    """Whether two nodes are the same value, or read the same memory right after each other."""
    if one is other:
        return True
    is_const = one.kind == other.kind == "const"
    if is_const:
        return one.value == other.value
    if one.kind != "load" or other.kind != "load" or abs(one.step - other.step) > 1:
        return False
    same = (one.value, one.size, one.args) == (other.value, other.size, other.args)
    return same and one.name == other.name


def _folded(text: str) -> str:
    """An expression without the middle of a walk through a list or a tree."""
    return _WALK.sub(r"\1->...->\2", text)


def _looked_at(node: Node, flags: Flags) -> Node:
    """A number with a mask, as wide as the comparison: all its bits above are as they may be."""
    if flags.size >= INT or node.kind != "op" or node.name != "&" or node.args[1].kind != "const":
        return node
    left, right = node.args
    mask = Node("const", right.step, right.at, value=right.value, size=flags.size)
    return Node("op", node.step, node.at, name="&", args=(left, mask), size=flags.size)


def _range_start(flags: Flags, condition: str) -> int | None:
    """The start of the range a comparison asks for: 1 for an unsigned `x - 1 > 9`."""
    left, right = flags.left, flags.right
    if flags.op not in ("cmp", "sub") or condition not in _UNSIGNED or right.kind != "const":
        return None
    if left.kind != "op" or left.name != "+" or left.args[1].kind != "const":
        return None
    start = -left.args[1].value
    return start if -_MAX_START < start < _MAX_START else None


def _operand_text(insn: Insn, side: int) -> str:
    """An operand as the disassembler writes it."""
    parts = insn.text.partition(" ")[2].split(", ")
    if len(insn.operands) > 2 and insn.op != "ccmp":
        parts = parts[1:]  # the destination comes first
    return parts[side] if side < len(parts) else "?"
