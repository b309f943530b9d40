# SPDX-License-Identifier: BSD-2-Clause
"""The recording file, byte by byte. All integers are little endian.

::

    file    = magic (8 bytes), version u16, zero u16, crc32 u32 of the 12 bytes before, frame ...
    frame   = kind u8, length u32, crc32 u32, payload (length bytes)

A frame's checksum covers kind, length and payload. Bit 7 of the kind: the payload is a zlib
stream. The first frame is FACTS; SYMBOLS and USER_SYMBOLS come before the RECORDS that need
them; END is last, and missing if the run was killed. Frames of unknown kinds are skipped, so a
kind can be added without a new version.
"""

from __future__ import annotations

import functools
import re
import struct
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_json import decode, encode, encode_msgpack
from retsnoop_py.session.collector import Batch
from retsnoop_py.session.paths import Origin, OriginKey
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.symbolize.frames import Resolved, UserKey
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.model import ArgumentFacts

#: Like PNG's: not text, and damaged by a text-mode transfer.
MAGIC = b"\x8aRSN\r\n\x1a\n"
VERSION = 1
FILE_HEADER = struct.Struct("<8sHHI")
FRAME_HEADER = struct.Struct("<BII")
_CHECKED = struct.Struct("<BI")

#: No frame is larger, decompressed or not: a longer one is damage.
MAX_PAYLOAD = 1 << 28
#: Limit of the decompressed size: this many bytes, plus this many per byte of the file. Real
#: recordings shrink to a tenth; zlib can turn one byte into a thousand.
PLAIN_BYTES = 4 << 20
PLAIN_PER_BYTE = 64
#: No name is longer; the kernel's own end at 512 bytes, and paths at this.
MAX_NAME = 4096
_COMPRESSED = 0x80
#: Times are signed 64-bit numbers, bit fields have at most 128 bits.
_MAX_TIME_NS = 1 << 63
_DAY_S = 86_400
_MAX_BITS = 128
_MAX_MEMBERS = 1 << 16
#: A path has at most 64 recorded blocks, and blocks without a probe between them.
_MAX_BLOCKS = 1 << 14
#: A kernel's release, as uname(2) has it, without what leads out of /lib/modules/RELEASE.
_RELEASE = re.compile(r"(?:[A-Za-z0-9][\w.+~:@-]{0,63})?", re.ASCII)
#: A GNU build id in hex; linkers make 20 bytes, and no more are looked at in files.
_BUILD_ID = re.compile(r"(?:[0-9a-f]{2}){0,64}")
#: A kernel module, or what kallsyms calls one: ``bpf``, ``__builtin__ftrace``.
_MODULE = re.compile(r"\w[\w.+-]{0,63}", re.ASCII)
#: Characters of a name that makes no sense.
_SHOWN = 80
#: Smaller payloads do not pay; larger ones mean that we are behind, and raw is faster.
_COMPRESS_FROM = 512
_COMPRESS_BELOW = 768 << 10


class FrameKind(IntEnum):
    """The content of a frame."""

    #: :class:`StreamHeader`, JSON.
    FACTS = 1
    #: MessagePack: a list of [is_return, :class:`Resolved`].
    SYMBOLS = 2
    #: Raw records, as they came from the kernel.
    RECORDS = 3
    #: A warning the live run gave, UTF-8.
    WARNING = 4
    #: JSON: :class:`RunEnd`.
    END = 5
    #: MessagePack: a list of [:data:`UserKey`, :class:`Resolved`].
    USER_SYMBOLS = 6
    #: MessagePack: a list of [:data:`OriginKey`, :class:`Origin`].
    ORIGINS = 7


class RunEnd(msgspec.Struct, frozen=True):
    """The counters of a finished run, by name.

    ``stats`` are those of losses. ``counts``: how many calls there were (``session/counts.py``);
    empty in recordings before 2026-11-26.
    """

    stats: dict[str, int]
    counts: dict[str, int] = {}


def file_header(version: int = VERSION) -> bytes:
    """The first bytes of a recording."""
    start = FILE_HEADER.pack(MAGIC, version, 0, 0)[:-4]
    return start + zlib.crc32(start).to_bytes(4, "little")


