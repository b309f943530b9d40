# SPDX-License-Identifier: BSD-2-Clause
"""Captured arguments by name, in every layout."""

from __future__ import annotations

import pytest
from tests.unit.session.records import FUNCTIONS, call, facts, session

from retsnoop_py.kernel.arguments.model import (
    Argument,
    ArgumentFacts,
    CallArguments,
    DataKind,
    DataType,
    Field,
    IntFlags,
    Role,
)
from retsnoop_py.render.args.read import ArgumentReader, conversions
from retsnoop_py.render.args.rows import ArgumentEvent, ArgumentRows
from retsnoop_py.render.palette import ASCII, Glyphs
from retsnoop_py.session.model import Captured, CapturedValue, EventKind, Session
from retsnoop_py.settings import ArgMode, ArgSettings

TYPES = (
    DataType(DataKind.INT, 4, "int", flags=IntFlags.SIGNED),
    DataType(DataKind.PTR, 8),
    DataType(DataKind.STRUCT, 16, "pair", fields=(Field("a", 0, 0), Field("b", 64, 1))),
    DataType(DataKind.ENUM, 4, "bpf_cmd", values=(("BPF_MAP_CREATE", 0), ("BPF_PROG_LOAD", 5))),
)
ADDRESS = 0xFFFF888000001000
POINTER = ADDRESS.to_bytes(8, "little")


def word(value: int) -> bytes:
    return (value & (1 << 64) - 1).to_bytes(8, "little")


def told(*arguments: Argument, note: str = "", probe: bool = False) -> ArgumentFacts:
    one = (CallArguments(arguments, note),)
    return ArgumentFacts((), one, TYPES) if probe else ArgumentFacts(one, (), TYPES)


def given(*values: CapturedValue, kind: EventKind = EventKind.ARGS) -> Session:
    return session(args={1: Captured(kind, 0, values)})


def texts(known: ArgumentFacts, subject: Session, *, raw_pointers: bool = False) -> list[str]:
    found = ArgumentReader(known, raw_pointers=raw_pointers).arguments(subject, 1)
    assert found is not None
    return [f"{name}={text}" if name else text for name, text, _, _ in found]


FIVE = word(5) + word(ADDRESS)
PAIR = Argument("p", Role.POINTER, 1, 2, "struct pair *")
NAME = Argument("", Role.NAME)
TEXT = Argument("s", Role.STRING, 1, spelled="const char *")


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        (Argument("n", Role.VALUE, 0), CapturedValue(word(0x7700000000 | 0xFFFFFFFE)), "n=-2"),
        (Argument("c", Role.VALUE, 3), CapturedValue(word(0xAB00000005)), "c=BPF_PROG_LOAD"),
        (Argument("v", Role.VALUE, 2), CapturedValue(FIVE), f"v={{.a=5,.b={ADDRESS:#x}}}"),
        (Argument("w", Role.WHOLE, -1, 2), CapturedValue(POINTER, FIVE[:8]), "w={.a=5,…}"),
        (Argument("rdi", Role.REGISTER), CapturedValue(word(7)), "rdi=7"),
        (Argument("f", Role.ELSEWHERE), CapturedValue(word(7)), "f=(in a vector register)"),
        (PAIR, CapturedValue(POINTER, FIVE), f"p=&{{.a=5,.b={ADDRESS:#x}}}"),
        (PAIR, CapturedValue(POINTER, bytes(16)), "p=&{}"),
        (PAIR, CapturedValue(POINTER, FIVE[:4]), "p=&{.a=5,…}"),
        (PAIR, CapturedValue(word(0)), "p=NULL"),
        (PAIR, CapturedValue(POINTER, b"", 14), f"p={ADDRESS:#x} (-EFAULT)"),
        (PAIR, CapturedValue(POINTER, b"", 28), f"p={ADDRESS:#x} (no room)"),
        (PAIR, CapturedValue(b"", b"", 28), "p=(no room)"),
        (TEXT, CapturedValue(POINTER, b"/tmp\0"), "s='/tmp'"),
        (TEXT, CapturedValue(POINTER, b"\0"), "s=''"),
        (TEXT, CapturedValue(POINTER, b"/tm"), "s='/tm'…"),
        (TEXT, CapturedValue(word(0)), "s=NULL"),
        (Argument("i", Role.POINTER, 1, 0), CapturedValue(POINTER, word(3)[:4]), "i=&3"),
    ],
)
def test_one_argument(argument: Argument, value: CapturedValue, text: str) -> None:
    assert texts(told(argument), given(value)) == [text]


