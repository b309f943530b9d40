# SPDX-License-Identifier: BSD-2-Clause
"""Attach in ways that libbpf does not support, and test features of the running kernel.

These are perf events in bulk, trampolines and tracing-multi links. Functions return a positive
errno, or 0 on success: the kernel may reject single functions, and the reason is part of the
result. A test closes its program or link at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.libbpf.object import FdLink, Program, check

#: enum bpf_prog_type, bpf_map_type and bpf_func_id of linux/bpf.h: fixed by the kernel's ABI.
PROG_KPROBE, PROG_TRACEPOINT, PROG_RAW_TRACEPOINT = 2, 5, 17
MAP_RINGBUF = 27
FUNC_GET_FUNC_IP = 173
FUNC_GET_ATTACH_COOKIE = 174
FUNC_GET_BRANCH_SNAPSHOT = 176


@contextmanager
def _silence() -> Iterator[None]:
    """Drop libbpf's messages: a rejection is an expected result here."""
    lib.rsn_log_start(0)
    try:
        yield
    finally:
        lib.rsn_log_clear()


def has_program_type(kind: int) -> bool:
    """Return True if the kernel has programs of this type, or if the test fails."""
    with _silence():
        return lib.libbpf_probe_bpf_prog_type(kind, ffi.NULL) != 0


def has_map(kind: int) -> bool:
    """Return True if the kernel has maps of this type."""
    with _silence():
        return lib.libbpf_probe_bpf_map_type(kind, ffi.NULL) == 1


def has_helper(number: int, prog_type: int = PROG_KPROBE) -> bool:
    """Return True if programs of this type may call helper ``number``.

    Also True if no program can be loaded at all, by libbpf's test.
    """
    with _silence():
        return lib.libbpf_probe_bpf_helper(prog_type, number, ffi.NULL) == 1


def load() -> int:
    """Load a kprobe program of two instructions; return 0 or an errno."""
    with _silence():
        return -lib.rsn_try_load()


def atomic_result() -> int:
    """Load a program with an atomic addition that returns the old value (``BPF_FETCH``)."""
    with _silence():
        return -lib.rsn_try_fetch()


def kfunc(btf_id: int) -> int:
    """Load a program that calls the kernel function ``btf_id``, which need not be a kfunc."""
    with _silence():
        return -lib.rsn_try_kfunc(btf_id)


def kprobe_multi(*, session: bool) -> int:
    """Try kprobe.multi or kprobe.session with an invalid address, so no function is hooked.

    The kernel checks the addresses last, so EFAULT means that the link type is supported.
    """
    with _silence():
        return -lib.rsn_try_kprobe_multi(session)


def fsession_multi(btf_id: int) -> int:
    """Attach fsession.multi to the function ``btf_id``, and detach at once."""
    with _silence():
        return -lib.rsn_try_fsession_multi(btf_id)


def fentry(btf_id: int) -> int:
    """Attach a program to the entry of the function ``btf_id``, and detach at once."""
    with _silence():
        return -lib.rsn_try_fentry(btf_id)


def kprobe(pmu_type: int, function: str) -> int:
    """Open a kprobe on ``function`` as a perf event, without enabling the event."""
    return -lib.rsn_try_kprobe(pmu_type, function.encode(errors="surrogateescape"))


def branches(cpu: int, flags: int) -> int:
    """Make a CPU record the branches of ``flags``, and stop at once."""
    fd = open_branches(cpu, flags)
    if fd < 0:
        return -fd
    os.close(fd)
    return 0


def open_branches(cpu: int, flags: int) -> int:
    """Open a perf event for a CPU's branch records, ``PERF_SAMPLE_BRANCH_*``; or return -errno."""
    return lib.rsn_open_branches(cpu, flags)


class Descriptors:
    """File descriptors that C code fills in, -1 for none; closed together or one by one."""

    def __init__(self, count: int) -> None:
        self.array = ffi.new("int[]", count)

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[int]:
        return iter(self.array)

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])

    def close(self) -> None:
        """Close all descriptors. Not idempotent."""
        lib.rsn_close_all(self.array, len(self.array))

    def close_at(self, index: int) -> None:
        """Close one descriptor and set it to -1."""
        lib.rsn_close_all(self.array + index, 1)
        self.array[index] = -1


