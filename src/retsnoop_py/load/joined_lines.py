# SPDX-License-Identifier: BSD-2-Clause
"""Join messages of several lines into one line, the form that other loaders print."""

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

#: A type in the kernel's list of BTF types. The list ends at the rejected type.
_BTF_TYPE = re.compile(r"\[\d+\] [A-Z_]+\b.*")


def with_btf(found: Explanation, lines: tuple[str, ...], at: int) -> Explanation:
    """Return ``found`` of line ``at``, with the last type of the kernel's list below it."""
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
#: Number of lines after the rejection in which the list begins.
_LIST_LINES = 40
#: The last cause that a Rust loader prints below "Caused by:", with or without a number.
_CAUSE = re.compile(r"\s*(?:\d+: )?(\S.* \(os error \d+\))$")
#: The kernel's answer in the output of iproute2. Only tc prints a second line about the kernel.
_OF_TC = re.compile(r"RTNETLINK answers: ")
#: Number of lines below a message in which its cause is searched.
_CAUSE_LINES = 6
#: Number of lines below a call in which its errno is searched.
_ERRNO_LINES = 4
#: A line that ends with a call's name, where other loaders print the errno.
_CALL_ALONE = re.compile(r"\bbpf\(BPF_\w+\)$")
#: A line of a chain of causes, which continues below.
_OF_CHAIN = re.compile(r"\s*\d+: \D")
_CHAIN_LINES = 40


def with_cause(lines: tuple[str, ...], at: int) -> str:
    """Return line ``at`` with the errno from the lines below, as one line; empty if none."""
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


#: The heading above a list of causes, with the innermost cause last.
_CAUSED_BY = re.compile(r"\s*[Cc]aused by:?\s*")
_ONE_CAUSE = re.compile(r"\s+(?:\d+: )?(\S.*)|\d+: (\S.*)")


def with_innermost(lines: tuple[str, ...], at: int) -> str:
    """Return line ``at`` with the innermost cause from the list below; empty without a list."""
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
    """Return the first match of ``wanted`` at the beginning of one of ``lines``."""
    return next((found for line in lines if (found := wanted.match(line))), None)


#: A bpf(2) call in the output of strace(1): command and first field.
_BPF_CALL = re.compile(r"\bbpf\(BPF_\w+, \{(?:\w+=\w+)?")
_RESULT = re.compile(r"\)\s+= (-?\d+)\b[^)]*\)?$")
_LATER_CALLS = 200


def was_tried_again(lines: tuple[str, ...], at: int) -> bool:
    """Return True if the call in line ``at`` failed and a later call like it succeeded."""
    call, result = _BPF_CALL.search(lines[at]), _RESULT.search(lines[at])
    if call is None or result is None or result[1] != "-1":
        return False
    return any(
        call[0] in line and (later := _RESULT.search(line)) is not None and later[1] != "-1"
        for line in lines[at + 1 : at + 1 + _LATER_CALLS]
    )


#: bcc's message about a probe without a name. The last lines of Python or bpftrace have the name.
_NAMELESS = re.compile(r"cannot attach ([ku])probe, ")
_PROBE_LINES = 20


def with_probe(lines: tuple[str, ...], at: int) -> str:
    """Return the message with the probe's name, joined with line ``at``, which has the cause."""
    found = _NAMELESS.match(lines[at])
    if found is None:
        return ""
    named = re.compile(
        rf"(?:\b\w+: )?Failed to attach BPF (?:program \S+ )?to {found[1]}(?:ret)?probe \S"
        rf"|(?:ERROR: )?Error attaching probe: '?{found[1]}(?:ret)?probe:"
    )
    below = _first(named, lines[at + 1 : at + 1 + _PROBE_LINES])
    return f"{below.string}: {lines[at]}" if below else ""


#: libbpf's last message about a relocation. An earlier message names the relocation.
_NO_MATCH = re.compile(r"relo #(\d+): no matching targets found")
_RELOCATION_LINES = 12


def with_relocation(lines: tuple[str, ...], at: int) -> str:
    """Return line ``at``, a failed relocation, with the relocation's subject from above."""
    found = _NO_MATCH.search(lines[at])
    if found is None:
        return ""
    named = re.compile(rf".*?relo #{found[1]}: (<.*)")
    above = _first(named, reversed(lines[max(0, at - _RELOCATION_LINES) : at]))
    return f"{lines[at]} {above[1]}" if above else ""


#: aya's message about an unresolved reference. The next lines have the reference.
_NO_REFERENCE = re.compile(r".*error relocating (?:function|section)$")
_TO_SECTION = re.compile(r"\s*(?:\d+: )?(section `\d+` not found, referenced by symbol.*)")


def with_reference(lines: tuple[str, ...], at: int) -> str:
    """Return line ``at``, an unresolved reference, with its subject; empty for other lines."""
    if not _NO_REFERENCE.match(lines[at]):
        return ""
    below = _first(_TO_SECTION, lines[at + 1 : at + 1 + _CAUSE_LINES])
    return f"{lines[at]}: {below[1]}" if below else ""