def test_pointers_are_shown_if_asked_for() -> None:
    values = (CapturedValue(POINTER, FIVE[:8] + bytes(8)), CapturedValue(POINTER, b"x\0"))
    shown = texts(told(PAIR, TEXT), given(*values), raw_pointers=True)
    assert shown == [f"p=({ADDRESS:#x})&{{.a=5}}", f"s=({ADDRESS:#x})'x'"]


def test_a_kernel_object_goes_by_its_name() -> None:
    known = told(PAIR, NAME, PAIR, NAME)
    five, name = CapturedValue(POINTER, word(5) + bytes(8)), CapturedValue(POINTER, b"passwd\0")
    unknown = CapturedValue(b"", b"", 14)
    subject = given(five, name, five, unknown)
    assert texts(known, subject) == ["p='passwd' &{.a=5}", "p=&{.a=5}"]
    found = ArgumentReader(known).arguments(subject, 1)
    assert found is not None
    assert [plain for _, _, plain, _ in found] == [{"@name": "passwd", "a": 5}, {"a": 5}]


def test_a_name_that_could_not_be_read_yet_is_the_kernels_copy_of_it() -> None:
    fields = (Field("name", 0, 1), Field("uptr", 64, 1))
    kinds = (*TYPES[:2], DataType(DataKind.STRUCT, 16, "filename", fields=fields))
    copy = Argument("pathname", Role.POINTER, 1, 2, "struct filename *")
    calls = (CallArguments((TEXT, TEXT)), CallArguments((copy, NAME)))
    known = ArgumentFacts(calls, (), kinds)
    user, other = word(0x7FFFF7FB9000), word(0x7FFFF7FB8000)
    unread = (CapturedValue(user, b"", 14), CapturedValue(other, b"", 14))
    copied = (CapturedValue(POINTER, word(ADDRESS) + user), CapturedValue(POINTER, b"/no/x\0"))
    events = {1: Captured(EventKind.ARGS, 0, unread), 2: Captured(EventKind.ARGS, 1, copied)}
    subject = session(args=events)
    assert texts(known, subject) == ["s='/no/x'", "s=0x7ffff7fb8000 (-EFAULT)"]
    assert texts(known, subject, raw_pointers=True)[0] == "s=(0x7ffff7fb9000)'/no/x'"
    shown = ArgumentReader(known).arguments(subject, 1)
    assert shown is not None
    assert shown[0][2] == "/no/x"


@pytest.mark.parametrize(
    ("size", "data", "text"),
    [
        (8, FIVE, "attr=&{.a=5}"),
        # the pages end there
        (8, FIVE[:12], "attr=&{.a=5}"),
        (16, FIVE, f"attr=&{{.a=5,.b={ADDRESS:#x}}}"),
        (24, FIVE, f"attr=&{{.a=5,.b={ADDRESS:#x}}}"),
        (16, FIVE[:8], "attr=&{.a=5,…}"),
        (0, FIVE, "attr=&{}"),
    ],
)
def test_bytes_behind_the_size_that_the_caller_tells_are_not_shown(
    size: int, data: bytes, text: str
) -> None:
    """bpf(2) and its like: they are the program's own, and the kernel takes them as zero."""
    attr = TYPES[2]._replace(name="bpf_attr")
    arguments = (Argument("attr", Role.POINTER, 1, 4), Argument("size", Role.VALUE, 0))
    known = ArgumentFacts((CallArguments(arguments),), (), (*TYPES, attr))
    values = CapturedValue(POINTER, data), CapturedValue(word(0x7700000000 | size))
    assert texts(known, given(*values)) == [text, f"size={size}"]


def test_why_there_are_only_registers() -> None:
    known = told(Argument("rdi", Role.REGISTER), note="registers: no BTF")
    assert texts(known, given(CapturedValue(word(1)))) == ["(registers: no BTF)", "rdi=1"]


def test_a_function_that_takes_more_than_is_captured_says_so() -> None:
    (one,) = told(TEXT).functions
    known = ArgumentFacts((one._replace(is_cut=True),), (), TYPES)
    assert texts(known, given(CapturedValue(POINTER, b"x\0"))) == ["s='x'", "…"]


