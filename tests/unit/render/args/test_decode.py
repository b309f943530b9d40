# SPDX-License-Identifier: BSD-2-Clause
"""Any bytes read by any types: all of it is shown, or told as cut."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.btf_writer import BOOL, CHAR, SIGNED, BtfWriter

from retsnoop_py.kernel.arguments.model import Choice, DataKind, DataType, Field, Tag
from retsnoop_py.kernel.arguments.types import KNOWN_ALIASES, TypeTable
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.render.args import kernel_types
from retsnoop_py.render.args.decode import Decoder
from retsnoop_py.render.args.node import block, inline, plain_of


class Maker:
    """Makes types and says which bits of them mean something."""

    def __init__(self, draw: Callable[..., int]) -> None:
        self.writer = BtfWriter()
        self._draw = draw
        self._names = 0

    def pick(self, below: int) -> int:
        return self._draw(st.integers(0, below - 1))

    def name(self) -> str:
        self._names += 1
        return f"m{self._names}"

    def make(self, depth: int) -> tuple[int, int, int]:
        """A type: its id, its size and the mask of its meaningful bits."""
        makers = [self.number, self.number, self.pointer, self.enum]
        if depth:
            makers += [self.array, self.struct, self.struct, self.union]
        return makers[self.pick(len(makers))](depth - 1)

    def number(self, _: int) -> tuple[int, int, int]:
        size = 1 << self.pick(4)
        encoding = [0, SIGNED, BOOL if size == 1 else 0][self.pick(3)]
        name = "char" if size == 1 and encoding == SIGNED else f"int{size}"
        return self.writer.int(name, size, encoding), size, (1 << size * 8) - 1

    def pointer(self, _: int) -> tuple[int, int, int]:
        return self.writer.ptr(0), 8, (1 << 64) - 1

    def enum(self, _: int) -> tuple[int, int, int]:
        values = [{"A": 0, "B": 1, "C": 2}, {"F": 1, "G": 2, "H": 4, "I": 16}, {"N": -1, "P": 7}]
        return self.writer.enum("e", values[self.pick(3)]), 4, (1 << 32) - 1

    def array(self, depth: int) -> tuple[int, int, int]:
        element, size, mask = self.make(depth)
        count = self.pick(8)
        whole = sum(mask << i * size * 8 for i in range(count))
        return self.writer.array(element, count), size * count, whole

    def struct(self, depth: int) -> tuple[int, int, int]:
        members, end, mask = [], 0, 0
        for _ in range(self.pick(5)):
            if self.pick(3) == 0:
                bits = 1 + self.pick(7)
                base = self.writer.int("unsigned int", 4, [0, SIGNED][self.pick(2)])
                members.append((self.name(), base, bits << 24 | end * 8 + 1))
                mask |= ((1 << bits) - 1) << end * 8 + 1
                end += 1
                continue
            type_id, size, inner = self.make(depth)
            members.append((self.member_name(type_id), type_id, end * 8))
            mask |= inner << end * 8
            end += size + self.pick(2)
        return self.writer.struct("s", end, members, kflag=True), end, mask

    def union(self, depth: int) -> tuple[int, int, int]:
        tail, largest, mask = [], 0, 0
        for _ in range(1 + self.pick(3)):
            type_id, size, inner = self.make(depth)
            tail += [self.writer.string(self.name()), type_id, 0]
            largest, mask = max(largest, size), mask | inner
        return (
            self.writer.add(Kind.UNION, "u", largest, tail, len(tail) // 3),
            largest,
            mask,
        )

    def member_name(self, type_id: int) -> str:
        kind = Btf(self.writer.bytes()).type(type_id).kind
        anonymous = kind in (Kind.STRUCT, Kind.UNION) and self.pick(3) == 0
        return "" if anonymous else self.name()


@st.composite
def subjects(draw: Callable[..., int]) -> tuple[Decoder, int, int, int]:
    maker = Maker(draw)
    type_id, size, mask = maker.make(3)
    table = TypeTable()
    number = table.add(Btf(maker.writer.bytes()), type_id, max(size, 1))
    return Decoder(table.types), number, size, mask


@given(subjects(), st.data())
def test_whatever_means_something_is_shown(
    subject: tuple[Decoder, int, int, int], data: st.DataObject
) -> None:
    decoder, number, size, mask = subject
    one = data.draw(st.binary(min_size=size, max_size=size))
    if data.draw(st.booleans()):
        other = bytes(size)
    else:
        other = data.draw(st.binary(min_size=size, max_size=size))
    differ = (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")) & mask
    texts = [inline(decoder.node(number, raw)) for raw in (one, other)]
    assert (texts[0] != texts[1]) == bool(differ)
    assert "…" not in texts[0]
    assert "…" not in texts[1]


def test_what_is_between_members_makes_none_of_a_struct() -> None:
    btf = BtfWriter()
    word, byte = btf.int("unsigned int", 4), btf.int("int1", 1)
    bit = btf.struct("bit", 1, [("set", word, 1 << 24 | 1)], kflag=True)
    whole = btf.struct(
        "whole", 4, [("one", bit, 0), ("two", btf.array(bit, 2), 8), ("last", byte, 24)], kflag=True
    )
    table = TypeTable()
    number = table.add(Btf(btf.bytes()), whole, 4)
    decoder = Decoder(table.types)
    assert inline(decoder.node(number, bytes(4))) == "{}"
    assert inline(decoder.node(number, b"\1\1\1\0")) == "{}"
    assert inline(decoder.node(number, b"\1\3\1\7")) == "{.two=[{.set=1}],.last=7}"


@given(subjects(), st.data())
def test_what_is_cut_is_marked_and_every_form_can_be_written(
    subject: tuple[Decoder, int, int, int], data: st.DataObject
) -> None:
    decoder, number, size, _ = subject
    raw = data.draw(st.binary(max_size=size + 8))
    node = decoder.node(number, raw)
    assert ("…" in inline(node)) == (len(raw) < size)
    assert ("…" in "".join(block(node))) == (len(raw) < size)
    json.dumps(plain_of(node))


@given(
    st.lists(
        st.builds(
            DataType,
            kind=st.integers(0, 9),
            size=st.integers(0, 40),
            name=st.sampled_from(["in_addr", "sockaddr", "timespec64", "x"]),
            alias=st.sampled_from(["gfp_t", "__be16", "ktime_t", "atomic_t", "umode_t", ""]),
            flags=st.integers(0, 7),
            element=st.integers(-1, 3),
            length=st.integers(0, 9),
            fields=st.lists(
                st.builds(
                    Field,
                    st.just("f"),
                    st.integers(0, 400),
                    st.integers(-1, 3),
                    st.integers(0, 64),
                ),
                max_size=3,
            ).map(tuple),
            values=st.lists(st.tuples(st.text(max_size=2), st.integers()), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(
        st.builds(
            Tag,
            type=st.integers(-1, 4),
            choices=st.lists(
                st.builds(
                    Choice,
                    value=st.integers(-1, 3),
                    members=st.lists(
                        st.tuples(
                            st.integers(-1, 4), st.lists(st.integers(-1, 3), max_size=2).map(tuple)
                        ),
                        max_size=2,
                    ).map(tuple),
                    cast=st.integers(-1, 4),
                ),
                max_size=2,
            ).map(tuple),
            bit_offset=st.integers(-70, 400),
            bits=st.integers(-1, 64),
            is_signed=st.booleans(),
            mask=st.integers(-2, 3),
        ),
        max_size=3,
    ),
    st.binary(max_size=64),
)
def test_types_and_tags_of_a_damaged_recording_do_not_end_the_program(
    types: list[DataType], tags: list[Tag], raw: bytes
) -> None:
    decoder = Decoder(types, tags)
    for variant in (None, 0, 1):
        inline(decoder.node(0, raw, "", variant))


def test_a_wrapper_of_itself_is_a_damaged_one() -> None:
    itself = DataType(DataKind.STRUCT, 0, alias="atomic_t", fields=(Field("f", 0, 0),))
    assert inline(Decoder([itself]).node(0, b"")).startswith("<")


def decoded(writer: BtfWriter, type_id: int, raw: bytes, name: str = "") -> str:
    btf = Btf(writer.bytes())
    table = TypeTable()
    number = table.add(btf, type_id, max(len(raw), 1))
    return inline(Decoder(table.types).node(number, raw, name))


@pytest.fixture
def w() -> BtfWriter:
    return BtfWriter()


def typedef(w: BtfWriter, name: str, type_id: int) -> int:
    return w.add(Kind.TYPEDEF, name, type_id)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Linux\0\0\0", "'Linux'"),
        (b"it's\n\xff\0\0", "'it\\'s\\n\\xff'"),
        (b"ab\0cd\0\0\0", "'ab\\0cd'"),
        (b"abc", "'abc'…"),
        ("Grüße\0".encode(), "'Grüße'"),
    ],
)
def test_arrays_of_characters_are_text(w: BtfWriter, raw: bytes, text: str) -> None:
    array = w.array(w.int("char", 1, SIGNED | CHAR), 8)
    assert decoded(w, array, raw) == text


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("comm", b"sh\0snoop-py", "'sh'"),
        ("prev_comm", b"\0etsnoop-py", "''"),
        ("comm", b"retsnoop-py", "'retsnoop-py'"),
        ("fdes", b"sh\0snoop-py", "'sh\\0snoop-py'"),
    ],
)
def test_a_tasks_name_ends_before_what_is_left_of_an_older_one(
    w: BtfWriter, name: str, raw: bytes, text: str
) -> None:
    """Linux 5.10 does not clear what is behind it when it is set."""
    array = w.array(w.int("char", 1, SIGNED | CHAR), 16)
    holder = w.struct("holder", 16, [(name, array, 0)])
    assert decoded(w, holder, raw.ljust(16, b"\0")) == f"{{.{name}={text}}}"


def test_a_member_is_left_out_only_if_all_of_it_is_zero(w: BtfWriter) -> None:
    """A struct whose first member is zero, and bytes after a zero: retsnoop hides both."""
    long = w.int("long", 8, SIGNED)
    spec = w.struct("interval", 16, [("sec", long, 0), ("nsec", long, 64)])
    outer = w.struct("timer", 32, [("it_interval", spec, 0), ("it_value", spec, 128)])
    raw = bytes(8) + b"\5" + bytes(23)
    assert decoded(w, outer, raw) == "{.it_interval={.nsec=5}}"
    octets = w.array(w.int("unsigned char", 1), 4)
    holder = w.struct("h", 8, [("name", w.array(w.int("char", 1), 4), 0), ("o", octets, 32)])
    assert decoded(w, holder, b"a\0\0\0\0\x41\0\x02") == "{.name='a',.o=[0,65,0,2]}"


@pytest.mark.parametrize(
    ("alias", "base", "name", "value", "text"),
    [
        ("__be32", 4, "saddr", b"\x7f\0\0\1", "127.0.0.1"),
        ("__be32", 4, "seq", b"\0\0\1\0", "0x100"),
        ("__be16", 2, "sport", b"\x1f\x90", "8080"),
        ("__be16", 2, "protocol", b"\x08\0", "0x800"),
        ("umode_t", 2, "mode", b"\xa4\x81", "0100644"),
        ("ktime_t", 8, "t", (1_500_000_000).to_bytes(8, "little"), "1.5s"),
        ("ktime_t", 8, "t", b"\xff" * 7 + b"\x7f", "KTIME_MAX"),
        ("dev_t", 4, "dev", (8 << 20 | 1).to_bytes(4, "little"), "8:1"),
        ("uid_t", 4, "uid", b"\xff" * 4, "-1"),
    ],
)
def test_numbers_that_people_write_in_a_way_of_their_own(
    w: BtfWriter, alias: str, base: int, name: str, value: bytes, text: str
) -> None:
    kind = typedef(w, alias, w.int("base", base))
    assert decoded(w, kind, value, name) == text
    assert decoded(w, w.struct("s", base, [(name, kind, 0)]), value) == f"{{.{name}={text}}}"


def test_addresses(w: BtfWriter) -> None:
    octet = w.int("unsigned char", 1)
    mac, six = w.array(octet, 6), w.array(octet, 16)
    in6 = w.struct("in6_addr", 16, [("in6_u", six, 0)])
    assert decoded(w, mac, bytes.fromhex("001122334455")) == "00:11:22:33:44:55"
    assert decoded(w, in6, bytes(15) + b"\1") == "::1"
    family = w.int("unsigned short", 2)
    address = w.struct("sockaddr", 16, [("sa_family", family, 0), ("sa_data", six, 16)])
    inet = bytes.fromhex("0200 0016 7f000001") + bytes(8)
    assert decoded(w, address, inet) == "127.0.0.1:22"
    inet6 = bytes.fromhex("0a00 0016 00000000") + bytes(15) + b"\1" + b"\3\0\0\0"
    assert decoded(w, address, inet6) == "[::1%3]:22"
    assert decoded(w, address, b"\1\0/run/x.sock\0\0\0") == "unix:'/run/x.sock'"


def test_times_and_numbers_in_a_struct_of_their_own(w: BtfWriter) -> None:
    long, plain = w.int("long", 8, SIGNED), w.int("int", 4, SIGNED)
    spec = w.struct("timespec64", 16, [("tv_sec", long, 0), ("tv_nsec", long, 64)])
    raw = (5).to_bytes(8, "little") + (20_000_000).to_bytes(8, "little")
    assert decoded(w, spec, raw) == "5.02s"
    atomic = typedef(w, "atomic_t", w.struct("", 4, [("counter", plain, 0)]))
    count = typedef(w, "refcount_t", w.struct("refcount_struct", 4, [("refs", atomic, 0)]))
    assert decoded(w, w.struct("s", 4, [("usage", count, 0)]), b"\2\0\0\0") == "{.usage=2}"
    assert decoded(w, count, bytes(4)) == "0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(2, "B"), (3, "A|B"), (7, "ALL"), (0x15, "A|C|0x10"), (0, "0"), (0x40, "64")],
)
def test_an_enum_of_bits_is_decomposed(w: BtfWriter, value: int, text: str) -> None:
    kind = w.enum("flags", {"A": 1, "B": 2, "C": 4, "ALL": 7})
    assert decoded(w, kind, value.to_bytes(4, "little")) == text


def test_an_enum_that_counts_is_not(w: BtfWriter) -> None:
    kind = w.enum("state", {"IDLE": 0, "RUN": 1, "WAIT": 2, "STOP": 3, "DEAD": 4})
    assert decoded(w, kind, (6).to_bytes(4, "little")) == "6"


def test_allocation_flags_by_the_kernels_own_enum(w: BtfWriter) -> None:
    names = ("DMA", "HIGHMEM", "IO", "FS", "DIRECT_RECLAIM", "KSWAPD_RECLAIM", "ZERO")
    w.enum("", {f"___GFP_{name}_BIT": bit for bit, name in enumerate(names)})
    kind = typedef(w, "gfp_t", w.int("unsigned int", 4))
    assert decoded(w, kind, b"\x7c\0\0\0") == "GFP_KERNEL|__GFP_ZERO"
    assert decoded(w, kind, b"\x01\x01\0\0") == "__GFP_DMA|0x100"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "NULL"), (0xFFFF888000001000, "0xffff888000001000"), ((1 << 64) - 2, "ERR_PTR(-ENOENT)")],
)
def test_pointers(w: BtfWriter, value: int, text: str) -> None:
    assert decoded(w, w.ptr(0), value.to_bytes(8, "little")) == text


def test_over_several_lines(w: BtfWriter) -> None:
    plain = w.int("int", 4, SIGNED)
    inner = w.struct("in", 4, [("x", plain, 0)])
    outer = w.struct("out", 16, [("a", plain, 0), ("", inner, 32), ("l", w.array(plain, 2), 64)])
    btf, table = Btf(w.bytes()), TypeTable()
    number = table.add(btf, outer, 16)
    raw = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3, 0))
    assert block(Decoder(table.types).node(number, raw)) == [
        "{",
        "    .a = 1,",
        "    {",
        "        .x = 2",
        "    },",
        "    .l = [",
        "        3",
        "    ]",
        "}",
    ]


def test_every_typedef_that_a_capture_keeps_has_a_reader() -> None:
    assert set(kernel_types._SCALARS) == KNOWN_ALIASES
