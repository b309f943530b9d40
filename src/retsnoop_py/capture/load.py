# SPDX-License-Identifier: BSD-2-Clause
"""Open the BPF object of a run, configure it, and load it."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from errno import ENOENT
from functools import cached_property, partial
from typing import TYPE_CHECKING

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.capture.configure import (
    EXIT_PROGRAM,
    TREE_PROGRAM,
    LoadSpec,
    configure,
    fill,
)
from retsnoop_py.capture.message_sources import MessageSources, message_sources
from retsnoop_py.capture.process_ids import ProcessIds, process_ids
from retsnoop_py.errors import BpfError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.switches import JIT
from retsnoop_py.libbpf.closing import Closing, close_all
from retsnoop_py.libbpf.links import unrun
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.session.layouts import btf_layouts
from retsnoop_py.settings import FilterSettings, Settings, TransportKind
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan
    from retsnoop_py.probes.spec import Probe
    from retsnoop_py.session.layouts import Layout


__all__ = ["LoadedObject", "load", "without_fetch", "without_kfuncs"]

_OBJECT = "trace.bpf.o"
#: struct bpf_insn: code, registers, offset, immediate.
_INSN = struct.Struct("<BBhi")
#: ``BPF_STX | BPF_ATOMIC`` of 4 and of 8 bytes; the immediates of a fetching and a plain addition.
_ATOMIC, _ADD_FETCH, _ADD = (0xC3, 0xDB), 1, 0
#: BUCKET_SIZE of table.bpf.h.
_BUCKET_SIZE = 8
#: ``SHF_EXECINSTR``
_IS_CODE = 4
#: The kernel functions that the object calls.
_KFUNCS = (b"bpf_rdonly_cast", b"bpf_session_is_return", b"bpf_session_is_return___ctx")


def without_fetch(original: bytes) -> bytes:
    """Return the BPF object ``original`` with plain atomic additions, which return no old value.

    A kernel without fetching additions rejects any program that contains one, even in dead code.
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


def without_kfuncs(original: bytes) -> bytes:
    """Return the BPF object ``original`` with names of kernel functions that do not exist.

    Then libbpf finds none of the functions, and the object works without them, as on kernels that
    lack them. A kernel without the BPF JIT rejects any program that contains such a call.
    """
    image = original
    for name in _KFUNCS:
        image = image.replace(b"\0%s\0" % name, b"\0nil%s\0" % name[3:])
    return image


class ObjectTypes:
    """The types of the object's records and maps from its BTF, read on first use."""

    def __init__(self, obj: BpfObject) -> None:
        self._obj = obj

    @cached_property
    def btf(self) -> Btf:
        """The object's BTF."""
        return Btf(self._obj.btf())

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of the records."""
        return btf_layouts(self.btf)


class LoadedObject(Value):
    """A loaded object, True if its events go through a perf buffer, and its own links.

    ``filters`` are the filters of the settings with the kernel's process ids. ``follows``: children
    of the command are traced, too.
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
        """Follow process ``pid``, the command, and its descendants.

        Raises UnavailableError if the kernel does not report its own id of the process.
        """
        kernel_id = self.ids.kernel_id(pid)
        if kernel_id is None:
            raise UnavailableError(
                "the kernel does not tell its own id of the command's process, which is in a PID "
                "namespace",
                "run retsnoop-py outside the container, or in a container with --pid=host",
            )
        self.obj.map("tree").update(struct.pack("=I", kernel_id), bytes(8))

    def spare(self, pid: int) -> None:
        """Exclude process ``pid`` from tracing, because it belongs to retsnoop-py."""
        kernel_id = self.ids.kernel_id(pid)
        if kernel_id is None:  # the process is newer than the list of this PID namespace
            kernel_id = process_ids(self.obj).kernel_id(pid)
        own = memoryview(self.obj.global_bytes(".bss", "own_tgids")).cast("B").cast("I")
        free = [place for place, known in enumerate(own) if known in (0, kernel_id)]
        if kernel_id and free:
            own[free[0]] = kernel_id

    def failed_short(self) -> int:
        """Return how many calls of entry functions failed but were too short for ``-L``."""
        return int.from_bytes(self.obj.global_bytes(".bss", "failed_short")[:], sys.byteorder)

    def calls(self) -> int:
        """Return how many calls of entry functions the kernel side has followed."""
        members = {member.name: member for member in self.types.btf.struct("bucket") or ()}
        start = members["runs"].bit_offset // 8
        buckets = self.obj.map("buckets")
        data, size = buckets.read_all(), buckets.value_size
        end = start + _BUCKET_SIZE * 4
        found = (data[at + start : at + end] for at in range(0, len(data), size))
        return sum(map(sum, map(struct.Struct(f"={_BUCKET_SIZE}I").unpack, found)))

    def stats(self) -> bytes:
        """Return ``struct rsn_stats`` as bytes."""
        return bytes(self.obj.global_bytes(".bss", "stats"))

    def unseen_forks(self) -> int:
        """Return how many forks, of followed and other processes, no program saw.

        With preemptible tracepoints (7.x), the kernel skips a program for a thread if another,
        preempted thread is inside the program on the same CPU.
        """
        return unrun(self.obj.program(TREE_PROGRAM)) if self.follows else 0

    def unseen_exits(self) -> int:
        """Return how many exits of threads no program saw, for the same reason."""
        return unrun(self.obj.program(EXIT_PROGRAM))

    def detach(self) -> None:
        """Detach the task programs. Idempotent."""
        close_all(self.links)

    def close(self) -> None:
        """Detach the task programs and free the object. Idempotent."""
        self.detach()
        self.obj.close()


