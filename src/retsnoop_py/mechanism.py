# SPDX-License-Identifier: BSD-2-Clause
"""The mechanisms by which functions are hooked: a row each, with all that others ask of one.

To add one takes a row here, its module in ``attach/`` and its programs in ``src/bpf``; nothing else
in this project tells one mechanism from another by its name.
"""

from __future__ import annotations

from enum import Enum
from typing import Self

from retsnoop_py.value import Value

__all__ = ["LADDER", "Mechanism", "Row"]


class Row(Value):
    """One mechanism. ``name`` is what users write, ``takes`` what the kernel has to have for it.

    * ``attachment``: its class, as ``module.Class`` of ``attach/``
    * ``programs``: those it attaches; ``counted``: the one whose missed calls sessions are told
      of; of programs ``by_address`` the kernel counts them since 6.7
    * ``kind``: type and attach type of its program (``enum bpf_prog_type``, ``bpf_attach_type``)
      where libbpf does not know its section; libbpf 1.8 will know fsession.multi
    * ``rung``: its place when the best is to be taken, from 1 on; 0: only who asks for it gets it
    * ``by_btf``: it finds functions by their BTF and calls from a trampoline, which may miss the
      return of a call unnoticed; ``by_address``: it is made of kprobes, whose program knows a
      function by nothing but its address; ``by_symbol``: the kernel is told functions by symbols
    * ``by_kfuncs``: its programs call kernel functions, which needs the BPF JIT
    * ``in_modules``: it takes functions of modules
    * ``all_or_none``: it may refuse a function that nothing spoke against, so that a rung below
      is kept ready
    * ``share``: so many functions share four descriptors; 0: all of them share a few
    * ``quick``: up to so many functions nobody has to wait long; ``quick_with_ibt``: on CPUs with
      indirect branch tracking, 0 for as many. There functions begin with ENDBR64, their hook is
      not at their address, and the kernel looks up each one's symbol to find it
      (ftrace_location(), 5.18)
    * ``loses``: what a run by it goes without
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
        """Descriptors that ``functions`` take: an event and a link for each entry and return."""
        return 4 * -(-functions // self.share) if self.share else 0


class Mechanism(Enum):
    """How functions are hooked; ``AUTO`` takes the best that works here.

    Rungs: fsession.multi costs half as much per call as kprobe.session, but the kernel runs no
    trampoline's program while a thread preempted in it waits for that CPU, and every x86 kernel
    that has it preempts: of 1,000 sessions of eight threads it saw 319, kprobe links all. fentry is
    no rung: its programs are loaded and let go one by one, which takes longer than all else as
    soon as there are more than a handful.
    """

    row: Row
    _value_: str

    def __new__(cls, row: Row) -> Self:
        """A member that is found by its name."""
        made = object.__new__(cls)
        made._value_ = row.name
        made.row = row
        return made

    @classmethod
    def named(cls, name: str) -> Self:
        """The mechanism that users call ``name``. Raises ValueError if there is none."""
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
        share=128,  # detaching one pair of events takes about a second at worst
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


#: Best first: what ``auto`` tries.
LADDER = tuple(
    sorted((one for one in Mechanism if one.row.rung), key=lambda mechanism: mechanism.row.rung)
)
