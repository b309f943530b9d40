# SPDX-License-Identifier: BSD-2-Clause
"""arm64 machine code as instructions, by Capstone.

As for x86-64, this module parses the disassembler's text (:mod:`retsnoop_py.path.x86`). An
instruction becomes several parts if it moves two values, writes an address back, or shifts an
operand first; the register ``tmp`` connects the parts. Conditions have x86's names, because a
comparison means the same on both architectures.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

import capstone

from retsnoop_py.path.insn import OPPOSITE, Flow, Imm, Insn, Machine, Mem, Memory, Operand, Reg

__all__ = ["ARM64"]

_MASK = (1 << 64) - 1
_SIZE = 4
_TMP = "tmp"
#: In the order of their encoding; the last two are "always".
_CONDITIONS = {
    "eq": "e",
    "ne": "ne",
    "hs": "ae",
    "lo": "b",
    "mi": "s",
    "pl": "ns",
    "vs": "o",
    "vc": "no",
    "hi": "a",
    "ls": "be",
    "ge": "ge",
    "lt": "l",
    "gt": "g",
    "le": "le",
}
_SYNONYMS = {"cs": "hs", "cc": "lo"}
_REGISTER = re.compile(r"([wx])([0-9]|[12][0-9]|30)")
_TOKEN = re.compile(r"\[[^\]]*\]!?|[^,\s][^,]*")
_LOAD = re.compile(r"ld(?:r|ur|tr|ar|apr|apur|lar|xr|axr)(s?)([bhw]?)")
_STORE = re.compile(r"st(?:r|ur|tr|lr|lur|llr)([bh]?)")
_ATOMIC = re.compile(r"(?:ld(?:add|clr|set|eor|[su]max|[su]min)|swp)(?:al|a|l)?[bh]?")
_WIDTHS = {"b": 1, "h": 2, "w": 4, "x": 8}
_PAIRS = {"ldp": "mov", "ldnp": "mov", "ldpsw": "movsx", "stp": "", "stnp": ""}
#: Instructions that change neither a register nor the flags.
_SILENT = (
    *("dmb", "dsb", "isb", "yield", "wfe", "wfi", "sev", "esb", "csdb", "sb", "prfm", "prfum"),
    *("clrex", "msr", "dc", "ic", "tlbi", "at", "sys", "hint", "autiasp", "autibsp", "xpaclri"),
    *("st", "bti", "dgh", "psb", "tsb", "smc", "hvc", "svc", "autia1716", "pacia1716"),
)
_FLAGS = ("adcs", "sbcs", "ngcs", "fcmp", "fcmpe", "rmif", "setf8", "setf16", "cfinv")
_COMPUTED = {
    "add": "add",
    "adds": "add",
    "sub": "sub",
    "subs": "sub",
    "mul": "mul",
    "and": "and",
    "ands": "and",
    "bic": "and",
    "bics": "and",
    "orr": "or",
    "orn": "or",
    "eor": "xor",
    "eon": "xor",
}
_SHIFTS = {"lsl": "shl", "lsr": "shr", "asr": "sar"}
_EXTENSIONS = re.compile(r"([su])xt([bhwx])")
#: Instructions that the compiler puts in ftrace's place at a function's beginning.
_SAVE_LINK = "mov x9, x30"
_NOP = 0xD503201F
_BL, _BL_BITS = 0x94000000, 0xFC000000
#: BTI and its variants: c, j, jc.
_BTI, _BTI_BITS = 0xD503241F, 0xFFFFFF3F
#: BRK with the immediate of kprobes (KPROBES_BRK_IMM).
_KPROBE = 0xD4200080
_KPROBE_TEXT = "#4"
#: MOVN of a 32- and of a 64-bit register: the number's complement is in bits 5 to 20.
_MOVN = (0x12800000, 0x92800000)
#: LDTR of any size, which reads user memory; Capstone 5 does not decode some variants.
_LDTR, _LDTR_BITS = 0x38400800, 0x3FE00C00
#: struct formats of jump table entries, by entry size; and the maximum number of entries.
_ENTRIES = {1: "<b", 2: "<h", 4: "<i"}
_MAX_TABLE = 512
#: ADRP, ADD and BR; older kernels have three moves instead of the first two.
_VENEER_BYTES = 20


def _signed(value: int, size: int) -> int:
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def _number(token: str) -> int | None:
    """The value of ``#0x10``; None for another token."""
    try:
        return int(token[1:], 0) if token[0] == "#" else None
    except ValueError:
        return None