def advise(error: BpfError, facts: KernelFacts) -> None:
    """Set the hint of a load error for this kernel: enable the JIT, or use a newer kernel.

    Linux 5.4 may have BTF, but its verifier rejects code that later verifiers accept. With the JIT
    off, 7.3 on arm64 rejects the programs of kprobe.multi.
    """
    if error.exit_status != UnavailableError.exit_status:
        return
    if JIT.is_off(facts.root) and "JIT" in error.log:
        error.hint = f"the kernel does not interpret this BPF program: run `{JIT.command}`"
    else:
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

    ``captures`` contains the arguments to record. Raises BpfError with the verifier's log if the
    kernel rejects the programs, and UnavailableError if the kernel lacks the transport that the
    user requires.
    """
    is_perf = _choose_perf_buffer(settings, features)
    sources = MessageSources()
    if settings.messages:
        sources = message_sources(facts, features, plan.functions)
    spec = LoadSpec(plan, settings, features, facts, tuple(probes), captures, sources)
    is_as_built = spec.has_fetch and spec.has_kfuncs
    obj = _opened(None if is_as_built else partial(_for_this_kernel, spec))
    try:
        configure(obj, spec, is_perf=is_perf)
        obj.load()
        ids = process_ids(obj)
        filters = ids.filters(settings.filters)
        fill(obj, spec, filters)
        links = (
            *(obj.program(name).attach() for name in spec.task_programs),
            *sources.attached(obj, settings),
        )
        follows = bool(settings.command)
        loaded = LoadedObject(obj, ObjectTypes(obj), is_perf, links, ids, filters, follows)
        if not (settings.trace_self or os.getpid() in settings.filters.pids):
            loaded.spare(os.getpid())
        return loaded
    except BaseException as error:
        if isinstance(error, BpfError):
            advise(error, facts)
        obj.close()
        raise


def _for_this_kernel(spec: LoadSpec, image: bytes) -> bytes:
    """Return the BPF object ``image`` without code that this kernel would reject."""
    if not spec.has_fetch:
        image = without_fetch(image)
    return image if spec.has_kfuncs else without_kfuncs(image)


def _choose_perf_buffer(settings: Settings, features: Features) -> bool:
    wanted = settings.bpf.transport
    if wanted is TransportKind.RINGBUF and not features.ringbuf:
        raise UnavailableError(
            "this kernel has no BPF ring buffer, which requires Linux 5.8",
            "leave out -C bpf.transport=ringbuf; retsnoop-py then uses the perf buffer",
        )
    return wanted is TransportKind.PERFBUF or not features.ringbuf
