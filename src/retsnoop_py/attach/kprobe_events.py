# SPDX-License-Identifier: BSD-2-Clause
"""Kprobe events of tracefs: many probes share an event, which attaches and detaches them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.guard import Guard, this_owner
from retsnoop_py.attach.kprobe import misses_of
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.tracefs import TRACEFS, folder_with
from retsnoop_py.libbpf.links import EventPair
from retsnoop_py.mechanism import Mechanism

#: Functions per call into C: between two calls, Ctrl-C is handled and progress shown.
_CHUNK = 8
#: Functions per pair of events.
_PER_PAIR = Mechanism.KPROBE_EVENTS.row.share
#: Compiled on use: few runs have any events.
_PROFILE = r"(?m)^\s+(in|out)(\d+)_(\d+_\d+)\s+\d+\s+(\d+)$"

#: Maximum and minimum of simultaneous calls per function, such as sleeping ones, with hooked
#: returns.
_MOST_HOOKS, _LEAST_HOOKS = 256, 32
#: Maximum memory of all hooks, in bytes; above, each function gets fewer hooks.
_HOOK_MEMORY = 64 << 20
#: Size of a hook: an instance (5.10-6.12), and since 6.7 two pointers per CPU (objpool).
_HOOK_BYTES, _HOOK_BYTES_PER_CPU = 96, 16


def hooks_for(functions: int, cpus: int) -> int:
    """Return the number of hooks per function; the kernel's default is twice the CPUs."""
    share = _HOOK_MEMORY // (functions * (_HOOK_BYTES + _HOOK_BYTES_PER_CPU * cpus))
    return max(min(share, _MOST_HOOKS), _LEAST_HOOKS, 2 * cpus)


class KprobeEventsAttachment:
    """Functions ``ids`` of ``plan``, attached by kprobe events with many probes each (5.4).

    The kernel calls the handlers of an address newest first, by the order of definition: see
    :class:`~retsnoop_py.attach.kprobe.KprobeAttachment` for which side is first. Definitions
    outlive their user, so a guard deletes them.
    """

    @classmethod
    def trial(cls, features: Features) -> int | str:
        """Open ``kprobe_events`` for writing; return 0, or the reason of the failure."""
        for tracefs in TRACEFS:
            path = features.root / tracefs / "kprobe_events"
            try:
                # Existing definitions are lost only if the file is truncated.
                os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                return f"/{tracefs}/kprobe_events: {error.strerror}"
            return 0
        return f"it requires {Mechanism.KPROBE_EVENTS.row.takes}"

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        folder = folder_with(context.facts.root, "kprobe_events")
        if folder is None:
            raise UnavailableError(
                "kprobe_events does not work here: tracefs has no kprobe_events",
                "leave out --attach, or see `retsnoop-py doctor`",
            )
        self._folder = folder
        self._plan = plan
        self._ids = ids
        self._context = context
        self._owner = this_owner(os.getpid())
        self._guard: Guard | None = None
        self._pairs: list[EventPair] = []
        self._members: list[list[int]] = []
        self.attached = 0
        self.refusals: dict[int, Refusal] = {}

    def attach(self) -> None:
        """Attach each function; rejected functions are skipped.

        Raises UnavailableError if the definitions cannot be written or guarded.
        """
        # arming a probe makes ftrace walk its records up to the highest address in use
        order = sorted(self._ids, key=lambda i: self._plan.functions[i].address)
        try:
            definitions = os.open(self._folder / "kprobe_events", os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise UnavailableError(
                f"{self._folder}/kprobe_events cannot be written: {error.strerror}",
                "`dmesg` may report a lockdown; --attach=kprobe needs no tracefs",
            ) from error
        try:
            self._attach_all(order, definitions)
        finally:
            os.close(definitions)

    def _attach_all(self, order: Sequence[int], definitions: int) -> None:
        changes = self._context.system_changes
        self._guard = Guard(system_changes=changes, tracefs=self._folder, owner=self._owner)
        for start in range(0, len(order), _CHUNK):
            if self._context.stopping():
                return
            if start % _PER_PAIR == 0:
                self._guard.announce(len(self._pairs) + 1)
                self._new_pair(definitions, len(order))
            self._attach_chunk(order[start : start + _CHUNK])
            self._context.progress(min(start + _CHUNK, len(order)), len(order))

    def _new_pair(self, definitions: int, functions: int) -> None:
        obj, use_links = self._context.obj, self._context.features.cookie
        programs = (obj.program("rsn_kprobe").fd, obj.program("rsn_kretprobe").fd)
        number = len(self._pairs)
        pair = EventPair(self._folder, self._owner, number, definitions, programs)
        hooks = hooks_for(functions, os.cpu_count() or 1)
        pair.set_probes(hooks=hooks, use_links=use_links)
        self._pairs.append(pair)
        self._members.append([])

    def _attach_chunk(self, ids: Sequence[int]) -> None:
        found = self._context.facts.kallsyms.probe_places(self._plan.addresses(ids))
        places = {i: place for i, place in zip(ids, found, strict=True) if place is not None}
        errors = dict.fromkeys(ids, errno.EADDRNOTAVAIL)
        errors.update(zip(places, self._pairs[-1].attach(list(places.values())), strict=True))
        for i, error in errors.items():
            if error:
                self.refusals[i] = refused(self._plan.functions[i], error)
            else:
                self._members[-1].append(i)
                self.attached += 1

    def misses(self) -> list[Miss]:
        """Return calls that no probe saw: nested in another probe, or without a free hook."""
        try:
            profile = (self._folder / "kprobe_profile").read_text()
        except OSError:
            return []
        functions = self._plan.functions
        counts = missed_probes(profile, self._owner)
        return [
            miss
            for number, place, *counted in counts
            for miss in misses_of(functions[self._members[number][place]], *counted)
        ]

    def detach(self, context: AttachContext) -> None:
        """Detach all, highest addresses first, and have definitions deleted. Idempotent."""
        pairs, self._pairs = self._pairs, []
        for done, pair in enumerate(reversed(pairs), 1):
            pair.close()
            context.progress(self.attached * done // len(pairs), self.attached)
        if self._guard:
            self._guard.finish()


def missed_probes(profile: str, owner: str) -> Iterable[tuple[int, int, int, int]]:
    """Return the counts in ``kprobe_profile`` for the probes of ``owner``.

    Each row is (number of the pair, place in it, missed entries, missed returns). The file has a
    line per probe, in the order of definition, with only the name of its event.
    """
    counts: dict[tuple[str, int], list[int]] = {}
    for side, number, whose, missed in re.findall(_PROFILE, profile):
        if whose == owner:
            counts.setdefault((side, int(number)), []).append(int(missed))
    for (side, number), entries in counts.items():
        if side == "in":
            returns = counts.get(("out", number), [])
            for place, both in enumerate(zip(entries, returns, strict=False)):
                yield number, place, *both