def pack_frame(kind: int, payload: Batch) -> bytes:
    """A whole frame, its payload compressed where that pays."""
    if _COMPRESS_FROM <= len(payload) < _COMPRESS_BELOW or kind == FrameKind.FACTS:
        small = zlib.compress(payload, 1)
        if len(small) < len(payload) * 9 // 10:
            kind, payload = kind | _COMPRESSED, small
    head = _CHECKED.pack(kind, len(payload))
    checksum = zlib.crc32(payload, zlib.crc32(head))
    return b"".join((head, checksum.to_bytes(4, "little"), payload))


def checksum_of(kind: int, payload: bytes) -> int:
    """The checksum a frame with this raw kind and raw payload must have."""
    return zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, len(payload))))


def unpack_payload(kind: int, payload: bytes, room: int = MAX_PAYLOAD) -> tuple[int, bytes]:
    """Kind and payload without compression.

    Raises DataError if it cannot be undone, or comes to more than ``room`` bytes.
    """
    if not kind & _COMPRESSED:
        return kind, payload
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(payload, max(room, 1))
    except zlib.error as err:
        raise DataError(str(err)) from None
    if not stream.eof:
        raise DataError("its compressed data is cut or too large")
    return kind & ~_COMPRESSED, plain


def encode_header(header: StreamHeader) -> bytes:
    """The payload of a FACTS frame."""
    return encode(replace(header, functions=tuple(header.functions)), _fields)


def encode_symbols(symbols: Sequence[tuple[bool, Resolved]]) -> bytes:
    """The payload of a SYMBOLS frame."""
    return encode_msgpack(symbols)


def encode_user_symbols(symbols: Sequence[tuple[UserKey, Resolved]]) -> bytes:
    """The payload of a USER_SYMBOLS frame."""
    return encode_msgpack(symbols)


def encode_origins(origins: Sequence[tuple[OriginKey, Origin]]) -> bytes:
    """The payload of an ORIGINS frame."""
    return encode_msgpack(origins)


def encode_end(stats: Mapping[str, int], counts: Mapping[str, int]) -> bytes:
    """The payload of an END frame."""
    return encode(RunEnd(dict(stats), dict(counts)))


def _fields(value: object) -> dict[str, Any]:
    """Return the members that msgspec writes for a :class:`Value`."""
    if isinstance(value, Value):
        return {field: getattr(value, field) for field in type(value).fields}
    raise NotImplementedError(type(value).__name__)


def _from_fields(kind: type, plain: Any) -> Any:
    """The :class:`Value` of type ``kind`` that msgspec has read as a dict.

    Fields that are not known here are those of a later version.
    """
    if not issubclass(kind, Value) or not isinstance(plain, dict):
        raise TypeError(f"expected {kind.__name__}, got {type(plain).__name__}")
    types = _types(kind)
    given = {
        field: msgspec.convert(plain[field], types[field], dec_hook=_from_fields)
        for field in kind.fields
        if field in plain
    }
    return kind(**given)


@functools.cache
def _types(kind: type[Value]) -> dict[str, Any]:
    """The types of the fields of ``kind``, those included that its module need not import."""
    from retsnoop_py.kernel.arguments.model import ArgumentFacts

    return typing.get_type_hints(kind, localns={"ArgumentFacts": ArgumentFacts})


_FACTS = msgspec.json.Decoder(StreamHeader, dec_hook=_from_fields)
_SYMBOLS = msgspec.msgpack.Decoder(list[tuple[bool, Resolved]])
_USER_SYMBOLS = msgspec.msgpack.Decoder(list[tuple[UserKey, Resolved]])
_ORIGINS = msgspec.msgpack.Decoder(list[tuple[OriginKey, Origin]])
_END = msgspec.json.Decoder(RunEnd)


def decode_header(payload: bytes) -> StreamHeader:
    """Raises DataError if the payload is not that of a FACTS frame, or cannot be true."""
    header = decode(_FACTS, payload)
    _check(header)
    return header


