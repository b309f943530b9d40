# SPDX-License-Identifier: BSD-2-Clause
"""Injected probes: perf events and raw tracepoints that call the programs of probe.bpf.h.

If the kernel has attach cookies, one program serves all probes of a kind; otherwise each probe has
its own copy. Probes are attached before the traced functions: the kernel calls the handlers of an
address newest first, so a probe on an entry function finds the session that the function starts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retsnoop_py.attach.fentry import COUNT_SHIFT
from retsnoop_py.attach.guard import hurried
from retsnoop_py.attach.kprobe import pmu_type, return_config
from retsnoop_py.attach.plan import AttachContext
from retsnoop_py.errors import InputError, PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.libbpf import links
from retsnoop_py.probes.spec import Probe, ProbeKind
from retsnoop_py.text import counted

__all__ = ["InjectedProbes", "programs_of"]

#: enum perf_type_id: fixed by the kernel's ABI.
_PERF_TYPE_TRACEPOINT = 2
#: Bytes of each instruction.
_ARM64_INSN = 4


class _Way(NamedTuple):
    """The program for probes of a kind, and its type."""

    program: str
    prog_type: int


_KPROBE = _Way("rsn_probe_kprobe", links.PROG_KPROBE)
WAYS = {
    ProbeKind.KPROBE: _KPROBE,
    ProbeKind.KRETPROBE: _KPROBE,
    ProbeKind.RAWTP: _Way("rsn_probe_rawtp", links.PROG_RAW_TRACEPOINT),
    ProbeKind.TP: _Way("rsn_probe_tp", links.PROG_TRACEPOINT),
}


def programs_of(probes: Sequence[Probe]) -> set[str]:
    """Return the programs that ``probes`` need."""
    return {WAYS[probe.kind].program for probe in probes}


class _Attached(NamedTuple):
    """A probe's descriptors: its link and its perf event, or -1."""

    probe: Probe
    link: int
    event: int = -1


class InjectedProbes:
    """The ``probes`` of a run.

    ``refusals`` contains probes of globs and source lines that the kernel rejected, with the
    reasons.
    """

    def __init__(self, probes: Sequence[Probe], context: AttachContext) -> None:
        self._probes = probes
        self._context = context
        self._attached: list[_Attached] = []
        self.refusals: list[tuple[Probe, str]] = []

    @property
    def attached(self) -> list[Probe]:
        """The attached probes."""
        return [one.probe for one in self._attached]

    def attach(self) -> None:
        """Attach all probes; stop early when the run is stopping.

        Raises InputError, UnavailableError or PrivilegeError if the kernel rejects a probe that the
        user named, or all probes of a glob or line. Then no probe stays attached.
        """
        failed: dict[str, RetsnoopError] = {}
        try:
            with hurried(len(self._probes), system_changes=self._context.system_changes):
                for number, probe in enumerate(self._probes):
                    if self._context.stopping():
                        return
                    error = self._attach(number, probe)
                    if not error:
                        continue
                    refusal = refused(probe, error)
                    if not probe.spec.is_broad:
                        raise refusal
                    failed.setdefault(probe.spec.text, refusal)
                    self.refusals.append((probe, refusal.message.partition(": ")[2]))
            for probe in self.attached:
                failed.pop(probe.spec.text, None)
            for refusal in failed.values():
                raise refusal
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Detach all. Idempotent."""
        attached, self._attached = self._attached, []
        with hurried(len(attached), system_changes=self._context.system_changes):
            for one in reversed(attached):
                for fd in (one.link, one.event):
                    if fd >= 0:
                        os.close(fd)

    def misses(self) -> Iterator[str]:
        """Yield messages about hits that no program saw, in any thread.

        Call it before detaching.
        """
        for one in self._attached:
            if one.probe.kind not in (ProbeKind.RAWTP, ProbeKind.TP):
                (missed,) = links.missed_by_links([one.link])
                yield from _missed(missed, [one.probe])
        for probes, link in self._programs():
            yield from _missed(self._unrun(link), probes)

    def _programs(self) -> Iterator[tuple[list[Probe], int]]:
        """Yield the probes that each program serves, and a link of that program."""
        shared: dict[str, list[_Attached]] = {}
        for one in self._attached:
            if self._has_cookie(one.probe):
                shared.setdefault(WAYS[one.probe.kind].program, []).append(one)
            else:
                yield [one.probe], one.link
        for served in shared.values():
            yield [one.probe for one in served], served[0].link

    @staticmethod
    def _unrun(link: int) -> int:
        """Return how often a link's program was skipped because it was busy, if counted."""
        return links.unrun_by_links([link])[0]

    def _has_cookie(self, probe: Probe) -> bool:
        features = self._context.features
        return features.raw_cookie if probe.kind is ProbeKind.RAWTP else features.cookie

    def _attach(self, number: int, probe: Probe) -> int:
        """Attach a probe; return 0 or an errno."""
        way = WAYS[probe.kind]
        program = self._context.obj.program(way.program)
        counts = self._context.probe_counts
        cookie = number | (counts[number] + 1 << COUNT_SHIFT if counts else 0)
        if self._has_cookie(probe):
            return self._connect(cookie, probe, program.fd)
        fd = links.load_copy(program, way.prog_type, cookie)
        if fd < 0:
            return -fd
        try:
            return self._connect(cookie, probe, fd)
        finally:
            os.close(fd)  # the attachment keeps the program

    def _connect(self, cookie: int, probe: Probe, prog_fd: int) -> int:
        if probe.kind is not ProbeKind.RAWTP or probe.tracepoint is None:
            return self._connect_event(cookie, probe, prog_fd)
        told = cookie if self._has_cookie(probe) else None
        fd = links.attach_raw_tracepoint(prog_fd, probe.tracepoint.name, told)
        if fd < 0:
            return -fd
        self._attached.append(_Attached(probe, fd))
        return 0

    def _connect_event(self, cookie: int, probe: Probe, prog_fd: int) -> int:
        probes = links.PerfProbes(prog_fd, *_event_of(probe), use_link=self._has_cookie(probe))
        (error,) = probes.attach([probe.address], [cookie])
        if not error:
            (link,), (event,) = probes.take()
            self._attached.append(_Attached(probe, link, event))
        return error


