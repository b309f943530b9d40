# SPDX-License-Identifier: BSD-2-Clause
"""Recordings damaged with intent, and what a replay of them must never do.

``python -m tests.fuzz [COUNT [SEED]]`` tries so many and prints what went wrong; a seed gives the
same ones again. A replay may show what it can read and end in a :class:`DataError`; it must
neither end in another error nor take long, nor much memory, nor print what a terminal obeys.
"""

from __future__ import annotations

import io
import json
import random
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from retsnoop_py.cli.replay import show
from retsnoop_py.errors import DataError, RetsnoopError
from retsnoop_py.recording.format import FrameKind, file_header, pack_frame
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.settings import ArgMode, OutputFormat

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.rsn"))
#: Seconds a replay of a small recording may take, on a slow machine that does other things too.
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
#: The ways a recording is shown.
VIEWS: dict[str, ReplayOverrides] = {
    "as it was": ReplayOverrides(),
    "all": ReplayOverrides(**_ALL, unfiltered=True, emit_addrs=True, width=0),
    "verbose": ReplayOverrides(**_ALL, mode=ArgMode.VERBOSE, raw_pointers=True, ascii=True),
    "multiline": ReplayOverrides(**_ALL, mode=ArgMode.MULTILINE, dec_offs=True),
    "json": ReplayOverrides(**_ALL, format=OutputFormat.JSON),
}
#: What a terminal would obey, and what reads backwards.
STRINGS = ("\x1b[31mx", "\x9b2J", "\u202egnp.exe", "\r", "a\nb", "\x00", "\x7f", "\u2028", "")
_NUMBERS = (-1, 0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1)
_OTHERS = (None, True, 1.5, [], {}, "x", [[]] * 3, 10**30)


class Frame(NamedTuple):
    """A frame of a recording, its payload not compressed."""

    kind: int
    payload: bytes


def frames_of(path: Path) -> list[Frame]:
    """All frames of a recording."""
    return [Frame(frame.kind, frame.payload) for frame in read_frames(path)]


def pack(frames: list[Frame]) -> bytes:
    """A recording with right checksums, whatever is in it."""
    return file_header() + b"".join(pack_frame(kind, payload) for kind, payload in frames)


def changed_strings(path: Path, text: str) -> bytes:
    """The recording with ``text`` in the middle of every string that is not a key."""

    def change(value: Any) -> Any:
        if isinstance(value, str):
            half = len(value) // 2
            return f"{value[:half]}{text}{value[half:]}"
        if isinstance(value, list):
            return [change(one) for one in value]
        if isinstance(value, dict):
            keep = ("layouts", "kind", "mode", "format", "symbolize", "transport")
            return {key: one if key in keep else change(one) for key, one in value.items()}
        return value

    def change_frame(frame: Frame) -> Frame:
        if frame.kind == FrameKind.WARNING:
            return frame._replace(payload=change(frame.payload.decode()).encode())
        if frame.kind == FrameKind.END:
            stats = json.loads(frame.payload)["stats"]
            more = {f"{name}{text}": 7 for name in stats}
            return frame._replace(payload=json.dumps({"stats": stats | more}).encode())
        return _with_value(frame, change)

    frames = [change_frame(frame) for frame in frames_of(path)]
    warning = Frame(FrameKind.WARNING, f"one more {text}".encode())
    return pack([frames[0], warning, *frames[1:]])


def _with_value(frame: Frame, change: Callable[[Any], Any]) -> Frame:
    """The frame with its JSON or MessagePack value changed; raw records as they are."""
    if frame.kind in (FrameKind.FACTS, FrameKind.END):
        payload = json.dumps(change(json.loads(frame.payload))).encode()
    elif frame.kind in (FrameKind.SYMBOLS, FrameKind.USER_SYMBOLS):
        payload = msgspec.msgpack.encode(change(msgspec.msgpack.decode(frame.payload)))
    else:
        return frame
    return frame._replace(payload=payload)


