# SPDX-License-Identifier: BSD-2-Clause
"""Single kprobes and kretprobes, a perf event each: works everywhere, and is slow everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.guard import hurried
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.kernel.functions import Function
from retsnoop_py.kernel.tracefs import lacks_kprobes, no_kprobes
from retsnoop_py.libbpf.links import PerfProbes
from retsnoop_py.mechanism import Mechanism

PMU = Path("/sys/bus/event_source/devices/kprobe")

_NESTED = "another probe was being handled on that CPU"
_NO_HOOK = "too many calls were running at the same time to hook their returns"

#: Functions per call into C: between two calls, Ctrl-C is handled and progress shown.
_CHUNK = 8


def pmu_type() -> int:
    """Return the number of the kprobe PMU. Raises UnavailableError on a kernel without kprobes."""
    try:
        return int((PMU / "type").read_text())
    except OSError:
        raise no_kprobes() from None


def return_config() -> int:
    """Return the config bit of a kretprobe, from ``format/retprobe`` ("config:0")."""
    return 1 << int((PMU / "format" / "retprobe").read_text().partition(":")[2])


class KprobeAttachment:
    """Functions ``ids`` of ``plan``, attached by single kprobes: bpf links with cookies (5.15).

    The kernel calls the handlers of an address newest first. If entries are attached first, the
    return is already hooked when our entry program runs, and the program can report a missing hook.
    Without cookies, the kernel cannot unwind behind a return probe (before 19138af1bd88). Then
    returns are attached first, and the entry program finds the original return address.
    """

    @classmethod
    def trial(cls, features: Features) -> int | str:
        """Return 0 if the kernel has kprobes, else the reason."""
        missing = lacks_kprobes(features.root)
        return f"it requires {Mechanism.KPROBE.row.takes}" if missing else 0

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        kind = pmu_type()
        obj, use_link = context.obj, context.features.cookie
        sides = (("rsn_kprobe", 0), ("rsn_kretprobe", return_config()))
        self._entries, self._returns = (
            PerfProbes(obj.program(name).fd, kind, config, use_link=use_link)
            for name, config in sides
        )
        both = (self._entries, self._returns)
        self._sides = both if use_link else both[::-1]
        self._plan = plan
        self._ids = ids
        self._order: list[int] = []
        self._context = context
        self.attached = 0
        self.refusals: dict[int, Refusal] = {}

    def attach(self) -> None:
        """Attach each function; rejected functions are skipped."""
        functions = self._plan.functions
        # If descriptors run out, functions are useless without those that start sessions.
        order = self._order = sorted(self._ids, key=lambda i: not functions[i].is_entry)
        with hurried(len(order), system_changes=self._context.system_changes):
            for start in range(0, len(order), _CHUNK):
                if self._context.stopping():
                    return
                self._attach_chunk(order[start : start + _CHUNK])
                self._context.progress(min(start + _CHUNK, len(order)), len(order))

    def _attach_chunk(self, ids: list[int]) -> None:
        addresses, cookies = self._plan.addresses(ids), self._plan.cookies(ids)
        errors = [side.attach(addresses, cookies) for side in self._sides]
        for i, (first_error, second_error) in enumerate(zip(*errors, strict=True)):
            if not first_error and not second_error:
                self.attached += 1
                continue
            for side in self._sides:
                side.close_last(i)
            function = self._plan.functions[ids[i]]
            self.refusals[ids[i]] = refused(function, first_error or second_error)

    def misses(self) -> list[Miss]:
        """Return calls for which the kernel did not run our programs, if it counts them (6.7)."""
        counts = zip(self._order, self._entries.missed(), self._returns.missed(), strict=False)
        functions = self._plan.functions
        return [miss for i, *counted in counts for miss in misses_of(functions[i], *counted)]

    def detach(self, context: AttachContext) -> None:
        """Detach all, entries before returns. Idempotent."""
        chunks = [*self._entries.take(), *self._returns.take()]
        probed = self.attached if chunks else 0
        with hurried(probed, system_changes=context.system_changes):
            for done, fds in enumerate(chunks, 1):
                fds.close()
                context.progress(self.attached * done // len(chunks), self.attached)


def misses_of(function: Function, entries: int, returns: int) -> Iterator[Miss]:
    """Yield the meaning of the kernel's counts of missed probes of ``function``.

    A call during the handling of another probe is counted on both sides: it belongs to tracing
    itself or to an interrupt, never to the traced thread. A call without a free return hook
    (maxactive) is counted only on the return's side; the session detects this.
    """
    if entries:
        yield Miss(function, entries, _NESTED)
    if returns > entries:
        yield Miss(function, returns - entries, _NO_HOOK)
