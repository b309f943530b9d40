# SPDX-License-Identifier: BSD-2-Clause
"""A recording as the source of a pipeline, in place of a live run.

Names are those that were recorded; source lines, too, unless the user has the kernel's image.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.recording.format import (
    FrameKind,
    decode_end,
    decode_header,
    decode_origins,
    decode_symbols,
    decode_user_symbols,
    decode_warning,
)
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.reader import RecordedSymbolizer, RecordingFrame, damaged, read_frames
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.pipeline import Pipeline, Sink, SinkMaker
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, Symbolizer

if TYPE_CHECKING:
    from retsnoop_py.symbolize.kernel import KernelSymbolizer
    from retsnoop_py.symbolize.sources import KernelImages

__all__ = ["Replay", "ReplayOverrides", "memory_limit", "read_header"]

#: Bytes of memory that a replay may take, and for each byte of its file.
_MEMORY = 500 << 20
_MEMORY_PER_BYTE = 64


class Replay:
    """The recording at ``path``, shown like its live run, changed by ``overrides``.

    ``header`` is the header of the live run, ``settings`` are the settings of the replay.
    ``missing`` has a sentence for each requested thing that the recording lacks. Raises InputError
    and DataError like :func:`read_frames`.
    """

    def __init__(self, path: Path, overrides: ReplayOverrides) -> None:
        self._path = path
        self._overrides = overrides
        self._frames = read_frames(path)
        self.header = read_header(path, self._frames)
        self.settings = overrides.apply(self.header)
        self.missing = overrides.missing(self.header)

    def again(self) -> Replay:
        """The same from its beginning."""
        return Replay(self._path, self._overrides)

    def play(self, make_sink: SinkMaker) -> Iterator[None]:
        """Pass everything to the sink, and yield after each part.

        Raises the errors of :func:`read_frames` and of the sink, and DataError if the content of a
        frame is invalid; everything before it has been shown then.
        """
        symbols = RecordedSymbolizer()
        sink = make_sink(self.header, self.settings)
        with _symbolizer(self.header, self.settings, symbols, sink) as symbolizer:
            pipeline = Pipeline(
                self.header, self.settings, symbolizer, sink, users=symbols, origins=symbols
            )
            try:
                yield from self._play(pipeline, symbols)
            except DataError:
                pipeline.conclude()
                raise

    def _play(self, pipeline: Pipeline, symbols: RecordedSymbolizer) -> Iterator[None]:
        for frame in self._frames:
            try:
                yield from _play(frame, pipeline, symbols)
            except DataError as error:
                raise damaged(self._path, frame.offset, error.message) from None
            if pipeline.done:
                pipeline.finish({})
                break


@contextmanager
def memory_limit(path: Path) -> Iterator[None]:
    """Limit the memory of this process to the maximum for replaying ``path``.

    A few bytes can claim a million elements. Raises DataError if the limit is exceeded.
    """
    try:
        with _data_limit(path):
            yield
    except MemoryError:
        raise DataError(
            f"{path} needs too much memory: over"
            f" {_MEMORY >> 20} MiB and {_MEMORY_PER_BYTE} times its size",
            "everything before that has been shown; recordings of retsnoop-py take less",
        ) from None


@contextmanager
def _data_limit(path: Path) -> Iterator[None]:
    """The same by a MemoryError."""
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


def read_header(path: Path, frames: Iterator[RecordingFrame]) -> StreamHeader:
    """The facts a recording starts with. Raises DataError if it does not."""
    frame = next(frames)
    if frame.kind != FrameKind.FACTS:
        raise damaged(path, frame.offset, "it does not start with the facts of its kernel")
    try:
        header = decode_header(frame.payload)
        Collector(header.functions, header.layouts)
    except DataError as error:
        raise damaged(path, frame.offset, error.message) from None
    return header


@contextmanager
def _symbolizer(
    header: StreamHeader, settings: Settings, symbols: RecordedSymbolizer, sink: Sink
) -> Iterator[Symbolizer]:
    if settings.kernel_image is None:
        yield symbols
        return
    image, mode = settings.kernel_image, settings.symbolize
    with _over_image(header, image, mode, symbols) as symbolizer:
        yield symbolizer
        for warning in symbolizer.warnings:
            sink.say(f"WARNING: {warning}")


def _play(frame: RecordingFrame, pipeline: Pipeline, symbols: RecordedSymbolizer) -> Iterator[None]:
    if frame.kind == FrameKind.RECORDS:
        yield from pipeline.parts(frame.payload)
    elif frame.kind == FrameKind.SYMBOLS:
        symbols.add(decode_symbols(frame.payload))
    elif frame.kind == FrameKind.USER_SYMBOLS:
        symbols.add_users(decode_user_symbols(frame.payload))
    elif frame.kind == FrameKind.ORIGINS:
        symbols.add_origins(decode_origins(frame.payload))
    elif frame.kind == FrameKind.WARNING:
        pipeline.warn(decode_warning(frame.payload))
    elif frame.kind == FrameKind.END:
        end = decode_end(frame.payload)
        pipeline.finish(end.stats, counts=end.counts)
        yield


class _ImageSymbolizer:
    """Names from the recording, source lines from an image.

    The recorded lines are kept where the image has none, for example in modules: their places in
    memory are not recorded. ``warnings`` lists the problems of the image.
    """

    def __init__(
        self, recorded: RecordedSymbolizer, symbolizer: KernelSymbolizer, images: KernelImages
    ) -> None:
        self._recorded = recorded
        self._symbolizer = symbolizer
        self.warnings = images.warnings

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.Symbolizer`."""
        found = self._symbolizer.resolve(address, is_return=is_return)
        return found if found.frames else self._recorded.resolve(address, is_return=is_return)


