# SPDX-License-Identifier: BSD-2-Clause
"""Single kprobes and kretprobes, a perf event each: works everywhere, and is slow everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.attach.guard import hurried
from retsnoop_py.attach.misses import misses_of
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.kernel.features import no_kprobes
from retsnoop_py.libbpf import Program

PMU = Path("/sys/bus/event_source/devices/kprobe")

#: Functions per call into C: between two of them Ctrl-C is heard and progress shown.
_CHUNK = 8


def pmu_type() -> int:
    """The number of the kprobe PMU. Raises UnavailableError on a kernel without kprobes."""
    try:
        return int((PMU / "type").read_text())
    except OSError:
        raise no_kprobes() from None


def return_config() -> int:
    """The config bit that asks for a kretprobe, from ``format/retprobe`` ("config:0")."""
    return 1 << int((PMU / "format" / "retprobe").read_text().partition(":")[2])


class _Side:
    """The probes of one side, entries or returns: event and link descriptors."""

    def __init__(self, program: Program, pmu_type: int, config: int, *, use_link: bool) -> None:
        self._batch = ffi.new("struct rsn_kprobe_batch *")
        self._batch.prog_fd = program.fd
        self._batch.pmu_type = pmu_type
        self._batch.config = config
        self._batch.use_link = use_link
        self._fds: list[Any] = []

    def attach(self, addresses: list[int], cookies: list[int]) -> list[int]:
        """Attach to each of ``addresses``; the errno of each, 0 where it worked."""
        count = len(addresses)
        address_array = ffi.new("uint64_t[]", addresses)
        cookie_array = ffi.new("uint64_t[]", cookies)
        events, links, errors = (ffi.new("int[]", count) for _ in range(3))
        batch = self._batch
        batch.count, batch.addresses, batch.cookies = count, address_array, cookie_array
        batch.event_fds, batch.link_fds, batch.errors = events, links, errors
        lib.rsn_attach_kprobes(batch)
        self._fds += [links, events]
        return list(errors)

    def close_last(self, index: int) -> None:
        """Detach one function of the last :meth:`attach`."""
        links, events = self._fds[-2:]
        for fds in (links, events):
            lib.rsn_close_all(fds + index, 1)
            fds[index] = -1

    def missed(self) -> Iterator[int]:
        """How often each probe was missed, in the order of attaching."""
        for links in self._fds[::2]:
            counts = ffi.new("uint64_t[]", len(links))
            lib.rsn_kprobes_missed(links, len(links), counts)
            yield from counts

    def chunks(self) -> list[Any]:
        """The descriptor arrays still open, links before their events; forgets them."""
        fds, self._fds = self._fds, []
        return fds


class KprobeAttachment:
    """Functions ``ids`` of ``plan``, attached by single kprobes: bpf links with cookies (5.15).

    The kernel calls the handlers of an address newest first: with entries attached first our
    entry program runs when the return is hooked already and can tell if it is not; without
    cookies, on kernels that cannot unwind behind a return probe, returns come first and it
    finds the address the call returns to.
    """

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        kind = pmu_type()
        obj, use_link = context.obj, context.features.cookie
        sides = (("rsn_kprobe", 0), ("rsn_kretprobe", return_config()))
        self._entries, self._returns = (
            _Side(obj.program(name), kind, config, use_link=use_link) for name, config in sides
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
        """Attach each function; one that refuses is left out."""
        functions = self._plan.functions
        # Should descriptors run out, all others are in vain without those that start sessions.
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
        """Calls the kernel did not hand to our programs, where it counts them (6.7)."""
        counts = zip(self._order, self._entries.missed(), self._returns.missed(), strict=False)
        functions = self._plan.functions
        return [miss for i, *counted in counts for miss in misses_of(functions[i], *counted)]

    def detach(self, context: AttachContext) -> None:
        """Detach everything, entries before returns. Idempotent."""
        chunks = [*self._entries.chunks(), *self._returns.chunks()]
        probed = self.attached if chunks else 0
        with hurried(probed, system_changes=context.system_changes):
            for done, fds in enumerate(chunks, 1):
                lib.rsn_close_all(fds, len(fds))
                context.progress(self.attached * done // len(chunks), self.attached)
