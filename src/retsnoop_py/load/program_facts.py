# SPDX-License-Identifier: BSD-2-Clause
"""Facts from a log about a whole program, for the reasons of ``program_rules``."""

from __future__ import annotations

import re
from collections.abc import Callable

from retsnoop_py.load import since
from retsnoop_py.load.read_log import SourceLine
from retsnoop_py.load.verifier_case import AROUND, Case, callee
from retsnoop_py.load.verifier_rules import NO_CONTEXT_TYPE, Rule
from retsnoop_py.load.verifier_rules import rule as rule_of

__all__ = ["PROGRAM_FACTS", "PROGRAM_MEANT"]

_VISITED = 3


_CALL_OPCODE = b"\x85"


def _helper(case: Case) -> dict[str, str]:
    number = case.first("number", "number2", "number3")
    name = case.first("name", "name2", "name3")
    known = since.by_number("helpers", int(number)) if number else None
    if known is None and name:
        known = since.by_name("helpers", name)
    if known and name not in ("", "unknown", known.name, f"bpf_{known.name}"):
        return {
            "helper_reason": f"{name}() is helper {number} of this kernel alone: Linux has"
            f" bpf_{known.name}() at that number. The kernel knows the name, and has no such helper"
            " for programs of this type.",
            "helper_suggestion": "Use the patched kernel that the program was written for, in its"
            " right version, and the program type that has the helper there.",
        }
    label = f"bpf_{known.name}()" if known else f"{name}()" if name else "The helper"
    if known is None and number:
        last = since.table("helpers")[-1].number
        return {
            "helper_reason": f"No kernel has a helper of number {number}: the last one is {last}.",
            "helper_suggestion": "Check the loader's changes to this instruction: a poisoned"
            " call, an unresolved extern, or an object that was not"
            " relocated.",
        }
    if not (name or number) and "not allowed" in case.words:
        return {
            "helper_reason": f"{callee(case.last)}() is for some functions alone, which the kernel"
            " lists, and this program is attached to another one.",
            "helper_suggestion": "Attach to a function where it is allowed (bpf_d_path():"
            " security_file_* and some more, and iterators and programs of LSM), or do without it.",
        }
    if name in ("", "unknown") and known is not None:
        return {
            "helper_reason": f"{label}, helper {known.number}, came with Linux {known.since};"
            " this kernel is older.",
            "helper_suggestion": "Require that kernel, do without the helper, or guard the call:"
            " bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_"
            f"{known.name}).",
        }
    first = f" (since Linux {known.since})" if known else ""
    if label.startswith("bpf_probe_"):
        return {
            "helper_reason": f"The kernel has {label}{first} and refuses it here. For a tracing"
            " program this means that the kernel is locked down (by Secure Boot, for example)."
            " Programs of other types do not have this helper.",
            "helper_suggestion": "`cat /sys/kernel/security/lockdown` shows the mode: it must not"
            " be confidentiality. In another program type, do without the helper.",
        }
    return {
        "helper_reason": f"The kernel has {label}{first}, but not for programs of this type.",
        "helper_suggestion": "Do without it, or use a program type that has it; some helpers came"
        " to a type later than to others, and some need CAP_PERFMON.",
    }


def _gpl(case: Case) -> dict[str, str]:
    of_type = re.search(r"\b(\w+) programs must have a GPL", case.words)
    if of_type:
        return {"helper": f"Each program of type {of_type[1]}"}
    return {"helper": callee(case.last)}


