# SPDX-License-Identifier: BSD-2-Clause
"""From a verifier's log to the explanation of its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from retsnoop_py.load import since
from retsnoop_py.load.model import Evidence, Explanation, Place
from retsnoop_py.load.read_log import Insn, ProgramLog, SourceLine, ValueHistory, register_state
from retsnoop_py.load.verifier_rules import NO_CONTEXT_TYPE, RULES, Rule
from retsnoop_py.load.verifier_rules import rule as rule_of
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.load.object_file import ObjectFile

__all__ = ["diagnose", "find_rule", "helper_name"]

#: Lines of the log that are shown as the decisive ones.
_WORDS = 4
_VISITED = 3
#: What is called, where the log does not tell.
_UNNAMED = "this call"
#: What loaders write around a message of one line.
_AROUND = re.compile(
    r"^.*\bload program: (?:[a-z ]+: )?|^.*Verifier output: | \(\d+ line\(s\) omitted\)$"
)
#: How cilium/ebpf ends it.
_OMITTED = re.compile(r" \((?:truncated, )?\d+ line\(s\) omitted\)")
#: Bytes of stack that one chain of calls has (MAX_BPF_STACK of the kernel).
_MOST_STACK = 512
_CALL_OPCODE = b"\x85"
_CALLED = re.compile(r"call (?:(\w+)#(-?\d+)|(\d+)|(\w+))")
_ARGUMENTS = ("first", "second", "third", "fourth", "fifth")
#: What gives back what a helper or kfunc acquires.
_RELEASES = {
    "bpf_ringbuf_reserve": "bpf_ringbuf_submit() or bpf_ringbuf_discard()",
    "bpf_ringbuf_reserve_dynptr": "bpf_ringbuf_submit_dynptr() or bpf_ringbuf_discard_dynptr()",
    "bpf_sk_lookup_tcp": "bpf_sk_release()",
    "bpf_sk_lookup_udp": "bpf_sk_release()",
    "bpf_skc_lookup_tcp": "bpf_sk_release()",
    "bpf_task_acquire": "bpf_task_release()",
    "bpf_task_from_pid": "bpf_task_release()",
    "bpf_cgroup_acquire": "bpf_cgroup_release()",
    "bpf_cgroup_from_id": "bpf_cgroup_release()",
    "bpf_cpumask_create": "bpf_cpumask_release()",
    "bpf_obj_new_impl": "bpf_obj_drop(), or into a collection",
    "bpf_kptr_xchg": "the kind's release function",
}


class _Case:
    """One refusal while it is looked at: the log, what was found in it, what follows."""

    def __init__(
        self, log: ProgramLog, rule: Rule, found: re.Match[str], target: ObjectFile | None
    ) -> None:
        self.log = log
        self.rule = rule
        self.found = {name: text for name, text in found.groupdict().items() if text is not None}
        self.target = target
        self.last = log.path.last
        register = self.first("r", "r2", "r3", "r4", "r5") or self._said_register()
        self.register = int(register) if register.isdigit() else -1
        self.history = log.path.history(self.register) if self.register >= 0 else ValueHistory()
        self.state = register_state(log, self.register) if self.register >= 0 else ""

    def first(self, *names: str) -> str:
        """The first of these groups that found something."""
        return next((self.found[name] for name in names if name in self.found), "")

    def _said_register(self) -> str:
        """The register of a message of two lines, where only the other one names it."""
        for line in reversed(self.log.said[-3:]):
            if named := re.match(r"R(\d+) ", line):
                return named[1]
        return ""

    @property
    def words(self) -> str:
        """The last line the verifier said that has a reason in it.

        Of the last two it is the first: a check that fails says why, and who asked for it that it
        failed.
        """
        for line in [*self.log.said[-2:], *reversed(self.log.said)]:
            if self.rule.pattern.search(line):
                return line
        return self.log.said[-1] if self.log.said else ""


def find_rule(said: tuple[str, ...]) -> tuple[Rule, re.Match[str]] | None:
    """The rule that the last words of a log belong to, and where it matches.

    The last lines count first: what stands further up may be about something that was survived.
    """
    for size in (2, 8, len(said)):
        text = _OMITTED.sub("", "\n".join(said[-size:]))
        for rule in RULES:
            found = rule.pattern.search(text)
            if found:
                return rule, found
        if size >= len(said):
            break
    return None


def diagnose(
    log: ProgramLog, target: ObjectFile | None = None, program: str = ""
) -> Explanation | None:
    """Why the program of ``log`` was refused; None where nothing says that it was.

    ``target``: the object it comes from, for source lines and relocations. ``program``: its name,
    where the log does not tell.
    """
    if program:
        log = replace(log, program=program)
    match = find_rule(log.said)
    if match is None and not log.explained:
        return _unknown(log, target)
    if match is None:
        return Explanation(
            id=_id_of(log.explained[0]),
            title=log.explained[0].removeprefix("Verification failed: "),
            reason=_part(log.explained, "Reason:"),
            suggestion=_part(log.explained, "Suggestion:"),
            kernel=log.explained,
            words=log.said[-_WORDS:],
            place=_place(log, log.path.last, target),
            instruction=log.path.last.text if log.path.last else "",
        )
    rule, found = match
    case = _Case(log, rule, found, target)
    if is_meant := _MEANT.get(rule.id):
        case.rule = rule = is_meant(case)
    facts = _facts(case)
    title = f"{rule.category}: {rule.title}"
    reason, suggestion = rule.reason.format_map(facts), rule.suggestion.format_map(facts)
    reason = reason.replace(f"{_UNNAMED}()", _UNNAMED)
    suggestion = suggestion.replace(f"{_UNNAMED}()", _UNNAMED)
    if reason.startswith(_UNNAMED):
        reason = reason[0].upper() + reason[1:]
    if log.explained:
        title = log.explained[0].removeprefix("Verification failed: ")
    return Explanation(
        id=rule.id,
        title=title,
        reason=reason,
        suggestion=suggestion,
        words=_decisive(case),
        kernel=log.explained,
        place=_place(log, case.last, target),
        instruction=f"{case.last.index}: {case.last.text}" if case.last else "",
        evidence=tuple(_evidence(case)),
    )


#: A message of the verifier's by its sound, where its numbers behind that are cut off.
_REFUSES = re.compile(
    r"not (?:allowed|supported|permitted)|prohibited|disallowed|^(?:invalid|cannot) |!="
)


def _unknown(log: ProgramLog, target: ObjectFile | None) -> Explanation | None:
    """The explanation of a log whose reason no rule knows: its own words."""
    failed = log.said and log.processed is not None and (log.followed or log.processed == 0)
    is_cut = bool(log.said) and log.followed and _REFUSES.search(log.said[-1])
    if not (failed or is_cut) or re.match(r"(?:\d+: )?\(95\) exit", log.said[-1]):
        return None
    return Explanation(
        id="unknown",
        title="Verifier: a message that is not known here",
        reason=log.said[-1],
        words=log.said[-_WORDS:],
        place=_place(log, log.path.last, target),
        instruction=log.path.last.text if log.path.last else "",
    )


def _id_of(title: str) -> str:
    name = title.rpartition(": ")[2]
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _part(block: tuple[str, ...], heading: str) -> str:
    """The text below ``heading`` of the kernel's block."""
    if heading not in block:
        return ""
    lines = []
    for line in block[block.index(heading) + 1 :]:
        if not line.strip():
            break
        lines.append(line.strip())
    return " ".join(lines)


