# SPDX-License-Identifier: BSD-2-Clause
"""Messages that the kernel did not write out are put together as it would have done it."""

from __future__ import annotations

import struct

import pytest
from tests.unit.session.records import LAYOUTS, raw_part, raw_session
from tests.unit.session.test_events import collected

from retsnoop_py.errors import DataError
from retsnoop_py.session.collector import RecordType
from retsnoop_py.session.layouts import layout_named
from retsnoop_py.session.model import KernelMessage, MessageSource
from retsnoop_py.session.unwritten import Unwritten, formatted

MINUS_ONE = (1 << 64) - 1
FORMATS = [
    ("R%d !read_ok\n", [2], "R2 !read_ok\n"),
    ("%s type=%s expected=", [9, 9], "a type=b expected="),
    ("%d %u %i", [MINUS_ONE, MINUS_ONE, 7], f"-1 {(1 << 32) - 1} 7"),
    ("%lld %llu %ld", [MINUS_ONE, MINUS_ONE, MINUS_ONE], f"-1 {MINUS_ONE} -1"),
    ("%x %#x %08llx %X", [255, 255, 255, 255], "ff 0xff 000000ff FF"),
    ("%#o %o", [8, 8], "010 10"),
    ("%hhd %hd", [0xFF, 0xFFFF], "-1 -1"),
    ("%zu|%5d|%-5d|%+d|%05d", [3, 4, 5, 6, 7], "3|    4|5    |+6|00007"),
    ("%*d|%.*s|%.1s", [4, 7, 1, 9, 9], "   7|d|e"),
    ("%c%%%c", [ord("x"), ord("y")], "x%y"),
    ("at %px, %pK", [0xFFFF0000, 16], "at 0xffff0000, 0x10"),
    ("of %s", [0], "of (null)"),
    ("%d of %d", [1], "1 of %d"),
    ("100%", [], "100%"),
]


@pytest.mark.parametrize(("text", "words", "expected"), FORMATS)
def test_a_format_is_written_as_the_kernel_writes_it(
    text: str, words: list[int], expected: str
) -> None:
    assert formatted(text, words, list("abcdefgh")[: len(words)]) == expected


def unwritten(
    text: bytes,
    *words: int,
    texts: tuple[bytes, ...] = (),
    item: int = 0,
    source: MessageSource = MessageSource.VERIFIER,
) -> bytes:
    """A part with such a message, as the kernel side sends it."""
    layout = layout_named(LAYOUTS, "rsn_words")
    sizes = {member.name: struct.calcsize(member.code) for member in layout.members}
    room = sizes["texts"] // 8
    values = {
        **{f"word{number}": word for number, word in enumerate(words)},
        "item": item,
        "texts": b"".join(one.ljust(room, b"\0") for one in texts),
        "format": text,
    }
    empty = {one.name: b"" if one.code.endswith("s") else 0 for one in layout.members}
    data = layout.format().pack(*{**empty, **values}.values())
    return raw_part(data, RecordType.MESSAGE, start_ts=10, tid=7, cnt=int(source))


def said(*parts: bytes) -> tuple[KernelMessage, ...]:
    """What is said of a session with these parts."""
    (session,) = collected(
        *parts, raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=len(parts))
    )
    return session.said


def test_a_line_that_the_verifier_writes_in_parts_is_one_message() -> None:
    assert said(
        unwritten(b"R%d type=%s expected=", 1, 99, texts=(b"", b"scalar"), item=4),
        unwritten(b"%s", 99, texts=(b"fp",), item=4),
        unwritten(b", %s\n", 99, texts=(b"map_ptr",), item=4),
        unwritten(b"another\n"),
    ) == (
        KernelMessage("verifier", "R1 type=scalar expected=fp, map_ptr", 0, 4),
        KernelMessage("verifier", "another"),
    )


def test_a_line_is_not_joined_with_what_others_say() -> None:
    btf = unwritten(b"Invalid %s", 9, texts=(b"name",), item=3, source=MessageSource.BTF)
    assert said(unwritten(b"no end"), btf) == (
        KernelMessage("verifier", "no end"),
        KernelMessage("btf", "[3] Invalid name"),
    )


def test_statistics_are_no_reason() -> None:
    assert said(unwritten(b"processed %d insns (limit %d)", 3, 4), unwritten(b"R0 !read_ok\n")) == (
        KernelMessage("verifier", "R0 !read_ok"),
    )


def test_a_format_that_was_cut_says_so() -> None:
    layout = layout_named(LAYOUTS, "rsn_words")
    size = next(struct.calcsize(one.code) for one in layout.members if one.name == "format")
    (message,) = said(unwritten(b"x" * (size - 1)))
    assert message.text == "x" * (size - 1) + "..."


@pytest.mark.parametrize(("operation", "name"), [(22, "IORING_OP_READ"), (250, "operation 250")])
def test_a_refused_request_of_io_uring_is_told_by_what_it_asked_for(
    operation: int, name: str
) -> None:
    request = struct.pack("=BBHiQQIIQ24x", operation, 4, 0, -1, 8, 0x1000, 16, 1, 2)
    words = struct.unpack("=8Q", request)
    (message,) = said(unwritten(b"", *words, item=-22, source=MessageSource.IO_URING))
    assert message == KernelMessage(
        "io_uring",
        f"{name} refused with EINVAL: fd -1, flags 0x4, off 0x8, addr 0x1000, len 16, "
        "rw_flags 0x1, user_data 0x2",
    )


def test_a_message_that_is_too_short_is_damage() -> None:
    with pytest.raises(DataError, match="too few for a message"):
        Unwritten(LAYOUTS).message(int(MessageSource.VERIFIER), b"short")