def close_in_child(fds: Sequence[int]) -> bool:
    """Close ``fds`` in a child process that runs in the background; return True on success.

    If no process can be created, all stay open. Releasing a trampoline takes a tenth of a second,
    at least up to Linux 6.1.
    """
    return lib.rsn_close_in_child(ffi.new("int[]", fds), len(fds)) == 0


# --- single probes, a perf event each ------------------------------------------------------------


class PerfProbes:
    """A program's probes: a perf event for each, and a link if cookies exist (5.15).

    ``kind`` and ``config`` are those of ``struct perf_event_attr``.
    """

    def __init__(self, prog_fd: int, kind: int, config: int, *, use_link: bool) -> None:
        self._batch = ffi.new("struct rsn_kprobe_batch *")
        self._batch.prog_fd = prog_fd
        self._batch.pmu_type = kind
        self._batch.config = config
        self._batch.use_link = use_link
        #: Links and events of each call of :meth:`attach`, alternating.
        self._fds: list[Descriptors] = []

    def attach(self, addresses: Sequence[int], cookies: Sequence[int]) -> list[int]:
        """Attach to each of ``addresses``; return an errno for each."""
        count = len(addresses)
        address_array = ffi.new("uint64_t[]", addresses)
        cookie_array = ffi.new("uint64_t[]", cookies)
        errors = ffi.new("int[]", count)
        links, events = Descriptors(count), Descriptors(count)
        batch = self._batch
        batch.count, batch.addresses, batch.cookies = count, address_array, cookie_array
        batch.event_fds, batch.link_fds, batch.errors = events.array, links.array, errors
        lib.rsn_attach_kprobes(batch)
        self._fds += [links, events]
        return list(errors)

    def close_last(self, index: int) -> None:
        """Detach one probe of the last :meth:`attach`."""
        for fds in self._fds[-2:]:
            fds.close_at(index)

    def missed(self) -> Iterator[int]:
        """Yield how often each probe was missed, in the order of attaching.

        0 on kernels before 6.7 (3acf8ace6823).
        """
        for links in self._fds[::2]:
            yield from missed_by_links(links)

    def take(self) -> list[Descriptors]:
        """Return the open descriptors, links before their events; the caller must close them."""
        fds, self._fds = self._fds, []
        return fds


def missed_by_links(links: Sequence[int] | Descriptors) -> list[int]:
    """Return how often the probe of each perf link was missed (6.7); 0 for -1."""
    counts = ffi.new("uint64_t[]", len(links))
    lib.rsn_kprobes_missed(ffi.new("int[]", list(links)), len(links), counts)
    return list(counts)


def unrun_by_links(links: Sequence[int] | Descriptors) -> list[int]:
    """Return how often each link's program was skipped because another call was running.

    The kernel counts since 5.12 (9ed9e9ba2337), for kprobes since 6.7 (dd8657894c11).
    """
    counts = ffi.new("uint64_t[]", len(links))
    lib.rsn_link_prog_misses(ffi.new("int[]", list(links)), len(links), counts)
    return list(counts)


def unrun(program: Program) -> int:
    """Return how often ``program`` was skipped during itself or, for kprobes, any other (5.12)."""
    return lib.rsn_prog_misses(program.fd)


def unhooked(link_fd: int) -> int:
    """Return the calls that a kprobe.multi or kprobe.session link missed (6.7)."""
    return lib.rsn_kprobe_multi_misses(link_fd)


def load_copy(program: Program, prog_type: int, cookie: int) -> int:
    """Load a copy of the template ``program`` with ``cookie``; return its descriptor, or -errno."""
    return lib.rsn_load_copy(prog_type, *program.instructions, cookie)


def attach_raw_tracepoint(prog_fd: int, name: str, cookie: int | None) -> int:
    """Attach to a raw tracepoint; return the link, or -errno. A cookie requires Linux 6.10."""
    has_cookie = cookie is not None
    return lib.rsn_attach_raw_tracepoint(
        prog_fd, name.encode(errors="surrogateescape"), has_cookie, cookie or 0
    )


