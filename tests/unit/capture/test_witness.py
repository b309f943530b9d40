# SPDX-License-Identifier: BSD-2-Clause
"""Records of the witness as values; the object and we agree on their layout."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from retsnoop_py.capture import witness
from retsnoop_py.capture.witness import (
    _EVENT,
    _FAULT,
    _LIMITS,
    _PLACE,
    _PLACES,
    _STATE,
    CallsByThread,
    Decoder,
    Event,
    Kind,
)
from retsnoop_py.cause.events import Address, Deferred, Denied, Mapping, Place
from retsnoop_py.cause.killed import killed
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf import Kind as BtfKind
from retsnoop_py.kernel.syscalls import system_calls
from retsnoop_py.libbpf.object import OBJECTS, BpfObject


def record(kind: Kind, rest: bytes = b"", **fields: int | bytes) -> bytes:
    values = dict.fromkeys(Event._fields, 0) | {"comm": b"tool", "tid": 7, "tgid": 7}
    values |= {"type": kind, "size": _EVENT.size + len(rest)} | fields
    return _EVENT.pack(*values.values()) + rest


def failed(names: bytes = b"", *places: tuple[int, ...], **fields: int | bytes) -> bytes:
    """The record of a call, its state all zero; its places in the order of struct witness_place."""
    raw = b"".join(_PLACE.pack(*one) for one in places).ljust(_PLACES * _PLACE.size, b"\0")
    return record(Kind.CALL, bytes(_STATE.size) + raw + names, **fields)


def text(*parts: str | bytes) -> bytes:
    raw = [one.encode() if isinstance(one, str) else one for one in parts]
    return b"".join(one + b"\0" for one in raw)


def number(name: str) -> int:
    return next(at for at, one in system_calls("x86_64").items() if one.name == name)


def test_the_layout_is_that_of_the_object() -> None:
    with BpfObject(OBJECTS / "witness.bpf.o") as obj:
        btf = Btf(obj.btf())
    found = btf.find("witness_event", BtfKind.STRUCT)
    assert found is not None
    assert btf.size_of(found) == _EVENT.size
    names = [one.name for one in btf.members(found)]
    spread = [f"arg{at}" for at in range(6)]
    assert [*names[:9], *spread, *names[10:]] == list(Event._fields)
    assert names[9] == "args"
    sizes = {"witness_state": _STATE, "witness_place": _PLACE, "witness_fault": _FAULT}
    for name, layout in sizes.items():
        struct_type = btf.find(name, BtfKind.STRUCT)
        assert struct_type is not None
        assert btf.size_of(struct_type) == layout.size
    call = btf.find("witness_call", BtfKind.STRUCT)
    assert call is not None
    names = next(one for one in btf.members(call) if one.name == "names")
    assert names.bit_offset == 8 * (_EVENT.size + _STATE.size + _PLACES * _PLACE.size)


ROOT, CWD, FOLDER, FILE = 7, 6, 0o040755, 0o100644


def test_a_failing_call_with_its_texts_and_places() -> None:
    decoder = Decoder("x86_64")
    names = text("f", "sub", "srv", "conf", "srv")
    places = (1, ROOT, 0, FOLDER, 0), (2, CWD, 8, FOLDER, 0), (3, 0, 9, FOLDER, 0)
    at = {"number": number("openat"), "mask": 2, "arg0": 3, "flags": 2, "uid": 5}
    decoder.feed(failed(names, *places, result=-13, **at))
    (found,) = decoder.found(0).calls
    assert (found.name, found.error, found.texts) == ("openat", 13, ((1, "f"),))
    assert (found.cwd, found.root, found.is_filtered, found.uid) == ("/srv/sub", "", True, 5)
    assert found.place(0) == Place("/srv/conf", FOLDER, 3)


def test_places_that_no_path_leads_to() -> None:
    decoder = Decoder("x86_64")
    pipe, gone, deep = (9, 0, 0, 0o010600, 2), (8, CWD, 4, FOLDER, 4), (7, 2, 3, FILE, 1)
    decoder.feed(failed(text("sub", "ab"), pipe, gone, deep, result=-9, number=number("splice")))
    (found,) = decoder.found(0).calls
    assert found.cwd is None
    assert found.place(0) == Place(None, 0o010600, 9, is_detached=True)
    assert found.place(2) == Place(None, FILE, 7)


def test_names_keep_bytes_that_are_not_utf_8() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(failed(text(b"caf\xe9"), mask=1, result=-2, number=number("open")))
    (found,) = decoder.found(0).calls
    assert found.texts == ((0, "caf\udce9"),)


def test_an_address() -> None:
    decoder = Decoder("x86_64")
    raw = (
        struct.pack("=H", socket.AF_INET) + struct.pack(">H", 80) + bytes([127, 0, 0, 1]) + bytes(8)
    )
    call = failed(raw, number=number("bind"), result=-98, flags=4, bytes=16)
    decoder.feed(call)
    assert decoder.found(0).calls[0].address == Address(socket.AF_INET, "127.0.0.1", 80)


def test_texts_ends_and_signals() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(
        record(Kind.TEXT, b"ls: no\n".ljust(512, b"\0"), number=2, bytes=7)
        + record(Kind.SIGNAL, number=11, arg0=1, arg1=0x10, arg2=7)
        + record(Kind.EXIT, result=11)
    )
    found = decoder.found(3)
    assert (found.written[0].text, found.written[0].stream) == ("ls: no\n", 2)
    assert (found.ends[0].status, found.ends[0].signal, found.lost) == (0, 11, 3)
    reason = killed(found, found.ends[0])
    assert reason is not None
    assert reason.text == (
        "Signal SIGSEGV killed tool (PID 7): it used the address 0x10, and nothing is mapped "
        "there. This is probably a null pointer."
    )


def test_what_is_known_of_a_fault() -> None:
    mapping = (0x5000, 0x7000, 3, 0x1000, 100)
    values = (0x1234, 9, number("chdir"), 1, 2, 3, 4, 2, 1, 5, 6, b"f")
    fault = _FAULT.pack(*values, *mapping, b"data", *[0] * 5, b"")
    decoder = Decoder("x86_64")
    decoder.feed(record(Kind.SIGNAL, fault, number=7, arg0=2))
    found = decoder.found(0).signals[0].fault
    assert found is not None
    assert (found.instruction, found.stack, found.call) == (0x1234, 9, "chdir()")
    assert (found.limit_cpu, found.hard_limit_cpu) == (1, 2)
    assert (found.limit_stack, found.limit_file) == (3, 4)
    assert (found.access, found.is_in_call, found.descriptor, found.mode) == (2, True, 5, 6)
    assert (found.file, found.at, found.code) == ("f", Mapping(*mapping, "data"), Mapping())


def test_the_last_signal_that_stopped_a_process() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(record(Kind.SIGNAL, number=19, arg2=99) + record(Kind.SIGNAL, number=18))
    assert decoder.stop_of(7) == (19, 99)
    assert decoder.stop_of(8) is None


def test_floods_of_processes_and_signals_keep_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that forks, or signals itself, without end filled the memory of ``why``."""
    monkeypatch.setattr(witness, "_KEPT_CALLS", 10)
    monkeypatch.setattr(witness, "_KEPT_PROCESSES", 10)
    decoder = Decoder("x86_64")
    for one in range(100):
        decoder.feed(
            record(Kind.FORK, number=one)
            + record(Kind.SIGNAL, number=10, arg2=one, time=one)
            + record(Kind.OOM, tgid=one, arg0=1)
            + record(Kind.EXIT, tgid=one, time=one)
        )
    decoder.feed(record(Kind.FORK, number=95))
    found = decoder.found(0)
    newest = list(range(90, 100))
    assert [one.pid for one in found.ends] == newest
    assert [one.time for one in found.signals] == newest
    assert list(found.victims) == newest
    assert sorted(found.parents) == newest
    assert list(found.parents)[-1] == 95


