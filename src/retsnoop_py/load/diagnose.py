# SPDX-License-Identifier: BSD-2-Clause
"""Explain the rejection at the end of a verifier log."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from retsnoop_py.load.access_facts import ACCESS_FACTS, ACCESS_MEANT
from retsnoop_py.load.model import Evidence, Explanation, Place
from retsnoop_py.load.program_facts import PROGRAM_FACTS, PROGRAM_MEANT
from retsnoop_py.load.read_log import Insn, ProgramLog
from retsnoop_py.load.verifier_case import AROUND, UNNAMED, Case, Facts, origin_of
from retsnoop_py.load.verifier_rules import RULES, Rule
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.load.object_file import ObjectFile

__all__ = ["diagnose", "find_rule"]

_MEANT = PROGRAM_MEANT | ACCESS_MEANT
_ADDITIONS = PROGRAM_FACTS | ACCESS_FACTS


#: Number of log lines that are shown as decisive.
_WORDS = 4


#: Number of characters of the last lines that are searched together. A verifier message has 1 KiB.
_MOST_JOINED = 8192
#: The end of a summary by cilium/ebpf.
_OMITTED = re.compile(r" \((?:truncated, )?\d+ line\(s\) omitted\)")


@lru_cache(maxsize=1024)
def _rule_of(text: str) -> tuple[Rule, re.Match[str]] | None:
    """Return the first rule that matches ``text``, with the match."""
    for rule in RULES:
        if found := rule.pattern.search(text):
            return rule, found
    return None


def find_rule(said: tuple[str, ...]) -> tuple[Rule, re.Match[str]] | None:
    """Return the rule for the last messages of a log, with the match.

    The last lines count first, because lines further up may be about a survived failure.
    """
    for size in (2, 8, len(said)):
        text = _OMITTED.sub("", "\n".join(said[-size:])[-_MOST_JOINED:])
        if (found := _rule_of(text)) is not None:
            return found
        if size >= len(said):
            break
    return None


def diagnose(
    log: ProgramLog, target: ObjectFile | None = None, program: str = ""
) -> Explanation | None:
    """Return why the program of ``log`` was rejected; None if the log reports no rejection.

    ``target``: the object, for source lines and relocations. ``program``: its name, if the log does
    not have it.
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
    case = Case(log, rule, found, target)
    if is_meant := _MEANT.get(rule.id):
        case.rule = rule = is_meant(case)
    facts = _facts(case)
    title = f"{rule.category}: {rule.title}"
    reason, suggestion = rule.reason.format_map(facts), rule.suggestion.format_map(facts)
    reason = reason.replace(f"{UNNAMED}()", UNNAMED)
    suggestion = suggestion.replace(f"{UNNAMED}()", UNNAMED)
    if reason.startswith(UNNAMED):
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


#: A typical verifier message, for logs that are cut off before the counts.
_REFUSES = re.compile(
    r"not (?:allowed|supported|permitted)|prohibited|disallowed|^(?:invalid|cannot) |!="
)


def _unknown(log: ProgramLog, target: ObjectFile | None) -> Explanation | None:
    """Return an explanation with the verifier's own words, for a log without a matching rule."""
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
    """Return the text below ``heading`` in the kernel's explanation."""
    if heading not in block:
        return ""
    lines = []
    for line in block[block.index(heading) + 1 :]:
        if not line.strip():
            break
        lines.append(line.strip())
    return " ".join(lines)


def _decisive(case: Case) -> tuple[str, ...]:
    for said in (case.log.said[-8:], case.log.said):
        chosen = [line for line in said if case.rule.pattern.search(line)]
        if chosen:
            break
    else:
        chosen = list(case.log.said[-2:])
    return tuple(line[:500] for line in chosen[-_WORDS:])


def _facts(case: Case) -> Facts:
    facts = Facts(case.found)
    facts["r"] = str(case.register) if case.register >= 0 else "?"
    facts["state"] = case.state or "nothing"
    facts["words"] = AROUND.sub("", case.words)
    facts["made"] = origin_of(case.history.made) or "a helper"
    more = _ADDITIONS.get(case.rule.id)
    if more is not None:
        facts.update(more(case))
    return facts


def _evidence(case: Case) -> list[Evidence]:
    """Return the history of the rejected value, in the order of the program."""
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


def _step(role: str, insn: Insn, case: Case) -> Evidence:
    place = _place(case.log, insn, case.target)
    return Evidence(role, insn.text, insn.index, place=place)  # type: ignore[arg-type]


def _place(log: ProgramLog, insn: Insn | None, target: ObjectFile | None) -> Place | None:
    """Return the source line of ``insn``, from the object's line table or from the log."""
    if insn is None:
        return None
    if target is not None:
        found = target.place_at(log.program, insn.index)
        if found is not None:
            return found
    if insn.source is None:
        return None
    return Place(insn.source.text, insn.source.file, insn.source.line, function=log.program)