# --- kprobe events of tracefs --------------------------------------------------------------------


class EventPair:
    """Two events of tracefs, for entries and returns, shared by many functions.

    ``hooks``: maximum number of simultaneous calls of a function with probed returns.
    ``definitions``: ``kprobe_events``, opened for appending. ``programs``: descriptors for entries
    and for returns. ``returns_first``: the order of a function's probes.
    """

    def __init__(
        self, tracefs: Path, owner: str, number: int, definitions: int, programs: tuple[int, int]
    ) -> None:
        # The pair points to these strings.
        self._strings = tuple(
            ffi.new("char[]", text.encode(errors="surrogateescape"))
            for text in (str(tracefs), owner)
        )
        pair = self._pair = ffi.new("struct rsn_event_pair *")
        pair.tracefs, pair.owner = self._strings
        pair.number = number
        pair.definitions_fd = definitions
        pair.entry_prog_fd, pair.return_prog_fd = programs
        pair.fds = [-1] * 4

    def set_probes(self, *, hooks: int, use_links: bool) -> None:
        """Configure the probes; without links (5.15) returns come first."""
        pair = self._pair
        pair.max_active = hooks
        pair.use_links, pair.returns_first = use_links, not use_links

    def attach(self, places: Sequence[str]) -> list[int]:
        """Attach to more functions, each at ``SYMBOL+OFFSET``; return an errno for each."""
        errors = ffi.new("int[]", len(places))
        texts = [ffi.new("char[]", place.encode(errors="surrogateescape")) for place in places]
        lib.rsn_attach_events(self._pair, ffi.new("char *[]", texts), len(places), errors)
        return list(errors)

    def close(self) -> None:
        """Detach the programs. The definitions stay until the guard deletes them."""
        lib.rsn_close_events(self._pair)


# --- BPF trampolines ------------------------------------------------------------------------------


class FentryTarget(NamedTuple):
    """A function for fentry: BTF id, cookie, and offset of its result in the exit's context.

    ``result`` is in bytes, -1 for a void function.
    """

    btf_id: int
    cookie: int
    result: int


def module_btf_fd(module: str) -> int:
    """Return a descriptor of the kernel's BTF for a module, or -errno."""
    return lib.rsn_module_btf_fd(module.encode(errors="surrogateescape"))


def attach_fentry(
    templates: tuple[Program, Program], btf_fd: int, targets: Sequence[FentryTarget]
) -> tuple[list[int], Descriptors, Descriptors]:
    """Attach both sides of each target, or neither.

    Return the errno of each target, the links of entries and the links of exits. ``btf_fd``: BTF of
    the functions' module, 0 for vmlinux.
    """
    count = len(targets)
    batch = ffi.new("struct rsn_fentry_batch *")
    (batch.entry_insns, batch.entry_cnt), (batch.exit_insns, batch.exit_cnt) = [
        template.instructions for template in templates
    ]
    btf_ids = ffi.new("uint32_t[]", [target.btf_id for target in targets])
    cookies = ffi.new("uint64_t[]", [target.cookie for target in targets])
    results = ffi.new("int16_t[]", [target.result for target in targets])
    errors = ffi.new("int[]", count)
    entries, exits = Descriptors(count), Descriptors(count)
    batch.count, batch.btf_fd = count, btf_fd
    batch.btf_ids, batch.cookies, batch.results = btf_ids, cookies, results
    batch.entry_fds, batch.exit_fds, batch.errors = entries.array, exits.array, errors
    lib.rsn_attach_fentry(batch)
    return list(errors), entries, exits


def attach_tracing_multi(
    program: Program, attach_type: int, btf_ids: Sequence[int], cookies: Sequence[int]
) -> FdLink:
    """Attach one tracing-multi link to all functions ``btf_ids`` (7.x). Raise BpfError."""
    count = len(btf_ids)
    fd = lib.rsn_tracing_multi_link(
        program.fd,
        attach_type,
        ffi.new("uint32_t[]", btf_ids),
        ffi.new("uint64_t[]", cookies),
        count,
    )
    return FdLink(check(f"attach {program.section} to {count} functions", fd))
