# SPDX-License-Identifier: BSD-2-Clause
"""A segment of a log, read: whose it is, what was said last and where the program was then."""

from __future__ import annotations

import re

from retsnoop_py.load.log_lines import Segment
from retsnoop_py.load.path_state import Insn, PathState, SourceLine
from retsnoop_py.value import Value

__all__ = ["ProgramLog", "read_log", "register_state"]

_INSN = re.compile(r"(\d+): (?:\([0-9a-f]{2}\) |(?=<invalid ))(.*)")
#: What stands behind an instruction: the registers it left, since 5.18 on the same line.
_BESIDE = re.compile(r"\s*(?:; (?:R\d|fp|frame|refs=|\()|\d+: (?:frame\d+: )?R\d+(?:_\w+)?=).*$")
_SOURCE = re.compile(r"; ?(.*?)(?: @ (\S+?):(\d+)(?::\d+)?)?$")
_FROM = re.compile(r"from (\d+) to (\d+)")
_STATE = re.compile(r"(?:\d+: )?(?:frame\d+: ?)?(?:R\d+(?:_\w+)?=|fp-?\d+|refs=)")
_LATE_INSN = re.compile(r"(?:\d+: )?(?:frame\d+: ?)?R\d+.*? (\d+: \([0-9a-f]{2}\) .*)")
#: What the verifier says beside: it is no reason for anything.
_ASIDE = re.compile(
    r"mark_precise|last_idx|regs=|parent |propagating|processed \d|verification time|stack depth"
    r"|-- (?:BEGIN|END)|max_states|caller:|callee:|returning from|to caller at|Func#\d|safe$"
    r"|Validating .*\(\) func#|reg type unsupported|insns processed|Live regs|func#\d"
    r"|from \d+ to \d+: safe|arg#\d+ reference type\('UNKNOWN|live regs|\(?\d+ line\(s\) omitted"
)
_PROCESSED = re.compile(r"processed (\d+) insns")
_PROGRAM = re.compile(
    r"(?:prog(?:ram)? '([^']+)'|program ([\w./-]+): (?:load program|attaching)"
    r"|[Ff]ailed to load (?:BPF )?program b?'?([\w/]+)'?|sec(?:tion)? '([^']+)'(?=.*prog))"
)
_KERNEL_SAYS = "Verification failed: "
#: Lines behind the last instruction in which the reason is looked for.
_MAX_SAID = 60
#: Lines gone back for the state of a register.
_STATE_LINES = 400


class ProgramLog(Value):
    """What a segment has.

    ``said``: the lines behind the last instruction, which tell the reason if anything does.
    ``explained``: the block that Linux 7.3 writes, its lines as they are. ``processed``:
    instructions, as the verifier counts them; None where it does not say. ``followed``: whether
    there is any instruction.
    """

    segment: Segment
    program: str
    said: tuple[str, ...]
    explained: tuple[str, ...]
    path: PathState
    processed: int | None
    followed: bool


def read_log(segment: Segment) -> ProgramLog:
    """Follow the log once, from its first line to its last."""
    path = PathState()
    said: list[str] = []
    explained: list[str] = []
    source: SourceLine | None = None
    program, processed, followed, within = "", None, False, False
    for line in segment.lines:
        text = line.strip()
        if within and not text.startswith(("processed ", "-- END", "prog '")):
            explained.append(line)
            continue
        within = False
        found = _instruction(text)
        if found:
            # libbpf's words in place of what it poisoned are <invalid ...>
            said[:] = [found[2]] if found[2].startswith("<") else []
            followed = True
            path.follow(Insn(int(found[1]), _BESIDE.sub("", found[2]), source))
        elif text.startswith(";"):
            source = _source(text) or source
        elif text.startswith("from ") and (back := _FROM.match(text)):
            path.go_back(int(back[1]))
        elif text.startswith(_KERNEL_SAYS):
            within = True
            explained = [text]
        elif text and not _STATE.match(text):
            if told := _PROCESSED.match(text):
                processed = int(told[1])
            if named := _PROGRAM.search(text):
                program = next(filter(None, named.groups()))
            if not _ASIDE.match(text):
                said.append(text)
                del said[:-_MAX_SAID]
    while explained and not explained[-1].strip():
        explained.pop()
    return ProgramLog(segment, program, tuple(said), tuple(explained), path, processed, followed)


def _instruction(text: str) -> re.Match[str] | None:
    """An instruction's number and text; before 5.18 the registers stood in front of some."""
    found = _INSN.match(text)
    if found is None and text.startswith(("R", "0: R", "frame")):
        late = _LATE_INSN.match(text)
        found = _INSN.match(late[1]) if late else None
    return found


def _source(text: str) -> SourceLine | None:
    found = _SOURCE.match(text)
    if not found or not found[1] or found[1].startswith("instruction poisoned by CO-RE"):
        return None  # cilium/ebpf puts that in place of the source
    return SourceLine(found[1].strip(), found[2] or "", int(found[3] or 0))


def register_state(log: ProgramLog, register: int) -> str:
    """What the verifier last printed of ``register``: ``scalar(umax=255)``; empty if nothing."""
    wanted = re.compile(
        rf"\bR{register}(?:_[a-z]+)?=((?:[^\s()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+)"
    )
    for line in reversed(log.segment.lines[-_STATE_LINES:]):
        if f"R{register}" in line and (found := wanted.search(line)):
            return found[1]
    return ""