def _decisive(case: _Case) -> tuple[str, ...]:
    for said in (case.log.said[-8:], case.log.said):
        chosen = [line for line in said if case.rule.pattern.search(line)]
        if chosen:
            break
    else:
        chosen = list(case.log.said[-2:])
    return tuple(line[:500] for line in chosen[-_WORDS:])


# -- the facts that a rule's texts name --


class _Facts(dict[str, str]):
    """What is not known stands as ``?`` in a text, which is no reason to lose the rest."""

    def __missing__(self, key: str) -> str:
        return "?"


def _facts(case: _Case) -> _Facts:
    facts = _Facts(case.found)
    facts["r"] = str(case.register) if case.register >= 0 else "?"
    facts["state"] = case.state or "nothing"
    facts["words"] = _AROUND.sub("", case.words)
    facts["made"] = _origin(case.history.made) or "a helper"
    more = _ADDITIONS.get(case.rule.id)
    if more is not None:
        facts.update(more(case))
    return facts


def _origin(insn: Insn | None) -> str:
    """Where a value comes from, in words."""
    if insn is None:
        return ""
    found = _CALLED.match(insn.text)
    if found:
        return f"{_called(insn)}()"
    if "= *(" in insn.text:
        source = f" ({insn.source.text})" if insn.source else ""
        return f"a read from memory{source}"
    return f"'{insn.text}'"


