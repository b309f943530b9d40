# SPDX-License-Identifier: BSD-2-Clause
"""What will be attached and how: pure values, made without touching the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.kernel.functions import Function
from retsnoop_py.settings import Mechanism

#: Best first: what ``auto`` tries.
LADDER = (Mechanism.KPROBE_MULTI, Mechanism.KPROBE)

_REASONS = {
    1: "the kernel forbids it",
    13: "the kernel forbids it",
    24: "no file descriptor is left",
    2: "the kernel does not know an instruction at this address",
    12: "the kernel is out of memory",
    16: "another user of this function is in the way",
    22: "the kernel refuses to probe this function",
    84: "the address is not at an instruction boundary",
    95: "the kernel cannot probe this function",
    99: "the address is not in a function that can be probed",
}


@dataclass(frozen=True, slots=True)
class AttachPlan:
    """Functions in the order of their ids, and the mechanisms to try, best first."""

    functions: tuple[Function, ...]
    mechanisms: tuple[Mechanism, ...]

    @property
    def addresses(self) -> list[int]:
        """The functions' addresses, by id."""
        return [function.address for function in self.functions]

    @property
    def cookies(self) -> list[int]:
        """What the BPF side knows of each function: id below, flags above (records.h)."""
        return [i | function.flags << 32 for i, function in enumerate(self.functions)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A function that could not be attached; ``errno`` is positive."""

    function: Function
    errno: int

    @property
    def reason(self) -> str:
        """Why, in words."""
        name = ERRNO_NAMES.get(self.errno, str(self.errno))
        words = _REASONS.get(self.errno)
        return f"{words} (-{name})" if words else f"-{name}"


#: Called now and then with (functions done, functions in all).
ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class AttachContext:
    """What an attacher may ask while it works."""

    progress: ProgressCallback
    stopping: Callable[[], bool]


def make_plan(functions: Sequence[Function], mechanism: Mechanism) -> AttachPlan:
    """Plan to attach ``functions`` by ``mechanism``, or by the best one that works."""
    ladder = LADDER if mechanism is Mechanism.AUTO else (mechanism,)
    return AttachPlan(tuple(functions), ladder)
