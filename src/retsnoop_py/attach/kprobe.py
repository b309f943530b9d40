# SPDX-License-Identifier: BSD-2-Clause
"""Single kprobes and kretprobes, a perf event each: works everywhere, and is slow everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Refusal
from retsnoop_py.kernel.features import no_kprobes
from retsnoop_py.libbpf import BpfObject, Program

PMU = Path("/sys/bus/event_source/devices/kprobe")

#: Functions per call into C: between two of them Ctrl-C is heard and progress shown.
_CHUNK = 8


def _pmu_type() -> int:
    try:
        return int((PMU / "type").read_text())
    except OSError:
        raise no_kprobes() from None


def _return_config() -> int:
    """The config bit that asks for a kretprobe, from ``format/retprobe`` ("config:0")."""
    return 1 << int((PMU / "format" / "retprobe").read_text().partition(":")[2])


class _Side:
    """The probes of one side, entries or returns: event and link descriptors."""

    def __init__(self, program: Program, pmu_type: int, config: int, *, use_link: bool) -> None:
        self._batch = ffi.new("struct rsn_kprobe_batch *")
        self._batch.prog_fd = program.fd
        self._batch.pmu_type = pmu_type
        self._batch.return_config = config
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

    def chunks(self) -> list[Any]:
        """The descriptor arrays still open, links before their events; forgets them."""
        fds, self._fds = self._fds, []
        return fds


class KprobeAttachment:
    """Everything attached by single kprobes.

    ``use_link``: bpf links with cookies. The kernel calls the handlers of an address newest
    first: with ``entries_first`` our entry program runs when the return is hooked already and
    can tell if it is not; otherwise it still finds the address the call returns to.
    """

    def __init__(
        self,
        obj: BpfObject,
        plan: AttachPlan,
        context: AttachContext,
        *,
        use_link: bool,
        entries_first: bool,
    ) -> None:
        pmu_type = _pmu_type()
        self._entries = _Side(obj.program("rsn_entry"), pmu_type, 0, use_link=use_link)
        self._returns = _Side(
            obj.program("rsn_exit"), pmu_type, _return_config(), use_link=use_link
        )
        self._plan = plan
        self._addresses, self._cookies = plan.addresses, plan.cookies
        self._context = context
        self._entries_first = entries_first
        self.attached = 0
        self.refusals: list[Refusal] = []

    def attach(self) -> None:
        """Attach each function; one that refuses is left out."""
        functions = self._plan.functions
        # Should descriptors run out, all others are in vain without those that start sessions.
        order = sorted(range(len(functions)), key=lambda i: not functions[i].is_entry)
        for start in range(0, len(order), _CHUNK):
            if self._context.stopping():
                return
            self._attach_chunk(order[start : start + _CHUNK])
            self._context.progress(min(start + _CHUNK, len(order)), len(order))

    def _attach_chunk(self, ids: list[int]) -> None:
        addresses = [self._addresses[i] for i in ids]
        cookies = [self._cookies[i] for i in ids]
        sides = (self._returns, self._entries)
        if self._entries_first:
            sides = (self._entries, self._returns)
        errors = [side.attach(addresses, cookies) for side in sides]
        for i, (first_error, second_error) in enumerate(zip(*errors, strict=True)):
            if not first_error and not second_error:
                self.attached += 1
                continue
            for side in sides:
                side.close_last(i)
            function = self._plan.functions[ids[i]]
            self.refusals.append(Refusal(function, first_error or second_error))

    def detach(self, context: AttachContext) -> None:
        """Detach everything, entries before returns. Idempotent."""
        chunks = self._entries.chunks() + self._returns.chunks()
        total = len(self._plan.functions)
        for done, fds in enumerate(chunks, 1):
            lib.rsn_close_all(fds, len(fds))
            context.progress(total * done // len(chunks), total)
