# SPDX-License-Identifier: BSD-2-Clause
"""Record which rules reject a command's calls: audit records, filters, rule sets, dropped packets.

The programs are in separate objects (``src/bpf/refused.bpf.c`` and ``dropped.bpf.c``). If a kernel
rejects one, fewer records exist, and `why` then reports the security module without its profile.
nf_tables is a module, and its types are in the module's BTF. Without the module, or without BTF of
modules (before Linux 5.11), no packet is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from typing import Any, NamedTuple, Self

from retsnoop_py.cause.events import Audited, Dropped, Installed, Witnessed
from retsnoop_py.errors import BpfError
from retsnoop_py.kernel.syscalls import system_calls
from retsnoop_py.libbpf.closing import Closing, close_all
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.libbpf.reader import CountingRing
from retsnoop_py.value import replace

__all__ = ["RefusalDecoder", "Refusals"]

_TEXT_BYTES = 1024
#: struct refused_event and struct dropped_event.
REFUSED = Struct(f"=QIIIIII16s{_TEXT_BYTES}s")
DROPPED = Struct("=QIIQIIII16s64s64s")
_RING_BYTES, _QUEUE_BYTES = 1 << 20, 4 << 20
#: NFPROTO_* of linux/netfilter.h, as nft(8) writes them.
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
_AUDIT, _INSTALLED = 1, 2
#: The system calls of ``numbers`` in refused.bpf.c, in its order.
_RESTRICTING = ("landlock_restrict_self", "seccomp", "prctl")
_NFTABLES = Path("/sys/module/nf_tables")


class _Source(NamedTuple):
    """An object, its programs, and the reader of its records.

    Each group of programs is attached as a whole, or not at all.
    """

    file: str
    programs: tuple[tuple[str, ...], ...]
    feed: Callable[[bytes], None]


class RefusalDecoder:
    """Records as values."""

    def __init__(self, machine: str) -> None:
        self._names = {number: call.name for number, call in system_calls(machine).items()}
        self.audited: list[Audited] = []
        self.installed: list[Installed] = []
        self.dropped: list[Dropped] = []

    def numbers(self) -> list[int]:
        """Return the numbers of the calls that restrict a process, in the order of the object."""
        by_name = {name: number for number, name in self._names.items()}
        return [by_name.get(name, 0xFFFFFFFF) for name in _RESTRICTING]

    def refused(self, data: bytes) -> None:
        """Decode complete records of refused.bpf.o."""
        for fields in _whole(REFUSED, data):
            time, tid, tgid, kind, number, size, _unused, comm, text = fields
            if kind == _AUDIT:
                words = text[:size].decode(errors="replace")
                self.audited.append(Audited(time, tid, words))
            elif kind == _INSTALLED:
                self.installed.append(Installed(time, tgid, _text(comm), self._names[number]))

    def dropping(self, data: bytes) -> None:
        """Decode complete records of dropped.bpf.o."""
        for fields in _whole(DROPPED, data):
            time, tid, family, handle, is_policy, port, version, network, address, *names = fields
            table, chain = map(_text, names)
            host = ""
            if version in (4, 6):
                is_4 = version == 4
                host = inet_ntop(AF_INET if is_4 else AF_INET6, address[: 4 if is_4 else 16])
            words = _FAMILIES.get(family, str(family))
            self.dropped.append(
                Dropped(
                    time, tid, words, table, chain, handle, bool(is_policy), host, port, network
                )
            )


class Refusals:
    """Records of a run; :meth:`add_to` returns them after the context has ended."""

    def __init__(self, machine: str) -> None:
        self._decoder = RefusalDecoder(machine)
        self._stack = ExitStack()
        self._lost = 0
        self._readers: list[tuple[CountingRing, Callable[[bytes], None]]] = []
        #: The attachments; the caller may close them before the context ends.
        self.links: list[Closing] = []

    def __enter__(self) -> Self:
        groups = (("refused_audit",), ("refused_call",))
        self._open(_Source("refused.bpf.o", groups, self._decoder.refused))
        if _has_nftables():
            whole = (("dropped_end", "dropped_begin", "dropped_verdict"),)
            self._open(_Source("dropped.bpf.o", whole, self._decoder.dropping))
        return self

    def _open(self, source: _Source) -> None:
        with suppress(BpfError), ExitStack() as stack:
            obj = stack.enter_context(BpfObject(OBJECTS / source.file))
            if source.file.startswith("refused"):
                memory = obj.global_bytes(".rodata", "numbers")
                memory[:] = b"".join(one.to_bytes(4, "little") for one in self._decoder.numbers())
            obj.load()
            for names in source.programs:
                with suppress(BpfError), ExitStack() as whole:
                    links: list[Closing] = []
                    whole.callback(close_all, links)
                    links += (obj.program(name).attach() for name in names)
                    whole.pop_all()
                    self.links += links
            reader = stack.enter_context(
                CountingRing(obj, ring_bytes=_RING_BYTES, limit_bytes=_QUEUE_BYTES)
            )
            self._readers.append((reader, source.feed))
            self._stack.push(stack.pop_all())

    def __exit__(self, *_: object) -> None:
        readers, self._readers = self._readers, []
        close_all(self.links)
        with self._stack:
            for reader, feed in readers:
                reader.stop()
                while (data := reader.take(0)) is not None:
                    feed(data)
                self._lost += reader.lost()

    def add_to(self, witnessed: Witnessed) -> Witnessed:
        """Return ``witnessed`` with the recorded reasons for rejected calls."""
        found = self._decoder
        return replace(
            witnessed,
            audited=tuple(sorted(found.audited, key=lambda one: one.time)),
            installed=tuple(sorted(found.installed, key=lambda one: one.time)),
            dropped=tuple(sorted(found.dropped, key=lambda one: one.time)),
            lost=witnessed.lost + self._lost,
        )


def _has_nftables() -> bool:
    """Return True if nf_tables is loaded or built in; otherwise nf_tables drops no packet."""
    if _NFTABLES.exists():
        return True
    try:
        built_in = Path(f"/lib/modules/{os.uname().release}/modules.builtin").read_text()
    except OSError:
        return False
    return "/nf_tables.ko" in built_in


def _whole(layout: Struct, data: bytes) -> Iterator[tuple[Any, ...]]:
    return layout.iter_unpack(data[: len(data) // layout.size * layout.size])


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")