def _called(insn: Insn | None) -> str:
    """The name of what an instruction calls, also where a kernel prints the number only."""
    found = _CALLED.match(insn.text) if insn else None
    if not found:
        return _UNNAMED
    if found[1]:
        return found[1] if found[1] != "unknown" else helper_name(int(found[2]))
    return helper_name(int(found[3])) if found[3] else found[4]


def helper_name(number: int) -> str:
    """The helper's name by its number: ``bpf_strncmp``; its number where it is not known."""
    known = since.by_number("helpers", number)
    return f"bpf_{known.name}" if known else f"helper {number}"


def _locked(label: str) -> str:
    """What else may keep a helper away that reads or writes memory of others."""
    if not label.startswith("bpf_probe_"):
        return ""
    return ", or the kernel is locked down (/sys/kernel/security/lockdown, as by Secure Boot)"


def _helper(case: _Case) -> dict[str, str]:
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
            "helper_suggestion": "Look at what the loader put there: a call that was poisoned, an"
            " extern it did not resolve, or an object it did not relocate.",
        }
    if not (name or number) and "not allowed" in case.words:
        return {
            "helper_reason": f"{_called(case.last)}() is for some functions alone, which the kernel"
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
    first = f" (the helper itself came with Linux {known.since})" if known else ""
    return {
        "helper_reason": f"{label} is there, but not for programs of this type{first}"
        f"{_locked(label)}.",
        "helper_suggestion": "Do without it, or use a program type that has it; some helpers came"
        " to a type later than to others, and some need CAP_PERFMON.",
    }


def _gpl(case: _Case) -> dict[str, str]:
    of_type = re.search(r"(\w+) programs must have a GPL", case.words)
    if of_type:
        return {"helper": f"Each program of type {of_type[1]}"}
    return {"helper": _called(case.last)}


def _instruction(case: _Case) -> dict[str, str]:
    """Which instruction it is: by its eight bytes, or the opcode that the kernel names."""
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
        "instruction": "The object has an instruction that this kernel does not know: atomics take"
        " Linux 5.12, 32-bit compares (-mcpu=v3) 5.1, sign extension and long jumps (-mcpu=v4) 6.6."
        " Or the loader wrote into a field of it that must be 0.",
    }


_CALL_BY_REGISTER = 0x8D
_OLDER_CODE = "Compile with an older -mcpu (v1, v2 or v3), or require a later kernel."
#: Of ``imm``: and, or, xor, with BPF_FETCH (1) each; add with it; exchange; compare and exchange.
_ATOMICS = frozenset({0x01, 0x40, 0x41, 0x50, 0x51, 0xA0, 0xA1, 0xE1, 0xF1})
#: Where an instruction has its offset and its number.
_FIELDS = ((2, 4), (4, 8))
#: Instructions by name, the Linux they came with, and what shows them: opcode, offset, number.
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


def _target(case: _Case) -> dict[str, str]:
    """What a kind of program may be attached to, where that is less than any function."""
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
            "Name a function that is in the kernel's BTF and can be traced: retsnoop-py functions"
            " NAME says so."
        )
    return {"target_step": step}


def _kfunc(case: _Case) -> dict[str, str]:
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


def _relocation(case: _Case) -> dict[str, str]:
    relocation = None
    if case.target is not None and case.last is not None:
        relocation = case.target.relocation_at(case.log.program, case.last.index)
    if relocation is None:
        found = re.search(
            r"relo(?:cation)?.*?<byte_\w+> \[\d+\] (.*?) ?\(", "\n".join(case.log.said)
        )
        what = found[1] if found else ""
        return {
            "relocation": what or "a struct member, enumerator or type (--object FILE names it)",
            "guard": "bpf_core_field_exists(), bpf_core_type_exists() or "
            "bpf_core_enum_value_exists()",
            "near": "",
        }
    return relocation.facts()


def _jumps(case: _Case) -> dict[str, str]:
    """The lines that were followed most, in their order: which of them is first is chance."""
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


