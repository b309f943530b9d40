# SPDX-License-Identifier: BSD-2-Clause
"""Expressions in C for values: parameters, members, globals and called functions.

Names come from BTF, which every supported kernel has. Names of local variables come from DWARF, if
there is a vmlinux with DWARF. If neither has a name, the output shows the instruction and the
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.arguments.plan import syscall_parameters
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.path.bits import bit_test, fields_in, sign_bit
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.booleans import truth_of
from retsnoop_py.path.failure import is_error
from retsnoop_py.path.insn import INT, Flow, Insn, Machine, Mem, Names, Operand, Reg
from retsnoop_py.path.members import STRUCTS, Members, members_at
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.otherwise import with_nothing
from retsnoop_py.path.per_cpu import Part, PerCpu
from retsnoop_py.path.values import USER, Flags, Node
from retsnoop_py.path.variables import Held, ReadVariables, VariablePlaces
from retsnoop_py.session.paths import OperandText

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.functions import Function

__all__ = ["Namer"]

_MASK = (1 << 64) - 1
_MAX_DEPTH = 8
_MAX_TEXT = 120
#: ``IS_ERR(x)`` compares the pointer, as an unsigned number, with this number.
_MAX_ERRNO = (-4095, -4096)
#: A range that begins further away from 0 is a range of addresses, not of numbers in the source.
_MAX_START = 1 << 20
#: Per-CPU variables that are, or begin with, the running task. Linux 6.2 introduced pcpu_hot.
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
#: Tests of a sign, and the tests of that bit.
_BIT_SIGNS = {"s": "ne", "l": "ne", "ns": "e", "ge": "e"}
#: A multiple of a page and a number from 2**48 on are written in hexadecimal.
_PAGE, _FIRST_PATTERN = 4096, 1 << 48
#: Masks, and masked numbers, are written in hexadecimal from here on.
_SMALLEST_MASK = 10
#: The first kernel address.
_FIRST_ADDRESS = 0xFFFF << 48
_UNSIGNED = frozenset({"b", "ae", "a", "be"})
_UNSIGNED_CASTS = ("(u8)", "(u16)", "(u32)")
_OPERATORS = {"+": "+", "-": "-", "&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>", "*": "*"}
#: A chain of pointers. The output keeps the first two members and the last one.
_WALK = re.compile(r"([\w.?]+(?:\(\))?->[\w.?]+)(?:->[\w.?]+){3,}->([\w.?]+)")
#: BTF kinds for each kind of DWARF type.
_KINDS = {
    "number": (Kind.INT,),
    "enum": (Kind.ENUM, Kind.ENUM64),
    "struct": (Kind.STRUCT,),
    "union": (Kind.UNION,),
}
#: Operations that do not change their first operand.
_ASKING = ("cmp", "test", "bt", "ccmp", "push")


class _Named(NamedTuple):
    """An expression: its text, its BTF type (0: unknown), and whether it needs no parentheses.

    ``points``: the expression is a pointer to that type (0: unknown). BTF may not have a type for
    the pointer itself.
    """

    text: str
    type: int = 0
    is_atom: bool = True
    points: int | None = None

    @property
    def inner(self) -> str:
        """The text as an operand of another expression."""
        return self.text if self.is_atom else f"({self.text})"


class _Condition(NamedTuple):
    text: str


class Namer:
    """C expressions for the values in one ``function``."""

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
        #: Parameters of a system call, by their offset in ``struct pt_regs``.
        self._given: dict[int, _Named] | None = None
        self._kallsyms: bytes | None = None
        self._data: dict[int, str | None] = {}
        self._graph: Graph | None = None
        self._members: Members | None = None
        #: Per-CPU variables; only the kernel's own BTF has them, not that of modules.
        self._per_cpu: PerCpu | None = None
        #: BTF type ids by name: return types of functions, DWARF types, pointers to structs.
        self._returned_types: dict[str, int] = {}
        self._dwarf_types: dict[tuple[str, str], int] = {}
        self._pointer_types: dict[str, int] = {}
        self._places = VariablePlaces(variables, machine) if variables is not None else None
        #: True if results of functions are named with the arguments of the calls.
        self._tells_arguments = False
        #: DWARF's names of the values that the current comparison reads.
        self._read: dict[Node, _Named] = {}

    def learn(self, graph: Graph) -> None:
        """Remember the code; it shows which members of a union the function reads."""
        self._graph = graph
        btf = self._btf() if self._function.module is None else None
        self._per_cpu = PerCpu(btf, self._data_name) if btf is not None else None

    def condition(self, decided: Decided) -> _Condition:
        """Return the condition that held, as C text; empty if C cannot express it."""
        flags = decided.flags
        if flags is None:
            return _Condition("")
        self._read_sides(flags)
        return _Condition(_folded(self._comparison(flags, decided.condition) or ""))

    def operands(self, decided: Decided, hit: int) -> tuple[OperandText, ...]:
        """Return the operands of the comparison, except constants; ``hit`` has their values."""
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
                continue  # the compared number is not a member
            text = named.text if named else _operand_text(flags.insn, side)
            size = read.size
            if isinstance(read, Reg):
                if flags.op in ("test", "and") and flags.left is not flags.right:
                    size = max(size, self._held(node, named))
                if read.high and size == 1:
                    continue  # bits 8 to 15 of an unknown value
                text = read.name if read.high and named is None else text
            elif isinstance(read, Mem) and (part := self._part(node, named)):
                whole, shift = part
                shifted = f" >> {shift}" if shift else ""
                text = f"{whole.inner}{shifted} & {(1 << 8 * size) - 1:#x}"
            signed = bool(named and named.type and self._is_signed(named.type))
            if node.kind == "call" and not (named and named.type):
                signed = True  # usually 0 or an error
            signed = signed or decided.condition in ("s", "ns", "l", "ge", "g", "le")
            signed = signed and not self._is_bit(flags, decided.condition)
            signed = signed and not text.startswith(_UNSIGNED_CASTS)
            own = OperandText(
                _folded(text)[:_MAX_TEXT], hit, side, min(size, 8), signed, start or 0
            )
            found.append(own)
        return tuple(found)

    def _is_bit(self, flags: Flags, condition: str) -> bool:
        """Return True if a test of a sign is printed as that of a bit."""
        tested, size = with_nothing(flags)
        if tested is None or condition not in _BIT_SIGNS:
            return False
        is_masked = self._masked_bit(tested, size) is not None
        return is_masked or (condition in ("s", "ns") and bool(self._highest_bit(tested, size)))

    def _is_made(self, read: Operand) -> bool:
        """Return True if an instruction computes the operand itself, so no probe can read it."""
        return isinstance(read, Reg) and read.name not in self._machine.pt_regs

    def _held(self, node: Node, named: _Named | None) -> int:
        """Return the size in bytes of a register's value; an instruction may read fewer bytes."""
        if node.kind == "load":
            return node.size
        btf = self._btf()
        if node.kind != "param" or named is None or btf is None or not named.type:
            return 1
        return min(btf.size_of(named.type), 8)

    def _part(self, node: Node, named: _Named | None = None) -> tuple[_Named, int] | None:
        """Return the number that contains the bytes of a load, and how many bits precede them.

        Return None if the member ``named`` has the size of the load: a union may have both.
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
        special = self._of_fields(flags, condition) or self._of_bits(flags, condition)
        if special is not None:
            return special
        found: _Named | None = None
        match flags.op:
            case "cmp" | "sub":
                return self._compared(flags, condition)
            case "bt" if condition in ("b", "ae"):
                return self._bit(left, right, "ne" if condition == "b" else "e")
            case "neg":  # the carry flag is clear if the value was 0
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

    def _of_bits(self, flags: Flags, condition: str) -> str | None:
        """Return a test of a computed truth value, or of the highest bit of an unsigned number."""
        tested, size = with_nothing(flags)
        if tested is None:
            return None
        if condition in ("e", "ne"):
            return truth_of(tested, condition == "ne", self._comparison)
        if condition not in _BIT_SIGNS:
            return None
        highest = self._masked_bit(tested, size)
        if condition in ("s", "ns"):
            highest = highest or self._highest_bit(tested, size)
        return self._with_zero(highest, _BIT_SIGNS[condition])

    def _of_fields(self, flags: Flags, condition: str) -> str | None:
        """Return a comparison of bit fields, or of several small members in one load."""
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
            return None  # a whole member is named like any other number
        texts = []
        for one in fields:
            value = test.value >> (one.start - start)
            whole = (1 << one.bits) - 1
            mask = test.mask >> (one.start - start) & whole
            if test.sign not in ("==", "!=") and (len(fields) > 1 or mask != whole):
                return None
            if mask != whole:
                part = f"({base.inner}->{one.text} & {_mask_text(mask)})"
                texts.append(f"{part} {test.sign} {value & mask}")
                continue
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
        if first is None and second is not None:
            first = self._place_in_list(flags, second)
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
                value &= (1 << 8 * min(flags.size, 8)) - 1
            is_amount = condition not in ("e", "ne")
            second = _Named(self._constant(value, first.type, is_amount=is_amount))
            is_masked = left.kind == "op" and left.name == "&" and left.args[1].kind == "const"
            if is_masked and not is_amount and value >= _SMALLEST_MASK:
                second = _Named(hex(value))
            if left.kind == "call" and is_error(value) and value != -1 and not is_amount:
                second = _Named(f"-{errno_name(-value)}")
            if not value and self._is_pointer(first):
                second = _Named("NULL")
        return f"{first.inner} {_SIGNS[condition]} {second.inner}"

    def _place_in_list(self, flags: Flags, other: _Named) -> _Named | None:
        """Return the register that is compared with a variable's address, as at a list's end."""
        read = flags.insn.compared[0] if flags.insn.operands else None
        is_list = other.text.startswith("&") and isinstance(read, Reg)
        return _Named(read.name) if is_list and isinstance(read, Reg) else None

    def _narrowed(self, named: _Named, node: Node, flags: Flags, condition: str) -> _Named:
        """Return a number with a cast, if the comparison reads only its lower bytes."""
        btf, read = self._btf(), flags.insn.compared[:1]
        if flags.op not in ("cmp", "sub") or node.kind == "load" or not named.type or btf is None:
            return named
        if not read:
            return named
        is_number = btf.resolve(named.type).kind is Kind.INT
        if not is_number or not isinstance(read[0], Reg) or btf.size_of(named.type) <= flags.size:
            return named
        sign = "u" if condition in _UNSIGNED or condition in ("e", "ne") else "s"
        return named._replace(text=f"({sign}{8 * flags.size}){named.inner}", is_atom=True)

    def _ranged(self, flags: Flags, condition: str, start: int, named: _Named) -> str:
        """Return a range test, which compilers turn into one comparison.

        `x - 1 > 9` is `x < 1 || x > 10`.
        """
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

    def _highest_bit(self, node: Node, size: int) -> _Named | None:
        """Return ``x & 0x80000000`` for an unsigned number: compilers test its sign."""
        named, btf = self._name(node), self._btf()
        if named is None or btf is None or not named.type or self._is_signed(named.type):
            return None
        is_number = btf.resolve(named.type).kind is Kind.INT
        return self._masked(named, 1 << 8 * size - 1) if is_number else None

    def _masked_bit(self, node: Node, size: int) -> _Named | None:
        """Return ``x & 0x100`` for the sign of ``x << 23``, ``x & 0x8000`` for that of a mask."""
        inner, bit = sign_bit(node, size)
        named = self._name(inner) if inner is not node and bit >= 0 else None
        return None if named is None else self._masked(named, 1 << bit)

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
                return self._least(node, depth) or self._either(node, depth)
        return None

    def _either(self, node: Node, depth: int) -> _Named | None:
        """Return ``(condition ? a : b)``, which compilers implement by a comparison and a cmov."""
        test = self._comparison(node.flags, node.name or "") if node.flags is not None else None
        first, second = (self._name(one, depth + 1) for one in node.args)
        if test is None or first is None or second is None:
            return None
        text = f"({test} ? {first.inner} : {second.inner})"
        return None if len(text) > _MAX_TEXT else _Named(text, first.type)

    def _least(self, node: Node, depth: int) -> _Named | None:
        """Return min() or max(), which compilers implement by a comparison and a cmov."""
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
        # a kernel address has a name only if a variable begins there, such as a list head
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
        if symbol == "&" and right.kind == "const" and right.value == ~3 and _is_fd(left):
            return _Named(f"fd_file({first.inner})", self._return_type("fget"))
        is_address = second.text.startswith("&")
        if symbol == "+" and right.kind == "const" and right.value < 0 and not is_address:
            symbol, second = "-", _Named(self._constant(-right.value, 0))
        if symbol in "&|^" and right.kind == "const":
            # a test of all but a few bits is `flags & ~(A | B)` in C
            sign, mask = ("~", ~right.value) if right.value < 0 else ("", right.value)
            if right.size < INT:
                sign, mask = "", right.value & ((1 << 8 * right.size) - 1)
            second = _Named(sign + (_mask_text(mask)))
        text = f"{first.inner} {symbol} {second.inner}"
        return None if len(text) > _MAX_TEXT else _Named(text, is_atom=False)

    def _masked(self, named: _Named, mask: int) -> _Named:
        return _Named(f"{named.inner} & {_mask_text(mask)}", is_atom=False)

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
        name = node.name.partition(".")[0]  # without the compiler's suffix
        arguments = self._arguments(name, node) if self._tells_arguments else ""
        return _Named(f"{name}({arguments})", self._return_type(name))

    def _arguments(self, name: str, call: Node) -> str:
        """Return the arguments of a call; dots for one that C cannot express."""
        btf = self._btf()
        function = btf.find(name, Kind.FUNC) if btf is not None else None
        if btf is None or function is None:
            return ""
        params = btf.params(btf.type(function).arg)
        found = []
        for param, node in zip(params, call.args, strict=False):
            named = self._name(node, 1)
            if node.kind == "const":
                named = _Named(self._constant(node.value, param.type_id))
            found.append(named.text if named is not None else "...")
        return ", ".join(found)

    def _return_type(self, name: str) -> int:
        btf = self._btf()
        if btf is None:
            return 0
        if name not in self._returned_types:
            function = btf.find(name, Kind.FUNC)
            proto = btf.type(btf.type(function).arg) if function is not None else None
            self._returned_types[name] = proto.arg if proto is not None else 0
        return self._returned_types[name]

    def register_of(self, parameter: str) -> str | None:
        """Return the register in which the caller passes a parameter, by its name."""
        return next((one for one, named in self._read_params() if named.text == parameter), None)

    def member_offset(self, parameter: str, members: str) -> int | None:
        """Return the distance in bytes of ``->a.b`` behind the pointer in a parameter, or None."""
        btf, at = self._btf(), 0
        found = next((one for _, one in self._read_params() if one.text == parameter), None)
        target = self._target(found) if found is not None else 0
        if btf is None or not target or not members.startswith("->") or "->" in members[2:]:
            return None
        for name in members[2:].split("."):
            if btf.resolve(target).kind not in STRUCTS:
                return None
            member = _member_named(btf, btf.resolve(target).id, name)
            if member is None:
                return None
            at, target = at + member[0], member[1]
        return at

    def numbers_behind(self, parameter: str) -> dict[str, tuple[int, int]]:
        """Return the numbers in the struct behind a parameter: offset and size by member name."""
        btf = self._btf()
        found = next((one for _, one in self._read_params() if one.text == parameter), None)
        target = self._target(found) if found is not None else 0
        if btf is None or not target or btf.resolve(target).kind is not Kind.STRUCT:
            return {}
        return {
            member.name: (member.bit_offset // 8, btf.size_of(member.type_id))
            for member in btf.members(btf.resolve(target).id)
            if not member.bit_size and btf.resolve(member.type_id).kind is Kind.INT
        }

    def size_behind(self, function: str, argument: int) -> int:
        """Return the size in bytes of what a function's argument points to; 0 if unknown."""
        btf = self._btf()
        found = btf.find(function, Kind.FUNC) if btf is not None else None
        if btf is None or found is None:
            return 0
        params = btf.params(btf.type(found).arg)
        if any(btf.size_of(one.type_id) > self._machine.word for one in params):
            return 0  # such an argument may be in two registers
        kind = btf.resolve(params[argument].type_id) if argument < len(params) else None
        return btf.size_of(kind.arg) if kind is not None and kind.kind is Kind.PTR else 0

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
            for word in range(max(1, -(-size // 8))):
                register = next(registers, None)
                if register is None or not param.name:
                    continue
                if size <= 8:
                    yield register, _Named(param.name, param.type_id)
                elif not word and (pointer := self._first_pointer(btf, param.type_id)):
                    yield register, _Named(param.name, pointer)

    @staticmethod
    def _first_pointer(btf: Btf, type_id: int) -> int:
        """Return the type of the pointer at the beginning of a struct, such as ``sockptr_t``."""
        whole = btf.resolve(type_id)
        found = [one for _, one in members_at(btf, whole.id, 0, 8)] if whole.kind in STRUCTS else []
        kinds = {btf.resolve(one).kind for one in found}
        return found[0] if kinds == {Kind.PTR} else 0

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
        if base is None:
            return None
        if not self._target(base):
            is_void = node.args[0].kind == "param" and self._is_pointer(base)
            if not is_void:
                return None  # DWARF may have a name for this instruction
            named = self._variable(node) if node.name != USER else None
            return named or self._behind_void(base, node.value)
        return self._behind(base, node.args[0], node.value, node.size)

    @staticmethod
    def _behind_void(base: _Named, offset: int) -> _Named | None:
        """Return a number that a ``void *`` parameter points to."""
        if offset < 0:
            return None
        return _Named(f"*({base.text} + {offset})" if offset else f"*{base.inner}")

    def _behind(self, base: _Named, held: Node | None, offset: int, size: int) -> _Named | None:
        """Return the member at ``offset`` behind the pointer ``held``."""
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
        """Return the system call's parameter that its function reads from ``struct pt_regs``."""
        base, btf = node.args[0], self._btf()
        if btf is None or base.kind != "param" or base.name != self._machine.arguments[0]:
            return None
        if self._given is None:
            found = syscall_parameters(self._facts.root, btf, self._function.name)
            self._given = {offset: _Named(name, type_id) for offset, name, type_id in found}
        return self._given.get(node.value)

    def _global(self, node: Node) -> _Named | None:
        """Return a global or per-CPU variable of the kernel."""
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
        """Read DWARF's names of the compared values that have no other name.

        Decide if names of results need the arguments: two calls of a function have other arguments.
        """
        self._tells_arguments = False
        left, right = self._name(flags.left), self._name(flags.right)
        is_other = flags.left is not flags.right and left is not None and right is not None
        self._tells_arguments = is_other and left == right
        if self._places is None:
            return
        self._read.clear()  # a run that goes on has many comparisons
        for node, operand in zip((flags.left, flags.right), flags.insn.compared, strict=False):
            if node.kind == "const" or self._name(node) is not None:
                continue
            held = self._held_by(operand, flags.insn.address)
            if held is not None and self._fits(held, flags):
                self._read[node] = held

    def _fits(self, named: _Named, flags: Flags) -> bool:
        """Return True if a comparison reads a whole value, or bits that a mask selects."""
        btf = self._btf()
        if named.points is not None or btf is None or not named.type:
            return flags.size in (0, self._machine.word)
        is_masked = flags.op in ("test", "and") and flags.right.kind == "const"
        return is_masked or btf.size_of(named.type) <= flags.size

    def _variable(self, node: Node) -> _Named | None:
        """Return DWARF's name of a value, by the instruction that read or made the value."""
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
            return None  # an instruction behind a jump belongs to another block
        held = self._places.in_register(into, insn.end)
        return self._of_variable(held) if held is not None else None

    def _held_by(self, operand: Operand, address: int) -> _Named | None:
        """Return the expression for an operand that an instruction reads."""
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
        """Return the expression for a memory operand: a variable, or a member of a variable."""
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
        """Return the BTF type id for a DWARF type; 0 if BTF does not have the type."""
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
        """Return the type behind a pointer; 0 for other types."""
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
        """Return the id of the type "pointer to ``struct name``", or 0."""
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
    # struct task_struct has pointers to its own type: real_parent, parent
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


def _mask_text(mask: int) -> str:
    return str(mask) if mask < _SMALLEST_MASK else hex(mask)


def _member_named(btf: Btf, struct: int, name: str) -> tuple[int, int] | None:
    """Return the distance in bytes and the type of a member, also inside of anonymous structs.

    Return None for a bit field, or if there is no such member.
    """
    for member in btf.members(struct):
        at, kind = member.bit_offset // 8, btf.resolve(member.type_id)
        if member.name == name:
            return None if member.bit_size else (at, member.type_id)
        if not member.name and kind.kind in STRUCTS:
            inner = _member_named(btf, kind.id, name)
            if inner is not None:
                return at + inner[0], inner[1]
    return None


def _is_fd(node: Node) -> bool:
    """Return True for the result of fdget() and the like: a struct file with two flags below."""
    return node.kind == "call" and bool(re.fullmatch("(__)?fdget(_raw|_pos)?", node.name or ""))


def _load_like(node: Node, offset: int, size: int) -> Node:
    """Return a load from the same base."""
    return Node("load", node.step, node.at, value=offset, name=node.name, args=node.args, size=size)


def _is_same_value(one: Node, other: Node) -> bool:
    """Return True if two nodes are the same value, or adjacent reads of the same memory."""
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
    """Return an expression without the middle of a walk through a list or a tree."""
    return _WALK.sub(r"\1->...->\2", text)


def _looked_at(node: Node, flags: Flags) -> Node:
    """Return a masked number with the mask cut to the comparison's width."""
    if flags.size >= INT or node.kind != "op" or node.name != "&" or node.args[1].kind != "const":
        return node
    left, right = node.args
    mask = Node("const", right.step, right.at, value=right.value, size=flags.size)
    return Node("op", node.step, node.at, name="&", args=(left, mask), size=flags.size)


def _range_start(flags: Flags, condition: str) -> int | None:
    """Return the start of the range that a comparison tests: 1 for an unsigned `x - 1 > 9`."""
    left, right = flags.left, flags.right
    if flags.op not in ("cmp", "sub") or condition not in _UNSIGNED or right.kind != "const":
        return None
    if left.kind != "op" or left.name != "+" or left.args[1].kind != "const":
        return None
    start = -left.args[1].value
    return start if -_MAX_START < start < _MAX_START else None


def _operand_text(insn: Insn, side: int) -> str:
    """Return an operand as the disassembler writes it."""
    parts = insn.text.partition(" ")[2].split(", ")
    if len(insn.operands) > 2 and insn.op != "ccmp":
        parts = parts[1:]  # the destination comes first
    return parts[side] if side < len(parts) else "?"
