# SPDX-License-Identifier: BSD-2-Clause
"""Opening the BPF object of a run, having it told what it needs to know, and loading it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from errno import ENOENT
from functools import cached_property
from typing import TYPE_CHECKING

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.capture.configure import (
    EXIT_PROGRAM,
    TREE_PROGRAM,
    Asked,
    configure,
    fill,
)
from retsnoop_py.capture.message_sources import Closing, MessageSources, message_sources
from retsnoop_py.capture.process_ids import ProcessIds, process_ids
from retsnoop_py.errors import BpfError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.links import unrun
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.settings import FilterSettings, Settings, TransportKind
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan
    from retsnoop_py.probes.spec import Probe
    from retsnoop_py.session.layouts import Layout


__all__ = ["LoadedObject", "load", "without_fetch"]

_OBJECT = "trace.bpf.o"
#: struct bpf_insn: code, registers, offset, immediate.
_INSN = struct.Struct("<BBhi")
#: ``BPF_STX | BPF_ATOMIC`` of 4 and of 8 bytes, the immediate of such an addition, of a plain one.
_ATOMIC, _ADD_FETCH, _ADD = (0xC3, 0xDB), 1, 0
#: ``SHF_EXECINSTR``
_IS_CODE = 4


def without_fetch(original: bytes) -> bytes:
    """The BPF object ``original`` with atomic additions that do not give what was there before.

    A kernel without these refuses a program that has one anywhere, in code that never runs too.
    """
    image = bytearray(original)
    with open(os.memfd_create(_OBJECT), "r+b", buffering=0) as file:  # noqa: PTH123
        file.write(original)
        with ElfFile(_OBJECT, file.fileno()) as elf:
            code = [one for one in elf.sections.values() if one.flags & _IS_CODE]
    for section in code:
        for at in range(section.offset, section.offset + section.size, _INSN.size):
            number, registers, offset, operation = _INSN.unpack_from(image, at)
            if number in _ATOMIC and operation == _ADD_FETCH:
                _INSN.pack_into(image, at, number, registers, offset, _ADD)
    return bytes(image)


class ObjectTypes:
    """What the object's BTF says of its records and maps, read when it is first asked for."""

    def __init__(self, obj: BpfObject) -> None:
        self._obj = obj

    @cached_property
    def btf(self) -> Btf:
        """All of it."""
        return Btf(self._obj.btf())

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Those of the records."""
        from retsnoop_py.session.layouts import btf_layouts  # not before tracing begins

        return btf_layouts(self.btf)


class LoadedObject(Value):
    """A loaded object, whether its events go through a perf buffer, and its own links.

    ``filters`` are those of the settings with the kernel's ids of processes; ``follows``: whether
    children of the command are traced too.
    """

    obj: BpfObject
    types: ObjectTypes
    is_perf: bool
    links: tuple[Closing, ...]
    ids: ProcessIds
    filters: FilterSettings
    follows: bool

    def set_ready(self, ready: bool) -> None:
        """Open or close the gate in front of every probe."""
        self.obj.set_global(".bss", "ready", int(ready))

    def add_to_tree(self, pid: int) -> None:
        """Follow process ``pid``, a child of ours, and what descends from it.

        Raises UnavailableError where the kernel does not tell its own id of it.
        """
        kernel_id = self.ids.kernel_id(pid)
        if kernel_id is None:
            raise UnavailableError(
                "the kernel does not tell its own id of the command's process, which is in a PID "
                "namespace",
                "run retsnoop-py outside of the container, or in one with --pid=host",
            )
        self.obj.map("tree").update(struct.pack("=I", kernel_id), bytes(8))

    def stats(self) -> bytes:
        """``struct rsn_stats``, raw."""
        return bytes(self.obj.global_bytes(".bss", "stats"))

    def unseen_forks(self) -> int:
        """Forks whose children, of followed processes or of others, nothing looked at.

        Where tracepoints can be preempted (7.x) the kernel does not run a program for one thread
        that another one, preempted in it, keeps busy on that CPU.
        """
        return unrun(self.obj.program(TREE_PROGRAM)) if self.follows else 0

    def unseen_exits(self) -> int:
        """Exits of threads that nothing looked at, for the same reason."""
        return unrun(self.obj.program(EXIT_PROGRAM))

    def detach(self) -> None:
        """Detach the task programs. Idempotent."""
        for link in self.links:
            link.close()

    def close(self) -> None:
        """Detach the task programs and free the object. Idempotent."""
        self.detach()
        self.obj.close()


def blame_age(error: BpfError, facts: KernelFacts) -> None:
    """Say what to do about a kernel older than all that are tested, if that may be the reason.

    Linux 5.4 may have BTF, and has a verifier that refuses what later ones take.
    """
    if error.exit_status == UnavailableError.exit_status:
        error.hint = facts.too_old or error.hint


def _opened(change: Callable[[bytes], bytes] | None) -> BpfObject:
    try:
        return BpfObject(OBJECTS / _OBJECT, change)
    except BpfError as error:
        if error.errno != ENOENT:
            raise
        text = f"{_OBJECT} is missing from the installation"
        raise RetsnoopError(text, "run `make build`") from None


def load(
    plan: AttachPlan,
    settings: Settings,
    features: Features,
    facts: KernelFacts,
    probes: Sequence[Probe] = (),
    captures: CapturePlan | None = None,
) -> LoadedObject:
    """Load the programs of ``plan``'s rungs and of injected ``probes``.

    ``captures`` says what they note of arguments.

    Raises BpfError with the verifier's log where the kernel refuses them, UnavailableError where
    it lacks the transport the user insists on.
    """
    is_perf = _choose_perf_buffer(settings, features)
    sources = MessageSources()
    if settings.messages:
        sources = message_sources(facts, features, plan.functions)
    asked = Asked(plan, settings, features, facts, tuple(probes), captures, sources)
    obj = _opened(None if asked.has_fetch else without_fetch)
    try:
        configure(obj, asked, is_perf=is_perf)
        obj.load()
        ids = process_ids(obj)
        filters = ids.filters(settings.filters)
        fill(obj, asked, filters)
        links = (
            *(obj.program(name).attach() for name in asked.task_programs),
            *sources.attached(obj, settings),
        )
    except BaseException as error:
        if isinstance(error, BpfError):
            blame_age(error, facts)
        obj.close()
        raise
    return LoadedObject(obj, ObjectTypes(obj), is_perf, links, ids, filters, bool(settings.command))


def _choose_perf_buffer(settings: Settings, features: Features) -> bool:
    wanted = settings.bpf.transport
    if wanted is TransportKind.RINGBUF and not features.ringbuf:
        raise UnavailableError(
            "this kernel has no BPF ring buffer (Linux 5.8 and later have it)",
            "leave out -C bpf.transport=ringbuf: the perf buffer is taken instead",
        )
    return wanted is TransportKind.PERFBUF or not features.ringbuf
