# SPDX-License-Identifier: BSD-2-Clause
"""Reading a recording, damaged ones up to the damage; the symbols it carries as a symbolizer."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.recording.format import (
    FILE_HEADER,
    FRAME_HEADER,
    MAGIC,
    MAX_NAME,
    MAX_PAYLOAD,
    PLAIN_BYTES,
    PLAIN_PER_BYTE,
    VERSION,
    FrameKind,
    checksum_of,
    unpack_payload,
)
from retsnoop_py.session.paths import Origin, OriginKey
from retsnoop_py.session.paths import Path as Way
from retsnoop_py.symbolize.frames import Resolved, UserAddress, UserKey, user_key
from retsnoop_py.text import printable

#: Maximum length of a chain of inlined functions to request from libdw.
_MAX_FRAMES = 64


class RecordedSymbolizer:
    """Answers from the SYMBOLS frames of a recording; an address they lack has no name."""

    def __init__(self) -> None:
        self._known: tuple[dict[int, Resolved], dict[int, Resolved]] = ({}, {})
        self._users: dict[UserKey, Resolved] = {}
        self._origins: dict[OriginKey, Origin] = {}

    def add(self, symbols: Iterable[tuple[bool, Resolved]]) -> None:
        """Know these answers too."""
        for is_return, resolved in symbols:
            self._known[is_return][resolved.address] = _bounded(resolved)

    def add_users(self, symbols: Iterable[tuple[UserKey, Resolved]]) -> None:
        """Know these answers about programs too."""
        self._users.update((key, _bounded(resolved)) for key, resolved in symbols)

    def add_origins(self, origins: Iterable[tuple[OriginKey, Origin]]) -> None:
        """Know these answers about ways too."""
        self._origins.update(origins)

    def origin(self, path: Way) -> Origin | None:
        """See :class:`retsnoop_py.session.paths.Origins`."""
        return self._origins.get(path.key)

    def resolve_user(
        self,
        tgid: int,
        address: UserAddress,
        proc_tgid: int | None = None,  # noqa: ARG002 - of the machine that recorded it
        name: str = "",  # noqa: ARG002 - helps to find the file
    ) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.UserSymbolizer`."""
        known = self._users.get(user_key(tgid, address))
        return known or Resolved(address.place, None, 0, 0, None)

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.Symbolizer`."""
        known = self._known[is_return].get(address)
        return known or Resolved(address, None, 0, 0, None)


def _bounded(resolved: Resolved) -> Resolved:
    """Truncate an answer to the limits of a live run, because each frame prints it."""
    if len(resolved.frames) > _MAX_FRAMES:
        resolved = resolved._replace(frames=resolved.frames[-_MAX_FRAMES:])
    if any(len(text or "") > MAX_NAME for text in (resolved.name, resolved.module)):
        resolved = resolved._replace(name=_cut(resolved.name), module=_cut(resolved.module))
    if any(len(f.function) > MAX_NAME or len(f.file or "") > MAX_NAME for f in resolved.frames):
        frames = (
            f._replace(function=f.function[:MAX_NAME], file=_cut(f.file)) for f in resolved.frames
        )
        resolved = resolved._replace(frames=tuple(frames))
    return resolved


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_NAME]


class RecordingFrame(NamedTuple):
    """A frame: its kind, its payload without compression, and its first byte in the file."""

    kind: int
    payload: bytes
    offset: int


def read_frames(path: Path) -> Iterator[RecordingFrame]:
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


def _frames(file: BinaryIO, path: Path) -> Iterator[RecordingFrame]:
    _check_header(file, path)
    offset, room = FILE_HEADER.size, PLAIN_BYTES
    while True:
        head = file.read(FRAME_HEADER.size)
        if not head:
            raise damaged(
                path, offset, "it ends here: the run was killed, the disk was full, or it was cut"
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
            frame = RecordingFrame(*unpack_payload(kind, payload, min(room, MAX_PAYLOAD)), offset)
        except DataError as err:
            raise damaged(path, offset, err.message) from None
        room -= len(frame.payload)
        yield frame
        offset += FRAME_HEADER.size + length
        if frame.kind == FrameKind.END:
            break
    if file.read(1):
        raise damaged(path, offset, "there is data after its end")


def _read(file: BinaryIO, length: int) -> bytes:
    """Read up to ``length`` bytes; a wrong length must not allocate memory."""
    parts = []
    while length and (part := file.read(min(length, 1 << 20))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _check_header(file: BinaryIO, path: Path) -> None:
    head = file.read(FILE_HEADER.size)
    if not head.startswith(MAGIC):
        _foreign(path, "it is empty" if not head else "its first bytes are different")
    if len(head) < FILE_HEADER.size:
        raise damaged(path, len(head), "it ends in its header")
    _, version, _, checksum = FILE_HEADER.unpack(head)
    if zlib.crc32(head[:-4]) != checksum:
        raise damaged(path, len(MAGIC), "the header's checksum is wrong")
    if version > VERSION:
        raise DataError(
            f"{path} is a recording of format version {version};"
            f" this retsnoop-py reads versions up to {VERSION}",
            "replay it with the retsnoop-py version that recorded it, or a later one",
        )


def _foreign(path: Path, why: str) -> NoReturn:
    raise DataError(
        f"{path} is not a retsnoop-py recording: {why}", "recordings are made with -o FILE"
    )