def _stack_size(case: _Case) -> dict[str, str]:
    size, frames = case.first("size", "size2", "size3", "size4"), case.first("frames")
    if frames:
        return {
            "stack": f"Functions are called one inside of the other, {frames} deep, or one calls"
            " itself;"
            " 8 are allowed, the program's own among them.",
            "stack_step": "Inline some of them (__always_inline), or make a loop of them.",
        }
    return {
        "stack": f"The functions of one chain of calls use {size or 'too many'} bytes of stack"
        " together; 512 are allowed (each function's share is rounded up), in at most 8 calls.",
        "stack_step": "Put large buffers into a per-CPU array map, or have fewer of them alive at"
        " once.",
    }


def _of_loop(case: _Case) -> Rule:
    """A jump back that is a call is no loop: before 6.2 the verifier says the same of both."""
    at = case.first("from")
    if at and case.target is not None:
        insn = case.target.instruction_at(case.log.program, int(at))
        if insn[:1] == _CALL_OPCODE:
            return rule_of("recursion")
    return case.rule


def _of_stack(case: _Case) -> Rule:
    """Bytes beyond the stack's end were not forgotten: what is read is larger than the buffer."""
    offset, size = case.first("off"), case.first("size")
    if re.fullmatch(r"-?\d+", offset) and size.isdigit() and int(offset) + int(size) > 0:
        return rule_of("stack-bounds")
    return case.rule


def _of_bounds(case: _Case) -> Rule:
    """What is read inside of the stack's 512 bytes is below all that was written: since 6.8."""
    offset, size = case.first("off"), case.first("size")
    if " read from stack R" not in case.words or not re.fullmatch(r"-\d+", offset):
        return case.rule
    if int(offset) >= -_MOST_STACK and size.isdigit() and int(offset) + int(size) <= 0:
        return rule_of("stack-uninitialised")
    return case.rule


def _of_bug(case: _Case) -> Rule:
    """Before 6.13 the verifier blames itself where a tail call is given another kind of map."""
    if "misconfigured" in case.words and _called(case.last) == "bpf_tail_call":
        return rule_of("map-use")
    return case.rule


def _loop(case: _Case) -> dict[str, str]:
    if case.first("from"):
        text = (
            f"Instruction {case.first('from')} jumps back to {case.first('to')}. Kernels before 5.3"
            " take no loops; later ones follow a loop as long as each round changes something."
        )
    else:
        text = (
            "A round of this loop ends with everything as it began, as far as the verifier knows:"
            " it cannot see that the loop ever ends."
        )
    return {"loop": text}


def _leak(case: _Case) -> dict[str, str]:
    number = case.first("insn")
    made = None
    for name, insn in case.log.path.acquired.items():
        if (number and insn.index == int(number)) or (not number and name in _RELEASES):
            made = insn
    name = _called(made) if made else ""
    where = _at(made)
    return {
        "acquired": f" by {name}(){where}" if made else "",
        "release": _RELEASES.get(name) or _destroyer(name),
    }


def _destroyer(name: str) -> str:
    """What ends an iterator that ``name`` begins."""
    if "_iter_" in name and name.endswith("_new"):
        return f"{name.removesuffix('_new')}_destroy()"
    return "the release function that goes with it"


def _at(insn: Insn | None) -> str:
    if insn is None:
        return ""
    if insn.source and insn.source.line:
        return f" at {insn.source.file}:{insn.source.line}"
    return f" at instruction {insn.index}"


def _result(case: _Case) -> dict[str, str]:
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


def _bytes(size: str) -> str:
    return "1 byte" if size == "1" else f"{size} bytes"


def _packet(case: _Case) -> dict[str, str]:
    offset, size = case.first("off"), case.first("size")
    reach = case.first("range")
    span = f": {_bytes(size)} at offset {offset}" if offset else ""
    if reach and int(reach) > 0:
        proven = f"only {reach} bytes are proven to be there"
    elif case.history.checked is not None:
        proven = "the check on the way does not cover this pointer"
    else:
        proven = "nothing on this way proves that so much of it is there"
    return {"span": span, "proven": proven}