FORMATTED = tuple(Argument(f"vararg{i}", Role.VARARG) for i in range(4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"%s: %d\0", ["vararg0='eth0'", "vararg1=-1"]),
        (b"100%%, %*d\0", ["vararg0=4096", "vararg1=-1"]),
        (b"%pI4 %-08lx %c\0", [f"vararg0={ADDRESS:#x}", f"vararg1={2**64 - 1:#x}", "vararg2='A'"]),
        (b"nothing\0", []),
        (
            b"%d%d%d%d%d\0",
            ["vararg0=4096", "vararg1=-1", "vararg2=65", "vararg3=9", "…"],
        ),
    ],
)
def test_the_arguments_behind_a_format(text: bytes, expected: list[str]) -> None:
    values = (
        CapturedValue(POINTER, text),
        CapturedValue(POINTER, b"eth0\0"),
        CapturedValue(word(-1)),
        CapturedValue(word(65)),
        CapturedValue(word(9)),
    )
    if text.startswith(b"%d%d"):
        values = (values[0], CapturedValue(word(0x1000)), *values[2:])
    assert texts(told(TEXT, *FORMATTED), given(*values))[1:] == expected


def test_without_its_format_every_captured_argument_is_shown() -> None:
    values = [CapturedValue(POINTER, b"", 14), *(CapturedValue(word(i)) for i in range(4))]
    assert texts(told(TEXT, *FORMATTED), given(*values))[1:] == [f"vararg{i}={i}" for i in range(4)]


def test_conversions() -> None:
    assert conversions("%5.*s %lld%% %hhu %zu %pd4 %#06x") == [
        "d",
        "s",
        "lld",
        "hhu",
        "zu",
        "p",
        "x",
    ]


# -- on rows --

KNOWN = told(TEXT, PAIR)
SUBJECT = given(CapturedValue(POINTER, b"a-long-text\0"), CapturedValue(POINTER, FIVE))


def rows(marks: Glyphs | None = None, **settings: object) -> ArgumentRows:
    args = ArgSettings(capture=True, **settings)  # type: ignore[arg-type]
    return ArgumentRows(facts(arguments=KNOWN), args, marks or Glyphs())


HERE = ArgumentEvent(1, True)
BITS = f".b={ADDRESS:#x}"


def test_compact_arguments_are_behind_the_row() -> None:
    line = rows().behind(SUBJECT, HERE, "row")
    assert line == f"row  s='a-long-text' p=&{{.a=5,{BITS}}}"


@pytest.mark.parametrize(
    ("width", "value"),
    [(9, "'a-long-…"), (12, "'a-long-tex…"), (13, "'a-long-text'"), (0, "'a-long-text'")],
)
def test_values_are_cut_at_a_width_and_one_that_fits_is_not(width: int, value: str) -> None:
    assert rows(width=width).behind(SUBJECT, HERE, "").split(" ")[2] == f"s={value}"


def test_a_line_for_each_argument() -> None:
    found = rows(mode=ArgMode.MULTILINE).below(SUBJECT, HERE, 3)
    assert found == ["   › s = 'a-long-text'", f"   › p = &{{.a=5,{BITS}}}"]  # noqa: RUF001


def test_nested_values_over_several_lines_without_a_limit() -> None:
    found = rows(mode=ArgMode.VERBOSE, width=5).below(SUBJECT, HERE, 1)
    assert found == [
        " › s = 'a-long-text'",  # noqa: RUF001
        " › p = &{",  # noqa: RUF001
        "       .a = 5,",
        f"       .b = {ADDRESS:#x}",
        "   }",
    ]


def test_ascii_only() -> None:
    cut = given(CapturedValue(POINTER, "ä".encode()), CapturedValue(POINTER, FIVE[:8]))
    assert rows(ASCII).behind(cut, HERE, "row") == r"row  s='\xe4'... p=&{.a=5,...}"


def test_arguments_that_did_not_arrive_are_told_where_they_are_expected() -> None:
    nothing = session()
    assert rows().behind(nothing, HERE, "row  ") == "row    ... data missing ..."
    assert rows().behind(nothing, ArgumentEvent(1, False), "row  ") == "row"
    assert rows(mode=ArgMode.VERBOSE).below(nothing, HERE, 2) == ["  ... data missing ..."]
    assert rows().behind(SUBJECT, None, "row  ") == "row"


def test_which_event_a_call_of_a_stack_belongs_to() -> None:
    subject = rows()
    assert subject.of_call(call(FUNCTIONS[0])._replace(seq=4)) == ArgumentEvent(4, True)
    assert subject.of_call(call(FUNCTIONS[1])) == ArgumentEvent(0, False)


def test_what_a_probe_found() -> None:
    known = told(TEXT, probe=True)
    subject = given(CapturedValue(POINTER, b"x\0"), kind=EventKind.PROBE_ARGS)
    assert texts(known, subject) == ["s='x'"]
    assert ArgumentReader(known).expects_of_probe(0)
    assert not ArgumentReader(known).expects(0)