def _register(name: str) -> Reg | None:
    """Return the register with this name; None for a register that the analysis ignores."""
    if name in ("sp", "wsp"):
        return Reg("sp", 8 if name == "sp" else 4)
    match = _REGISTER.fullmatch(name)
    return Reg(f"x{match[2]}", _WIDTHS[match[1]]) if match else None


def _operand(token: str, size: int) -> Operand | None:
    """Return a register or a constant of ``size`` bytes; the zero register is a constant."""
    if token in ("wzr", "xzr"):
        return Imm(0, size)
    value = _number(token)
    return _register(token) if value is None else Imm(_signed(value, size), size)


class _Text:
    """The text of an instruction from the disassembler, and its translation."""

    def __init__(self, address: int, name: str, text: str) -> None:
        self.address = address
        self.name = name
        self.whole = f"{name} {text}" if text else name
        self.tokens: list[str] = _TOKEN.findall(text)
        #: The parts before the last one.
        self.parts: list[Insn] = []

    def make(self, op: str, *operands: Operand, condition: str = "", flags: bool = False) -> Insn:
        """Return a part with operation ``op``; the first operand is the destination."""
        first = operands[0] if operands and op not in ("cmp", "test", "ccmp") else None
        return Insn(
            self.address,
            _SIZE,
            self.whole,
            op,
            operands,
            condition=condition,
            writes=(first.name,) if isinstance(first, Reg) else (),
            flags=flags,
        )

    def before(self, op: str, *operands: Operand) -> None:
        """Add an earlier part."""
        self.parts.append(self.make(op, *operands))

    def other(self, *registers: Reg | None, flags: bool = False) -> Insn:
        """Return an instruction that only writes ``registers``; its operation is unknown."""
        writes = tuple(one.name for one in registers if one is not None)
        return Insn(self.address, _SIZE, self.whole, "other", writes=writes, flags=flags)

    def flow(self, kind: Flow, op: str = "flow", **fields: object) -> Insn:
        """Return an instruction that changes the control flow."""
        return Insn(self.address, _SIZE, self.whole, op, flow=kind, **fields)  # type: ignore[arg-type]

    def register(self, index: int) -> Reg | None:
        """Return the register at a token index, or None."""
        return _register(self.tokens[index]) if index < len(self.tokens) else None

    def target(self) -> int:
        """Return the target of a branch."""
        return (_number(self.tokens[-1]) or 0) & _MASK

    def source(self, index: int, size: int) -> Operand | None:
        """Return the operand at a token index, with the shift or extension that follows it."""
        if index >= len(self.tokens):
            return None
        found = _operand(self.tokens[index], size)
        how, _, amount = (
            self.tokens[index + 1].partition(" ") if self._has(index + 1) else ("",) * 3
        )
        by = _number(amount) or 0 if amount else 0
        if not how or found is None or isinstance(found, Mem):
            return found
        if isinstance(found, Imm):
            return Imm(_signed(found.value << by, size), size) if how == "lsl" else None
        kept, extension = Reg(_TMP, size), _EXTENSIONS.fullmatch(how)
        if extension:
            op = "movsx" if extension[1] == "s" else "movzx"
            self.before(op, kept, Reg(found.name, _WIDTHS[extension[2]]))
            if by:
                self.before("shl", kept, Imm(by, 1))
        elif how in _SHIFTS:
            self.before(_SHIFTS[how], kept, found, Imm(by, 1))
        else:  # ror: compilers do not use it in conditions
            return None
        return kept

    def _has(self, index: int) -> bool:
        return index < len(self.tokens) and self.tokens[index][0].isalpha()

    def done(self, last: Insn) -> Insn:
        """Return the instruction, with ``last`` as its last part."""
        if not self.parts:
            return last
        parts = (*self.parts, last)
        writes = dict.fromkeys(name for part in parts for name in part.writes)
        flags = any(part.flags for part in parts)
        return last._replace(op="parts", writes=tuple(writes), flags=flags, parts=parts)


