# SPDX-License-Identifier: BSD-2-Clause
"""Showing a recording again, through the same pipeline as the live run."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from retsnoop_py.errors import DataError
from retsnoop_py.recording.format import (
    FrameKind,
    decode_end,
    decode_facts,
    decode_symbols,
    decode_user_symbols,
    decode_warning,
)
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.reader import Frame, damaged, read_frames
from retsnoop_py.recording.symbols import RecordedSymbolizer
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.facts import StreamFacts
from retsnoop_py.session.pipeline import Pipeline
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.frames import Symbolizer
from retsnoop_py.text import printable

__all__ = ["ReplayOverrides", "replay"]

#: Bytes of memory that a replay may take, and for each byte of its file.
_MEMORY = 500 << 20
_MEMORY_PER_BYTE = 64


def replay(path: Path, overrides: ReplayOverrides, out: TextIO, err: TextIO | None = None) -> int:
    """Write to ``out`` what the live run wrote, changed by ``overrides``; the exit status.

    ``err`` (standard error) gets the live run's warnings and what was asked for but not
    captured. Raises InputError and DataError as :func:`read_frames`, DataError too if a
    frame's contents make no sense; everything before has been written then.
    """
    err = err if err is not None else sys.stderr
    try:
        with memory_limit(path):
            return _replay(path, overrides, out, err)
    except MemoryError:
        raise DataError(
            f"{path} takes too much memory to be shown: over"
            f" {_MEMORY >> 20} MiB and {_MEMORY_PER_BYTE} times its size",
            "everything before that has been shown; recordings of retsnoop-py take less",
        ) from None


def _replay(path: Path, overrides: ReplayOverrides, out: TextIO, err: TextIO) -> int:
    frames = read_frames(path)
    facts = read_facts(path, frames)
    for sentence in overrides.missing(facts):
        err.write(f"NOTE: {sentence}\n")
    symbols = RecordedSymbolizer()
    with _symbolizer(facts, overrides.apply(facts), symbols, err) as symbolizer:
        settings = overrides.apply(facts)
        pipeline = Pipeline(facts, settings, symbolizer, out, err=err, users=symbols)
        for frame in frames:
            try:
                _play(frame, pipeline, symbols)
            except DataError as error:
                raise damaged(path, frame.offset, error.message) from None
            if pipeline.done:
                pipeline.finish({})
                break
    return pipeline.exit_status


@contextmanager
def memory_limit(path: Path) -> Iterator[None]:
    """Let this process take no more memory than replaying ``path`` may: MemoryError then.

    A few bytes can be made to say that there are a million of something.
    """
    try:
        size = path.stat().st_size
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        size = used = 0  # reading the file tells why
    old, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + _MEMORY + _MEMORY_PER_BYTE * size
    limits = [limit for limit in (wanted, old) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (old, most))


def read_facts(path: Path, frames: Iterator[Frame]) -> StreamFacts:
    """The facts a recording starts with. Raises DataError if it does not."""
    frame = next(frames)
    if frame.kind != FrameKind.FACTS:
        raise damaged(path, frame.offset, "it does not start with the facts of its kernel")
    try:
        facts = decode_facts(frame.payload)
        Collector(facts.functions, facts.layouts)
    except DataError as error:
        raise damaged(path, frame.offset, error.message) from None
    return facts


@contextmanager
def _symbolizer(
    facts: StreamFacts, settings: Settings, symbols: RecordedSymbolizer, err: TextIO
) -> Iterator[Symbolizer]:
    if settings.kernel_image is None:
        yield symbols
        return
    from retsnoop_py.recording.images import image_symbolizer

    image, mode = settings.kernel_image, settings.symbolize
    with image_symbolizer(facts, image, mode, symbols) as symbolizer:
        yield symbolizer
        for warning in symbolizer.warnings:
            err.write(f"WARNING: {printable(warning)}\n")


def _play(frame: Frame, pipeline: Pipeline, symbols: RecordedSymbolizer) -> None:
    if frame.kind == FrameKind.RECORDS:
        pipeline.feed(frame.payload)
    elif frame.kind == FrameKind.SYMBOLS:
        symbols.add(decode_symbols(frame.payload))
    elif frame.kind == FrameKind.USER_SYMBOLS:
        symbols.add_users(decode_user_symbols(frame.payload))
    elif frame.kind == FrameKind.WARNING:
        pipeline.warn(decode_warning(frame.payload))
    elif frame.kind == FrameKind.END:
        pipeline.finish(decode_end(frame.payload).stats)