def _scalar(case: _Case) -> dict[str, str]:
    change, made = case.log.path.packet_changed, case.history.made
    lost = change is not None and made is not None and made.index < change.index
    if lost and made is not None and "= *(u32 *)" in made.text:
        return {
            "why_number": f": it pointed into the packet until {_called(change)}(){_at(change)},"
            " after which packet pointers are no longer valid",
            "number_suggestion": "Read ctx->data and ctx->data_end again after that call, and"
            " compare them again.",
        }
    taken = _taken_back(case)
    if taken is not None and made is not None:
        return {
            "why_number": f": {_called(made)}() gave it, and {_called(taken)}(){_at(taken)} has"
            " taken it back",
            "number_suggestion": f"Use it before {_called(taken)}() only.",
        }
    passed = case.history.passed
    if passed is not None:
        return {
            "why_number": f": it was kept on the stack, and {_called(passed)}(){_at(passed)} was"
            " given its place there, which this kernel takes for overwritten",
            "number_suggestion": "Pass a copy: __u64 key = (__u64)pointer, and &key, so that the"
            " pointer stays in a variable of its own.",
        }
    if "map_ptr" in case.first("wanted") and (made is None or made.text.endswith("= 0x0")):
        return {
            "why_number": ": this call takes a map there, and the loader put none"
            + (" (0)" if made is not None else ""),
            "number_suggestion": "Load the object by what knows its maps: maps as structs in .maps"
            " take libbpf; ip and tc without libbpf know struct bpf_elf_map in section maps only.",
        }
    is_zero = made is not None and _ZERO.fullmatch(made.text) is not None
    if made is not None and (is_zero or _NULL.fullmatch(case.state)):
        given = f"what {_origin(made)} gave may be NULL" if "call" in made.text else "it is NULL"
        return {
            "why_number": f", and 0 on this way: {given}",
            "number_suggestion": "Check the pointer before it is used: if (!ptr) return 0; where"
            " NULL is meant, pass what this takes.",
        }
    why = f"; it is {_origin(made)}" if made is not None else ""
    if case.history.changed is not None:
        why += f", changed by '{case.history.changed.text}'"
    return {
        "why_number": why,
        "number_suggestion": "If it is an address of the kernel, read it by BPF_CORE_READ() or"
        " bpf_probe_read_kernel(), one of user memory by bpf_probe_read_user(). If it was a"
        " pointer: a cast to a small integer, arithmetic, or two ways that meet made it a number.",
    }


_NULL_TESTED = re.compile(r"if r\d+ [!=]= 0x0 goto")
#: How the verifier writes a register that is 0.
_NULL = re.compile(r"(?:invP?|P|scalar)?0")
_ZERO = re.compile(r"[rw]\d+ = (?:0x)?0")
_GIVES_BACK = re.compile(
    r"bpf_\w+_(?:submit|discard|release|put|drop|drop_impl|destroy)$|bpf_sk_release$"
)


def _taken_back(case: _Case) -> Insn | None:
    """The call behind the value's making that gave back what it points to."""
    made = case.history.made
    if made is None or _called(made) not in _RELEASES:
        return None
    calls = case.log.path.acquired
    after = [
        one for name, one in calls.items() if _GIVES_BACK.match(name) and one.index > made.index
    ]
    return max(after, key=lambda one: one.index) if after else None


def _or_null_subject(case: _Case) -> dict[str, str]:
    made = case.history.made
    if case.register < 0:
        return {"subject": f"An argument of {_called(case.last)}()", "made": "a lookup"}
    if made is not None:
        return {"subject": f"R{case.register}", "made": _origin(made)}
    kind = case.first("kind", "kind2", "kind3")
    if kind == "mem_or_null":
        return {"subject": f"R{case.register}", "made": "a caller of this global function"}
    where = f"a lookup ({kind})" if kind else "a lookup or an acquiring call"
    return {"subject": f"R{case.register}", "made": where}


def _or_null(case: _Case) -> dict[str, str]:
    facts = _or_null_subject(case)
    facts["unchecked"] = "nothing on this way has checked it"
    facts["check_step"] = "Check the pointer before it is used: if (!ptr) return 0;"
    tested = case.history.checked
    if tested is not None and _NULL_TESTED.match(tested.text):
        facts["unchecked"] = (
            f"the check on this way ('{tested.text}') was of a copy: this kernel does not see that"
            " both are the same"
        )
        facts["check_step"] = (
            "Check and use one variable, and keep the compiler from making two of it (volatile, or"
            " barrier_var()); kernels before 4.10 follow no copies."
        )
    return facts


