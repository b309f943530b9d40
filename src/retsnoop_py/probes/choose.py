# SPDX-License-Identifier: BSD-2-Clause
"""Find the places in this kernel that the probes of ``-J`` mean.

A spec with a glob means all matching places that may be probed. A spec without a glob means exactly
one place, so any obstacle there is an error. A source line may have code in many places: the
compiler moves its parts apart, and an inlined function is at each of its calls. All these places
are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from posixpath import basename
from typing import TYPE_CHECKING, NamedTuple, Protocol

from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError, UsageError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.kallsyms import Symbol
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.kernel.tracefs import Tracepoint, Tracepoints
from retsnoop_py.libbpf.facts import Functions, glob_match
from retsnoop_py.probes.entry import entry_offset
from retsnoop_py.probes.spec import Probe, ProbeKind, ProbeSpec
from retsnoop_py.selection import deny_list
from retsnoop_py.text import did_you_mean, near_names

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import DwarfImage, LinePlace
    from retsnoop_py.symbolize.sources import KernelImages, PlacedImage
    from retsnoop_py.unprivileged.dwarf import UnprivilegedImage


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
    """The source lines of the kernel with DWARF in ``images``; None if no probe needs them."""

    def __init__(self, images: KernelImages | None) -> None:
        self._images = images

    def addresses_of(self, path: str, line: int) -> list[tuple[int, str]]:
        """Return the run-time addresses where code of a line begins, with its source path.

        ``path`` is the source path or its end. Raises InputError if no file or several files match,
        or if the line has no code; UnavailableError without DWARF.
        """
        images = self._images
        vmlinux = images.vmlinux() if images else None
        if images is None or vmlinux is None:
            raise UnavailableError(
                f"-J kprobe:{path}:{line} needs a kernel image with DWARF, and none was found",
                "install the kernel's debug package, set DEBUGINFOD_URLS, or give -k VMLINUX; "
                "-v lists the paths that were tried",
            )
        units = list(_units(images, "", vmlinux))
        chosen = [unit for unit in units if unit.path == path]
        if not chosen:
            units += _module_units(images, basename(path))
            own = [unit for unit in units if _ends_in(unit.path, path)]
            # a header, or an included file, is not a separate unit
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


def _distinct(
    dwarf: DwarfImage | UnprivilegedImage, places: Sequence[LinePlace]
) -> Iterator[LinePlace]:
    """Yield ``places`` without duplicates of the same source position.

    A place without code of the line is skipped if the line has code in the same function, or in the
    same inlined copy of a function.
    """
    if not any(place.is_empty for place in places):
        yield from places
        return
    # places with code first
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
    """Yield the units of modules that have files called ``name``."""
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
            f"the nearest line with code is {' or '.join(map(str, near))}",
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


#: More probes are an error: each needs descriptors, and time to attach and to detach.
MOST_PROBES = 512
#: Maximum size of an x86-64 instruction in bytes.
_LONGEST_INSN = 15
#: Every tracepoint that BPF can attach to has a function with this prefix.
_ITERATOR = "__traceiter_"
#: kallsyms lists BPF programs as functions of this module.
_BPF = "bpf"
#: The group of the deny list that applies only to return probes.
_NO_RETURN = "noreturn"


class LineSource(Protocol):
    """Finds the code of a source line."""

    def addresses_of(self, path: str, line: int) -> list[tuple[int, str]]:
        """Return the run-time addresses of a line, each with the path in the kernel's sources.

        Raises :class:`~retsnoop_py.errors.RetsnoopError` with the reason if no address exists.
        """
        ...


def choose_probes(
    specs: Iterable[ProbeSpec], facts: KernelFacts, lines: LineSource
) -> tuple[Probe, ...]:
    """Return the probes of ``specs``, each place once.

    Raises :class:`InputError` for a place that does not exist or must not be probed,
    :class:`UsageError` for more than :data:`MOST_PROBES`, and errors of reading the facts.
    """
    chooser = _Chooser(facts, lines)
    chosen: dict[tuple[str, int], Probe] = {}
    for spec in specs:
        found = chooser.find(spec)
        for probe in found:
            chosen.setdefault((probe.label, probe.address), probe)
        if len(chosen) > MOST_PROBES:
            raise UsageError(
                f"-J {spec.text}: {len(chosen)} probes are too many, the limit is {MOST_PROBES}",
                "write a narrower glob",
            )
    return tuple(chosen.values())


class _Chooser:
    """Finds probes in a kernel."""

    def __init__(self, facts: KernelFacts, lines: LineSource) -> None:
        self._facts = facts
        self._entry_offset = entry_offset(facts.machine)
        self._kallsyms = facts.kallsyms
        self._lines = lines
        self._tracepoints = Tracepoints(facts.root)

    @cached_property
    def _functions(self) -> Functions:
        return self._facts.functions

    @cached_property
    def _denied(self) -> tuple[deny_list.Deny, ...]:
        return deny_list.load()

    def find(self, spec: ProbeSpec) -> list[Probe]:
        """Return the probes of ``spec``, at least one."""
        if spec.kind is ProbeKind.TP:
            return self._tps(spec)
        if spec.kind is ProbeKind.RAWTP:
            return self._raw_tps(spec)
        if spec.line:
            return self._at_line(spec)
        return self._globbed(spec) if spec.is_glob else self._exact(spec)

    # -- functions --

    def _exact(self, spec: ProbeSpec) -> list[Probe]:
        named = self._kallsyms.named(spec.name)
        symbols = [symbol for symbol in named if symbol.size and symbol.module != _BPF]
        if not symbols:
            raise self._no_function(spec)
        inside = [symbol for symbol in symbols if spec.offset < symbol.size]
        if not inside:
            size = max(symbol.size for symbol in symbols)
            raise InputError(
                f"-J {spec.text}: '{spec.name}' has only {size} ({size:#x}) bytes",
                f"give an offset below {size:#x}",
            )
        for symbol in inside:
            reason = self._objection(spec, symbol, symbol.address + spec.offset)
            if reason:
                raise InputError(
                    f"-J {spec.text}: '{spec.name}' cannot be probed: {reason}",
                    "choose another function, for example its caller",
                )
        return [self._at(spec, symbol, spec.offset) for symbol in inside]

    def _globbed(self, spec: ProbeSpec) -> list[Probe]:
        table, listed = self._kallsyms.table, self._functions.listed
        found = table.match(listed, [(spec.name, None)]).symbols
        if len(found) > 2 * MOST_PROBES:
            raise _too_many(spec, len(found), "functions")
        symbols = self._kallsyms.symbols(found)
        welcome = [one for one in symbols if not self._objection(spec, one, one.address)]
        if symbols and not welcome:
            raise InputError(
                f"-J {spec.text} matches only functions that cannot be probed, such as "
                f"'{symbols[0].name}': {self._objection(spec, symbols[0], symbols[0].address)}"
            )
        if not symbols:
            raise self._no_function(spec)
        if len(welcome) > MOST_PROBES:
            raise _too_many(spec, len(welcome), "functions")
        return [self._at(spec, symbol, 0) for symbol in welcome]

    def _objection(self, spec: ProbeSpec, symbol: Symbol, address: int) -> str | None:
        """Return why a probe at ``address``, in ``symbol``, is not possible, or None."""
        for denied in self._denied:
            if denied.group == _NO_RETURN and spec.kind is not ProbeKind.KRETPROBE:
                continue
            if glob_match(denied.glob, symbol.name):
                return denied.reason
        if self._facts.kprobe_blacklist.covers(address):
            return "it is in the kernel's kprobe blacklist"
        if address != symbol.address and self._comes_back_wrong(address):
            return (
                f"at {address - symbol.address:#x} is a call of another size than 5 bytes, behind "
                "which kprobes of x86-64 come back to the wrong place: the kernel would die"
            )
        return None

    def _comes_back_wrong(self, address: int) -> bool:
        """Return True if a probe there would crash the kernel; False if its code is unreadable."""
        from retsnoop_py.path.machines import machine_named
        from retsnoop_py.path.probes import is_odd_call

        try:
            machine = machine_named(self._facts.machine)
            if machine.probes_open:
                return False
            with Kcore(self._facts.root / "proc/kcore") as memory:
                insns = machine.decode(memory.read(address, _LONGEST_INSN), address)
        except RetsnoopError:
            return False
        return bool(insns) and is_odd_call(insns[0])

    def _no_function(self, spec: ProbeSpec) -> InputError:
        from retsnoop_py.selection.explain import near_names
        from retsnoop_py.selection.globs import NameGlob

        message = f"-J {spec.text}: no kernel function has the name '{spec.name}'"
        if spec.is_glob:
            message = f"-J {spec.text} matches no traceable kernel function"
        elif self._kallsyms.named(spec.name) or self._kallsyms.lists(spec.name, None):
            return InputError(
                f"-J {spec.text}: '{spec.name}' is data, or code that is freed after boot"
            )
        return InputError(
            message, did_you_mean(near_names(self._facts, NameGlob(spec.name), self._functions))
        )

    def _at(self, spec: ProbeSpec, symbol: Symbol, offset: int, more: str = "") -> Probe:
        place, moved = "", 0
        if spec.kind is ProbeKind.KPROBE:
            place = f"+{offset:#x}"
            moved = 0 if offset else self._entry_offset(symbol.address, symbol.size)
        return Probe(
            spec=spec,
            label=f"{spec.kind.value}:{symbol.name}{place}{more}",
            address=symbol.address + offset + moved,
            function=symbol.name,
        )

    # -- source lines --

    def _at_line(self, spec: ProbeSpec) -> list[Probe]:
        probes, objections = [], []
        for address, path in self._lines.addresses_of(spec.name, spec.line):
            found = self._kallsyms.lookup(address)
            if found is None:
                continue  # code that the kernel freed after boot
            symbol, offset = found
            reason = self._objection(spec, symbol, address)
            if reason:
                objections.append(f"in '{symbol.name}': {reason}")
            else:
                probes.append(self._at(spec, symbol, offset, f" ({path}:{spec.line})"))
        if len(probes) > MOST_PROBES:
            raise _too_many(spec, len(probes), "places")
        if not probes:
            why = f": {objections[0]}" if objections else ": the kernel frees its code after boot"
            raise InputError(f"-J {spec.text}: this line cannot be probed{why}")
        return probes

    # -- tracepoints --

    def _tps(self, spec: ProbeSpec) -> list[Probe]:
        found = self._tracepoints.matching(spec.category, spec.name, glob_match)
        if not found:
            raise self._no_tracepoint(spec)
        if len(found) > MOST_PROBES:
            raise _too_many(spec, len(found), "tracepoints")
        return [
            Probe(
                spec=spec,
                label=f"tp:{one.category}:{one.name}",
                tracepoint=one,
                event=self._tracepoints.number(one),
            )
            for one in found
        ]

    def _no_tracepoint(self, spec: ProbeSpec) -> InputError:
        if spec.is_glob:
            return InputError(f"-J {spec.text} matches no tracepoint", _AT_TRACEPOINTS)
        categories = self._tracepoints.categories()
        if spec.category in categories:
            names = self._tracepoints.names(spec.category)
            near = _near(spec.name, names, f"tp:{spec.category}:")
            return InputError(
                f"-J {spec.text}: there is no tracepoint '{spec.name}' in '{spec.category}'",
                did_you_mean(near) or _AT_TRACEPOINTS,
            )
        same = self._tracepoints.matching("*", spec.name, glob_match)
        near = [f"tp:{one.category}:{one.name}" for one in same[:_SHOWN]]
        near = near or _near(spec.category, categories, "tp:", ":...")
        return InputError(
            f"-J {spec.text}: no tracepoints in category '{spec.category}'",
            did_you_mean(near) or "its module may not be loaded",
        )

    def _raw_tps(self, spec: ProbeSpec) -> list[Probe]:
        names = self._raw_names(spec.name)
        if not names:
            near = _near(spec.name, self._raw_names("*"), "rawtp:")
            verb = "matches no" if spec.is_glob else "is no"
            raise InputError(
                f"-J {spec.text}: '{spec.name}' {verb} raw tracepoint",
                did_you_mean(near) or "its module may not be loaded",
            )
        if len(names) > MOST_PROBES:
            raise _too_many(spec, len(names), "tracepoints")
        return [
            Probe(spec=spec, label=f"rawtp:{name}", tracepoint=Tracepoint("", name))
            for name in names
        ]

    def _raw_names(self, glob: str) -> list[str]:
        states = self._functions
        pattern = [(_ITERATOR + glob, None)]
        table = self._kallsyms.table
        found = [*table.match(states.listed, pattern).symbols]
        found += table.match(states.others, pattern).symbols
        return sorted({table.line(i).name.decode().removeprefix(_ITERATOR) for i in found})


_AT_TRACEPOINTS = "/sys/kernel/tracing/available_events lists them; a module's need it loaded"


def _too_many(spec: ProbeSpec, count: int, what: str) -> UsageError:
    return UsageError(
        f"-J {spec.text} matches {count} {what}, the limit is {MOST_PROBES} probes",
        "write a narrower glob",
    )


def _near(name: str, known: Sequence[str], before: str, behind: str = "") -> list[str]:
    near = [one for one in known if name in one][:_SHOWN] or near_names(name, known)
    return [f"{before}{one}{behind}" for one in near]