def _condition(token: str) -> str:
    return _CONDITIONS.get(_SYNONYMS.get(token, token), "")


# -- arithmetic --


def _computed(text: _Text) -> Insn:
    target = text.register(0)
    is_zero = text.tokens[0] in ("wzr", "xzr")
    if target is None and not is_zero:
        return text.other()
    size = target.size if target is not None else _WIDTHS[text.tokens[0][0]]
    first, second = _operand(text.tokens[1], size), text.source(2, size)
    if first is None or second is None:
        return text.other(target, flags=text.name.endswith("s"))
    if text.name in ("bic", "bics", "orn", "eon"):
        text.before("not", Reg(_TMP, size), second)
        second = Reg(_TMP, size)
    op = _COMPUTED[text.name]
    if op in ("or", "add") and first == Imm(0, size):
        return text.done(text.make("mov", target or Reg(_TMP, size), second))
    flags = text.name.endswith("s")
    return text.done(text.make(op, target or Reg(_TMP, size), first, second, flags=flags))


def _compared(text: _Text) -> Insn:
    left = text.register(0)
    size = left.size if left is not None else _WIDTHS.get(text.tokens[0][0], 8)
    first, right = _operand(text.tokens[0], size), text.source(1, size)
    if first is None or right is None:
        return text.other(flags=True)
    if text.name == "tst":
        return text.done(text.make("test", first, right, flags=True))
    if text.name == "cmp":
        return text.done(text.make("cmp", first, right, flags=True))
    if isinstance(right, Imm):  # cmn
        return text.make("cmp", first, Imm(_signed(-right.value, size), size), flags=True)
    return text.done(text.make("add", Reg(_TMP, size), first, right, flags=True))


def _compared_if(text: _Text) -> Insn:
    left, constant = text.register(0), _number(text.tokens[2])
    right = _operand(text.tokens[1], left.size) if left is not None else None
    if text.name == "ccmn":
        number = right if isinstance(right, Imm) else None
        right = Imm(_signed(-number.value, number.size), number.size) if number else None
    if left is None or right is None or constant is None:
        return text.other(flags=True)
    condition = _condition(text.tokens[3])
    return text.make("ccmp", Imm(constant, 4), left, right, condition=condition, flags=True)


def _selected(text: _Text) -> Insn:
    """Translate csel and its variants; some variants compute the second source."""
    target, condition = text.register(0), _condition(text.tokens[-1])
    if target is None:
        return text.other()
    size, name = target.size, text.name
    if name == "cset":
        return text.make("set", target, condition=condition)
    if name == "csetm":
        return text.make("cmov", target, Imm(-1, size), Imm(0, size), condition=condition)
    first = _operand(text.tokens[1], size)
    second = _operand(text.tokens[2], size) if len(text.tokens) > 3 else first
    if name in ("cinc", "cinv", "cneg"):
        first, second, condition = second, first, OPPOSITE.get(condition, "")
        name = {"cinc": "csinc", "cinv": "csinv", "cneg": "csneg"}[name]
    if first is None or second is None:
        return text.other(target)
    if name != "csel":
        second = _changed(text, name, second)
    return text.done(text.make("cmov", target, first, second, condition=condition))


def _changed(text: _Text, name: str, source: Operand) -> Operand:
    """Return the value that csinc, csinv and csneg use if the condition does not hold."""
    size = source.size
    if isinstance(source, Imm):
        value = {"csinc": source.value + 1, "csinv": ~source.value, "csneg": -source.value}[name]
        return Imm(value, size)
    kept = Reg(_TMP, size)
    if name == "csinc":
        text.before("add", kept, source, Imm(1, size))
    else:
        text.before("not" if name == "csinv" else "neg", kept, source)
    return kept