def _unset(case: _Case) -> dict[str, str]:
    number, last = case.register, case.last
    if number == 0 and last is not None and last.text.startswith("exit"):
        return {
            "unset": "The program ends, and on this way nothing has set its result.",
            "unset_suggestion": "Return a value on every way; a function that returns void has"
            " none.",
        }
    calls = [insn for insn in case.log.path.acquired.values() if last and insn.index <= last.index]
    if 1 <= number <= 5 and calls:
        call = max(calls, key=lambda insn: insn.index)
        text = (
            f"R{number} is read, and nothing has set it on this way since {_called(call)}()"
            f"{_at(call)}: a call leaves nothing in R1 to R5."
        )
    else:
        text = f"R{number} is read, and nothing has set it on this way."
    if last is not None and last.text.startswith("call"):
        text = f"{_called(last)}() takes an argument in R{number}, and nothing has set it."
    return {
        "unset": text,
        "unset_suggestion": "Set the variable on every way that leads here: one that is not"
        " initialised, or a call with an argument too few.",
    }


def _no_size(case: _Case) -> dict[str, str]:
    """Of memory that a call is given with a size that may be 0, which it does not take."""
    return {
        "bounds": f"R{case.register} is passed to {_called(case.last)}() with a size that may be 0,"
        " which this kernel does not take beside a value of a map.",
        "bound_step": "Test that the size is not 0 right before the call (if (!size) return 0;), in"
        " the variable that is passed: the compiler may take the test away or make it of a copy"
        " (barrier_var(size)). A size that is missing - of the format, for bpf_trace_printk() - is"
        " what the register held by chance.",
    }


def _bounds(case: _Case) -> dict[str, str]:
    offset, size = case.first("off", "off2"), case.first("size", "size2")
    room = case.first("value", "mem", "key")
    text = ""
    if room and offset:
        text = f"{_bytes(size)} at offset {offset} of {room} would be accessed"
    joined = "\n".join(case.log.said[-3:])
    if size == "0" and (case.last is None or case.last.text.startswith("call")):
        return _no_size(case)
    side = "both sides"
    if "max value" in joined or "unbounded" in joined:
        side = "its upper side"
        text = text or "the index may be larger than what is there"
        if re.search(r"smin(?:_value)?=-", case.state) and "unbounded" in joined:
            side = "both sides"
            text = "the index may be negative, which as an unsigned number is anything"
    if "min value" in joined:
        # the smallest index is too small, or already too large
        is_above = offset.isdigit() and size.isdigit() and int(offset) + int(size) > int(room or 0)
        side = "its upper side" if is_above else "its lower side"
        if not is_above:
            text = "the index may be negative" + (f" ({text})" if text else "")
    known = f" The verifier knows of R{case.register}: {case.state}." if case.state else ""
    return {
        "bounds": f"{text[:1].upper()}{text[1:] or 'The index has no bound'}.{known}",
        "bound_step": f"Bound the index on {side} before it is used: if (i >= COUNT) return 0; for"
        " an unsigned i, or i &= COUNT - 1 where COUNT is a power of two. The compiler may bound a"
        " copy: keep the check by barrier_var(i).",
    }


def _size(case: _Case) -> dict[str, str]:
    called = _called(case.last)
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    what = f", the {place} argument of {called}()" if place else ""
    state = case.state or (
        "that it may be negative" if "negative" in case.words else "that it may be anything"
    )
    step = (
        "Make it unsigned and bound it before the call: if (size > sizeof(buffer)) size ="
        " sizeof(buffer); or size &= MASK."
    )
    if zero := re.search(r"zero-sized read(?:: u64=\[(\S+),(\S+)\])?", case.words):
        state = (
            f"that it is {zero[1]} to {zero[2]}" if zero[1] else case.state or "that it may be 0"
        )
        state += ", and 0 is not allowed here"
    if re.search(r"not a (?:known )?const", case.words) or called == "bpf_ringbuf_reserve":
        state += ", and it has to be a constant"
        step = (
            "Pass a number that the compiler knows, the largest that is needed; of a ring buffer,"
            " bpf_ringbuf_output() and bpf_ringbuf_reserve_dynptr() (5.19) take sizes that vary."
        )
    return {"argument": what, "state": state, "size_step": step}


def _stack_read(case: _Case) -> dict[str, str]:
    size, at = case.first("size2", "size"), case.first("at")
    called = f"{_called(case.last)}()" if case.last and "call" in case.last.text else "This"
    step = (
        "Set all of it: struct key k = {}; sets members, __builtin_memset(&k, 0, sizeof(k)) sets"
        " the padding too."
    )
    part = f", of which byte {at} was never written" if at else " that nobody wrote"
    why = "padding, or a member that is not set. (With CAP_PERFMON kernels since 6.3 let it.)"
    if "indirect" in case.words and _keeps_pointer(case):
        part = f", of which byte {at} is of a pointer that was put there"
        why = "this kernel lets no helper read one. (Later ones do, with CAP_PERFMON.)"
        step = (
            "Copy what the pointer leads to instead of the pointer; an address that is meant as a"
            " number is read into a variable by bpf_probe_read_kernel()."
        )
    text = f"{called} reads {size or 'some'} bytes of the stack{part}: {why}"
    text = "This" + text[4:] if text.startswith("this") else text
    return {"stack_read": text, "stack_read_step": step}