def _instruction(case: Case) -> dict[str, str]:
    """Return the name of an instruction, from its eight bytes or its opcode in the message."""
    code, offset, number = int(case.first("code") or "0", 16), 0, 0
    last, target = case.last, case.target
    raw = b""
    if last is not None and target is not None:
        raw = target.instruction_at(case.log.program, last.index)
    if len(raw) == 8:
        code = raw[0]
        offset, number = (int.from_bytes(raw[a:b], "little", signed=True) for a, b in _FIELDS)
    if code == _CALL_BY_REGISTER:
        return {
            "instruction": "The instruction is a call through a register (callx, opcode 8d): the"
            " compiler calls a function by its address, which no program may do.",
            "instruction_step": "Compile with -O2, for BPF and with headers for it, have functions"
            " __always_inline or called by name, and keep no pointers to them.",
        }
    for name, since_, is_it in _INSTRUCTIONS:
        if code and is_it(code, offset, number):
            known = f"The instruction is {name}, which came with Linux {since_}."
            return {"instruction": known, "instruction_step": _OLDER_CODE}
    return {
        "instruction_step": _OLDER_CODE,
        "instruction": "The program has an instruction that this kernel does not support. Atomic"
        " operations require Linux 5.12, 32-bit comparisons (-mcpu=v3) 5.1, sign extension and"
        " long jumps (-mcpu=v4) 6.6. Or the loader set a field of the instruction that must be 0.",
    }


_CALL_BY_REGISTER = 0x8D


_OLDER_CODE = "Compile with an older -mcpu (v1, v2 or v3), or require a later kernel."


#: Values of ``imm``: and, or, xor, each also with BPF_FETCH (1); add with BPF_FETCH; exchange;
#: compare and exchange.
_ATOMICS = frozenset({0x01, 0x40, 0x41, 0x50, 0x51, 0xA0, 0xA1, 0xE1, 0xF1})


#: Positions of an instruction's offset and number.
_FIELDS = ((2, 4), (4, 8))


#: Instructions: name, first version of Linux, and a test of opcode, offset and number.
_INSTRUCTIONS: tuple[tuple[str, str, Callable[[int, int, int], bool]], ...] = (
    ("may_goto", "6.9", lambda code, _, __: code == 0xE5),
    (
        "a load-acquire or store-release",
        "6.15",
        lambda code, _, imm: code in (0xC3, 0xCB, 0xD3, 0xDB) and imm in (0x100, 0x110),
    ),
    (
        "an atomic operation beyond plain addition (-mcpu=v3)",
        "5.12",
        lambda code, _, imm: code in (0xC3, 0xDB) and imm in _ATOMICS,
    ),
    (
        "a signed division or remainder (-mcpu=v4)",
        "6.6",
        lambda code, off, _: code & 7 in (4, 7) and code & 0xF0 in (0x30, 0x90) and off == 1,
    ),
    (
        "a move with sign extension (-mcpu=v4)",
        "6.6",
        lambda code, off, _: code in (0xBC, 0xBF) and off in (8, 16, 32),
    ),
    ("an address_space cast (arena)", "6.9", lambda code, off, _: code == 0xBF and off == 1),
    (
        "a load with sign extension (-mcpu=v4)",
        "6.6",
        lambda code, _, __: code in (0x81, 0x89, 0x91),
    ),
    ("an unconditional byte swap (-mcpu=v4)", "6.6", lambda code, _, __: code == 0xD7),
    ("a long jump, gotol (-mcpu=v4)", "6.6", lambda code, _, __: code == 0x06),
    (
        "a 32-bit compare (-mcpu=v3)",
        "5.1",
        lambda code, _, __: code & 7 == 6 and code & 0xF0 not in (0, 0x80, 0x90),
    ),
)


def _target(case: Case) -> dict[str, str]:
    """Return advice about the possible attach targets of a program type."""
    if "modif" in case.words:
        step = (
            "fmod_ret takes functions that errors may be injected into"
            " (/sys/kernel/debug/error_injection/list) and hooks of security modules (security_*);"
            " fentry and fexit take others."
        )
    elif "noreturn" in case.words:
        step = "A function that never returns has no end to attach to: use fentry."
    else:
        step = (
            "Name a function that is in the kernel's BTF and can be traced; `retsnoop-py"
            " functions NAME` shows that."
        )
    return {"target_step": step}