def _missed(count: int, probes: Sequence[Probe]) -> Iterator[str]:
    """Yield the message about ``count`` hits of one of ``probes``; nothing for 0."""
    if count:
        others = len(probes) - 1
        more = f" or {counted(others, 'other probe')}" if others else ""
        yield f"{counted(count, 'hit')} of '{probes[0].label}'{more} not seen: {_BUSY}"


_BUSY = "another probe or a BPF program was running on that CPU"


def _event_of(probe: Probe) -> tuple[int, int]:
    """Return type and config of the perf event of a probe."""
    if probe.kind is ProbeKind.TP:
        return _PERF_TYPE_TRACEPOINT, probe.event
    return pmu_type(), return_config() if probe.kind is ProbeKind.KRETPROBE else 0


def _is_unaligned(probe: Probe) -> bool:
    """Return True if no instruction can begin there; the kernel returns EINVAL on arm64."""
    return os.uname().machine == "aarch64" and probe.address % _ARM64_INSN != 0


def refused(probe: Probe, error: int) -> RetsnoopError:
    """Return the error for a probe that the kernel rejected with errno ``error``."""
    what, place = f"-J {probe.spec.text}", probe.label.partition(":")[2]
    name = f"(-{errno_name(error)})"
    if error in (errno.EPERM, errno.EACCES):
        return PrivilegeError(
            f"{what}: the kernel forbids it {name}",
            "run as root, or after `sysctl kernel.perf_event_paranoid=2`",
        )
    if error in (errno.EMFILE, errno.ENFILE):
        return UnavailableError(
            f"{what}: no file descriptors are left {name}", "allow more open files: `ulimit -n`"
        )
    if probe.tracepoint:
        return UnavailableError(
            f"{what}: the kernel does not allow BPF programs on '{place}' {name}",
            "choose another tracepoint, or a function: kprobe:NAME",
        )
    if error == errno.EILSEQ or (error == errno.EINVAL and _is_unaligned(probe)):
        return InputError(
            f"{what}: {place} is inside an instruction {name}",
            f"give the offset of an instruction; `objdump -d` shows those of {probe.function}",
        )
    return InputError(
        f"{what}: the kernel rejects a probe at {place} {name}", "choose another place"
    )
