# SPDX-License-Identifier: BSD-2-Clause
"""x86-64 machine code as instructions, by Capstone.

This module imports Capstone, so only runs that follow paths load it. It parses the disassembler's
text, because Capstone's objects with details take twenty times as long: 0.45 s instead of 0.02 s
for the 2,700 instructions of do_check_common().
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache

import capstone

from retsnoop_py.path.insn import Flow, Imm, Insn, Machine, Mem, Operand, Reg

__all__ = ["X86_64"]

#: Registers of the System V ABI: the first six arguments, and the registers a call may change.
_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
#: ``struct pt_regs``, which is ABI, from its start; the stack pointer is further on.
_PT_REGS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx"),
    *("rdx", "rsi", "rdi"),
)
_PT_REGS_STACK = 152
#: Registers by DWARF number.
_DWARF_REGISTERS = (
    *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
    *(f"r{number}" for number in range(8, 16)),
)
#: The possible first instruction of a function, ftrace's call, and the NOP in the call's place.
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_CALL = b"\xe8"
_NOP = b"\x0f\x1f\x44\x00\x00"
#: Symbols through which functions return if the kernel mitigates return attacks (6.0, 6.5, 6.15).
_RETURN_THUNKS = ("__x86_return_thunk", "srso_", "retbleed_", "its_return_thunk")
#: Symbols through which functions jump or call if the kernel protects indirect branches.
_INDIRECT_THUNKS = ("__x86_indirect_", "its_thunk")
#: Thunk arrays, with one entry per register. The array's symbol has the address of the entry for
#: rax, and so has the end symbol of the previous array.
_THUNK_ARRAYS = tuple(
    f"__x86_indirect_{kind}thunk_array" for kind in ("", "call_", "jump_", "its_")
)

_OPS = {
    **dict.fromkeys(("mov", "movabs"), "mov"),
    **dict.fromkeys(("movsx", "movsxd"), "movsx"),
    **dict.fromkeys(("sal", "shl"), "shl"),
    **{
        name: name
        for name in (
            *("movzx", "lea", "add", "sub", "and", "or", "xor", "shr", "sar", "neg", "not"),
            *("inc", "dec", "cmp", "test", "bt", "push", "pop", "sbb", "xchg"),
        )
    },
}
#: Operations that keep the flags; other tables list registers written beside the first operand.
_NO_FLAGS = frozenset(
    {"mov", "movzx", "movsx", "lea", "not", "push", "pop", "xchg", "cmov", "set", "other"}
)
_SILENT = ("nop", "endbr64", "prefetch", "pause", "stac", "clac", "cli", "sti", "lfence", "mfence")
_HIDDEN_WRITES = {
    **dict.fromkeys(("mul", "div", "idiv", "rdtsc", "rdmsr", "cmpxchg16b"), ("rax", "rdx")),
    "imul": ("rax", "rdx"),  # with one operand only
    "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "rdtscp": ("rax", "rcx", "rdx"),
    "rdpmc": ("rax", "rdx"),
    "xgetbv": ("rax", "rdx"),
    "cmpxchg": ("rax",),
    "syscall": ("rax", "rcx", "r11"),
    "cqo": ("rdx",),
    "cdq": ("rdx",),
}
#: Registers that string instructions change, by the begin of the name.
_STRING_WRITES = {
    "stos": ("rdi",),
    "scas": ("rdi",),
    "lods": ("rsi", "rax"),
    "movs": ("rsi", "rdi"),
    "cmps": ("rsi", "rdi"),
}
_SYNONYMS = {
    "z": "e",
    "nz": "ne",
    "c": "b",
    "nae": "b",
    "nc": "ae",
    "nb": "ae",
    "na": "be",
    "nbe": "a",
    "nge": "l",
    "nl": "ge",
    "ng": "le",
    "nle": "g",
    "pe": "p",
    "po": "np",
}
_CONVERSIONS = {"cdqe": ("rax", 8, 4), "cwde": ("rax", 4, 2)}
#: UD0, UD1 and UDB; possible prefixes of the first two: operand size, address size, REX.
_TRAPS = (b"\x0f\xff", b"\x0f\xb9")
_UDB = b"\xd6"
_PREFIX_BYTES = (b"\x66", b"\x67", *(bytes([one]) for one in range(0x40, 0x50)))
#: Values of the fields of ModRM and SIB.
_IS_REGISTER, _HAS_SIB, _NO_BASE = 3, 4, 5
#: The maximum size of an instruction in bytes.
_LONGEST = 15
_STOPS = frozenset({"ud0", "ud1", "ud2", "int3", "hlt"})
_PREFIXES = frozenset({"lock", "rep", "repe", "repne", "notrack", "bnd", "xacquire", "xrelease"})
_SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16}
_MEMORY = re.compile(
    r"(?:(\w+) ptr )?(?:(\w\w):)?\[([a-z]\w*(?=[ \]]))?"
    r"(?:(?: \+ )?([a-z]\w*)\*(\d)| \+ ([a-z]\w*))?(?: ?([+-]) ?)?(0x[0-9a-f]+|\d+)?\]"
)


def _full_names() -> dict[str, Reg]:
    names: dict[str, Reg] = {}
    for letter in "abcd":
        full = f"r{letter}x"
        names |= {full: Reg(full, 8), f"e{letter}x": Reg(full, 4), f"{letter}x": Reg(full, 2)}
        names |= {f"{letter}l": Reg(full, 1), f"{letter}h": Reg(full, 1, high=True)}
    for short in ("si", "di", "bp", "sp"):
        full = f"r{short}"
        names |= {full: Reg(full, 8), f"e{short}": Reg(full, 4)}
        names |= {short: Reg(full, 2), f"{short}l": Reg(full, 1)}
    for full in (f"r{number}" for number in range(8, 16)):
        names |= {full: Reg(full, 8), f"{full}d": Reg(full, 4)}
        names |= {f"{full}w": Reg(full, 2), f"{full}b": Reg(full, 1)}
    return names


_REGISTERS = _full_names()


def _signed(value: int, size: int) -> int:
    """Return the number in ``size`` bytes as a signed number."""
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def _number(text: str) -> int:
    return int(text, 16) if "x" in text else int(text)


@lru_cache(maxsize=1 << 14)
def _operands(text: str) -> tuple[tuple[Operand | None, ...], bool]:
    """Return the operands in ``text``, and True if an operand is relative to the instruction's end.

    None is a register that the analysis ignores (vectors, control registers).
    """
    found: list[Operand | None] = []
    relative = False
    for part in text.split(", ") if text else ():
        if part in _REGISTERS:
            found.append(_REGISTERS[part])
        elif "[" in part:
            memory, is_relative = _memory(part)
            relative = relative or is_relative
            found.append(memory)
        elif part[0].isdigit() or part[0] == "-":
            found.append(Imm(_signed(_number(part), 8), 8))
        else:
            found.append(None)
    size = max((one.size for one in found if isinstance(one, Reg | Mem)), default=8)
    sized = [Imm(_signed(o.value, size), size) if isinstance(o, Imm) else o for o in found]
    return tuple(sized), relative


def _memory(part: str) -> tuple[Mem | None, bool]:
    match = _MEMORY.fullmatch(part)
    if match is None:
        return None, False
    width, segment, first, index, scale, plain, sign, disp = match.groups()
    value = _signed(_number(disp), 8) if disp else 0
    if sign == "-":
        value = -value
    relative = first in ("rip", "eip")
    if first and not relative and first not in _REGISTERS:
        return None, False
    base = _REGISTERS[first].name if first and not relative else None
    second = index or plain
    if second and second not in _REGISTERS:
        return None, False
    size = _SIZES.get(width or "qword", 64)
    number = int(scale or 1)
    if segment not in ("gs", "fs"):
        segment = None
    name = _REGISTERS[second].name if second else None
    return Mem(base, name, number, value, size, segment), relative


def _located(operands: tuple[Operand | None, ...], end: int) -> tuple[Operand | None, ...]:
    """Return the operands with absolute addresses; without a base, they count from ``end``."""
    return tuple(
        one._replace(disp=(one.disp + end) & ((1 << 64) - 1))
        if isinstance(one, Mem) and one.base is None
        else one
        for one in operands
    )


def _flow(name: str, operands: tuple[Operand | None, ...]) -> tuple[Flow, int, str]:
    """Return flow, target and condition of an instruction."""
    first = operands[0] if operands else None
    direct = first.value & ((1 << 64) - 1) if isinstance(first, Imm) else 0
    if name == "jmp":
        return (Flow.JUMP, direct, "") if direct else (Flow.INDIRECT, 0, "")
    if name == "call":
        return Flow.CALL, direct, ""
    if name.startswith(("ret", "iret", "sysret")):
        return Flow.RETURN, 0, ""
    if name in _STOPS:
        return Flow.STOP, 0, ""
    if name in ("jrcxz", "jecxz") or name.startswith("loop"):
        return Flow.BRANCH, direct, "rcxz"
    if name[0] == "j":
        return Flow.BRANCH, direct, _SYNONYMS.get(name[1:], name[1:])
    return Flow.NEXT, 0, ""


@lru_cache(maxsize=1 << 10)
def _op(name: str) -> tuple[str, str]:
    """Return an instruction's operation and condition."""
    if name.startswith("cmov"):
        return "cmov", _SYNONYMS.get(name[4:], name[4:])
    if name.startswith("set"):
        return "set", _SYNONYMS.get(name[3:], name[3:])
    return _OPS.get(name, "other"), ""


