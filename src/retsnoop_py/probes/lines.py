# SPDX-License-Identifier: BSD-2-Clause
"""Where the code of a source line is, by DWARF.

A line may have code in many places: its parts are moved away from each other, and a function that
is inlined is wherever it is called. All of them are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError
from retsnoop_py.text import did_you_mean, near_names

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import DwarfImage, LinePlace
    from retsnoop_py.symbolize.sources import KernelImages, PlacedImage

__all__ = ["SourceLines"]

_SHOWN = 3


class _Unit(NamedTuple):
    """A compile unit: its image, its number there and its path in the kernel's sources."""

    image: PlacedImage
    number: int
    path: str
    comp_dir: str


class _Found(NamedTuple):
    """Addresses by source path, and the nearest lines that have code."""

    places: dict[str, list[int]]
    near: list[int]


class SourceLines:
    """The source lines of the kernel whose ``images`` have DWARF; None where nobody needs them."""

    def __init__(self, images: KernelImages | None) -> None:
        self._images = images

    def places(self, path: str, line: int) -> list[tuple[int, str]]:
        """The run-time addresses at which code of a line begins, and its path in the sources.

        ``path`` is that path or the end of it. Raises InputError if there is no such file, if
        there are several, or if the line has no code; UnavailableError without DWARF to ask.
        """
        images = self._images
        vmlinux = images.vmlinux() if images else None
        if images is None or vmlinux is None:
            raise UnavailableError(
                f"-J kprobe:{path}:{line} needs a kernel image with DWARF, and none was found",
                "install the kernel's debug package, set DEBUGINFOD_URLS, or give -k VMLINUX; "
                "-v shows where it was looked for",
            )
        units = list(_units(images, "", vmlinux))
        chosen = [unit for unit in units if unit.path == path]
        if not chosen:
            units += _module_units(images, basename(path))
            own = [unit for unit in units if _ends_in(unit.path, path)]
            # a header, or a file that others include, is no unit of its own
            chosen = [unit for unit in own if unit.path == path] or own or units
        found = self._search(images, chosen, path, line)
        if not found.places:
            raise _nothing(path, line, found.near, (unit.path for unit in units))
        if len(found.places) > 1:
            raise _several(path, line, found.places)
        ((source, addresses),) = found.places.items()
        return [(address, source) for address in sorted(set(addresses))]

    def _search(self, images: KernelImages, units: Iterable[_Unit], path: str, line: int) -> _Found:
        places: dict[str, list[int]] = {}
        near: set[int] = set()
        for unit in units:
            try:
                found = unit.image.dwarf.find_line(unit.number, path, line)
            except RetsnoopError as error:
                images.warn(f"no source lines of {unit.path}: {error.message}")
                continue
            near.update(filter(None, (found.below, found.above)))
            for address, file, _ in _distinct(unit.image.dwarf, found.places):
                source = images.paths.relative(file, unit.comp_dir)
                if _ends_in(source, path):
                    places.setdefault(source, []).append(address + unit.image.bias)
        below = max((one for one in near if one < line), default=0)
        above = min((one for one in near if one > line), default=0)
        nearest = [one for one in (below, above) if one]
        return _Found({path: places[path]} if path in places else places, nearest)


def _distinct(dwarf: DwarfImage, places: Sequence[LinePlace]) -> Iterator[LinePlace]:
    """``places`` without those that say twice that the line is reached.

    A place without code of the line is left out if the line has code in the same function, or
    the same inlined copy of one.
    """
    if not any(place.is_empty for place in places):
        yield from places
        return
    # those with code first
    known: set[object] = set()
    for place in sorted(places, key=lambda place: (place.is_empty, place.address)):
        found = dwarf.lookup(place.address)
        within = (found.frames[0].function, found.frames[1:]) if found else None
        if not (place.is_empty and within in known):
            yield place
        known.add(within)


def _units(images: KernelImages, of: str, image: PlacedImage) -> Iterator[_Unit]:
    try:
        units = image.dwarf.units()
    except RetsnoopError as error:
        images.warn(f"source files{of} cannot be listed: {error.message}")
        return
    for number, unit in enumerate(units):
        path = images.paths.relative(unit.name, unit.comp_dir)
        yield _Unit(image, number, path, unit.comp_dir)


def _module_units(images: KernelImages, name: str) -> Iterator[_Unit]:
    """The units of modules that have files called ``name``."""
    for module in images.loaded_modules():
        image = images.module(module) if images.module_mentions(module, name.encode()) else None
        if image:
            yield from _units(images, f" of module {module}", image)


def _ends_in(source: str, path: str) -> bool:
    return source == path or source.endswith(f"/{path}")


def _nothing(path: str, line: int, near: list[int], sources: Iterable[str]) -> InputError:
    if near:
        return InputError(
            f"-J kprobe:{path}:{line}: this line has no code",
            f"the nearest that has is {' or '.join(map(str, near))}",
        )
    known = {basename(source): source for source in sources}
    names = near_names(basename(path), known)
    return InputError(
        f"-J kprobe:{path}:{line}: no code of this kernel comes from '{path}'",
        did_you_mean([known[name] for name in names]),
    )


def _several(path: str, line: int, sources: Iterable[str]) -> InputError:
    found = sorted(sources)
    shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    return InputError(
        f"-J kprobe:{path}:{line}: {len(found)} files of this name have code in that line: {shown}",
        "give more of the path",
    )
