# SPDX-License-Identifier: BSD-2-Clause
"""The images with the source lines of a running kernel: vmlinux and its modules.

Images are opened at their first use and shared by all code that reads DWARF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.images import (
    ImageFacts,
    ImageSearch,
    find_image,
    find_module_image,
)
from retsnoop_py.symbolize.paths import SourcePaths, source_root

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import DwarfImage, Variable
    from retsnoop_py.unprivileged.dwarf import UnprivilegedImage

__all__ = ["KernelImages", "PlacedImage", "SourceFacts", "Symbol"]


class Symbol(Protocol):
    """A symbol of kallsyms."""

    @property
    def address(self) -> int: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def module(self) -> str | None: ...  # noqa: D102


class _Symbols(Protocol):
    def lookup(self, address: int) -> tuple[Symbol, int] | None: ...
    def address_of(self, name: str) -> int | None: ...


class _Module(Protocol):
    @property
    def name(self) -> str: ...


class SourceFacts(ImageFacts, Protocol):
    """The facts about the kernel that symbolization needs."""

    @property
    def root(self) -> Path:
        """Return the folder with the kernel's file systems: ``/`` except in tests."""
        ...

    @property
    def kallsyms(self) -> _Symbols:
        """Return the kernel's symbols."""
        ...

    @property
    def modules(self) -> Iterable[_Module]:
        """Return the loaded modules."""
        ...

    def module_sections(self, name: str) -> Mapping[str, int]:
        """Return the runtime addresses of a module's sections."""
        ...


class PlacedImage:
    """An image and its displacement: runtime address = linked address + ``bias``."""

    def __init__(self, dwarf: DwarfImage | UnprivilegedImage, bias: int) -> None:
        self.dwarf = dwarf
        self.bias = bias


class KernelImages:
    """Find and open images; a context manager that closes the images.

    ``explicit`` is the user's ``-k``: an unusable file raises InputError or DataError at once.
    Without ``explicit`` no method raises: ``search`` has the result of the search, and ``warnings``
    the errors of images that were opened later, each once.
    """

    def __init__(
        self,
        facts: SourceFacts,
        explicit: Path | None = None,
        debuginfod: Debuginfod | None = None,
    ) -> None:
        self._facts = facts
        self._servers = debuginfod or Debuginfod()
        self._opened = ExitStack()
        self._vmlinux: PlacedImage | None = None
        self._vmlinux_tried = False
        self._modules: dict[str, PlacedImage | None] = {}
        self._module_searches: dict[str, ImageSearch] = {}
        self.warnings: list[str] = []
        self.paths = SourcePaths(self._source_root)
        self.search = find_image(facts, explicit, root=facts.root, debuginfod=self._servers)
        if explicit is not None:
            self._open_vmlinux()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        self._vmlinux, self._modules = None, {}

    @property
    def report(self) -> tuple[str, ...]:
        """Return for ``-v`` every searched path, with the reason for which it was rejected."""
        searches = (self.search, *self._module_searches.values())
        return tuple(line for search in searches for line in search.report)

    def warn(self, text: str) -> None:
        """Add ``text`` to ``warnings`` unless it is already there."""
        if text not in self.warnings:
            self.warnings.append(text)

    def vmlinux(self) -> PlacedImage | None:
        """Return the kernel's own image; None if missing or unusable."""
        if not self._vmlinux_tried:
            try:
                self._open_vmlinux()
            except RetsnoopError as error:
                self.warn(f"no source lines: {error.message}")
        return self._vmlinux

    def _open_vmlinux(self) -> None:
        self._vmlinux_tried = True
        path = self.search.path
        if path is None:
            return
        with ElfFile(path) as elf:
            text = elf.sections.get(".text")
        stext = self._facts.kallsyms.address_of("_stext")
        if text is None or stext is None:
            self.warn(
                f"no source lines: {path} cannot be located: no .text section or no _stext symbol"
            )
            return
        dwarf = self._opened_image(path)
        self._vmlinux = PlacedImage(dwarf, stext - text.address)

    def module(self, name: str) -> PlacedImage | None:
        """Return the image of loaded module ``name``, at its runtime addresses."""
        if name not in self._modules:
            try:
                self._modules[name] = self._open_module(name)
            except RetsnoopError as error:
                self._modules[name] = None
                self.warn(f"no source lines of module {name}: {error.message}")
        return self._modules[name]

    def _open_module(self, name: str) -> PlacedImage | None:
        sections = self._facts.module_sections(name)
        path = self.module_path(name) if sections else None
        if path is None:
            return None
        return PlacedImage(self._opened_image(path, sections), 0)

    def _opened_image(
        self, path: Path, sections: Mapping[str, int] | None = None
    ) -> DwarfImage | UnprivilegedImage:
        from retsnoop_py.unprivileged.dwarf import open_image

        image = open_image(path, sections)
        self._opened.callback(image.close)
        return image

    def variables(self, address: int, module: str | None) -> Sequence[Variable]:
        """Return the local variables with a known location at an address; may be empty."""
        image = self.vmlinux() if module is None else self.module(module)
        if image is None:
            return ()
        try:
            return image.dwarf.variables(address - image.bias)
        except RetsnoopError as error:
            self.warn(f"some names of variables are missing: {error.message}")
            return ()

    def module_path(self, name: str) -> Path | None:
        """Return the file with the DWARF of module ``name``, or None."""
        if name not in self._module_searches:
            self._module_searches[name] = find_module_image(
                self._facts,
                name,
                self.search.path,
                root=self._facts.root,
                debuginfod=self._servers,
            )
        return self._module_searches[name].path

    def module_mentions(self, name: str, *texts: bytes) -> bool:
        """Return True if the file of module ``name`` contains one of ``texts``.

        Relocating a module takes long, so other modules are skipped.
        """
        path = self.module_path(name)
        if path is None:
            return False
        try:
            with ElfFile(path) as elf:
                return elf.contains(*texts)
        except (OSError, RetsnoopError):
            return False

    def loaded_modules(self) -> tuple[str, ...]:
        """Return the names of all loaded modules."""
        return tuple(module.name for module in self._facts.modules)

    def _source_root(self) -> str | None:
        image = self.vmlinux()
        if image is None:
            return None
        try:
            return source_root((unit.name, unit.comp_dir) for unit in image.dwarf.units())
        except RetsnoopError:
            return None  # names stay absolute, as in DWARF