def _other_writes(name: str, prefix: str, operands: tuple[Operand | None, ...]) -> tuple[str, ...]:
    """Return the registers that an instruction without a modelled operation may change."""
    if name.startswith(_SILENT):
        return ()
    first = operands[0] if operands else None
    written = {first.name} if isinstance(first, Reg) else set()
    if name != "imul" or len(operands) == 1:
        written.update(_HIDDEN_WRITES.get(name, ()))
    if name == "xadd":
        written.update(one.name for one in operands if isinstance(one, Reg))
    if name[:4] in _STRING_WRITES:
        written.update(_STRING_WRITES[name[:4]], ("rcx",) if prefix.startswith("rep") else ())
    return tuple(written)


def _instruction(raw: tuple[int, int, str, str]) -> Insn:
    address, size, mnemonic, op_str = raw
    prefix, name = "", mnemonic
    if " " in mnemonic:
        prefix, _, name = mnemonic.partition(" ")
        if prefix not in _PREFIXES:
            prefix, name = "", mnemonic.replace(" ", "_")
    text = f"{mnemonic} {op_str}" if op_str else mnemonic
    operands, relative = _operands(op_str)
    if relative:
        operands = _located(operands, address + size)
    flow, target, condition = _flow(name, operands)
    if flow is not Flow.NEXT:
        kept = tuple(one for one in operands if one is not None)
        op = "call" if flow is Flow.CALL else "pad" if name == "int3" else "flow"
        return Insn(address, size, text, op, kept, flow, target, condition)
    if name in _CONVERSIONS:
        register, to, start = _CONVERSIONS[name]
        pair = (Reg(register, to), Reg(register, start))
        return Insn(address, size, text, "movsx", pair, writes=(register,))
    if name == "leave":
        return _leave(address, size, text)
    # with one operand it changes two registers
    op, condition = ("mul", "") if name == "imul" and len(operands) > 1 else _op(name)
    known = tuple(one for one in operands if one is not None)
    if op == "other" or len(known) < len(operands):
        writes = _other_writes(name, prefix, operands)
        flags = not name.startswith((*_SILENT, "stos", "movs", "lods", "cdq", "cqo", "bswap"))
        op = "entry" if name == "endbr64" else "nop" if name.startswith("nop") else "other"
        return Insn(address, size, text, op, writes=writes, flags=flags)
    first = known[0] if known else None
    writes = (first.name,) if isinstance(first, Reg) and op not in ("cmp", "test", "bt") else ()
    if op == "push":
        writes = ()
    if op == "xchg":
        writes = tuple(one.name for one in known if isinstance(one, Reg))
    return Insn(
        address,
        size,
        text,
        op,
        known,
        condition=condition,
        writes=writes,
        flags=op not in _NO_FLAGS,
    )


