# SPDX-License-Identifier: BSD-2-Clause
"""Resolve kernel addresses live: names from kallsyms, source lines and files from DWARF.

Code compiled from a file (as in ``:kernel/bpf/*.c``) is found by address ranges instead of names.
Names would miss every ``.isra`` and ``.constprop`` clone, and match unrelated functions of the same
name in other files.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError
from retsnoop_py.libbpf.dwarf import CompileUnit
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.symbolize.sources import KernelImages, PlacedImage, SourceFacts, Symbol

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import Location


_WILDCARD = re.compile(r"\[[^]]*\]|[*?]")


class CompileUnits:
    """The compile units of vmlinux and of the loaded modules with debug files."""

    def __init__(self, images: KernelImages) -> None:
        self._images = images
        self._units: dict[str, list[tuple[str, tuple[tuple[int, int], ...]]]] = {}

    def functions_in(self, pattern: str) -> list[tuple[int, int]]:
        """Return the runtime address ranges [low, high) compiled from files that match ``pattern``.

        ``pattern`` is a glob for paths relative to the kernel's source root, with or without a
        leading ``:``. Raise InputError for an invalid glob, and UnavailableError if no vmlinux with
        DWARF exists.
        """
        pattern = pattern.removeprefix(":")
        matcher = compile_pattern(pattern)
        literal = max(re.split(_WILDCARD, pattern), key=len)
        return sorted(
            span
            for name, image in self._images_with(pattern, literal)
            for span in self._matching(name, image, matcher)
        )

    def included_in(self, pattern: str, addresses: Sequence[int]) -> list[int]:
        """Return those of ``addresses`` that are functions in a file that matches ``pattern``.

        This finds files that are not compile units, but included by a file of the same folder:
        build_policy.c includes kernel/sched/deadline.c. ``addresses`` are ascending runtime
        addresses. Raise the errors of :meth:`functions_in`.
        """
        pattern = pattern.removeprefix(":")
        matcher = compile_pattern(pattern)
        folder = re.split(_WILDCARD, pattern)[0].rpartition("/")[0]
        if not folder:
            return []
        beside = re.compile(re.escape(folder) + r"/[^/]*")
        relative = self._images.paths.relative
        found = []
        for name, image in self._images_with(pattern, f"{folder}/"):
            for low, high in self._matching(name, image, beside):
                first = bisect_left(addresses, low)
                for address in addresses[first : bisect_left(addresses, high, first)]:
                    place = _looked_up(self._images, image, address)
                    file = place.frames[-1].file if place else None
                    if place and file and matcher.fullmatch(relative(file, place.comp_dir)):
                        found.append(address)
        return sorted(found)

    def _images_with(self, pattern: str, literal: str) -> Iterator[tuple[str, PlacedImage]]:
        """Yield vmlinux, and the modules whose files contain ``literal``, with their names."""
        vmlinux = self._images.vmlinux()
        if vmlinux is None:
            raise UnavailableError(
                f"source path :{pattern} needs a kernel image with DWARF, and none was found",
                "install the kernel's debug package, set DEBUGINFOD_URLS, or give -k VMLINUX; "
                "-v lists the paths that were tried",
            )
        yield "", vmlinux
        for module in self._images.loaded_modules():
            # Normalising changes a name that contains /../, as in kvm.
            if self._images.module_mentions(module, literal.encode(), b"/../"):
                image = self._images.module(module)
                if image:
                    yield module, image

    def _matching(
        self, name: str, image: PlacedImage, matcher: re.Pattern[str]
    ) -> list[tuple[int, int]]:
        if name not in self._units:
            self._units[name] = self._list(name, image)
        bias = image.bias
        return [
            (low + bias, high + bias)
            for path, ranges in self._units[name]
            if matcher.fullmatch(path)
            for low, high in ranges
        ]

    def _list(self, name: str, image: PlacedImage) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
        relative = self._images.paths.relative
        try:
            units = image.dwarf.units()
        except RetsnoopError as error:
            of = f" of module {name}" if name else ""
            self._images.warn(f"source files{of} cannot be listed: {error.message}")
            return []
        return [(relative(unit.name, unit.comp_dir), unit.ranges) for unit in units if unit.ranges]


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a path glob as a regular expression for ``fullmatch``.

    ``*`` and ``?`` also match ``/``; ``[abc]``, ``[a-z]`` and ``[!a]`` are character classes;
    ``**/`` is any number of directories. Raise InputError for a class without an end.
    """
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
            continue
        if char == "[":
            end = pattern.find("]", at + 3 if pattern.startswith("[!", at) else at + 2)
            if end < 0:
                raise InputError(
                    f"source path :{pattern} has a [ without a ]",
                    "write [[] for a literal bracket",
                )
            out.append(_character_class(pattern[at + 1 : end]))
            at = end
        else:
            out.append({"*": ".*", "?": "."}.get(char) or re.escape(char))
        at += 1
    return re.compile("".join(out), re.DOTALL)