def _kfunc(case: Case) -> dict[str, str]:
    said = re.search(r"kfunc '([^']+)' is referenced", "\n".join(case.log.said))
    name = said[1] if said else case.first("name", "name2", "name3", "extern")
    if not name and case.target is not None and case.last is not None:
        name = case.target.kfunc_at(case.log.program, case.last.index)
    allowed = case.first("allowed")
    if allowed:
        known = since.by_name("kfuncs", allowed)
        first = f" It came with Linux {known.since}." if known else ""
        return {
            "kfunc": f"{allowed}() is a kernel function for BPF, but not for programs of this"
            f" type, or not in this place.{first}"
        }
    if not name and "not allowed" in case.words:
        return {"kfunc": "This kernel function may not be called by programs of this type."}
    known = since.by_name("kfuncs", name) if name else None
    if not name:
        return {"kfunc": "The program calls a kernel function that this kernel does not have."}
    first = f"; it came with Linux {known.since}" if known else ""
    return {"kfunc": f"This kernel has no {name}() for BPF programs to call{first}."}


def _relocation(case: Case) -> dict[str, str]:
    relocation = None
    if case.target is not None and case.last is not None:
        relocation = case.target.relocation_at(case.log.program, case.last.index)
    if relocation is None:
        found = re.search(r"relo(?>.*?<byte_\w+> \[\d+\] )(.*?) ?\(", "\n".join(case.log.said))
        what = found[1] if found else ""
        return {
            "relocation": what or "a struct member, enumerator or type (--object FILE names it)",
            "guard": "bpf_core_field_exists(), bpf_core_type_exists() or "
            "bpf_core_enum_value_exists()",
            "near": "",
        }
    return relocation.facts()


