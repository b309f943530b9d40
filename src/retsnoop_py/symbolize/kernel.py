# SPDX-License-Identifier: BSD-2-Clause
"""Kernel addresses resolved live: the name by kallsyms, the source lines by DWARF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.symbolize.sources import KernelImages, SourceFacts, Symbol

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import Location

__all__ = ["KernelSymbolizer"]

#: Answers kept; a trace meets a few thousand addresses, a broken one must not eat the memory.
_CACHE_MAX = 1 << 16

#: Where calls return to while a kretprobe or fexit is armed (by kernel version): the address at
#: the very start of these is real, not the end of the function before.
_TRAMPOLINES = frozenset(
    {
        "arch_rethook_trampoline",
        "kretprobe_trampoline",
        "__kretprobe_trampoline",
        "return_to_handler",
    }
)


class KernelSymbolizer:
    """Resolves addresses of the running kernel; implements :class:`frames.Symbolizer`.

    ``mode`` decides how much of DWARF is shown; ``AUTO`` is ``INLINES`` where ``images`` found a
    vmlinux, else ``NONE``; without ``images`` it is ``NONE`` too. Without DWARF for an address,
    its name is all there is. What goes wrong while reading DWARF is told once, in
    ``images.warnings``. Leaving the context closes ``images``.
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
        """The symbol of ``address`` and the address whose source location is meant.

        A call that never returns may be the last instruction of its function; the return
        address is then that of whatever follows.
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
    """What DWARF knows, if it knows the function.

    A line row without a function is trusted in assembly only: elsewhere it is padding or a
    trampoline behind some other function.
    """
    image = images.vmlinux() if symbol.module is None else images.module(symbol.module)
    if image is None:
        return None
    try:
        location = image.dwarf.lookup(address - image.bias)
    except RetsnoopError as error:
        images.warn(f"some source lines are missing: {error.message}")
        return None
    if location and location.frames[0].function is None and not location.is_assembly:
        return None
    return location
