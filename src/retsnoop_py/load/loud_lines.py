# SPDX-License-Identifier: BSD-2-Clause
"""Find the lines that may report a failure, and the lines about BPF, by a plain search for words.

A log of 50 MB has half a million lines. Only the lines that are found here are read further.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retsnoop_py.load.line_finder import LineFinder

__all__ = ["LOUD", "OF_BPF", "joined", "may_report_failure", "names_bpf"]

#: A line that reports a failure contains at least one of the following. Most lines contain none.
LOUD = LineFinder(
    r"fail|error|load program|\bno[tn]?\b|invalid|unable|can'?not|can't|couldn't|could not|requires"
    r"|missing|denied|\berr=|unsupported|disabled|too (?:low|large|small|big|many|long|old|new)"
    r"|unavailable|out of|must be|permitted|permission|privilege|are you root|as root|CAP_"
    r"|returned|busy|exists|already|rejected|interrupted|tracing/events|exclusivity|isn't|doesn't"
    r"|unexpected|= -1 E"
    r"|ambig|corrupt|\bbad |is empty|incompatib|incorrect|malformed|conflict|unknown|unrecognized"
    r"|expected|should|implies|mismatch|multiple|beyond|crosses|exceed|restricted|only single"
    r"|1000001 insns"
    r"|panicked|is NULL|non-zero extra|must |minimum|without|undefined|differ|prevent|endian"
    r"|triggered exit|\btry\b.*\bagain\b"
    r"|bailing|giving up|aborting|garbage|refus"
    r"|terminat|killed|timed? ?out|deadline|segfault|core dumped|syscall=|!=|what is|lack|needs?\b"
    r"|bpf\(BPF_\w+\)$"
    r"|higher than"
    r"|unsatisfied|poisoned|, requested \d|over limit\)|\(pin\)|spec and |no symbol|middle of an?\b"
    r"|none of|not big enough|is static|neither|replacement|truncated|omitted|detected|owned by",
)
#: Words about BPF.
OF_BPF = LineFinder(
    r"bpf|\bbcc\b|AF_XDP|\bxsk|\bumem\b|sched_ext|\bscx_|\bBTF\b|qdisc|perf[_ ]event|ring ?buf"
    r"|kallsyms|trace_?fs|debugfs|trace_pipe"
    r"|sockmap|sk_lookup|sk_msg|flow_dissector|\bf(?:entry|exit)\b|CO-RE|vmlinux|tracing link"
    r"|\b[ku](?:ret)?probe|tracepoint|\bxdp\b|struct_ops|verifier|libxdp|\bUSDT\b|clsact"
    r"|(?:load|attach)_progs?\b|available_filter_functions|socket filter"
    r"|program/map|load\w* (?:the )?prog(?:ram)?s?\b|attaching \d+ probe",
)
#: Package names and the lines of package managers: they name BPF, but load nothing.
_PACKAGES = re.compile(
    r"\blib(?:bpf|xdp|bcc)[\d.]*-dev(?:el)?\b|\blib(?:bpf|xdp|bcc)\d[\d.]*\b"
    r"|^\W*(?:Setting up|Unpacking|Selecting|Preparing to unpack|Get:\d+|Err:\d+|dpkg) .*"
)
#: The level of an error, as a word or as klog writes it.
_LEVEL = LineFinder(r"\berr|\bfat|\bftl|\bpanic|\bcrit|^\s*[EF]\d{4} ")
_COLOR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Characters of a raw line that :func:`~.read_log.clean` or JSON writes in another way.
_WRITTEN = (
    *(("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"')),
    *(("\\u0027", "'"), ("\\n", "  "), ("\\t", "  "), ("\r", " "), ("\0", " ")),
)


def joined(lines: Sequence[bytes]) -> str:
    """Return raw ``lines`` as one text with as many lines, without colors and escapes."""
    whole = (line if line.endswith(b"\n") else line + b"\n" for line in lines)
    text = b"".join(whole).decode(errors="replace").removesuffix("\n")
    for written, meant in _WRITTEN:
        if written in text:
            text = text.replace(written, meant)
    return _COLOR.sub("", text) if "\x1b" in text else text


def may_report_failure(text: str) -> list[int]:
    """Return the numbers of the lines of ``text``, from 0, that may report a failure."""
    return sorted({*LOUD.offsets(text), *_LEVEL.offsets(text)})


def names_bpf(line: str) -> bool:
    """Return True if ``line`` is about BPF, but not about packages of BPF libraries."""
    return OF_BPF.matches(_PACKAGES.sub("", line))
