# SPDX-License-Identifier: BSD-2-Clause
"""Unions read by their tag: from BTF made here and the rules that are shipped to what is shown."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.unit.kernel.btf_writer import BOOL, CHAR, SIGNED, BtfWriter
from tests.unit.session.records import facts, session

from retsnoop_py.kernel.arguments.model import ArgumentFacts
from retsnoop_py.kernel.arguments.semantics import Semantics, load_semantics
from retsnoop_py.kernel.arguments.specs import Limits, by_prototype
from retsnoop_py.kernel.arguments.types import TypeTable
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.recording.format import decode_header, encode_header
from retsnoop_py.render.args.decode import Decoder
from retsnoop_py.render.args.node import Plain, inline
from retsnoop_py.render.args.read import ArgumentReader
from retsnoop_py.session.model import Captured, CapturedValue, EventKind

ADDRESS = 0xFFFF888000001000
Member = tuple[str, int, int]


class Kernel:
    """The types that bpf(2) takes, cut down to what tells its unions apart."""

    def __init__(self) -> None:
        w = self.writer = BtfWriter()
        self.int = w.int("int", 4, SIGNED)
        self.u8, self.u16 = w.int("unsigned char", 1), w.int("short unsigned int", 2)
        self.u32, self.u64 = w.int("unsigned int", 4), w.int("long long unsigned int", 8)
        self.bool = w.int("_Bool", 1, BOOL)
        self.char = w.int("char", 1, SIGNED | CHAR)
        self.void = w.ptr(0)
        w.enum(
            "bpf_cmd",
            {
                "BPF_MAP_CREATE": 0,
                "BPF_MAP_LOOKUP_ELEM": 1,
                "BPF_MAP_GET_NEXT_KEY": 4,
                "BPF_PROG_LOAD": 5,
                "BPF_LINK_CREATE": 28,
                "BPF_NEWER": 99,
                "BPF_COMMON_ATTRS": 0x10000,
            },
        )
        w.enum("bpf_map_type", {"BPF_MAP_TYPE_HASH": 1, "BPF_MAP_TYPE_ARRAY": 2})
        w.enum("bpf_attach_type", {"BPF_TRACE_ITER": 28, "BPF_PERF_EVENT": 41, "BPF_OTHER": 60})
        self.attr = self._attr()
        self.pointer = w.ptr(self.attr)

    def struct(self, name: str, size: int, *members: Member) -> int:
        """Offsets are in bytes."""
        return self.writer.struct(name, size, [(n, t, at * 8) for n, t, at in members])

    def union(self, name: str, size: int, *members: tuple[str, int]) -> int:
        tail = [word for n, t in members for word in (self.writer.string(n), t, 0)]
        return self.writer.add(Kind.UNION, name, size, tail, len(members))

    def _attr(self) -> int:
        u32, u64 = self.u32, self.u64
        create = self.struct("", 8, ("map_type", u32, 0), ("key_size", u32, 4))
        which = self.union("", 8, ("value", u64), ("next_key", u64))
        element = self.struct("", 24, ("map_fd", u32, 0), ("key", u64, 8), ("", which, 16))
        load = self.struct("", 16, ("prog_type", u32, 0), ("insn_cnt", u32, 4), ("insns", u64, 8))
        info = self.struct("", 16, ("iter_info", u64, 0), ("iter_info_len", u32, 8))
        event = self.struct("", 8, ("bpf_cookie", u64, 0))
        more = self.union("", 16, ("target_btf_id", u32), ("", info), ("perf_event", event))
        link = self.struct("", 32, ("prog_fd", u32, 0), ("attach_type", u32, 8), ("", more, 16))
        members = ("", create), ("", element), ("", load), ("link_create", link)
        return self.union("bpf_attr", 32, *members)

    def table(self, semantics: Semantics | None = None) -> tuple[Btf, TypeTable]:
        return Btf(self.writer.bytes()), TypeTable(semantics or load_semantics())

    def shown(self, type_id: int, raw: bytes) -> str:
        btf, table = self.table()
        number = table.add(btf, type_id, max(len(raw), 1))
        return inline(Decoder(table.types, table.tags).node(number, raw))

    def call(
        self,
        function: str,
        parameters: Sequence[tuple[str, int]],
        *values: CapturedValue,
        semantics: Semantics | None = None,
    ) -> list[tuple[str, Plain]]:
        """Text and plain value of the arguments of a call; what a recording of it would say."""
        func = self.writer.func(function, self.int, parameters)
        btf, table = self.table(semantics)
        got = by_prototype(btf, func, "x86_64", Limits(), table).arguments
        told = ArgumentFacts((got,), (), tuple(table.types), tuple(table.tags))
        read = decode_header(encode_header(facts(arguments=told))).arguments
        assert read == told
        subject = session(args={1: Captured(EventKind.ARGS, 0, values)})
        found = ArgumentReader(told).arguments(subject, 1)
        assert found is not None
        return [(f"{name}={text}", plain) for name, text, plain, _ in found]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def word(value: int) -> CapturedValue:
    return CapturedValue(struct.pack("=Q", value & (1 << 64) - 1))


def pointing(raw: bytes, size: int = 32) -> CapturedValue:
    return CapturedValue(struct.pack("=Q", ADDRESS), raw.ljust(size, b"\0"))


CREATE = struct.pack("=II", 2, 4)
NEXT = struct.pack("=IxxxxQQ", 3, 0x10, 0x20)


@pytest.mark.parametrize(
    ("cmd", "raw", "text"),
    [
        (0, CREATE, "&{.map_type=BPF_MAP_TYPE_ARRAY,.key_size=4}"),
        (1, NEXT, "&{.map_fd=3,.key=16,.value=32}"),
        (4, NEXT, "&{.map_fd=3,.key=16,.next_key=32}"),
        (
            28,
            struct.pack("=III", 7, 0, 41) + bytes(4) + b"\5",
            "&{.link_create={.prog_fd=7,.attach_type=BPF_PERF_EVENT,.perf_event={.bpf_cookie=5}}}",
        ),
        (
            28,
            struct.pack("=III4xQI", 7, 0, 28, 16, 9),
            "&{.link_create={.prog_fd=7,.attach_type=BPF_TRACE_ITER,.iter_info=16,.iter_info_len=9}}",
        ),
    ],
)
def test_an_argument_tells_which_of_a_union_is_meant(
    kernel: Kernel, cmd: int, raw: bytes, text: str
) -> None:
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    (_, _), (attr, _) = kernel.call("f", parameters, word(cmd), pointing(raw))
    assert attr == f"attr={text}"


def test_the_tag_is_a_constant_by_name_and_flags_above_it_do_not_count(kernel: Kernel) -> None:
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    got = kernel.call("f", parameters, word(0), pointing(CREATE))
    assert got[0] == ("cmd=BPF_MAP_CREATE", "BPF_MAP_CREATE")
    assert got[1][1] == {"map_type": "BPF_MAP_TYPE_ARRAY", "key_size": 4}
    flagged = kernel.call("f", parameters, word(0x10000), pointing(CREATE))
    assert flagged[1] == got[1]


def test_a_function_tells_where_no_argument_does(kernel: Kernel) -> None:
    parameters = [("attr", kernel.pointer)]
    ((text, _),) = kernel.call("array_map_alloc_check", parameters, pointing(CREATE))
    assert text == "attr=&{.map_type=BPF_MAP_TYPE_ARRAY,.key_size=4}"


@pytest.mark.parametrize("cmd", [2, 99, 0x20000, 1 << 31])
def test_where_the_tag_is_not_known_all_of_the_union_is_shown(kernel: Kernel, cmd: int) -> None:
    """A command this kernel does not have, and one that is newer than what is known here."""
    all_of_it = kernel.call("g", [("attr", kernel.pointer)], pointing(CREATE))
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    got = kernel.call("f", parameters, word(cmd), pointing(CREATE))
    assert got[1] == all_of_it[0]
    assert all(member in got[1][0] for member in (".map_type", ".map_fd", ".prog_type", ".link_c"))


def test_without_semantics_everything_is_as_it_was(kernel: Kernel) -> None:
    """A recording of an older version, which has no tags."""
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    raw = struct.pack("=I", 2)
    got = kernel.call("f", parameters, word(0), pointing(raw), semantics=Semantics())
    assert [text for text, _ in got] == [
        "cmd=0",
        "attr=&{{.map_type=2},{.map_fd=2},{.prog_type=2},.link_create={.prog_fd=2}}",
    ]


def test_a_tag_that_was_not_captured_tells_nothing(kernel: Kernel) -> None:
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    got = kernel.call("f", parameters, CapturedValue(b"", b"", 28), pointing(CREATE))
    assert got[0][0] == "cmd=(no room)"
    assert ".prog_type=2" in got[1][0]


def test_bytes_that_the_variant_does_not_have_are_not_lost(kernel: Kernel) -> None:
    """The kernel refuses them, with the EINVAL somebody is looking for."""
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    raw = CREATE + bytes(4) + b"\x01\x02"
    text, plain = kernel.call("f", parameters, word(0), pointing(raw))[1]
    assert text == "attr=&{.map_type=BPF_MAP_TYPE_ARRAY,.key_size=4,.@8=<000000000102>}"
    expected = {"map_type": "BPF_MAP_TYPE_ARRAY", "key_size": 4, "@8": "000000000102"}
    assert plain == expected


def test_what_is_cut_is_marked_once(kernel: Kernel) -> None:
    parameters = ("cmd", kernel.int), ("attr", kernel.pointer)
    text, _ = kernel.call("f", parameters, word(1), pointing(NEXT[:12], 0))[1]
    assert text == "attr=&{.map_fd=3,…}"


def test_a_tag_may_be_a_bit_beside_the_union(kernel: Kernel) -> None:
    which = kernel.union("", 8, ("kernel", kernel.void), ("user", kernel.void))
    bit = [("", which, 0), ("is_kernel", kernel.bool, 1 << 24 | 64)]
    made = kernel.writer.struct("", 16, bit, kflag=True)
    either = kernel.writer.add(Kind.TYPEDEF, "sockptr_t", made)
    assert kernel.shown(either, struct.pack("=QQ", 0x7F00, 0)) == "{.user=0x7f00}"
    kernels = struct.pack("=QQ", ADDRESS, 1)
    assert kernel.shown(either, kernels) == f"{{.kernel={ADDRESS:#x},.is_kernel=true}}"
    both = f"{{.kernel={ADDRESS:#x},.user={ADDRESS:#x}}}"
    assert kernel.shown(either, kernels[:8]) == f"{{{both},…}}"


def test_an_address_is_of_the_type_that_its_family_has(kernel: Kernel) -> None:
    k = kernel
    k.struct("sockaddr_nl", 12, ("nl_family", k.u16, 0), ("nl_pid", k.u32, 4))
    text = k.writer.array(k.char, 14)
    address = k.struct("sockaddr", 16, ("sa_family", k.u16, 0), ("sa_data", text, 2))
    raw = struct.pack("=HHI", 16, 0, 77).ljust(16, b"\0")
    assert k.shown(address, raw) == "{.nl_family=AF_NETLINK,.nl_pid=77}"
    assert k.shown(address, struct.pack("=H", 29).ljust(16, b"\0")) == "{.sa_family=AF_CAN}"
    assert k.shown(address, struct.pack("=HH4B", 2, 0, 127, 0, 0, 1).ljust(16, b"\0")) == (
        "127.0.0.1:0"
    )


@pytest.mark.parametrize(
    ("signal", "code", "member"),
    [
        (17, 1, "_sigchld"),
        (17, 0, "_kill"),
        (11, 1, "_sigfault"),
        (11, 128, "_kill"),
        (34, -1, "_rt"),
        (14, -2, "_timer"),
    ],
)
def test_a_signals_code_comes_before_the_signal(
    kernel: Kernel, signal: int, code: int, member: str
) -> None:
    k = kernel
    names = ("_kill", "_timer", "_rt", "_sigchld", "_sigfault")
    one = k.struct("", 4, ("_pid", k.int, 0))
    fields = k.union("__sifields", 4, *[(name, one) for name in names])
    inner = k.struct(
        "", 16, ("si_signo", k.int, 0), ("si_code", k.int, 8), ("_sifields", fields, 12)
    )
    info = k.struct("kernel_siginfo", 16, ("", inner, 0))
    text = k.shown(info, struct.pack("=iiii", signal, 0, code, 5))
    assert f"._sifields={{.{member}={{._pid=5}}}}" in text


def test_a_request_is_read_by_its_opcode_whose_enum_has_no_name(kernel: Kernel) -> None:
    """As on Linux 5.10."""
    k = kernel
    k.writer.enum("", {"IORING_OP_NOP": 0, "IORING_OP_TIMEOUT": 11, "IORING_OP_NEWER": 200})
    where = k.union("", 8, ("off", k.u64), ("addr2", k.u64))
    flags = k.union("", 4, ("rw_flags", k.u32), ("timeout_flags", k.u32))
    request = k.struct("io_uring_sqe", 16, ("opcode", k.u8, 0), ("", flags, 4), ("", where, 8))
    raw = struct.pack("=IIQ", 11, 1, 2)
    assert k.shown(request, raw) == "{.opcode=IORING_OP_TIMEOUT,.timeout_flags=1,.off=2}"
    unknown = "{.opcode=77,{.rw_flags=1,.timeout_flags=1},{.off=2,.addr2=2}}"
    assert k.shown(request, struct.pack("=IIQ", 77, 1, 2)) == unknown


def test_pointers_that_are_none_by_name(kernel: Kernel) -> None:
    k = kernel
    inode = k.struct("inode", 16, ("i_acl", k.void, 0), ("i_other", k.void, 8))
    raw = struct.pack("=qq", -1, -1)
    assert k.shown(inode, raw) == "{.i_acl=ACL_NOT_CACHED,.i_other=ERR_PTR(-EPERM)}"
    assert k.shown(inode, struct.pack("=QQ", ADDRESS, 0)) == f"{{.i_acl={ADDRESS:#x}}}"


def test_what_is_not_initialised_yet_is_not_followed(kernel: Kernel) -> None:
    k = kernel
    file = k.writer.ptr(k.struct("file", 16, ("f_mode", k.u32, 0), ("f_op", k.void, 8)))
    func = k.writer.func("bpf_lsm_file_alloc_security", k.int, [("file", file)])
    btf, table = k.table()
    got = by_prototype(btf, func, "x86_64", Limits(), table)
    assert [(spec.target, spec.size) for spec in got.by_registers] == [(0, 0)]
    ((text, plain),) = k.call("security_file_alloc", [("file", file)], word(ADDRESS))
    assert text == f"file={ADDRESS:#x} (not initialised yet)"
    assert plain == {"pointer": f"{ADDRESS:#x}", "note": "not initialised yet"}
    assert k.call("init_file", [("f", file)], word(0)) == [("f=NULL", None)]
    ((text, _),) = k.call("fput", [("file", file)], pointing(b"\1", 16))
    assert text == "file=&{.f_mode=1}"


def test_an_attr_of_perf_is_as_long_as_it_says(kernel: Kernel) -> None:
    """What is behind that is the program's own."""
    k = kernel
    k.writer.enum("perf_type_id", {"PERF_TYPE_HARDWARE": 0, "PERF_TYPE_BREAKPOINT": 5})
    first = k.union("", 8, ("bp_addr", k.u64), ("config1", k.u64))
    attr = k.struct(
        "perf_event_attr",
        80,
        ("type", k.u32, 0),
        ("size", k.u32, 4),
        ("", first, 56),
        ("sample_regs", k.u64, 64),
        ("sig_data", k.u64, 72),
    )
    raw = struct.pack("=II48xQQQ", 5, 72, 0x1234, 3, 99)
    parameters = [("attr_uptr", k.writer.ptr(attr))]
    ((text, _),) = k.call("perf_event_open", parameters, pointing(raw, 80))
    told = "&{.type=PERF_TYPE_BREAKPOINT,.size=72,.bp_addr=4660,.sample_regs=3}"
    assert text == f"attr_uptr={told}"
    raw = struct.pack("=II48xQQQ", 0, 0, 7, 3, 99)  # of Linux 2.6
    ((text, _),) = k.call("perf_event_open", parameters, pointing(raw, 80))
    assert text == "attr_uptr=&{.config1=7}"


def test_limits_that_cut_a_union_off_do_no_harm(kernel: Kernel) -> None:
    for limit in range(1, 33):
        btf, table = kernel.table()
        number = table.add(btf, kernel.attr, limit)
        for cmd in range(30):
            inline(Decoder(table.types, table.tags).node(number, NEXT[:limit], "", cmd))