def _character_class(body: str) -> str:
    negated = body.startswith("!")
    body = body[1:] if negated else body
    parts: list[str] = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            low, high = sorted((body[at], body[at + 2]))
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            parts.append(re.escape(body[at]))
            at += 1
    return f"[{'^' if negated else ''}{''.join(parts)}]"


# --- the other way: the file of a function ------------------------------------------------------


class _Image(NamedTuple):
    """The code of an image, ascending: start and end of each range, and its compile unit."""

    bias: int
    starts: list[int]
    ends: list[int]
    units: list[CompileUnit]


class SourceFiles:
    """Look up compile units in ``images``: vmlinux's, and modules' when needed."""

    def __init__(self, images: KernelImages) -> None:
        self._images = images
        self._known: dict[str | None, _Image | None] = {}

    def file_of(self, address: int, module: str | None) -> str | None:
        """Return the file with the code at ``address``, relative to the kernel's source.

        Return None if no image has the code.
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


#: Size of the cache. A trace has a few thousand addresses; the limit bounds memory for a damaged
#: trace.
_CACHE_MAX = 1 << 16

#: Trampolines to which calls return while a kretprobe or fexit program is attached, by kernel
#: version. Their first byte is a real return address; the byte before belongs to another function.
_TRAMPOLINES = frozenset(
    {
        "arch_rethook_trampoline",
        "kretprobe_trampoline",
        "__kretprobe_trampoline",
        "return_to_handler",
    }
)


class KernelSymbolizer:
    """Resolve addresses of the running kernel; implements :class:`frames.Symbolizer`.

    ``mode`` selects how much of DWARF is shown. ``AUTO`` means ``INLINES`` if ``images`` found a
    vmlinux, else ``NONE``; without ``images`` it means ``NONE``. If DWARF lacks an address, only
    its name is shown. Errors while reading DWARF are reported once, in ``images.warnings``. Leaving
    the context closes ``images``.
    """

    def __init__(
        self, facts: SourceFacts, mode: SymbolizeMode, images: KernelImages | None
    ) -> None:
        self._symbols = facts.kallsyms
        self._images = images
        self._known: dict[tuple[int, bool], Resolved] = {}
        if images is None or (mode is SymbolizeMode.AUTO and images.search.path is None):
            mode = SymbolizeMode.NONE
        elif mode is SymbolizeMode.AUTO:
            mode = SymbolizeMode.INLINES
        self.mode = mode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._images is not None:
            self._images.__exit__()

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """Resolve ``address``; see :class:`frames.Symbolizer`."""
        key = (address, is_return)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHE_MAX:
                self._known.clear()
            found = self._known[key] = self._resolve(address, is_return)
        return found

    def _resolve(self, address: int, is_return: bool) -> Resolved:
        symbol, place = self._symbol(address, is_return)
        if symbol is None:
            return Resolved(address, None, 0, 0, None)
        images = None if self.mode is SymbolizeMode.NONE else self._images
        frames = self._frames(images, symbol, place) if images is not None else ()
        offset = address - symbol.address
        return Resolved(address, symbol.name, offset, symbol.address, symbol.module, frames)

    def _symbol(self, address: int, is_return: bool) -> tuple[Symbol | None, int]:
        """Return the symbol of ``address``, and the address for the source location.

        A call that never returns may be the last instruction of its function. Then the return
        address belongs to the next function.
        """
        hit = self._symbols.lookup(address)
        if not is_return:
            return (hit[0] if hit else None), address
        if hit and (hit[1] > 0 or hit[0].name in _TRAMPOLINES):
            return hit[0], address - 1 if hit[1] else address
        before = self._symbols.lookup(address - 1)
        if before is not None:
            return before[0], address - 1
        return (hit[0] if hit else None), address

    def _frames(
        self, images: KernelImages, symbol: Symbol, address: int
    ) -> tuple[SourceFrame, ...]:
        location = _location(images, symbol, address)
        if location is None:
            return ()
        frames = [
            SourceFrame(
                function or symbol.name,
                images.paths.relative(file, location.comp_dir) if file else None,
                line,
                column,
            )
            for function, file, line, column in location.frames
        ]
        if self.mode is SymbolizeMode.LINES:
            return (frames[0],)
        return tuple(reversed(frames))


def _location(images: KernelImages, symbol: Symbol, address: int) -> Location | None:
    """Return the location from DWARF, if DWARF has the function.

    A line row without a function is valid in assembly only: elsewhere the address is padding or a
    trampoline after another function.
    """
    image = images.vmlinux() if symbol.module is None else images.module(symbol.module)
    location = _looked_up(images, image, address) if image else None
    if location and location.frames[0].function is None and not location.is_assembly:
        return None
    return location


def _looked_up(images: KernelImages, image: PlacedImage, address: int) -> Location | None:
    """Return the location of a runtime address in ``image``; report damaged DWARF once."""
    try:
        return image.dwarf.lookup(address - image.bias)
    except RetsnoopError as error:
        images.warn(f"some source lines are missing: {error.message}")
        return None