def _check(header: StreamHeader) -> None:
    """Raise DataError for numbers that no run has written, and that nothing here expects."""
    if abs(header.realtime_offset_ns) >= _MAX_TIME_NS or abs(header.utc_offset_s) > _DAY_S:
        raise DataError("its clock makes no sense")
    if header.args.width < 0 or header.bpf.ringbuf_size < 0 or header.bpf.sessions_size < 0:
        raise DataError("its settings make no sense")
    _check_pattern("release", _RELEASE, header.release)
    modules = {function.module for function in header.functions}
    for module in modules | {one.name for one in header.modules}:
        _check_pattern("module name", _MODULE, module)
    for build_id in (header.build_id, *(one.build_id for one in header.modules)):
        _check_pattern("build id", _BUILD_ID, build_id)
    _check_names(function.name for function in header.functions)
    if header.arguments is not None:
        _check_arguments(header.arguments)


def _check_arguments(facts: ArgumentFacts) -> None:
    for one in (*facts.functions, *facts.probes):
        _check_names((one.note, *(argument.name for argument in one.arguments)))
    for kind in facts.types:
        if not 0 <= kind.size <= MAX_PAYLOAD:
            raise DataError(f"a type of {kind.size} bytes makes no sense")
        if len(kind.fields) > _MAX_MEMBERS or len(kind.values) > _MAX_MEMBERS:
            raise DataError(f"type {kind.name[:_SHOWN]} has more members than BTF can say")
        for name, bit_offset, _, bits in kind.fields:
            if bit_offset < 0 or not 0 <= bits <= _MAX_BITS or len(name) > MAX_NAME:
                raise DataError(
                    f"member {name[:_SHOWN]} of type {kind.name[:_SHOWN]} makes no sense"
                )
        if kind.values:
            _check_names(name for name, _ in kind.values)


def _check_pattern(what: str, pattern: re.Pattern[str], text: str | None) -> None:
    """Raise DataError for a text that the kernel does not have: files are found by it."""
    if text is not None and not pattern.fullmatch(text):
        raise DataError(f"the {what} {text[:_SHOWN]!r} makes no sense")


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if len(name) > MAX_NAME:
            raise DataError(f"a name of {len(name)} characters makes no sense")


def decode_symbols(payload: bytes) -> list[tuple[bool, Resolved]]:
    """Raises DataError if the payload is not that of a SYMBOLS frame, or names no module."""
    symbols = decode(_SYMBOLS, payload)
    for module in {resolved.module for _, resolved in symbols}:
        _check_pattern("module name", _MODULE, module)
    return symbols


def decode_user_symbols(payload: bytes) -> list[tuple[UserKey, Resolved]]:
    """Raises DataError if the payload is not that of a USER_SYMBOLS frame, or has no build ids."""
    symbols = decode(_USER_SYMBOLS, payload)
    for (build_id, _, _), _ in symbols:
        _check_pattern("build id", _BUILD_ID, build_id)
    return symbols


def decode_origins(payload: bytes) -> list[tuple[OriginKey, Origin]]:
    """Raises DataError if the payload is not that of an ORIGINS frame, or cannot be true."""
    origins = decode(_ORIGINS, payload)
    for _, origin in origins:
        _check_origin(origin)
    return origins


def _check_origin(origin: Origin) -> None:
    condition = origin.condition
    texts = [origin.made, origin.callee or "", origin.unknown or ""]
    for place in filter(None, (origin.returned, origin.decided)):
        texts += (place.insn, place.note)
    if condition is not None:
        texts.append(condition.text)
        if not 0 <= condition.unnamed <= _MAX_BLOCKS:
            raise DataError(f"a condition of {condition.unnamed} more tests makes no sense")
        for operand in condition.operands:
            texts.append(operand.name)
            if not (0 < operand.size <= 8 and operand.side in (0, 1)):
                raise DataError("an operand of a condition makes no sense")
    _check_names(texts)
    if len(origin.blocks) > _MAX_BLOCKS:
        raise DataError(f"a way of {len(origin.blocks)} blocks makes no sense")


def decode_warning(payload: bytes) -> str:
    """Return the text of a WARNING frame, for any bytes."""
    return payload.decode("utf-8", "backslashreplace")


def decode_end(payload: bytes) -> RunEnd:
    """Raises DataError if the payload is not that of an END frame."""
    return decode(_END, payload)
