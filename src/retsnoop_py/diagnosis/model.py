# SPDX-License-Identifier: BSD-2-Clause
"""A question about the machine with its answer, and what the questions are asked of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import msgspec

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.mechanism import Mechanism

__all__ = ["Answer", "Check", "Group", "Host", "Tried", "read_text"]


class Answer(Enum):
    """``UNKNOWN``: it could not be found out, mostly for want of rights."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Group(Enum):
    """What a question is about; the value is what people read."""

    MECHANISMS = "Attach mechanisms, best first"
    BPF = "BPF"
    KERNEL = "Kernel"
    SOURCES = "Source lines"
    RIGHTS = "Rights of this process"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One question, answered.

    ``key`` is stable, for programs. ``detail`` is what was found, or the reason of any answer
    but yes; ``next_step`` what to do about it. ``loses`` is what a trace goes without unless
    the answer is yes, ``ends_with`` the exit status of a trace that cannot do without (0: it
    can). ``tried`` are the places looked at and why they were passed over, ``config`` options
    of the kernel's configuration.
    """

    key: str
    title: str
    group: Group
    answer: Answer
    detail: str = ""
    next_step: str = ""
    loses: str = ""
    ends_with: int = 0
    tried: tuple[tuple[str, str], ...] = ()
    config: Mapping[str, str] | None = None

    @property
    def is_yes(self) -> bool:
        """Whether all is well."""
        return self.answer is Answer.YES


@dataclass(frozen=True, slots=True)
class Tried:
    """What trying on the running kernel gave; None: it was not tried.

    The ``*_error`` are errno values, positive, 0 where it worked: loading a BPF program,
    opening a kprobe as a perf event, opening one that samples branches. ``reasons`` has, for
    each mechanism tried, why it does not work, None where it does; ``next_steps`` the remedies
    that are known.
    """

    load_error: int | None = None
    kprobe_error: int | None = None
    branch_error: int | None = None
    ringbuf: bool | None = None
    func_ip: bool | None = None
    cookie: bool | None = None
    raw_cookie: bool | None = None
    branch_snapshot: bool | None = None
    kfuncs: bool | None = None
    reasons: Mapping[Mechanism, str | None] = field(default_factory=dict)
    next_steps: Mapping[Mechanism, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Host:
    """The machine asked: the kernel's files below ``facts.root`` and this process.

    ``capabilities`` are the effective ones as bits, None where /proc does not tell; ``files``
    the soft and the hard limit of open files; ``image`` the vmlinux the user named, if any.
    """

    facts: KernelFacts
    tried: Tried
    capabilities: int | None
    files: tuple[int, int]
    environ: Mapping[str, str]
    is_root: bool = True
    image: Path | None = None

    @property
    def root(self) -> Path:
        """Where /proc and /sys are: ``/`` but in tests."""
        return self.facts.root

    def may(self, *capabilities: int) -> bool:
        """Whether this process holds all of ``capabilities`` (bit numbers)."""
        held = self.capabilities
        return held is None or all(held >> bit & 1 for bit in capabilities)


def read_text(path: Path) -> str | None:
    """What a small file of /proc or /sys says; None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
