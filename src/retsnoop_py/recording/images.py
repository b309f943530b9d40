# SPDX-License-Identifier: BSD-2-Clause
"""Looking up source lines again at replay, in a kernel image the user has now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.recording.reader import RecordedSymbolizer
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages


class ImageSymbolizer:
    """Names from the recording, source lines from an image.

    Where the image has none, as for modules, whose places in memory are not recorded, the
    recorded ones stay. ``warnings`` tells what went wrong with the image.
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
def image_symbolizer(
    header: StreamHeader, image: Path, mode: SymbolizeMode, recorded: RecordedSymbolizer
) -> Iterator[ImageSymbolizer]:
    """A symbolizer over the kernel image at ``image``.

    Raises InputError or DataError if it is missing, without DWARF, or not of the kernel that
    was recorded.
    """
    recorded_facts = _RecordedFacts(header, recorded)
    with KernelImages(recorded_facts, image) as images:
        symbolizer = KernelSymbolizer(recorded_facts, mode, images)
        yield ImageSymbolizer(recorded, symbolizer, images)


class _RecordedSymbol(NamedTuple):
    address: int
    name: str
    module: str | None


class _RecordedSymbols:
    """What a recording knows of kallsyms: the symbols its addresses are in, and ``_stext``."""

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