class Mutator:
    """Makes recordings out of ``sources``; equal seeds make equal ones."""

    def __init__(self, seed: int, sources: list[Path] | None = None) -> None:
        self._random = random.Random(seed)
        self._sources = [frames_of(path) for path in sources or GOLDEN]

    def next(self) -> bytes:
        """One more recording."""
        chance = self._random
        frames = list(chance.choice(self._sources))
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            at = chance.randrange(len(frames))
            if chance.random() < 0.3:
                at = 0  # the facts are one frame, and the largest target
            how = chance.choice((self._value, self._value, self._numbers, self._bytes, self._order))
            how(frames, at)
        data = pack(frames)
        if chance.random() < 0.1:  # with wrong checksums, as a disk damages it
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

    def _changed(self, value: Any) -> Any:
        """The value with one leaf, or one branch, replaced."""
        chance = self._random
        if isinstance(value, list) and value and chance.random() < 0.93:
            at = chance.randrange(len(value))
            return [*value[:at], self._changed(value[at]), *value[at + 1 :]]
        if isinstance(value, dict) and value and chance.random() < 0.93:
            key = chance.choice(list(value))
            return {**value, key: self._changed(value[key])}
        if isinstance(value, int) and chance.random() < 0.8:
            return chance.choice((*_NUMBERS, value + 1, value - 1, -value, value * 1000))
        if isinstance(value, str) and chance.random() < 0.8:
            return value + chance.choice(STRINGS)
        if isinstance(value, list) and value and chance.random() < 0.7:
            return chance.choice((value * 3, value[1:], value[:-1], list(reversed(value))))
        return chance.choice((*_OTHERS, *STRINGS, *_NUMBERS))

    def _numbers(self, frames: list[Frame], at: int) -> None:
        """Numbers overwritten where some may be."""
        chance, data = self._random, bytearray(frames[at].payload)
        for _ in range(chance.choice((1, 1, 2, 5))):
            size = chance.choice((1, 2, 4, 8))
            if len(data) < size:
                return
            offset = chance.randrange(len(data) - size + 1) // size * size
            number = chance.choice(_NUMBERS) & ((1 << size * 8) - 1)
            struct.pack_into("<" + " BH I   Q"[size], data, offset, number)
        frames[at] = frames[at]._replace(payload=bytes(data))

    def _bytes(self, frames: list[Frame], at: int) -> None:
        """Bytes changed, cut or put in."""
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
        """Frames lost, doubled, moved, or of another kind."""
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
    """A replay took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in what takes longer; in the main thread only."""

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
    """What a replay printed, and how it ended."""

    out: str
    err: str
    error: BaseException | None


def shown(path: Path, view: ReplayOverrides) -> Shown:
    """Replay ``path``, for no longer than a replay may take."""
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
    """What a replay did that none may do."""
    if found.error is not None and not isinstance(found.error, DataError):
        return f"it ended in {type(found.error).__name__}: {found.error}"
    for name, text in (("stdout", found.out), ("stderr", found.err)):
        bad = {char for line in text.split("\n") for char in line if not char.isprintable()}
        if bad:
            return f"{name} has {sorted(bad)!r}"
    return None


def try_one(data: bytes, view: str, folder: Path) -> str | None:
    """Replay ``data`` in one of :data:`VIEWS`; what is wrong with that, None for nothing."""
    path = folder / "mutant.rsn"
    path.write_bytes(data)
    return complaint(shown(path, VIEWS[view]))


def run(count: int, seed: int = 0, keep: Path | None = None) -> list[str]:
    """Try ``count`` mutants of the golden recordings; what went wrong, each with its number.

    Those are kept in ``keep``.
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


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    complaints = run(*numbers or (1000,), keep=Path("build/fuzz"))
    print("\n".join(complaints) or "nothing to complain about")
    sys.exit(bool(complaints))