def _trap_size(code: bytes) -> int:
    """Return the size of the trap at the start of ``code`` in bytes; 0 for other code.

    Linux implements WARN() by UD1 with operands since 7.0. Sanitizers used UD1 before, and UDB in
    some places. Capstone 5 decodes UD0 and UD1 as instructions without operands, and does not
    decode UDB.
    """
    if code[:1] == _UDB:
        return 1
    at = 0
    while code[at : at + 1] in _PREFIX_BYTES:
        at += 1
    if code[at : at + 2] not in _TRAPS or len(code) < at + 3:
        return 0
    modrm = code[at + 2]
    kind, register = modrm >> 6, modrm & 7
    size = at + 3
    if kind != _IS_REGISTER and register == _HAS_SIB:
        base = code[size] & 7 if len(code) > size else 0
        size += 1 + (4 if not kind and base == _NO_BASE else 0)
    if (kind, register) == (0, _NO_BASE):
        size += 4
    return size + (0, 1, 4, 0)[kind]


def _leave(address: int, size: int, text: str) -> Insn:
    stack, frame = Reg("rsp", 8), Reg("rbp", 8)
    parts = (
        Insn(address, size, text, "mov", (stack, frame), writes=("rsp",)),
        Insn(address, size, text, "pop", (frame,), writes=("rbp",)),
    )
    return Insn(address, size, text, "leave", writes=("rsp", "rbp"), parts=parts)


