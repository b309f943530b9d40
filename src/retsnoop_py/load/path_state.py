# SPDX-License-Identifier: BSD-2-Clause
"""What a verifier's log tells of the way to a refused instruction.

The verifier prints instructions in the order it follows them and goes back to a branch with
``from A to B``. Here that order is followed again, for one question: where does the value in a
register come from, what changed it since, what checked it last.
"""

from __future__ import annotations

import re
from collections import Counter

from retsnoop_py.value import Value, replace

__all__ = ["Insn", "PathState", "SourceLine", "ValueHistory"]

#: Branches remembered; those that are gone back to are recent ones mostly.
_MAX_BRANCHES = 4096
#: Helpers after which pointers into the packet are pointers no more, as the kernel's
#: ``bpf_helper_changes_pkt_data`` in net/core/filter.c has them.
_CHANGES_PACKET = re.compile(
    r"bpf_(?:skb_(?:vlan_push|vlan_pop|store_bytes|change_\w+|pull_data|adjust_room)"
    r"|clone_redirect"
    r"|l[34]_csum_replace|xdp_adjust_\w+|msg_(?:pull|push|pop)_data|lwt_\w+|tcp_\w+|"
    r"(?:store|reserve)_hdr_opt)"
)

_COPY = re.compile(r"[rw](\d+) = \(?(?:s\d+\))?[rw](\d+)$")
_LOAD = re.compile(r"[rw](\d+) = \*\([us]\d+ \*\)\(r(\d+) ?([+-]\d+)\)")
_SPILL = re.compile(r"\*\(u64 \*\)\(r10 ?(-\d+)\) = r(\d+)")
_CALL = re.compile(r"call (?:(\w+)#(-?\d+)|(\d+)|(pc[+-]\d+|\w+))")
_SET = re.compile(r"[rw](\d+) = (.+)")
_CHANGE = re.compile(r"[rw](\d+) (?:[-+*/%|&^]|<<|>>|s>>|s/|s%)= ")
_BRANCH = re.compile(r"if [rw](\d+) \S+ (?:[rw](\d+)|\S+) goto")


class SourceLine(Value):
    """A line of the program's source, as the log quotes it."""

    text: str
    file: str = ""
    line: int = 0


class Insn(Value):
    """An instruction the verifier followed."""

    index: int
    text: str
    source: SourceLine | None = None


class ValueHistory(Value):
    """Of the value in a register or on the stack: what made, changed and checked it last."""

    made: Insn | None = None
    changed: Insn | None = None
    checked: Insn | None = None


_UNKNOWN = ValueHistory()


class PathState:
    """Registers and stack along the way the log follows, as they are before its last instruction.

    That is the one that is refused.
    """

    def __init__(self) -> None:
        self.registers: dict[int, ValueHistory] = {}
        self.slots: dict[int, ValueHistory] = {}
        self.last: Insn | None = None
        #: The last call that made pointers into the packet invalid.
        self.packet_changed: Insn | None = None
        #: The last load from each register's memory: of ``ctx->data`` for one.
        self.acquired: dict[str, Insn] = {}
        self.visits: Counter[SourceLine] = Counter()
        self._branches: dict[int, tuple[dict[int, ValueHistory], dict[int, ValueHistory]]] = {}

    def go_back(self, index: int) -> None:
        """The log goes on at the other side of the branch at ``index``."""
        if self.last is not None:
            self._take(self.last)
            self.last = None
        kept = self._branches.get(index)
        if kept is not None:
            self.registers, self.slots = dict(kept[0]), dict(kept[1])

    def follow(self, insn: Insn) -> None:
        """One more instruction, which means that the one before was taken."""
        before, self.last = self.last, insn
        if insn.source is not None:
            self.visits[insn.source] += 1
        if before is not None:
            self._take(before)

    def _take(self, insn: Insn) -> None:
        text = insn.text
        if text.startswith("if "):
            self._branch(insn)
        elif text.startswith("call"):
            self._call(insn)
        elif text.startswith("*("):
            found = _SPILL.match(text)
            if found:
                self.slots[int(found[1])] = self.registers.get(int(found[2]), _UNKNOWN)
        else:
            self._assign(insn)

    def _assign(self, insn: Insn) -> None:
        text = insn.text
        registers = self.registers
        if found := _COPY.match(text):
            registers[int(found[1])] = registers.get(int(found[2]), _UNKNOWN)
        elif found := _LOAD.match(text):
            made = ValueHistory(made=insn)
            if found[2] == "10":
                made = self.slots.get(int(found[3]), made)
            registers[int(found[1])] = made
        elif found := _CHANGE.match(text):
            number = int(found[1])
            registers[number] = replace(registers.get(number, _UNKNOWN), changed=insn)
        elif found := _SET.match(text):
            registers[int(found[1])] = ValueHistory(made=insn)

    def _call(self, insn: Insn) -> None:
        for number in range(6):
            self.registers.pop(number, None)
        self.registers[0] = ValueHistory(made=insn)
        found = _CALL.match(insn.text)
        name = found[1] if found else None
        if name:
            self.acquired[name] = insn
            if _CHANGES_PACKET.match(name):
                self.packet_changed = insn

    def _branch(self, insn: Insn) -> None:
        if len(self._branches) > _MAX_BRANCHES:
            self._branches.clear()
        found = _BRANCH.match(insn.text)
        for number in filter(None, found.groups() if found else ()):
            known = self.registers.get(int(number), _UNKNOWN)
            self.registers[int(number)] = replace(known, checked=insn)
        self._branches[insn.index] = dict(self.registers), dict(self.slots)

    def history(self, register: int) -> ValueHistory:
        """That of ``register``; checks of copies of the same value count."""
        own = self.registers.get(register, _UNKNOWN)
        if own.checked is None and own.made is not None:
            for other in [*self.registers.values(), *self.slots.values()]:
                if other.made is own.made and other.checked is not None:
                    return replace(own, checked=other.checked)
        return own