@contextmanager
def _over_image(
    header: StreamHeader, image: Path, mode: SymbolizeMode, recorded: RecordedSymbolizer
) -> Iterator[_ImageSymbolizer]:
    """A symbolizer over the kernel image at ``image``.

    Raises InputError or DataError if it is missing, without DWARF, or not of the kernel that
    was recorded.
    """
    from retsnoop_py.symbolize.kernel import KernelSymbolizer
    from retsnoop_py.symbolize.sources import KernelImages

    recorded_facts = _RecordedFacts(header, recorded)
    with KernelImages(recorded_facts, image) as images:
        symbolizer = KernelSymbolizer(recorded_facts, mode, images)
        yield _ImageSymbolizer(recorded, symbolizer, images)


class _RecordedSymbol(NamedTuple):
    address: int
    name: str
    module: str | None


class _RecordedSymbols:
    """The recorded part of kallsyms: the symbols of the recorded addresses, and ``_stext``."""

    def __init__(self, stext: int, recorded: RecordedSymbolizer) -> None:
        self._stext = stext
        self._recorded = recorded

    def lookup(self, address: int) -> tuple[_RecordedSymbol, int] | None:
        for is_return in (True, False):
            found = self._recorded.resolve(address, is_return=is_return)
            if found.name is not None:
                return _RecordedSymbol(found.start, found.name, found.module), found.offset
        return None

    def address_of(self, name: str) -> int | None:
        return self._stext or None if name == "_stext" else None


class _RecordedFacts:
    """The facts of a recorded kernel that images are found and placed by."""

    root = Path("/")
    modules: tuple[_RecordedSymbol, ...] = ()

    def __init__(self, header: StreamHeader, recorded: RecordedSymbolizer) -> None:
        self.release = header.release
        self.build_id = header.build_id
        self.kallsyms = _RecordedSymbols(header.stext, recorded)
        self._module_build_ids = {module.name: module.build_id for module in header.modules}

    def module_build_id(self, name: str) -> str | None:
        return self._module_build_ids.get(name)

    def module_sections(self, name: str) -> Mapping[str, int]:  # noqa: ARG002 - see SourceFacts
        return {}
