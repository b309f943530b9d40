# SPDX-License-Identifier: BSD-2-Clause
"""From a verifier's log to the explanation of its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retsnoop_py.load import since
from retsnoop_py.load.model import Evidence, Explanation, Place
from retsnoop_py.load.read_log import Insn, ProgramLog, SourceLine, ValueHistory, register_state
from retsnoop_py.load.verifier_rules import RULES, Rule
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
        """The last line the verifier said that has a reason in it."""
        for line in reversed(self.log.said):
            if self.rule.pattern.search(line):
                return line
        return self.log.said[-1] if self.log.said else ""


def find_rule(said: tuple[str, ...]) -> tuple[Rule, re.Match[str]] | None:
    """The rule that the last words of a log belong to, and where it matches.

    The last lines count first: what stands further up may be about something that was survived.
    """
    for size in (2, 8, len(said)):
        text = "\n".join(said[-size:])
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
        return _unknown(log)
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
    facts = _facts(case)
    title = f"{rule.category}: {rule.title}"
    reason, suggestion = rule.reason.format_map(facts), rule.suggestion.format_map(facts)
    reason = reason.replace(f"{_UNNAMED}()", _UNNAMED)
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


def _unknown(log: ProgramLog) -> Explanation | None:
    """The explanation of a log whose reason no rule knows: its own words."""
    failed = log.followed and log.said and log.processed is not None
    if not failed or re.match(r"(?:\d+: )?\(95\) exit", log.said[-1]):
        return None
    return Explanation(
        id="unknown",
        title="Verifier: a message that is not known here",
        reason=log.said[-1],
        words=log.said[-_WORDS:],
        place=_place(log, log.path.last, None),
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
    chosen = [line for line in case.log.said[-8:] if case.rule.pattern.search(line)]
    joined = case.log.said[-2:] if not chosen else tuple(chosen)
    return tuple(line[:500] for line in joined[-_WORDS:])


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


def _helper(case: _Case) -> dict[str, str]:
    number = case.first("number", "number2", "number3")
    name = case.first("name", "name2", "name3")
    known = since.by_number("helpers", int(number)) if number else None
    if known is None and name:
        known = since.by_name("helpers", name)
    label = f"bpf_{known.name}()" if known else f"{name}()" if name else "The helper"
    if known is None and number:
        last = since.table("helpers")[-1].number
        return {
            "helper_reason": f"No kernel has a helper of number {number}: the last one is {last}.",
            "helper_suggestion": "Look at what the loader put there: a call that was poisoned, an"
            " extern it did not resolve, or an object it did not relocate.",
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
        "helper_reason": f"{label} is there, but not for programs of this type{first}.",
        "helper_suggestion": "Do without it, or use a program type that has it; some helpers came"
        " to a type later than to others, and some need CAP_PERFMON.",
    }


def _gpl(case: _Case) -> dict[str, str]:
    return {"helper": _called(case.last)}


def _kfunc(case: _Case) -> dict[str, str]:
    said = re.search(r"kfunc '([^']+)' is referenced", "\n".join(case.log.said))
    name = said[1] if said else case.first("name", "extern")
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
    size = case.first("size", "size2", "size3", "size4")
    return {"stack": f"{size} bytes" if size else "more than is allowed"}


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
        "release": _RELEASES.get(name, "the release function that goes with it"),
    }


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
    elif said := re.search(r"smin=(-?\d+) smax=(-?\d+)", has):
        has = said[1] if said[1] == said[2] else f"{said[1]} to {said[2]}"
    return {"range": allowed, "has": has}


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
    passed = case.history.passed
    if passed is not None:
        return {
            "why_number": f": it was kept on the stack, and {_called(passed)}(){_at(passed)} was"
            " given its place there, which this kernel takes for overwritten",
            "number_suggestion": "Pass a copy: __u64 key = (__u64)pointer, and &key, so that the"
            " pointer stays in a variable of its own.",
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


def _or_null(case: _Case) -> dict[str, str]:
    made = case.history.made
    if case.register < 0:
        return {"subject": f"An argument of {_called(case.last)}()", "made": "a lookup"}
    if made is not None:
        return {"subject": f"R{case.register}", "made": _origin(made)}
    kind = case.first("kind", "kind2", "kind3")
    where = f"a lookup ({kind})" if kind else "a lookup or an acquiring call"
    return {"subject": f"R{case.register}", "made": where}


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


def _bounds(case: _Case) -> dict[str, str]:
    offset, size = case.first("off", "off2"), case.first("size", "size2")
    room = case.first("value", "mem", "key")
    text = ""
    if room and offset:
        text = f"{_bytes(size)} at offset {offset} of {room} would be accessed"
    joined = "\n".join(case.log.said[-3:])
    side = "both sides"
    if "max value" in joined or "unbounded" in joined:
        side = "its upper side"
        text = text or "the index may be larger than what is there"
    if "min value" in joined:
        side = "its lower side"
        text = "the index may be negative" + (f" ({text})" if text else "")
    known = f" The verifier knows of R{case.register}: {case.state}." if case.state else ""
    return {
        "bounds": f"{text[:1].upper()}{text[1:] or 'The index has no bound'}.{known}",
        "side": side,
    }


def _size(case: _Case) -> dict[str, str]:
    called = _called(case.last)
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    what = f", the {place} argument of {called}()" if place else ""
    return {"argument": what, "state": case.state or "that it may be anything"}


def _stack_read(case: _Case) -> dict[str, str]:
    size, at = case.first("size2", "size"), case.first("at")
    called = f"{_called(case.last)}()" if case.last and "call" in case.last.text else "this"
    part = f", of which byte {at} was never written" if at else ""
    text = (
        f"{called} reads {size or 'some'} bytes of the stack{part}: padding, or a member that is"
        " not set. (With CAP_PERFMON kernels since 6.3 let it.)"
    )
    return {"stack_read": text[:1].upper() + text[1:]}


def _stack_bounds(case: _Case) -> dict[str, str]:
    size, offset = case.first("size"), case.first("off")
    return {"span": f", with {_bytes(size)} at {offset}," if size and offset else ""}


def _context(case: _Case) -> dict[str, str]:
    offset, size = case.first("off"), case.first("size")
    if case.first("function"):
        text = f"The program reads an argument as it is not: {case.words}."
    elif not offset:
        text = f"The program reads its context, or what belongs to it, as it may not: {case.words}."
    else:
        text = (
            f"{_bytes(size)} at offset {offset} of the context: no field that programs of this"
            " type may read in that size, on this kernel."
        )
    return {"context": text}


def _argument(case: _Case) -> dict[str, str]:
    called = _called(case.last)
    wanted, kind = case.first("wanted"), case.first("kind")
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    if wanted:
        which = f"The {place} argument (R{case.register}) of {called}()"
        text = f"{which} is {kind}, and it takes {wanted}."
    else:
        text = f"An argument of {called}() is not what it takes: {case.words}."
    return {
        "argument_reason": text.replace("The  argument", "An argument"),
        "callee": f"{called}()",
    }


def _arithmetic(case: _Case) -> dict[str, str]:
    kind = case.first("kind", "kind2", "kind3", "kind4")
    return {"of_kind": f" ({kind})" if kind else "", "kind": kind or "kernel"}


def _map(case: _Case) -> dict[str, str]:
    found = re.search(r"map '([^']+)' is referenced", "\n".join(case.log.said))
    name = found[1] if found else case.first("name")
    return {"name": f"'{name}'" if name else "(its name is not in the log)"}


_ADDITIONS = {
    "argument-type": _argument,
    "context-access": _context,
    "core-relocation": _relocation,
    "endless-loop": _loop,
    "helper-gpl": _gpl,
    "helper-unknown": _helper,
    "kfunc-missing": _kfunc,
    "map-bounds": _bounds,
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