def _keeps_pointer(case: _Case) -> bool:
    """Whether a register was put where the verifier finds no data: it had no number in it."""
    offset, at = case.first("off"), case.first("at")
    if not (re.fullmatch(r"-?\d+", offset) and at):
        return False
    return (int(offset) + int(at)) // 8 * 8 in case.log.path.slots


def _stack_bounds(case: _Case) -> dict[str, str]:
    size, offset = case.first("size", "size2"), case.first("off", "off2")
    last = case.last.text if case.last else ""
    if "(r10 " in last and re.fullmatch(r"-\d+", offset) and int(offset) < -_MOST_STACK:
        return {
            "stack_reach": f"The variables of this function take more than the {_MOST_STACK} bytes"
            f" of stack that it has: {_bytes(size or '8')} at {offset} would be used.",
            "stack_step": "Put large structs and buffers into a per-CPU array map, and have fewer"
            " of them alive at once.",
        }
    at = offset if re.fullmatch(r"-?\d+", offset) else "an offset that is not known"
    span = f", with {_bytes(size)} at {at}," if size and offset else ""
    return {
        "stack_reach": f"This reaches{span} beyond the buffer on the stack it was meant for.",
        "stack_step": "Pass a size that is no larger than the buffer (sizeof(buffer)), and index it"
        " by bounded numbers; unknown indexes into the stack are refused: use a map's value.",
    }


def _context(case: _Case) -> dict[str, str]:
    offset, size = case.first("off"), case.first("size")
    if case.first("function"):
        text = f"The program reads an argument as it is not: {case.words}."
    elif not offset:
        text = f"The program reads its context, or what belongs to it, as it may not: {case.words}."
    else:
        writes = case.last is not None and case.last.text.startswith("*(")
        text = (
            f"{_bytes(size)} at offset {offset} of the context: no field that programs of this"
            f" type may {'write' if writes else 'read in that size'}, on this kernel."
        )
    return {"context": text}


def _argument(case: _Case) -> dict[str, str]:
    called = _called(case.last)
    wanted, kind = case.first("wanted", "wanted2"), case.first("kind", "kind2")
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    if wanted:
        which = f"The {place} argument (R{case.register}) of {called}()"
        text = f"{which} is {kind}, and it takes {wanted}."
    else:
        text = f"An argument of {called}() is not what it takes: {case.words}."
    step = (
        f"Pass what {called}() takes. A pointer that was cast, computed with or kept in a map loses"
        " its type."
    )
    if wanted == "fp" and not kind.startswith(("inv", "scalar", "unknown", "imm")):
        step = (
            "This kernel takes memory of the stack alone here: copy it there first. Later ones take"
            " other memory, too: values of maps 4.11 and, as keys, 4.18."
        )
    return {"argument_reason": text.replace("The  argument", "An argument"), "argument_step": step}


_BASE = re.compile(r"(?:[rw]\d+ = )?\(?\*\([us]\d+ \*\)\(r(\d+) ")


def _object(case: _Case) -> dict[str, str]:
    """Of a kernel object that is read or written; a map is one, where a value of it was meant."""
    base = _BASE.match(case.last.text) if case.last else None
    if base and register_state(case.log, int(base[1])).startswith("map_ptr"):
        return {
            "object_reason": f"R{base[1]} is a map itself, not a value in it, and the instruction"
            " reads or writes the kernel's own struct",
            "object_step": "Look a value up (bpf_map_lookup_elem()). If it is a global variable in"
            " the source, the loader put its map there, not its memory: an older one does so for"
            " .bss, or for what is not initialised.",
        }
    return {
        "object_reason": "The program uses a kernel object as its BTF does not allow",
        "object_step": "Use the type of this kernel (CO-RE relocates it: preserve_access_index),"
        " and write to kernel objects by the helpers that are for it.",
    }


