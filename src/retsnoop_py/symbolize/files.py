# SPDX-License-Identifier: BSD-2-Clause
"""Which source file a function was compiled from."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.libbpf.dwarf import CompileUnit
from retsnoop_py.symbolize.sources import KernelImages, PlacedImage

__all__ = ["SourceFiles"]


class _Image(NamedTuple):
    """An image's code, ascending: where each range of a unit starts and ends, and the unit."""

    bias: int
    starts: list[int]
    ends: list[int]
    units: list[CompileUnit]


class SourceFiles:
    """Asks the compile units of ``images``, vmlinux's and those of modules asked for."""

    def __init__(self, images: KernelImages) -> None:
        self._images = images
        self._known: dict[str | None, _Image | None] = {}

    def file_of(self, address: int, module: str | None) -> str | None:
        """The file with the code at ``address``, relative to the kernel's source.

        None where no image has it.
        """
        if module not in self._known:
            self._known[module] = self._read(module)
        image = self._known[module]
        if image is None:
            return None
        linked = address - image.bias
        index = bisect_right(image.starts, linked) - 1
        if index < 0 or linked >= image.ends[index]:
            return None
        unit = image.units[index]
        return self._images.paths.relative(unit.name, unit.comp_dir)

    def _read(self, module: str | None) -> _Image | None:
        images = self._images
        placed = images.vmlinux() if module is None else images.module(module)
        if placed is None:
            return None
        try:
            return _ordered(placed)
        except RetsnoopError as error:
            images.warn(f"some source files are missing: {error.message}")
            return None


def _ordered(placed: PlacedImage) -> _Image:
    spans = sorted(
        ((low, high, number), unit)
        for number, unit in enumerate(placed.dwarf.units())
        for low, high in unit.ranges
    )
    return _Image(
        placed.bias,
        [low for (low, _, _), _ in spans],
        [high for (_, high, _), _ in spans],
        [unit for _, unit in spans],
    )
