# SPDX-License-Identifier: BSD-2-Clause
"""The mechanisms that hook functions: a row for each, with all its properties.

A new mechanism needs a row here, its module in ``attach/`` and its programs in ``src/bpf``. No
other code in this project compares the name of a mechanism.
"""

from __future__ import annotations

from enum import Enum
from typing import Self

from retsnoop_py.value import Value

__all__ = ["LADDER", "Mechanism", "Row"]


class Row(Value):
    """One mechanism. ``name`` is the user's name for it, ``takes`` its kernel requirements.

    * ``attachment``: its class, as ``module.Class`` of ``attach/``
    * ``programs``: the BPF programs that it attaches
    * ``counted``: the program with the counter of missed calls; sessions report that counter. The
      kernel counts the missed calls of programs ``by_address`` since 6.7
    * ``kind``: type and attach type of its program (``enum bpf_prog_type``, ``bpf_attach_type``)
      if libbpf does not support its section; libbpf 1.8 will support fsession.multi
    * ``rung``: its rank for ``auto``, from 1 (best); 0: used only if the user selects it
    * ``by_btf``: it finds functions by their BTF and calls the programs from a trampoline, which
      may miss the return of a call unnoticed
    * ``by_address``: it uses kprobes; their program identifies a function only by its address
    * ``by_symbol``: user space passes the functions to the kernel as symbols
    * ``by_kfuncs``: its programs call kernel functions, which requires the BPF JIT
    * ``in_modules``: it supports functions of modules
    * ``all_or_none``: it may reject a function that passed all checks, so a lower rung is kept
      ready
    * ``share``: the number of functions that share four descriptors; 0: all functions share a few
    * ``quick``: up to this number of functions, attaching does not take long
    * ``quick_with_ibt``: this number on CPUs with indirect branch tracking; 0: as ``quick``. There
      functions begin with ENDBR64 and their hook is not at their address. The kernel looks up each
      symbol to find the hook (ftrace_location(), 5.18)
    * ``loses``: the features that a run with it lacks
    """

    name: str
    takes: str = ""
    attachment: str = ""
    programs: tuple[str, ...] = ()
    counted: str = ""
    kind: tuple[int, int] | None = None
    rung: int = 0
    by_btf: bool = False
    by_address: bool = False
    by_symbol: bool = False
    by_kfuncs: bool = False
    in_modules: bool = True
    all_or_none: bool = False
    share: int = 0
    quick: int = 0
    quick_with_ibt: int = 0
    loses: str = ""

    def files(self, functions: int) -> int:
        """Return the number of descriptors for ``functions`` functions.

        Each entry and each return needs an event and a link.
        """
        return 4 * -(-functions // self.share) if self.share else 0


class Mechanism(Enum):
    """The mechanism that hooks functions; ``AUTO`` uses the best one that works here.

    fsession.multi costs half as much per call as kprobe.session. But while a thread preempted in a
    trampoline's program waits for its CPU, the kernel does not run that program there. Every x86
    kernel with fsession.multi preempts: it saw 319 of 1,000 sessions of eight threads, and kprobe
    links saw all. fentry has no rung because its programs are loaded and released one by one. For
    more than a handful of functions that takes longer than every other mechanism.
    """

    row: Row
    _value_: str

    def __new__(cls, row: Row) -> Self:
        """Return a member with the name of its row as the value."""
        made = object.__new__(cls)
        made._value_ = row.name
        made.row = row
        return made

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the mechanism with the user's name ``name``. Raises ValueError if unknown."""
        return cls(name)  # type: ignore[arg-type]

    AUTO = Row("auto")
    #: One BPF trampoline link for many functions, both sides in one program (Linux 7.x).
    FSESSION_MULTI = Row(
        name="fsession.multi",
        takes="Linux 7.x on x86-64",
        attachment="multi.FsessionMultiAttachment",
        programs=("rsn_fsession",),
        counted="rsn_fsession",
        kind=(26, 61),
        rung=2,
        by_btf=True,
        by_kfuncs=True,
        in_modules=False,
        all_or_none=True,
        quick=20_000,
        quick_with_ibt=10_000,
    )
    #: One fprobe link for many functions, both sides in one program (535a3692ba72, 6.10).
    KPROBE_SESSION = Row(
        name="kprobe.session",
        takes="Linux 6.10 and CONFIG_FPROBE",
        attachment="multi.KprobeSessionAttachment",
        programs=("rsn_session",),
        counted="rsn_session",
        rung=1,
        by_kfuncs=True,
        quick=40_000,
        quick_with_ibt=20_000,
    )
    #: A pair of fprobe links for many functions (0dcac2725406, 5.18; CONFIG_FPROBE).
    KPROBE_MULTI = Row(
        name="kprobe.multi",
        takes="Linux 5.18 and CONFIG_FPROBE",
        attachment="multi.KprobeMultiAttachment",
        programs=("rsn_multi_entry", "rsn_multi_return"),
        counted="rsn_multi_entry",
        rung=3,
        quick=40_000,
        quick_with_ibt=20_000,
    )
    #: A pair of programs per function, through a BPF trampoline (5.5; 2aa6ac03516d: arm64 6.4).
    FENTRY = Row(
        name="fentry",
        takes="Linux 5.5 (arm64: 6.4), CONFIG_DEBUG_INFO_BTF and CONFIG_DYNAMIC_FTRACE",
        attachment="fentry.FentryAttachment",
        programs=("rsn_fentry", "rsn_fexit"),
        by_btf=True,
        share=1,
        quick=200,
    )
    #: Two tracefs events with a kprobe or kretprobe per function.
    KPROBE_EVENTS = Row(
        name="kprobe_events",
        takes="CONFIG_KPROBE_EVENTS and a mounted, writable tracefs",
        attachment="kprobe_events.KprobeEventsAttachment",
        programs=("rsn_kprobe", "rsn_kretprobe"),
        counted="rsn_kprobe",
        rung=4,
        by_address=True,
        by_symbol=True,
        share=128,  # detaching one pair of events takes up to about a second
        quick=3_000,
        loses="speed: functions are attached one by one, some 10 ms each",
    )
    #: Two perf events per function.
    KPROBE = Row(
        name="kprobe",
        takes="CONFIG_KPROBES and CONFIG_KPROBE_EVENTS",
        attachment="kprobe.KprobeAttachment",
        programs=("rsn_kprobe", "rsn_kretprobe"),
        counted="rsn_kprobe",
        rung=5,
        by_address=True,
        share=1,
        quick=500,
        loses="speed: functions are attached and let go one by one, tens of ms each",
    )


#: The mechanisms that ``auto`` tries, best first.
LADDER = tuple(
    sorted((one for one in Mechanism if one.row.rung), key=lambda mechanism: mechanism.row.rung)
)
