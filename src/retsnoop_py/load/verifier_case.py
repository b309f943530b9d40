# SPDX-License-Identifier: BSD-2-Clause
"""A refused program: its log, the reason's rule, and what both say of registers and calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retsnoop_py.load import since
from retsnoop_py.load.read_log import Insn, ProgramLog, ValueHistory, register_state
from retsnoop_py.load.verifier_rules import Rule

if TYPE_CHECKING:
    from retsnoop_py.load.object_file import ObjectFile

__all__ = [
    "AROUND",
    "CALLED",
    "UNNAMED",
    "Case",
    "Facts",
    "at_insn",
    "callee",
    "helper_name",
    "in_bytes",
    "origin_of",
]

#: What is called, where the log does not tell.
UNNAMED = "this call"


#: What loaders write around a message of one line.
AROUND = re.compile(
    r"^.*\bload program: (?:[a-z ]+: )?|^.*Verifier output: | \(\d+ line\(s\) omitted\)$"
)


CALLED = re.compile(r"call (?:(\w+)#(-?\d+)|(\d+)|(\w+))")


class Case:
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


class Facts(dict[str, str]):
    """What is not known stands as ``?`` in a text, which is no reason to lose the rest."""

    def __missing__(self, key: str) -> str:
        return "?"


def origin_of(insn: Insn | None) -> str:
    """Where a value comes from, in words."""
    if insn is None:
        return ""
    found = CALLED.match(insn.text)
    if found:
        return f"{callee(insn)}()"
    if "= *(" in insn.text:
        source = f" ({insn.source.text})" if insn.source else ""
        return f"a read from memory{source}"
    return f"'{insn.text}'"


def callee(insn: Insn | None) -> str:
    """The name of what an instruction calls, also where a kernel prints the number only."""
    found = CALLED.match(insn.text) if insn else None
    if not found:
        return UNNAMED
    if found[1]:
        return found[1] if found[1] != "unknown" else helper_name(int(found[2]))
    return helper_name(int(found[3])) if found[3] else found[4]


def helper_name(number: int) -> str:
    """The helper's name by its number: ``bpf_strncmp``; its number where it is not known."""
    known = since.by_number("helpers", number)
    return f"bpf_{known.name}" if known else f"helper {number}"


def at_insn(insn: Insn | None) -> str:
    """Where it stands: in the source, if the log has that."""
    if insn is None:
        return ""
    if insn.source and insn.source.line:
        return f" at {insn.source.file}:{insn.source.line}"
    return f" at instruction {insn.index}"


def in_bytes(size: str) -> str:
    """A number of bytes in words."""
    return "1 byte" if size == "1" else f"{size} bytes"
