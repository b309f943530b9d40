# SPDX-License-Identifier: BSD-2-Clause
"""A check of the machine with its answer, and the machine that is checked."""

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
    """The answer of a check. ``UNKNOWN`` usually means that privileges are missing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Group(Enum):
    """The subject of a check; the value is printed."""

    MECHANISMS = "Attach mechanisms, best first"
    BPF = "BPF"
    KERNEL = "Kernel"
    SOURCES = "Source lines"
    RIGHTS = "Rights of this process"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A check with its answer.

    ``key`` is stable, for programs. ``detail`` is the finding, or the reason for an answer other
    than yes; ``next_step`` is the advice. ``loses``: the features that a trace lacks unless the
    answer is yes. ``ends_with``: the exit status of a trace that needs a yes (0: it does not).
    ``tried``: the searched places and why they were rejected. ``config``: options of the kernel's
    configuration.
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
        """Return True if the answer is yes."""
        return self.answer is Answer.YES


@dataclass(frozen=True, slots=True)
class Tried:
    """Results of tests on the running kernel; None: not tested.

    The ``*_error`` fields are positive errno values, 0 on success: of loading a BPF program, of
    opening a kprobe as a perf event, and of opening a perf event with branch records. ``reasons``
    has, for each tested mechanism, why it does not work, None if it works. ``next_steps`` has the
    known remedies.
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
    """The examined machine: the kernel's files below ``facts.root``, and this process.

    ``capabilities``: the effective capabilities as bits, None if /proc does not show them.
    ``files``: the soft and the hard limit of open files. ``image``: the vmlinux that the user
    named, if any.
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
        """Return the folder with /proc and /sys: ``/`` except in tests."""
        return self.facts.root

    def may(self, *capabilities: int) -> bool:
        """Return True if this process has all of ``capabilities`` (bit numbers)."""
        held = self.capabilities
        return held is None or all(held >> bit & 1 for bit in capabilities)


def read_text(path: Path) -> str | None:
    """Return the contents of a small file of /proc or /sys; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