def _moved(text: _Text) -> Insn:
    target = text.register(0)
    source = text.source(1, target.size) if target is not None else None
    if target is None or source is None:
        return text.other(target)
    if text.name == "movk":
        return _moved_part(text, target)
    op = {"mvn": "not", "neg": "neg"}.get(text.name, "mov")
    if text.name == "negs":
        return text.done(text.make("sub", target, Imm(0, target.size), source, flags=True))
    return text.done(text.make(op, target, source))


def _moved_part(text: _Text, target: Reg) -> Insn:
    """Translate movk, which sets 16 bits of a register."""
    value = (_number(text.tokens[1]) or 0) & 0xFFFF
    by = (_number(text.tokens[2].partition(" ")[2]) or 0) if len(text.tokens) > 2 else 0
    size = target.size
    text.before("and", target, target, Imm(_signed(~(0xFFFF << by), size), size))
    return text.done(text.make("or", target, target, Imm(_signed(value << by, size), size)))


def _shifted(text: _Text) -> Insn:
    target, source = text.register(0), text.register(1)
    by = _operand(text.tokens[2], 1)
    if target is None or source is None or by is None:
        return text.other(target)
    return text.make(_SHIFTS[text.name], target, source, by)


def _extended(text: _Text) -> Insn:
    target, source, how = text.register(0), text.register(1), _EXTENSIONS.fullmatch(text.name)
    if target is None or source is None or how is None:
        return text.other(target)
    op = "movsx" if how[1] == "s" else "movzx"
    return text.make(op, target, Reg(source.name, _WIDTHS[how[2]]))