def test_who_killed_it() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(
        record(Kind.SIGNAL, number=9, arg2=99, comm=b"killer") + record(Kind.EXIT, result=9)
    )
    found = decoder.found(0)
    reason = killed(found, found.ends[0])
    assert reason is not None
    assert "killer (PID 99) sent the signal" in reason.text
    decoder.feed(record(Kind.OOM))
    reason = killed(decoder.found(0), found.ends[0])
    assert reason is not None
    assert "memory ran out" in reason.text


def test_what_a_process_had_and_was_allowed() -> None:
    values: list[int | bytes] = [0] * 82
    values[-1] = b""
    values[14:16] = 16, 1024  # RLIMIT_NOFILE
    values[32:45] = 1 << 21, 4711, 5, 10, 20, 30, 1, 7, 99, 98, 2, 50, 60
    state = _STATE.pack(*values)
    call = record(
        Kind.CALL,
        state + bytes(_PLACES * _PLACE.size),
        number=number("socket"),
        result=-24,
        flags=8,
        time=9,
    )
    denied = record(Kind.DENIED, number=21, arg0=2, arg1=1, time=6)
    decoder = Decoder("x86_64")
    decoder.feed(call + denied)
    found = decoder.found(0)
    (one,) = found.calls
    assert one.was_entered is True
    assert one.state is not None
    assert one.state.limits[7] == (16, 1024)
    assert (one.state.capabilities, one.state.cgroup, one.state.begin) == (1 << 21, 4711, 5)
    assert (one.state.namespace, one.state.mappings) == (1, 7)
    assert (one.state.groups, one.state.network, one.is_elsewhere) == ((50, 60), 98, True)
    assert found.denied == [Denied(6, 7, 21, 1, True)]


