# SPDX-License-Identifier: BSD-2-Clause
"""Damaged recordings, and forbidden effects of their replay.

A replay may print readable parts and end in a :class:`DataError`. It must not end in another error,
exceed time or memory limits, or print control characters.
"""

from __future__ import annotations

import io
import json
import random
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from retsnoop_py.cli.replay import show
from retsnoop_py.errors import DataError, RetsnoopError
from retsnoop_py.recording.format import (
    FrameKind,
    decode_header,
    encode_header,
    file_header,
    pack_frame,
)
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.session.layouts import Layout
from retsnoop_py.session.repeats import own_layouts
from retsnoop_py.settings import ArgMode, OutputFormat
from retsnoop_py.value import replace

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.rsn"))
#: Time limit in seconds for the replay of a small recording, on a slow and busy machine.
TIME_S = 20.0

_ALL = {
    "call_stack": True,
    "call_trace": True,
    "interim": True,
    "lbr": 1,
    "user_stack": True,
    "capture": True,
    "self_time": True,
    "cpu": True,
}
#: Options for the replays.
VIEWS: dict[str, ReplayOverrides] = {
    "as it was": ReplayOverrides(),
    "all": ReplayOverrides(**_ALL, unfiltered=True, emit_addrs=True, width=0),
    "verbose": ReplayOverrides(**_ALL, mode=ArgMode.VERBOSE, raw_pointers=True, ascii=True),
    "multiline": ReplayOverrides(**_ALL, mode=ArgMode.MULTILINE, dec_offs=True),
    "json": ReplayOverrides(**_ALL, format=OutputFormat.JSON),
}
#: Strings with control characters for terminals, and right-to-left text.
STRINGS = ("\x1b[31mx", "\x9b2J", "\u202egnp.exe", "\r", "a\nb", "\x00", "\x7f", "\u2028", "")
_POWERS = (2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1)
#: Counts for which the product with a size wraps in 32 or 64 bits and gives few or no bytes.
_WRAPPING = (*(2**bits for bits in (27, 28, 29, 30, 59, 60, 61, 62)), 2**64 // 24 + 1)
NUMBERS = (-1, 0, 1, 255, *_POWERS, *_WRAPPING)
_OTHERS = (None, True, 1.5, [], {}, "x", [[]] * 3, 10**30)


class Frame(NamedTuple):
    """A frame of a recording, with its payload uncompressed."""

    kind: int
    payload: bytes


def frames_of(path: Path) -> list[Frame]:
    """Return all frames of a recording."""
    return [Frame(frame.kind, frame.payload) for frame in read_frames(path)]


def pack(frames: list[Frame]) -> bytes:
    """Return a recording with correct checksums and any content."""
    return file_header() + b"".join(pack_frame(kind, payload) for kind, payload in frames)


#: Former names of present struct members.
_FORMER = {"flags": "unused"}
_SESSION = 1


def repacked(data: bytes, former: Layout, own: Layout) -> bytes:
    """Return a struct in the layout of this version."""
    values = dict(zip((m.name for m in former.members), former.format().unpack(data), strict=True))
    named = [(_FORMER.get(m.name, m.name) if m.name not in values else m.name) for m in own.members]
    return own.format().pack(*(values.get(name, 0) for name in named))


def records_as_of_now(records: bytes, former: dict[str, Layout], own: dict[str, Layout]) -> bytes:
    """Convert records of an older version to the present layout, which C requires."""
    made, at = [], 0
    session = former["rsn_session"]
    # all older layouts have the same size for the other records of a log
    assert former.get("rsn_event", own["rsn_event"]).size == own["rsn_event"].size
    while at < len(records):
        kind, size = struct.unpack_from("<II", records, at)
        record = records[at : at + size]
        if kind == _SESSION:
            head = repacked(record[: session.size], session, own["rsn_session"])
            size = len(head) + len(record) - session.size
            record = struct.pack("<II", kind, size) + head[8:] + record[session.size :]
        made.append(record + bytes(-len(record) % 8))
        at += -(-struct.unpack_from("<I", records, at + 4)[0] // 8) * 8
    return b"".join(made)


def as_of_now(frames: list[Frame]) -> list[Frame]:
    """Return the frames of a recording in the layouts of this version, which C requires."""
    header = decode_header(frames[0].payload)
    former = {layout.name: layout for layout in header.layouts}
    own = former | {layout.name: layout for layout in own_layouts()}
    facts = encode_header(replace(header, layouts=tuple(own.values())))
    return [
        Frame(FrameKind.FACTS, facts),
        *(
            frame._replace(payload=records_as_of_now(frame.payload, former, own))
            if frame.kind == FrameKind.RECORDS
            else frame
            for frame in frames[1:]
        ),
    ]


def changed_strings(path: Path, text: str) -> bytes:
    """Return the recording with ``text`` inserted into every string that is not a key.

    Strings that must be names stay unchanged: release, modules and build ids.
    """

    def change(value: Any) -> Any:
        if isinstance(value, str):
            half = len(value) // 2
            return f"{value[:half]}{text}{value[half:]}"
        if isinstance(value, list):
            return [change(one) for one in value]
        if isinstance(value, dict):
            keep = ("layouts", "kind", "mode", "format", "symbolize", "transport")
            keep += ("release", "build_id", "module", "modules")
            return {key: one if key in keep else change(one) for key, one in value.items()}
        return value

    def change_symbols(symbols: list[Any]) -> Any:
        return [
            [is_return, [*change(found[:4]), found[4], *change(found[5:])]]
            for is_return, found in symbols
        ]

    def change_user_symbols(symbols: list[Any]) -> Any:
        return [[key, change(found)] for key, found in symbols]

    def change_frame(frame: Frame) -> Frame:
        if frame.kind == FrameKind.WARNING:
            return frame._replace(payload=change(frame.payload.decode()).encode())
        if frame.kind == FrameKind.END:
            stats = json.loads(frame.payload)["stats"]
            more = {f"{name}{text}": 7 for name in stats}
            return frame._replace(payload=json.dumps({"stats": stats | more}).encode())
        if frame.kind == FrameKind.SYMBOLS:
            return _with_value(frame, change_symbols)
        if frame.kind == FrameKind.USER_SYMBOLS:
            return _with_value(frame, change_user_symbols)
        return _with_value(frame, change)

    frames = [change_frame(frame) for frame in frames_of(path)]
    warning = Frame(FrameKind.WARNING, f"one more {text}".encode())
    return pack([frames[0], warning, *frames[1:]])


def _with_value(frame: Frame, change: Callable[[Any], Any]) -> Frame:
    """Return the frame with its JSON or MessagePack value changed; raw records are unchanged."""
    if frame.kind in (FrameKind.FACTS, FrameKind.END):
        payload = json.dumps(change(json.loads(frame.payload))).encode()
    elif frame.kind in (FrameKind.SYMBOLS, FrameKind.USER_SYMBOLS):
        payload = msgspec.msgpack.encode(change(msgspec.msgpack.decode(frame.payload)))
    else:
        return frame
    return frame._replace(payload=payload)


class Mutator:
    """A generator of recordings made from ``sources``; equal seeds make equal recordings.

    With ``modern``, it also makes recordings in the layouts of this version.
    """

    def __init__(
        self, seed: int, sources: list[Path] | None = None, *, modern: bool = False
    ) -> None:
        self._random = random.Random(seed)
        self._sources = [frames_of(path) for path in sources or GOLDEN]
        if modern:
            self._sources += [as_of_now(frames) for frames in self._sources]

    def make(self, chance: random.Random) -> bytes:
        """Return a new recording; ``chance`` makes the choices."""
        self._random = chance
        return self.next()

    def next(self) -> bytes:
        """Return a new recording."""
        chance = self._random
        frames = list(chance.choice(self._sources))
        if chance.random() < 0.3:  # often enough that C writes some sessions
            at = [at for at, frame in enumerate(frames) if frame.kind == FrameKind.RECORDS]
            for one in reversed(at):
                frames[one:one] = [frames[one]] * 3
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            at = chance.randrange(len(frames))
            if chance.random() < 0.3:
                at = 0  # the facts are a single frame, and the largest target
            how = chance.choice(
                (self._value, self._value, self._numbers, self._bytes, self._order, self._layout)
            )
            how(frames, at)
        data = pack(frames)
        if chance.random() < 0.1:  # wrong checksums, like damage on a disk
            raw = bytearray(data)
            for _ in range(chance.randrange(1, 9)):
                raw[chance.randrange(len(raw))] = chance.randrange(256)
            data = bytes(raw[: chance.randrange(len(raw))] if chance.random() < 0.5 else raw)
        return data

    def _value(self, frames: list[Frame], at: int) -> None:
        try:
            frames[at] = _with_value(frames[at], self._changed)
        except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            self._bytes(frames, at)
        if frames[at].kind == FrameKind.RECORDS:
            self._numbers(frames, at)

    def _layout(self, frames: list[Frame], at: int) -> None:
        """Change a member's offset or size in a struct layout, and write a number there."""
        chance = self._random
        try:
            header = json.loads(frames[0].payload)
            layout = chance.choice(header["layouts"])
            number = chance.randrange(len(layout["members"]))
            name, offset, code = layout["members"][number]
            code = chance.choice((*"bBhHiIqQ", code, code, "8s"))
            offset += chance.choice((0, 0, -8, -4, -2, 1, 2, 4, 8))
            layout["members"][number] = [name, offset, code]
            if chance.random() < 0.7:  # remove the members that would overlap
                end = offset + struct.calcsize("<" + code)
                layout["members"] = [
                    one
                    for index, one in enumerate(layout["members"])
                    if index <= number or one[1] >= end
                ]
            layout["size"] += chance.choice((0, 0, 0, 8, -8, 4))
        except (ValueError, LookupError, TypeError, AttributeError, struct.error):
            return  # an earlier change already damaged it
        frames[0] = frames[0]._replace(payload=json.dumps(header).encode())
        records = [at for at, frame in enumerate(frames) if frame.kind == FrameKind.RECORDS]
        if not records or code.endswith("s"):
            return
        one = chance.choice(records)
        data = bytearray(frames[one].payload)
        value = chance.choice(NUMBERS)
        size, where = struct.calcsize("<" + code), 0
        while where + 8 <= len(data):  # all records of one kind: 1 is a session, 2 is a part
            kind, length = struct.unpack_from("<II", data, where)
            inside = offset >= 0 and where + offset + size <= len(data)
            if inside and (kind == 1) == (layout["name"] == "rsn_session"):
                masked = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
                data[where + offset : where + offset + size] = masked
            where += max(8, length + 7 & ~7)
        frames[one] = frames[one]._replace(payload=bytes(data))

    def _changed(self, value: Any) -> Any:
        """Return the value with one leaf or branch replaced."""
        chance = self._random
        if isinstance(value, list) and value and chance.random() < 0.93:
            at = chance.randrange(len(value))
            return [*value[:at], self._changed(value[at]), *value[at + 1 :]]
        if isinstance(value, dict) and value and chance.random() < 0.93:
            key = chance.choice(list(value))
            return {**value, key: self._changed(value[key])}
        if isinstance(value, int) and chance.random() < 0.8:
            return chance.choice((*NUMBERS, value + 1, value - 1, -value, value * 1000))
        if isinstance(value, str) and chance.random() < 0.8:
            return value + chance.choice(STRINGS)
        if isinstance(value, list) and value and chance.random() < 0.7:
            return chance.choice((value * 3, value[1:], value[:-1], list(reversed(value))))
        return chance.choice((*_OTHERS, *STRINGS, *NUMBERS))

    def _numbers(self, frames: list[Frame], at: int) -> None:
        """Overwrite bytes at which numbers may be stored."""
        chance, data = self._random, bytearray(frames[at].payload)
        for _ in range(chance.choice((1, 1, 2, 5))):
            size = chance.choice((1, 2, 4, 8))
            if len(data) < size:
                return
            offset = chance.randrange(len(data) - size + 1) // size * size
            number = chance.choice(NUMBERS) & ((1 << size * 8) - 1)
            struct.pack_into("<" + " BH I   Q"[size], data, offset, number)
        frames[at] = frames[at]._replace(payload=bytes(data))

    def _bytes(self, frames: list[Frame], at: int) -> None:
        """Change, remove or insert bytes."""
        chance, data = self._random, bytearray(frames[at].payload)
        if not data:
            return
        where = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[where] ^= 1 << chance.randrange(8)
            case 1:
                del data[where : where + chance.randrange(64)]
            case _:
                data[where:where] = data[: chance.randrange(64)]
        frames[at] = frames[at]._replace(payload=bytes(data))

    def _order(self, frames: list[Frame], at: int) -> None:
        """Remove, repeat or move frames, or change their kind."""
        chance = self._random
        match chance.randrange(4):
            case 0 if len(frames) > 1:
                del frames[at]
            case 1:
                frames.insert(at, chance.choice(frames))
            case 2:
                frames.insert(chance.randrange(len(frames)), frames.pop(at))
            case _:
                frames[at] = frames[at]._replace(kind=chance.randrange(1, 9))


class TooLong(BaseException):
    """A replay exceeded its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in the body after the limit. Works only in the main thread."""

    def stop(*_: object) -> None:
        raise TooLong

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


class Shown(NamedTuple):
    """The output and the end of a replay."""

    out: str
    err: str
    error: BaseException | None


def shown(path: Path, view: ReplayOverrides) -> Shown:
    """Replay ``path`` within the time limit."""
    out, err = io.StringIO(), io.StringIO()
    error: BaseException | None = None
    try:
        with time_limit(TIME_S):
            show(path, view, out, err)
    except (Exception, TooLong) as found:  # noqa: BLE001 - which one it is, is the question
        error = found
    if isinstance(error, RetsnoopError):
        err.write(f"{error.message}\n{error.hint or ''}\n")
    return Shown(out.getvalue(), err.getvalue(), error)


def complaint(found: Shown) -> str | None:
    """Return a forbidden effect of a replay, or None."""
    if found.error is not None and not isinstance(found.error, DataError):
        return f"it ended in {type(found.error).__name__}: {found.error}"
    for name, text in (("stdout", found.out), ("stderr", found.err)):
        bad = {char for line in text.split("\n") for char in line if not char.isprintable()}
        if bad:
            return f"{name} has {sorted(bad)!r}"
    return None


def try_one(data: bytes, view: str, folder: Path) -> str | None:
    """Replay ``data`` in one of :data:`VIEWS`. Return a forbidden effect, or None."""
    path = folder / "mutant.rsn"
    path.write_bytes(data)
    return complaint(shown(path, VIEWS[view]))


def run(count: int, seed: int = 0, keep: Path | None = None) -> list[str]:
    """Try ``count`` mutants of the golden recordings. Return the failures, each with its number.

    Failing mutants are stored in ``keep``.
    """
    mutator = Mutator(seed)
    views = list(VIEWS)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            data, view = mutator.next(), views[number % len(views)]
            said = try_one(data, view, Path(folder))
            if said is not None:
                wrong.append(f"mutant {number} of seed {seed}, shown {view}: {said}")
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{seed}-{number}.rsn").write_bytes(data)
    return wrong
