# SPDX-License-Identifier: BSD-2-Clause
"""Probes in the blocks of functions: a kprobe event of tracefs with many probes.

Defining a probe takes 1 to 8 ms. Enabling the event takes 0.04 s and disabling it 0.1 s,
independent of its probes, so the functions that are followed together share one event. A perf event
and a link per probe, as for injected probes, take a hundred times as long. Definitions outlive
their user, so a guard deletes them.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence

from retsnoop_py.attach.guard import Guard, hurried, this_owner
from retsnoop_py.attach.plan import AttachContext
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.switches import KPROBES
from retsnoop_py.kernel.tracefs import folder_with
from retsnoop_py.libbpf.links import PerfProbes
from retsnoop_py.libbpf.object import BpfMap
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.probes import BlockProbe, pack_operands
from retsnoop_py.value import replace

__all__ = ["BLOCK_EVENTS", "MOST_PROBES", "BlockEvents"]

#: The first number of these events. Traced functions (kprobe_events) have lower numbers.
BLOCK_EVENTS = 512
#: Elements of the map that identifies probes.
MOST_PROBES = 1 << 14
_PERF_TYPE_TRACEPOINT = 2
_HEAD = struct.Struct("=IIII")


class BlockEvents:
    """The probes of a run in blocks of functions; more can be added during the run.

    Creating it raises UnavailableError if tracefs has no kprobe_events, and if kprobes are
    disabled: the probes could be attached but would never fire.
    """

    def __init__(self, context: AttachContext) -> None:
        KPROBES.require(context.facts.root, "cannot record executed paths (--path)")
        folder = folder_with(context.facts.root, "kprobe_events")
        if folder is None:
            raise UnavailableError(
                "cannot record executed paths: tracefs has no kprobe_events",
                "mount tracefs",
            )
        self._folder = folder
        self._context = context
        self._machine = machine_named(context.facts.machine)
        self._owner = this_owner(os.getpid())
        self._guard: Guard | None = None
        self._fds: list[int] = []
        self._events = 0
        #: The map that identifies probes.
        self._numbers: BpfMap | None = None
        #: Attached probes, by their numbers.
        self.probes: list[tuple[int, BlockProbe]] = []

    def attach(self, probes: Sequence[tuple[int, BlockProbe]]) -> None:
        """Attach probes in blocks of functions, each with the id of its function.

        The attribute ``probes`` then has those that the kernel accepted. Raises UnavailableError if
        definitions cannot be written or guarded.
        """
        if self._guard is None:
            changes = self._context.system_changes
            self._guard = Guard(system_changes=changes, tracefs=self._folder, owner=self._owner)
        number = BLOCK_EVENTS + self._events
        self._events += 1
        self._guard.announce(number + 1)
        with hurried(len(probes), system_changes=self._context.system_changes):
            try:
                definitions = os.open(self._folder / "kprobe_events", os.O_WRONLY | os.O_APPEND)
            except OSError as error:
                raise UnavailableError(
                    f"{self._folder}/kprobe_events cannot be written: {error.strerror}",
                    "`dmesg` may report a lockdown",
                ) from error
            try:
                defined = 0
                for func_id, probe in probes:
                    if self._context.stopping():
                        break
                    placed = self._define(definitions, number, probe)
                    if placed is not None:
                        self._tell(func_id, placed)
                        defined += 1
            finally:
                os.close(definitions)
            if defined:
                self._connect(number)

    def _name(self, number: int) -> str:
        return f"rsnoop_{self._owner}/in{number}_{self._owner}"

    def _define(self, fd: int, number: int, probe: BlockProbe) -> BlockProbe | None:
        """Define a probe where the kernel accepts it; return the probe as placed, or None."""
        addresses = (probe.address, *probe.places)
        places = self._context.facts.kallsyms.probe_places(addresses)
        for address, place in zip(addresses, places, strict=True):
            if place is None:
                continue
            line = f"p:{self._name(number)} {place}\n"
            try:
                os.write(fd, line.encode())
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.EBUSY):
                    break
                continue
            if address != probe.address:
                return replace(probe, address=address, compare=None, places=())
            return probe
        return None

    def _tell(self, func_id: int, probe: BlockProbe) -> None:
        """Tell the BPF program what to do at a probe."""
        number, compare = len(self.probes), probe.compare
        known = () if compare is None else self._machine.conditions
        condition = known.index(compare.condition) + 1 if compare and compare.op == "ccmp" else 0
        value = _HEAD.pack(number, func_id, condition, probe.goes is not None)
        value += pack_operands(probe.operands, self._machine.pt_regs)
        if self._numbers is None:
            self._numbers = self._context.obj.map("path_probes")
        self._numbers.update(struct.pack("=Q", probe.address), value)
        if condition:  # the first number: no comparison was executed; the next: it was
            self.probes += [(func_id, replace(probe, held=held)) for held in (False, True)]
        else:
            self.probes.append((func_id, probe))

    def _connect(self, number: int) -> None:
        """Attach the program to an event and enable it."""
        path = self._folder / "events" / self._name(number) / "id"
        program = self._context.obj.program("rsn_block")
        use_link = self._context.features.cookie
        probes = PerfProbes(
            program.fd, _PERF_TYPE_TRACEPOINT, int(path.read_text()), use_link=use_link
        )
        (error,) = probes.attach([0], [0])
        if error:
            raise UnavailableError(
                f"the kernel refuses a program on a kprobe event: {os.strerror(error)}",
                "report this, with `uname -r`",
            )
        self._fds += [fd for fds in probes.take() for fd in fds if fd >= 0]

    def detach(self) -> None:
        """Detach all and have the definitions deleted. Idempotent."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)
        guard, self._guard = self._guard, None
        if guard:
            guard.finish()
