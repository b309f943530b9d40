# SPDX-License-Identifier: BSD-2-Clause
"""A rejected program: its log, the matching rule, and facts about registers and calls."""

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

#: The name of a called function that the log does not name.
UNNAMED = "this call"


#: Text that loaders put around a one-line message.
AROUND = re.compile(
    r"^.*\bload program: (?:[a-z ]+: )?|^.*Verifier output: | \(\d+ line\(s\) omitted\)$"
)


CALLED = re.compile(r"call (?:(\w+)#(-?\d+)|(\d+)|(\w+))")


class Case:
    """A rejection: the log, the matching rule, and the derived facts."""

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
        """Return the text of the first group of ``names`` that matched, or an empty string."""
        return next((self.found[name] for name in names if name in self.found), "")

    def _said_register(self) -> str:
        """Return the register of a message of two lines, if only the other line names it."""
        for line in reversed(self.log.said[-3:]):
            if named := re.match(r"R(\d+) ", line):
                return named[1]
        return ""

    @property
    def words(self) -> str:
        """Return the verifier's last line that matches the rule.

        Among the last two lines, the first one counts: it has the reason, and the second one only
        reports that the caller's check failed.
        """
        for line in [*self.log.said[-2:], *reversed(self.log.said)]:
            if self.rule.pattern.search(line):
                return line
        return self.log.said[-1] if self.log.said else ""


class Facts(dict[str, str]):
    """Facts for a text. An unknown fact becomes ``?``, so the rest of the text stays."""

    def __missing__(self, key: str) -> str:
        return "?"


def origin_of(insn: Insn | None) -> str:
    """Return the origin of a value, in words."""
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
    """Return the name of the called function, even if the kernel printed only its number."""
    found = CALLED.match(insn.text) if insn else None
    if not found:
        return UNNAMED
    if found[1]:
        return found[1] if found[1] != "unknown" else helper_name(int(found[2]))
    return helper_name(int(found[3])) if found[3] else found[4]


def helper_name(number: int) -> str:
    """Return the helper's name by number, such as ``bpf_strncmp``, or ``helper NUMBER``."""
    known = since.by_number("helpers", number)
    return f"bpf_{known.name}" if known else f"helper {number}"


def at_insn(insn: Insn | None) -> str:
    """Return the location of an instruction: in the source if the log has it."""
    if insn is None:
        return ""
    if insn.source and insn.source.line:
        return f" at {insn.source.file}:{insn.source.line}"
    return f" at instruction {insn.index}"


def in_bytes(size: str) -> str:
    """Return a number of bytes in words."""
    return "1 byte" if size == "1" else f"{size} bytes"