def _plain(insn: Insn, name: str) -> Insn:
    """See :class:`retsnoop_py.path.insn.Machine`."""
    if insn.flow is Flow.JUMP and name.startswith(_RETURN_THUNKS):
        return insn._replace(flow=Flow.RETURN, target=0)
    if name.startswith(_INDIRECT_THUNKS):
        flow = Flow.INDIRECT if insn.flow is Flow.JUMP else Flow.CALL
        register = name.rpartition("_")[2].replace("array", "rax")
        is_known = register.startswith("r") and register.isalnum()
        operands = (Reg(register, 8),) if is_known else ()
        return insn._replace(flow=flow, target=0, operands=operands)
    return insn


def _hook_end(insns: Sequence[Insn]) -> int:
    """Return the address behind ftrace's call, or behind the NOP in its place."""
    start = insns[0].address
    for insn in insns[:2]:
        is_hook = insn.flow is Flow.CALL or insn.op == "nop"
        if is_hook and insn.size == len(_NOP) and insn.address <= start + len(_ENDBR64):
            return insn.end
    return start + len(_ENDBR64) + len(_NOP)


def _untraced(code: bytes) -> bytes:
    """Return a function's code with a NOP in place of the tracer's call.

    A function that can be hooked does not begin with a call of its own. Other functions are not
    followed.
    """
    at = len(_ENDBR64) if code.startswith(_ENDBR64) else 0
    if code[at : at + 1] != _CALL:
        return code
    return code[:at] + _NOP + code[at + len(_NOP) :]


def _makes(code: bytes, number: int) -> bool:
    """Return True if the code contains the number: made, compared, or by chance."""
    return struct.pack("<i", number) in code


def _decode(code: bytes, address: int) -> list[Insn]:
    """Return the instructions of ``code``, which is at ``address``, up to the first invalid one."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    found: list[Insn] = []
    at = 0
    while at < len(code):
        for raw in engine.disasm_lite(code[at:], address + at):
            if raw[2] in ("ud0", "ud1"):
                break
            found.append(_instruction(raw))
            at += raw[1]
        size = _trap_size(code[at : at + _LONGEST])
        if size:
            found.append(Insn(address + at, size, "ud", "trap", flow=Flow.STOP))
            at += size
        if not size:
            break
    return found


#: x86-64, with the System V ABI.
X86_64 = Machine(
    name="x86_64",
    arguments=_ARGUMENTS,
    clobbered=_CLOBBERED,
    result="rax",
    stack="rsp",
    frame="rbp",
    call_pushes=8,
    pt_regs={name: 8 * place for place, name in enumerate(_PT_REGS)} | {"rsp": _PT_REGS_STACK},
    dwarf_registers=_DWARF_REGISTERS,
    decode=_decode,
    plain=_plain,
    hook_end=_hook_end,
    own=lambda code: code,
    untraced=_untraced,
    makes=_makes,
    veneer=lambda _code, _address: None,
    # kernels are built without jump tables, because indirect jumps are protected
    table=lambda _insns, _memory: (),
    first_names=_THUNK_ARRAYS,
    helpers=(("__put_user_", "rcx"),),
    user_reads=(("__get_user_", "rdx", "rax"),),
    # kprobes emulate a call as if it had 5 bytes (kprobe_emulate_call() of 6.12): after a 6-byte
    # call, such as `cs call` of a thunk, the kernel goes on one byte too early and crashes
    probes_open=False,
)