def _jumps(case: Case) -> dict[str, str]:
    """Return the lines that were followed most, sorted, because their order is random."""
    lines = case.log.path.visits.most_common(_VISITED)
    if not lines or lines[0][1] < 3:
        return {"visited": ""}
    often = sorted((line for line, count in lines if count > lines[0][1] // 2), key=_by_line)
    shown = "; ".join(f"{_where(line.file, line.line)}{line.text.rstrip(' ;{')}" for line in often)
    return {"visited": f" Followed most: {shown}."}


def _by_line(line: SourceLine) -> tuple[str, int]:
    return line.file, line.line


def _where(file: str, line: int) -> str:
    return f"{file}:{line} " if file else ""


def _stack_size(case: Case) -> dict[str, str]:
    size, frames = case.first("size", "size2", "size3", "size4"), case.first("frames")
    if frames:
        return {
            "stack": f"Functions are called one inside of the other, {frames} deep, or one calls"
            " itself;"
            " 8 are allowed, the program's own among them.",
            "stack_step": "Inline some functions (__always_inline), or turn them into a loop.",
        }
    return {
        "stack": f"One call chain uses {size or 'too many'} bytes of stack in all its functions;"
        " the limit is 512 bytes (each function's part is rounded up) and 8 calls.",
        "stack_step": "Put large buffers into a per-CPU array map, or use fewer at the same time.",
    }


def _of_loop(case: Case) -> Rule:
    """Return the rule for a jump back, which may be a call and not a loop.

    Before 6.2 the verifier has the same message for both.
    """
    at = case.first("from")
    if at and case.target is not None:
        insn = case.target.instruction_at(case.log.program, int(at))
        if insn[:1] == _CALL_OPCODE:
            return rule_of("recursion")
    return case.rule


def _of_bug(case: Case) -> Rule:
    """Return the rule for a verifier bug, or for a tail call with a map of the wrong kind.

    Before 6.13 the verifier reports the latter as its own bug.
    """
    if "misconfigured" in case.words and callee(case.last) == "bpf_tail_call":
        return rule_of("map-use")
    return case.rule


def _loop(case: Case) -> dict[str, str]:
    if case.first("from"):
        text = (
            f"Instruction {case.first('from')} jumps back to {case.first('to')}. Kernels before 5.3"
            " do not allow loops; later ones follow a loop if each iteration changes the state."
        )
    else:
        text = (
            "A round of this loop ends with everything as it began, as far as the verifier knows:"
            " it cannot see that the loop ever ends."
        )
    return {"loop": text}


def _result(case: Case) -> dict[str, str]:
    has = case.first("has").removeprefix("value ") or "an unknown value"
    found = re.match(r"\(0x([0-9a-f]+); 0x0\)", has)
    allowed = case.first("range") or "a certain range"
    wanted = re.match(r"\(0x([0-9a-f]+); 0x([0-9a-f]+)\)", allowed)
    if wanted:
        low, mask = int(wanted[1], 16), int(wanted[2], 16)
        allowed = f"{low} to {low + mask}" if mask else str(low)
    if found:
        has = str(int(found[1], 16))
    elif loose := re.match(r"\(0x0; 0x([0-9a-f]+)\)", has):
        has = f"0 to {int(loose[1], 16):,}, as far as the verifier knows"
    elif said := re.search(r"smin=(-?\d+) smax=(-?\d+)", has):
        has = said[1] if said[1] == said[2] else f"{said[1]} to {said[2]}"
    if bracket := re.match(r"\[(-?\d+), (-?\d+)\]", allowed):
        allowed = bracket[1] if bracket[1] == bracket[2] else f"{bracket[1]} to {bracket[2]}"
    is_callback = "callback" in case.words
    who = "A function that is called back" if is_callback else "A program of this type"
    return {"range": allowed, "has": has, "who": who}


def _map_use(case: Case) -> dict[str, str]:
    if callee(case.last) == "bpf_tail_call":
        return {"map_step": "Pass a map of type BPF_MAP_TYPE_PROG_ARRAY."}
    return {
        "map_step": "Use a map of another type: preallocated hash and array maps work with all"
        " programs. A value with locks or timers needs a map definition with types."
    }


def _map(case: Case) -> dict[str, str]:
    found = re.search(r"map '([^']+)' is referenced", "\n".join(case.log.said))
    name = found[1] if found else case.first("name")
    if not name and "is not pointing to valid bpf_map" in case.words:
        return {
            "map_reason": "An instruction refers to a map by an invalid descriptor"
            f" ({AROUND.sub('', case.words)}). The loader did not create that map, or did not"
            " relocate this instruction (for example a constant in .rodata, with a loader that"
            " does not support global data)."
        }
    label = f"'{name}'" if name else "(its name is not in the log)"
    return {"map_reason": f"The program uses map {label}, which could not be created."}


def _of_global(case: Case) -> Rule:
    """Return the rule for a rejected argument of a global function.

    The kernel may lack the BTF that describes the context.
    """
    lines = case.log.segment.lines
    asked = [i for i, line in enumerate(lines) if case.rule.pattern.search(line)]
    above = lines[asked[-1] - 1] if asked and asked[-1] else ""
    return NO_CONTEXT_TYPE if "btf_vmlinux is malformed" in above else case.rule


#: Replacements of a rule if the instruction has more information than the message.
PROGRAM_MEANT = {
    "endless-loop": _of_loop,
    "global-argument": _of_global,
    "verifier-bug": _of_bug,
}
#: Facts for a rule's texts, in addition to its pattern's groups.
PROGRAM_FACTS = {
    "attach-target": _target,
    "core-relocation": _relocation,
    "endless-loop": _loop,
    "helper-gpl": _gpl,
    "helper-unknown": _helper,
    "instruction-unknown": _instruction,
    "kfunc-missing": _kfunc,
    "map-use": _map_use,
    "result-range": _result,
    "stack-size": _stack_size,
    "too-large": _jumps,
    "too-many-jumps": _jumps,
    "unresolved-map": _map,
}