def test_what_was_written_to_a_setting_and_what_it_takes() -> None:
    handlers = {1: "proc_dointvec_minmax", 2: "proc_doulongvec_minmax", 3: "neigh_proc"}
    decoder = Decoder("x86_64", handlers.get)
    low, high = (1 << 64) - 1000, 7 << 32 | 1000  # what lies behind an int is not its own
    for handler, flags in ((1, 3), (2, 2), (3, 3), (0, 0)):
        values = [*[0] * 76, handler, low, high, flags, 3, b"5\n\0rest"]
        state = _STATE.pack(*values)
        names = bytes(_PLACES * _PLACE.size)
        decoder.feed(record(Kind.CALL, state + names, number=number("write"), result=-22))
    states = [one.state for one in decoder.found(0).calls]
    assert [one.bounds for one in states if one] == [(-1000, 1000), (None, high), None, None]
    assert {one.written for one in states if one} == {b"5\n\0"}


def test_a_call_that_was_not_begun() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(failed(number=number("socket"), result=-1, flags=2 | 16))
    decoder.feed(failed(number=number("socket"), result=-1, flags=2))
    assert [one.was_entered for one in decoder.found(0).calls] == [False, None]


def test_the_tables_of_both_machines() -> None:
    x86, arm = system_calls("x86_64"), system_calls("aarch64")
    assert (x86[321].name, arm[280].name) == ("bpf", "bpf")
    assert x86[number("openat")].texts == (1,)
    assert all(at not in x86 or x86[at].name == arm[at].name for at in arm if at >= 424)
    assert system_calls("riscv64") == {}


def test_an_error_that_was_read_from_a_socket_is_that_of_the_call_that_began_it() -> None:
    address = struct.pack(">HBBBB", 80, 127, 0, 0, 1)
    begun = failed(
        struct.pack("=H", socket.AF_INET) + address + bytes(120),
        number=number("connect"),
        result=-errno.EINPROGRESS,
        arg0=3,
        flags=4,
        bytes=8,
    )
    read = failed(number=number("getsockopt"), result=-errno.ECONNREFUSED, arg0=3, flags=32)
    other = failed(number=number("getsockopt"), result=-errno.ECONNREFUSED, arg0=4, flags=32)
    decoder = Decoder("x86_64")
    decoder.feed(begun + read + other)
    _, found, alone = decoder.found(0).calls
    assert (found.name, found.error) == ("connect", errno.ECONNREFUSED)
    assert found.address == Address(socket.AF_INET, "127.0.0.1", 80)
    assert found.deferred is Deferred.SOCKET_ERROR
    assert (alone.name, alone.address) == ("getsockopt", None)


def test_a_completion_of_io_uring_is_a_failure_of_its_request() -> None:
    decoder = Decoder("x86_64")
    decoder.feed(failed(number=18, result=-2, flags=64) + failed(number=200, result=-9, flags=64))
    known, unknown = decoder.found(0).calls
    assert (known.name, known.error, known.deferred) == ("io_uring openat", 2, Deferred.COMPLETION)
    assert (unknown.name, unknown.error) == ("io_uring request", 9)


def at(time: int, begin: int, tid: int = 7, result: int = -2, flags: int = 0) -> bytes:
    """A failed call of a thread from ``begin`` to ``time``."""
    raw = bytearray(failed(time=time, tid=tid, result=result, number=number("openat"), flags=flags))
    offset = _EVENT.size + struct.calcsize(f"={2 * _LIMITS + 2}Q")
    struct.pack_into("=Q", raw, offset, begin)
    return bytes(raw)


def by_thread(data: bytes) -> CallsByThread:
    found = CallsByThread()
    Decoder("x86_64", by_thread=found).feed(data)
    return found


def test_the_call_around_a_session_is_the_one_that_began_before_and_returned_after_it() -> None:
    calls = by_thread(at(100, 50) + at(110, 60, tid=8, result=-4) + at(300, 250, result=-3))
    first, other = calls.around(7, 60, 90), calls.around(8, 60, 90)
    again, later = calls.around(7, 91, 92), calls.around(7, 260, 300)
    assert first is not None
    assert first == again
    assert other is not None
    assert later is not None
    assert (first.error, other.error, later.error) == (2, 4, 3)


def test_no_call_is_taken_for_another() -> None:
    calls = by_thread(at(300, 250) + at(400, 350, flags=64))
    assert calls.around(7, 100, 200) is None, "it succeeded: the failed one began later"
    assert calls.around(9, 260, 270) is None, "another thread"
    assert calls.around(7, 260, 270) is not None
    assert calls.around(7, 290, 310) is None, "it has not returned"
    assert calls.around(7, 360, 380) is None, "a completion of io_uring"


def test_it_is_known_where_a_call_may_have_been_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "_MOST_BY_THREAD", 2)
    calls = by_thread(at(100, 50) + at(110, 60, tid=8) + at(300, 250) + at(310, 305))
    assert calls.around(8, 60, 90) is not None
    assert not calls.has_dropped(8, 90)
    assert calls.around(7, 60, 90) is None
    assert calls.has_dropped(7, 90)
    assert calls.around(7, 306, 307) is not None
    assert not calls.has_dropped(7, 307)
