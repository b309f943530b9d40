# SPDX-License-Identifier: BSD-2-Clause
"""Reading a recording, damaged ones up to the damage."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.recording.format import (
    FILE_HEADER,
    FRAME_HEADER,
    MAGIC,
    MAX_PAYLOAD,
    PLAIN_BYTES,
    PLAIN_PER_BYTE,
    VERSION,
    FrameKind,
    checksum_of,
    unpack_payload,
)
from retsnoop_py.text import printable


class Frame(NamedTuple):
    """A frame: its kind, its payload without compression, and its first byte in the file."""

    kind: int
    payload: bytes
    offset: int


def read_frames(path: Path) -> Iterator[Frame]:
    """The frames of the recording at ``path``, END last; those of unknown kinds included.

    Raises InputError if the file cannot be read, DataError if it is not a recording, if it is
    of a later format, and at the first damaged or missing byte, after all frames before it.
    """
    try:
        with path.open("rb") as file:
            yield from _frames(file, path)
    except OSError as err:
        raise InputError(
            f"cannot read {path}: {err.strerror}", "recordings are made with -o FILE"
        ) from err


def damaged(path: Path, offset: int, why: str) -> DataError:
    """The error for a recording that is readable only up to ``offset``."""
    return DataError(
        f"{path} is damaged at byte {offset}: {printable(why)}",
        "everything before that byte has been shown",
    )


def _frames(file: BinaryIO, path: Path) -> Iterator[Frame]:
    _check_header(file, path)
    offset, room = FILE_HEADER.size, PLAIN_BYTES
    while True:
        head = file.read(FRAME_HEADER.size)
        if not head:
            raise damaged(
                path, offset, "it ends there; the run was killed, its disk was full or it was cut"
            )
        if len(head) < FRAME_HEADER.size:
            raise damaged(path, offset, "it ends in the middle of a frame")
        kind, length, checksum = FRAME_HEADER.unpack(head)
        if length > MAX_PAYLOAD:
            raise damaged(path, offset, "the frame's length is impossible")
        payload = _read(file, length)
        if len(payload) < length:
            raise damaged(path, offset, "it ends in the middle of a frame")
        if checksum_of(kind, payload) != checksum:
            raise damaged(path, offset, "the frame's checksum is wrong")
        room += PLAIN_PER_BYTE * length
        try:
            frame = Frame(*unpack_payload(kind, payload, min(room, MAX_PAYLOAD)), offset)
        except DataError as err:
            raise damaged(path, offset, err.message) from None
        room -= len(frame.payload)
        yield frame
        offset += FRAME_HEADER.size + length
        if frame.kind == FrameKind.END:
            break
    if file.read(1):
        raise damaged(path, offset, "there is something behind its end")


def _read(file: BinaryIO, length: int) -> bytes:
    """Up to ``length`` bytes; a wrong length must not take memory for what is not there."""
    parts = []
    while length and (part := file.read(min(length, 1 << 20))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _check_header(file: BinaryIO, path: Path) -> None:
    head = file.read(FILE_HEADER.size)
    if not head.startswith(MAGIC):
        _foreign(path, "it is empty" if not head else "it does not start like one")
    if len(head) < FILE_HEADER.size:
        raise damaged(path, len(head), "it ends in its header")
    _, version, _, checksum = FILE_HEADER.unpack(head)
    if zlib.crc32(head[:-4]) != checksum:
        raise damaged(path, len(MAGIC), "the header's checksum is wrong")
    if version > VERSION:
        raise DataError(
            f"{path} is a recording of format version {version};"
            f" this retsnoop-py knows versions up to {VERSION}",
            "replay it with the retsnoop-py that made it, or a later one",
        )


def _foreign(path: Path, why: str) -> NoReturn:
    raise DataError(
        f"{path} is not a retsnoop-py recording: {why}", "recordings are made with -o FILE"
    )