def _bits(text: _Text) -> Insn:
    """Translate ubfx, ubfiz and sbfiz, which extract or insert bits of a register."""
    target, source = text.register(0), text.register(1)
    start, width = _number(text.tokens[2]), _number(text.tokens[3])
    if target is None or source is None or start is None or not width:
        return text.other(target)
    size, kept = target.size, Reg(_TMP, target.size)
    mask = Imm(_signed((1 << width) - 1, size), size)
    if text.name == "ubfx":
        text.before("shr", kept, source, Imm(start, 1))
        return text.done(text.make("and", target, kept, mask))
    if text.name == "ubfiz":
        text.before("and", kept, source, mask)
    elif text.name == "sbfiz" and width in (8, 16, 32):
        text.before("movsx", kept, Reg(source.name, width // 8))
    else:
        return text.other(target)
    return text.done(text.make("shl", target, kept, Imm(start, 1)))


def _address(text: _Text) -> Insn:
    target, value = text.register(0), _number(text.tokens[1])
    if target is None or value is None:
        return text.other(target)
    return text.make("mov", target, Imm(_signed(value, 8), 8))


def _special(text: _Text) -> Insn:
    target = text.register(0)
    if target is not None and text.tokens[1] == "sp_el0":  # the running task, since Linux 4.9
        return text.make("mov", target, Reg("sp_el0", 8))
    return text.other(target)


# -- memory --


class _Place:
    """A memory operand.

    ``step`` is added to its base before (``is_before``) or after the access.
    """

    def __init__(self, tokens: Sequence[str], size: int) -> None:
        text = tokens[0]
        inner = text.strip("[]!").split(", ")
        base, index, self.step, scale, disp = _register(inner[0]), None, 0, 1, 0
        if len(inner) > 1:
            value = _number(inner[1])
            index, disp = (_register(inner[1]), 0) if value is None else (None, value)
        if len(inner) > 2:
            scale = 1 << (_number(inner[2].partition(" ")[2] or "#0") or 0)
        self.is_before = text.endswith("!")
        if self.is_before:
            self.step, disp = disp, 0
        elif len(tokens) > 1:
            self.step = _number(tokens[1]) or 0
        self.base = base
        name = base.name if base is not None else None
        self.memory = Mem(name, index.name if index is not None else None, scale, disp, size)

    def move(self, text: _Text) -> Insn | None:
        """Return the part that writes the address back, or None."""
        if not self.step or self.base is None:
            return None
        return text.make("add", self.base, self.base, Imm(self.step, 8))


def _accessed(text: _Text, place: _Place, accesses: Sequence[Insn]) -> Insn:
    moves = place.move(text)
    parts = list(accesses)
    if moves is not None:
        parts = [moves, *parts] if place.is_before else [*parts, moves]
    text.parts += parts[:-1]
    return text.done(parts[-1])


def _loaded(text: _Text, op: str, width: int) -> Insn:
    target = text.register(0)
    size = width or (target.size if target is not None else 8)
    if target is None:
        return _unknown_access(text)
    literal = _number(text.tokens[1])
    if literal is not None:
        return text.make(op, target, Mem(None, None, 1, literal & _MASK, size))
    place = _Place(text.tokens[1:], size)
    if place.base is None:
        return text.other(target)
    return _accessed(text, place, [text.make(op, target, place.memory)])


def _stored(text: _Text, width: int) -> Insn:
    source = _operand(text.tokens[0], _WIDTHS.get(text.tokens[0][0], 8))
    if source is None or isinstance(source, Mem):
        return _unknown_access(text)
    size = width or source.size
    place = _Place(text.tokens[1:], size)
    return _accessed(text, place, [text.make("mov", place.memory, source._replace(size=size))])


def _pair(text: _Text) -> Insn:
    op, is_load = _PAIRS[text.name], text.name.startswith("ld")
    width = 4 if text.name == "ldpsw" else _WIDTHS.get(text.tokens[0][0], 0)
    both = [_operand(one, width) for one in text.tokens[:2]] if width else []
    if not both or None in both:
        return _unknown_access(text)
    place = _Place(text.tokens[2:], width)
    parts = []
    for number, one in enumerate(both):
        assert one is not None
        memory = place.memory._replace(disp=place.memory.disp + number * width)
        if not is_load:
            parts.append(text.make("mov", memory, one))
        elif isinstance(one, Reg):
            parts.append(text.make(op, one, memory))
    base = place.memory.base
    if is_load and len(parts) > 1 and base in parts[0].writes:
        parts.reverse()  # both loads use the old address
    return _accessed(text, place, parts) if parts else text.other()


def _unknown_access(text: _Text) -> Insn:
    """Translate an access by vector registers, which may write the address back."""
    at = next((n for n, token in enumerate(text.tokens) if token[0] == "["), -1)
    place = _Place(text.tokens[at:], 8) if at >= 0 else None
    return text.other(place.base if place is not None and place.step else None)


# -- control flow --


def _jumped_if(text: _Text) -> Insn:
    """Translate cbz, cbnz, tbz and tbnz, which compare and jump."""
    name, target = text.name, text.target()
    read = text.register(0)
    condition = "ne" if name.endswith("nz") else "e"
    if read is None:  # the zero register
        return text.flow(Flow.BRANCH, target=target, condition=condition)
    right: Operand = read
    if name[0] == "t":
        bit = _number(text.tokens[1]) or 0
        read = Reg(read.name, 8) if bit > 31 else read
        if bit == 8 * read.size - 1:
            right, condition = read, "s" if name == "tbnz" else "ns"
        else:
            right = Imm(_signed(1 << bit, read.size), read.size)
    text.parts.append(text.make("test", read, right, flags=True))
    jump = text.flow(Flow.BRANCH, target=target, condition=condition)
    return text.done(jump)


def _flow(text: _Text) -> Insn | None:
    """Return an instruction that changes the control flow; None for other instructions."""
    name, target = text.name, text.target() if text.tokens else 0
    if name in ("b", "b.al", "b.nv"):
        return text.flow(Flow.JUMP, target=target)
    if name.startswith(("b.", "bc.")):
        condition = _condition(name.partition(".")[2])
        return text.flow(Flow.BRANCH, target=target, condition=condition)
    if name == "bl":
        return text.flow(Flow.CALL, "call", target=target)
    if name.startswith("blr"):
        register = text.register(0)
        return text.flow(Flow.CALL, "call", operands=(register,) if register else ())
    if name == "br" or name.startswith("bra"):
        register = text.register(0)
        return text.flow(Flow.INDIRECT, operands=(register,) if register else ())
    if name.startswith(("ret", "eret")):
        return text.flow(Flow.RETURN)
    return _stop(text)


def _stop(text: _Text) -> Insn | None:
    match text.name:
        case "brk" if text.tokens[0] == _KPROBE_TEXT:
            return text.other()  # a kprobe; the instruction that it replaced is unknown
        case "brk":
            return text.flow(Flow.STOP, "trap")
        case "udf":
            return text.flow(Flow.STOP, "pad")
        case "hlt" | "smc":
            return text.flow(Flow.STOP)
    return None


_ACTS: dict[str, Callable[[_Text], Insn]] = {
    **dict.fromkeys(_COMPUTED, _computed),
    **dict.fromkeys(("cmp", "cmn", "tst"), _compared),
    **dict.fromkeys(("ccmp", "ccmn"), _compared_if),
    **dict.fromkeys(("csel", "csinc", "csinv", "csneg", "cinc", "cinv", "cneg"), _selected),
    **dict.fromkeys(("cset", "csetm"), _selected),
    **dict.fromkeys(("mov", "movz", "movn", "movk", "mvn", "neg", "negs"), _moved),
    **dict.fromkeys(_SHIFTS, _shifted),
    **dict.fromkeys(("sxtb", "sxth", "sxtw", "uxtb", "uxth", "uxtw"), _extended),
    **dict.fromkeys(("ubfx", "ubfiz", "sbfiz"), _bits),
    **dict.fromkeys(("adr", "adrp"), _address),
    **dict.fromkeys(_PAIRS, _pair),
    **dict.fromkeys(("cbz", "cbnz", "tbz", "tbnz"), _jumped_if),
    "mrs": _special,
}


def _instruction(address: int, name: str, operands: str) -> Insn:
    text = _Text(address, name, operands)
    act = _ACTS.get(name)
    if act is not None:
        return act(text)
    flow = _flow(text)
    if flow is not None:
        return flow
    load = _LOAD.fullmatch(name)
    if load is not None:
        op = "movsx" if load[1] else "movzx" if load[2] else "mov"
        return _loaded(text, op, _WIDTHS.get(load[2], 0))
    store = _STORE.fullmatch(name)
    if store is not None:
        return _stored(text, _WIDTHS.get(store[1], 0))
    return _uncommon(text)


def _uncommon(text: _Text) -> Insn:
    """Return an instruction that only writes registers; its other effects are not modelled."""
    name = text.name
    if name in ("nop", "bti", "paciasp", "pacibsp"):
        op = "nop" if name == "nop" else "entry"
        return Insn(text.address, _SIZE, text.whole, op)
    if _ATOMIC.fullmatch(name):
        return text.other(text.register(1))
    if name.startswith(("casp", "ldxp", "ldaxp")):
        return text.other(text.register(0), text.register(1))
    if name.startswith(("stx", "stlx")):  # the status register
        return text.other(text.register(0))
    if name.startswith(_SILENT):
        return text.other()
    return text.other(text.register(0), flags=name in _FLAGS)


def _decode(code: bytes, address: int) -> list[Insn]:
    """Return the instructions of ``code``, which is at ``address``.

    For a word that the disassembler does not decode, assume that it changes the register in the
    usual destination field.
    """
    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    found: list[Insn] = []
    at = 0
    while at + _SIZE <= len(code):
        for where, _, name, operands in engine.disasm_lite(code[at:], address + at):
            found.append(_instruction(where, name, operands))
            at += _SIZE
        if at + _SIZE <= len(code):
            (word,) = struct.unpack_from("<I", code, at)
            found.append(_undecoded(address + at, word))
            at += _SIZE
    return found


def _own(code: bytes) -> bytes:
    """Return ``code`` without the pointer that may precede the next function.

    Since Linux 6.4, ftrace stores the called tracer there (CALL_OPS). Symbols do not distinguish
    the pointer from code. After a call that does not return, such as __stack_chk_fail(), control
    seems to go on to the pointer. A probe there would corrupt the pointer, and the next call of
    that function would crash the kernel.
    """
    last = code[-2 * _SIZE :]
    return code[: -len(last)] if len(last) == 2 * _SIZE and last[-2:] == b"\xff\xff" else code


def _undecoded(address: int, word: int) -> Insn:
    """Return an instruction for a word that the disassembler does not decode."""
    load = word & _LDTR_BITS == _LDTR
    size = 1 << (word >> 30)
    name = {1: "ldtrb", 2: "ldtrh"}.get(size, "ldtr") if load else f".inst {word:#010x}"
    if not load:
        writes = () if word & 31 == 31 else (f"x{word & 31}",)
        return Insn(address, _SIZE, name, "other", writes=writes, flags=True)
    letter, base = "x" if size == 8 else "w", word >> 5 & 31
    disp = _signed(word >> 12 << 7, 2) >> 7  # nine bits
    at = f"[{'sp' if base == 31 else f'x{base}'}, #{disp}]"
    target = f"{letter}zr" if word & 31 == 31 else f"{letter}{word & 31}"
    return _instruction(address, name, f"{target}, {at}")


# -- kernel patching --


def _plain(insn: Insn, _name: str) -> Insn:
    """See :class:`retsnoop_py.path.insn.Machine`: arm64 has no thunks."""
    return insn


def _hook_end(insns: Sequence[Insn]) -> int:
    """Return the address behind BTI and the two instructions that ftrace may replace."""
    at = 1 if insns[0].text.startswith("bti") else 0
    for insn in insns[at : at + 2]:
        if insn.op == "nop" or insn.text == _SAVE_LINK or insn.flow is Flow.CALL:
            at += 1
    return insns[at].address if at < len(insns) else insns[-1].end


def _untraced(code: bytes) -> bytes:
    """Return a function's code without ftrace's call, or a breakpoint in the call's place."""
    words = list(struct.unpack_from(f"<{min(3, len(code) // _SIZE)}I", code))
    start = 1 if words and words[0] & _BTI_BITS == _BTI & _BTI_BITS else 0
    for at in range(start, min(start + 2, len(words))):
        if words[at] & _BL_BITS == _BL or words[at] == _KPROBE:
            words[at] = _NOP
    return struct.pack(f"<{len(words)}I", *words) + code[_SIZE * len(words) :]


def _makes(code: bytes, number: int) -> bool:
    """Return True if the code moves the complement of ``number`` to a register."""
    if not 0 <= ~number <= 0xFFFF:
        return False
    for base in _MOVN:
        word = struct.pack("<I", base | ~number << 5)
        pattern = re.compile(
            b"[" + re.escape(bytes(range(word[0], word[0] + 32))) + b"]" + re.escape(word[1:])
        )
        if any(match.start() % _SIZE == 0 for match in pattern.finditer(code)):
            return True
    return False


def _veneer(code: bytes, address: int) -> int | None:
    """Return a veneer's target: a branch cannot reach from a module to the kernel."""
    values: dict[str, int] = {}
    for insn in _decode(code, address):
        if insn.flow is Flow.INDIRECT:
            register = insn.operands[0] if insn.operands else None
            value = values.get(register.name) if isinstance(register, Reg) else None
            return None if value is None else value & _MASK
        for step in insn.steps:
            target, last = (step.operands or (None,))[0], (step.operands or (None,))[-1]
            if not isinstance(target, Reg) or not isinstance(last, Imm):
                if step.op != "entry":
                    return None
                continue
            old = values.get(target.name, 0)
            made = {"mov": last.value, "add": old + last.value, "and": old & last.value}
            values[target.name] = made.get(step.op, old | last.value)
    return None


def _table(insns: Sequence[Insn], memory: Memory) -> tuple[int, ...]:
    """Return the targets of a gcc jump table: signed word offsets from an address in the code.

    ``adrp; add; ldrh w1, [x1, w0, uxtw #1]; adr x0; add x1, x0, w1, sxth #2; br x1``
    """
    steps = [step for insn in insns[:-1] for step in insn.steps]
    jump = insns[-1].operands[0] if insns[-1].operands else None
    found = _Backwards(steps)
    add = found.maker(jump)
    base = found.constant(add.operands[1]) if add is not None and add.op == "add" else None
    offset = found.maker(Reg(_TMP, 8), "movsx") if base is not None else None
    load = found.maker(offset.operands[1]) if offset is not None else None
    entry = load.operands[1] if load is not None and load.op in ("mov", "movzx", "movsx") else None
    if base is None or not isinstance(entry, Mem) or entry.base is None or entry.at is None:
        return ()
    start = found.constant(Reg(entry.base, 8))
    if start is None or entry.size not in _ENTRIES:
        return ()
    count = found.bound(entry.at)
    raw = memory(
        (start + entry.disp) & _MASK, entry.size * (_MAX_TABLE if count is None else count)
    )
    form = struct.Struct(_ENTRIES[entry.size])
    entries = form.iter_unpack(raw[: len(raw) // form.size * form.size])
    return tuple((base + one * _SIZE) & _MASK for (one,) in entries)


class _Backwards:
    """A backward search through the steps before an instruction."""

    def __init__(self, steps: Sequence[Insn]) -> None:
        self._steps = steps
        self._at = len(steps)

    def maker(self, operand: Operand | None, op: str = "") -> Insn | None:
        """Return the last step before the current one that writes a register (by ``op``)."""
        if not isinstance(operand, Reg):
            return None
        for at in range(self._at - 1, -1, -1):
            step = self._steps[at]
            if operand.name in step.writes and op in ("", step.op):
                self._at = at
                return step
        return None

    def constant(self, operand: Operand) -> int | None:
        """Return the address in a register, and keep the position of the search."""
        kept = self._at
        try:
            value, register = 0, operand
            while (step := self.maker(register)) is not None:
                last = step.operands[-1] if step.operands else None
                if not isinstance(last, Imm):
                    return None
                value += last.value
                if step.op == "mov":
                    return value
                if step.op != "add":
                    return None
                register = step.operands[1]
            return None
        finally:
            self._at = kept

    def bound(self, register: str) -> int | None:
        """Return the number of possible values of a register that was compared with the largest."""
        for step in reversed(self._steps[: self._at]):
            if step.op == "cmp" and step.operands[0] in (Reg(register, 4), Reg(register, 8)):
                last = step.operands[1]
                return (
                    last.value + 1
                    if isinstance(last, Imm) and 0 <= last.value < _MAX_TABLE
                    else None
                )
            if register in step.writes:
                return None
        return None


_REGISTERS = tuple(f"x{number}" for number in range(31))

#: arm64 with Linux's variant of AAPCS64: x18 may be a shadow stack, x30 has the return address.
ARM64 = Machine(
    name="aarch64",
    arguments=_REGISTERS[:8],
    clobbered=(*_REGISTERS[:19], "x30"),
    result="x0",
    stack="sp",
    frame="x29",
    pt_regs={name: 8 * place for place, name in enumerate((*_REGISTERS, "sp"))},
    dwarf_registers=(*_REGISTERS, "sp"),
    decode=_decode,
    plain=_plain,
    hook_end=_hook_end,
    own=_own,
    untraced=_untraced,
    makes=_makes,
    veneer=_veneer,
    table=_table,
    veneer_size=_VENEER_BYTES,
    conditions=tuple(_CONDITIONS.values()),
    current="sp_el0",
    large_by_address=True,
)