def _arithmetic(case: _Case) -> dict[str, str]:
    kind = case.first("kind", "kind2", "kind3", "kind4")
    return {"of_kind": f" ({kind})" if kind else "", "kind": kind or "kernel"}


def _map_use(case: _Case) -> dict[str, str]:
    if _called(case.last) == "bpf_tail_call":
        return {"map_step": "Pass a map of type BPF_MAP_TYPE_PROG_ARRAY."}
    return {
        "map_step": "Use a map of another type (hash and array maps, preallocated, go with all"
        " programs); what a value's struct must tell - locks, timers - takes a map that is declared"
        " with its types."
    }


def _map(case: _Case) -> dict[str, str]:
    found = re.search(r"map '([^']+)' is referenced", "\n".join(case.log.said))
    name = found[1] if found else case.first("name")
    if not name and "is not pointing to valid bpf_map" in case.words:
        return {
            "map_reason": "An instruction refers to a map by a descriptor that is none"
            f" ({_AROUND.sub('', case.words)}): the loader did not create that map, or did not"
            " relocate this - a constant in .rodata, say, with a loader that knows no global"
            " data."
        }
    label = f"'{name}'" if name else "(its name is not in the log)"
    return {"map_reason": f"The program uses map {label}, which could not be created."}


def _of_global(case: _Case) -> Rule:
    """An argument that is refused since the kernel has no BTF to know the context by."""
    lines = case.log.segment.lines
    asked = [i for i, line in enumerate(lines) if case.rule.pattern.search(line)]
    above = lines[asked[-1] - 1] if asked and asked[-1] else ""
    return NO_CONTEXT_TYPE if "btf_vmlinux is malformed" in above else case.rule


#: What a message is found to mean, where the instruction tells more than the words.
_MEANT = {
    "endless-loop": _of_loop,
    "global-argument": _of_global,
    "stack-bounds": _of_bounds,
    "stack-uninitialised": _of_stack,
    "verifier-bug": _of_bug,
}
_ADDITIONS = {
    "argument-type": _argument,
    "attach-target": _target,
    "btf-access": _object,
    "context-access": _context,
    "core-relocation": _relocation,
    "endless-loop": _loop,
    "helper-gpl": _gpl,
    "helper-unknown": _helper,
    "instruction-unknown": _instruction,
    "kfunc-missing": _kfunc,
    "map-bounds": _bounds,
    "map-use": _map_use,
    "not-a-pointer": _scalar,
    "packet-bounds": _packet,
    "pointer-arithmetic": _arithmetic,
    "pointer-arithmetic-unbounded": _arithmetic,
    "pointer-or-null": _or_null,
    "reference-leak": _leak,
    "register-unset": _unset,
    "result-range": _result,
    "size-unbounded": _size,
    "stack-bounds": _stack_bounds,
    "stack-size": _stack_size,
    "stack-uninitialised": _stack_read,
    "too-large": _jumps,
    "too-many-jumps": _jumps,
    "unresolved-map": _map,
}

# -- where it was proven, lost and needed --


def _evidence(case: _Case) -> list[Evidence]:
    """The steps of the value that is refused, in the order of the program."""
    if case.register < 0:
        return []
    history, steps = case.history, []
    if history.made is not None and history.made is not case.last:
        steps.append(_step("made", history.made, case))
    if history.checked is not None and history.checked is not case.last:
        steps.append(_step("checked", history.checked, case))
    if history.changed is not None and history.changed is not case.last:
        steps.append(_step("changed", history.changed, case))
    changed = case.log.path.packet_changed
    if case.rule.id in ("not-a-pointer", "packet-bounds") and changed and history.made:
        steps.append(_step("lost", changed, case))
    if case.rule.id == "not-a-pointer" and history.passed is not None:
        steps.append(_step("lost", history.passed, case))
    steps.sort(key=lambda step: step.instruction)
    return steps


def _step(role: str, insn: Insn, case: _Case) -> Evidence:
    place = _place(case.log, insn, case.target)
    return Evidence(role, insn.text, insn.index, place=place)  # type: ignore[arg-type]


def _place(log: ProgramLog, insn: Insn | None, target: ObjectFile | None) -> Place | None:
    """Where ``insn`` comes from: by the object's line table, or what the log quotes."""
    if insn is None:
        return None
    if target is not None:
        found = target.place_at(log.program, insn.index)
        if found is not None:
            return found
    if insn.source is None:
        return None
    return Place(insn.source.text, insn.source.file, insn.source.line, function=log.program)
