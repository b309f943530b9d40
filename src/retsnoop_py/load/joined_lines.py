# SPDX-License-Identifier: BSD-2-Clause
"""Messages of several lines: put together, as others write them in one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from retsnoop_py.load.errno_rules import is_errno
from retsnoop_py.load.model import Explanation

__all__ = [
    "was_tried_again",
    "with_btf",
    "with_cause",
    "with_innermost",
    "with_probe",
    "with_reference",
    "with_relocation",
]

#: A type of BTF, as the kernel lists them until it comes to the one that it refuses.
_BTF_TYPE = re.compile(r"\[\d+\] [A-Z_]+\b.*")


def with_btf(found: Explanation, lines: tuple[str, ...], at: int) -> Explanation:
    """``found`` of line ``at``, with the line below at which the kernel's list of types ends."""
    if found.id != "btf-refused":
        return found
    last = ""
    for number in range(at + 1, len(lines)):
        line = lines[number]
        if not last and number > at + _LIST_LINES:
            break
        if _BTF_TYPE.match(line.strip()):
            last = line.strip()[:_LONGEST_TYPE]
        elif last and not line.startswith(("\t", " ")):
            break
    if not last:
        return found
    reason = f"{found.reason} Its list of types ends at the one that it does not take: {last}."
    return structs.replace(found, reason=reason, words=(*found.words, last))


_LONGEST_TYPE = 200
#: Lines behind the refusal in which the list begins.
_LIST_LINES = 40
#: What Rust's loaders write below "Caused by:" last, with or without a number.
_CAUSE = re.compile(r"\s*(?:\d+: )?(\S.* \(os error \d+\))$")
#: What iproute2's tools have of the kernel's answer; only tc goes on by saying with whom it talks.
_OF_TC = re.compile(r"RTNETLINK answers: ")
#: Lines behind one in which its cause is looked for.
_CAUSE_LINES = 6
#: Lines behind a call in which its errno is looked for.
_ERRNO_LINES = 4
#: A call that is named in a line of its own, where others have its errno.
_CALL_ALONE = re.compile(r"\bbpf\(BPF_\w+\)$")
#: One of a chain of causes, which go on below it.
_OF_CHAIN = re.compile(r"\s*\d+: \D")
_CHAIN_LINES = 40


def with_cause(lines: tuple[str, ...], at: int) -> str:
    """Line ``at`` and the errno that the lines below it end in, as other loaders say it in one."""
    below = lines[at + 1 : at + 3]
    if lines[at].rstrip().endswith(":"):
        for line in lines[at + 1 : at + 1 + _CAUSE_LINES]:
            if (said := line.strip(" :.")) and is_errno(said):
                return f"{lines[at].rstrip()} {said}"
    if _CALL_ALONE.search(lines[at]):
        for line in lines[at + 1 : at + 1 + _ERRNO_LINES]:
            said = line.rpartition(": ")[2].strip(" .")
            if is_errno(said):
                return f"{lines[at].rstrip()}: {said}"
    if _OF_TC.match(lines[at]) and any(
        line.startswith("We have an error talking") for line in below
    ):
        return f"tc filter: {lines[at]}"
    most = 0
    if lines[at].rstrip().endswith(("failed", "`")) or any("Caused by" in line for line in below):
        most = _CAUSE_LINES
    if _OF_CHAIN.match(lines[at]):
        most = _CHAIN_LINES
    cause = _first(_CAUSE, lines[at + 1 : at + 1 + most])
    return f"{lines[at]}: {cause[1]}" if cause else ""


#: Below which causes stand, the innermost last.
_CAUSED_BY = re.compile(r"\s*[Cc]aused by:?\s*")
_ONE_CAUSE = re.compile(r"\s+(?:\d+: )?(\S.*)|\d+: (\S.*)")


def with_innermost(lines: tuple[str, ...], at: int) -> str:
    """Line ``at`` and the innermost of the causes that are listed below it; "" where none are."""
    heading = at + 1
    if heading < len(lines) and not lines[heading].strip():
        heading += 1
    if heading >= len(lines) or not _CAUSED_BY.fullmatch(lines[heading]):
        return ""
    cause = ""
    for line in lines[heading + 1 : heading + 1 + _CHAIN_LINES]:
        if (found := _ONE_CAUSE.fullmatch(line)) is None:
            break
        cause = found[1] or found[2]
    return f"{lines[at].rstrip(': ')}: {cause}" if cause else ""


def _first(wanted: re.Pattern[str], lines: Iterable[str]) -> re.Match[str] | None:
    """Where the first of ``lines`` that has what is wanted at its beginning has it."""
    return next((found for line in lines if (found := wanted.match(line))), None)


#: A call of bpf(2) as strace(1) writes it: what it is for, and of which type.
_BPF_CALL = re.compile(r"\bbpf\(BPF_\w+, \{(?:\w+=\w+)?")
_RESULT = re.compile(r"\)\s+= (-?\d+)\b[^)]*\)?$")
_LATER_CALLS = 200


def was_tried_again(lines: tuple[str, ...], at: int) -> bool:
    """Whether the call in line ``at`` failed, and one like it did not: the loader found its way."""
    call, result = _BPF_CALL.search(lines[at]), _RESULT.search(lines[at])
    if call is None or result is None or result[1] != "-1":
        return False
    return any(
        call[0] in line and (later := _RESULT.search(line)) is not None and later[1] != "-1"
        for line in lines[at + 1 : at + 1 + _LATER_CALLS]
    )


#: What bcc says of a probe without its name, which Python's or bpftrace's last words below have.
_NAMELESS = re.compile(r"cannot attach ([ku])probe, ")
_PROBE_LINES = 20


def with_probe(lines: tuple[str, ...], at: int) -> str:
    """What is said of a probe with a name, and line ``at``, which says why."""
    found = _NAMELESS.match(lines[at])
    if found is None:
        return ""
    named = re.compile(
        rf"(?:\w+: )?Failed to attach BPF (?:program \S+ )?to {found[1]}(?:ret)?probe \S"
        rf"|(?:ERROR: )?Error attaching probe: '?{found[1]}(?:ret)?probe:"
    )
    below = _first(named, lines[at + 1 : at + 1 + _PROBE_LINES])
    return f"{below.string}: {lines[at]}" if below else ""


#: What libbpf says last of a relocation, and what it said of it before.
_NO_MATCH = re.compile(r"relo #(\d+): no matching targets found")
_RELOCATION_LINES = 12


def with_relocation(lines: tuple[str, ...], at: int) -> str:
    """Line ``at``, of a relocation without a match, and what that was for, which stands above."""
    found = _NO_MATCH.search(lines[at])
    if found is None:
        return ""
    named = re.compile(rf".*?relo #{found[1]}: (<.*)")
    above = _first(named, reversed(lines[max(0, at - _RELOCATION_LINES) : at]))
    return f"{lines[at]} {above[1]}" if above else ""


#: What aya says of a reference that it cannot resolve, and below that what it refers to.
_NO_REFERENCE = re.compile(r".*error relocating (?:function|section)$")
_TO_SECTION = re.compile(r"\s*(?:\d+: )?(section `\d+` not found, referenced by symbol.*)")


def with_reference(lines: tuple[str, ...], at: int) -> str:
    """What line ``at``, of a reference that is not resolved, refers to."""
    if not _NO_REFERENCE.match(lines[at]):
        return ""
    below = _first(_TO_SECTION, lines[at + 1 : at + 1 + _CAUSE_LINES])
    return f"{lines[at]}: {below[1]}" if below else ""
