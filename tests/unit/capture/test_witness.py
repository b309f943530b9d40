# SPDX-License-Identifier: BSD-2-Clause
"""Records of the witness as values; the object and we agree on their layout."""

from __future__ import annotations

import socket
import struct

from retsnoop_py.capture.witness import _EVENT, _PLACE, _PLACES, _STATE, Decoder, Event, Kind
from retsnoop_py.cause.events import Address, Denied, Place
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
    for name, size in (("witness_state", _STATE.size), ("witness_place", _PLACE.size)):
        struct_type = btf.find(name, BtfKind.STRUCT)
        assert struct_type is not None
        assert btf.size_of(struct_type) == size
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


def test_the_error_of_a_connection_that_was_made_meanwhile() -> None:
    decoder = Decoder("x86_64")
    raw = (
        struct.pack("=H", socket.AF_INET) + struct.pack(">H", 80) + bytes([127, 0, 0, 1]) + bytes(8)
    )
    begun = failed(raw, number=number("connect"), result=-115, flags=4, bytes=16, arg0=5)
    fetched = failed(number=number("getsockopt"), result=-111, arg0=5, arg1=1, arg2=4)
    decoder.feed(begun + fetched)
    (_, found) = decoder.found(0).calls
    assert (found.name, found.error) == ("connect", 111)
    assert found.address == Address(socket.AF_INET, "127.0.0.1", 80)


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
    assert reason.text == "Signal SIGSEGV killed tool (PID 7): nothing is mapped at 0x10."


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
    values = [0] * 75
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
