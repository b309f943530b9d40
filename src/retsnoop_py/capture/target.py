# SPDX-License-Identifier: BSD-2-Clause
"""What a run is about: the kernel's facts, the functions chosen, the images that have DWARF.

Reads the kernel and changes nothing, so a dry run goes through it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from retsnoop_py.errors import InputError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.selection.model import Selection
from retsnoop_py.selection.select import select
from retsnoop_py.settings import Settings, SymbolizeMode
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan
    from retsnoop_py.probes.spec import Probe, ProbeSpec
    from retsnoop_py.symbolize.kernel import CompileUnits, KernelSymbolizer
    from retsnoop_py.symbolize.sources import KernelImages


class Target(Value):
    """The kernel and what of it to trace; ``symbolize`` is never ``AUTO``.

    ``images`` is None when neither the selection nor the output needs DWARF; ``notice`` says
    why there are no source lines where nobody insisted on them. ``captures`` is what is to be
    noted of arguments. ``ordinary`` says which results are no failures of which functions,
    and why.
    """

    facts: KernelFacts
    selection: Selection
    images: KernelImages | None
    symbolize: SymbolizeMode
    notice: str | None = None
    probes: tuple[Probe, ...] = ()
    captures: CapturePlan | None = None
    ordinary: Mapping[str, str] = MappingProxyType({})

    @property
    def kaslr_offset(self) -> int | None:
        """How far vmlinux was moved, bytes; None without an image to compare with."""
        vmlinux = self.images.vmlinux() if self.images is not None else None
        return vmlinux.bias if vmlinux is not None else None

    @property
    def image_report(self) -> tuple[str, ...]:
        """Every image looked at and why it was passed over."""
        return self.images.report if self.images is not None else ()

    @property
    def image_warnings(self) -> list[str]:
        """What was wrong with images that were opened."""
        return self.images.warnings if self.images is not None else []

    def symbolizer(self) -> KernelSymbolizer:
        """Resolves addresses of this kernel; a context manager that closes the images."""
        from retsnoop_py.symbolize.kernel import KernelSymbolizer

        return KernelSymbolizer(self.facts, self.symbolize, self.images)


def choose_target(
    settings: Settings, facts: KernelFacts | None = None, *, prototypes: bool = False
) -> Target:
    """Find images and functions; with ``prototypes``, or if a run shows or records them, these.

    ``facts`` are those of the running kernel, where the caller has read some already.

    Raises what :func:`~retsnoop_py.selection.select.select` and
    :func:`~retsnoop_py.probes.choose.choose_probes` raise; UnavailableError on a kernel
    without BTF; InputError where source lines were explicitly asked for and no image has them.
    """
    specs = _specs(settings)
    facts = facts or KernelFacts()
    facts.require_btf()
    mode = settings.symbolize
    chosen = settings.selection
    by_source = any(spec.startswith(":") for spec in (*chosen.entry, *chosen.allow, *chosen.deny))
    images = None
    if mode is not SymbolizeMode.NONE or by_source or any(spec.line for spec in specs):
        from retsnoop_py.symbolize.sources import KernelImages

        images = KernelImages(facts, settings.kernel_image)
    units = _units(images) if images and images.search.notice is None else None
    wanted = prototypes or settings.output is not None or settings.verbose > 1
    selection = select(facts, chosen, units, prototypes=wanted)
    selection, ordinary = _ordinary(selection, settings, facts)
    probes = _probes(specs, facts, images) if specs else ()
    captures = _captures(facts, selection, probes, settings) if settings.args.capture else None
    if images is None:
        return Target(facts, selection, images, mode, None, probes, captures, ordinary)
    notice = images.search.notice if mode is SymbolizeMode.AUTO else None
    settled = _settle(mode, images)
    return Target(facts, selection, images, settled, notice, probes, captures, ordinary)


def _ordinary(
    selection: Selection, settings: Settings, facts: KernelFacts
) -> tuple[Selection, Mapping[str, str]]:
    """The selection with the results in it that are no failures, and the reasons."""
    if not settings.results.ordinary:
        return selection, {}
    from retsnoop_py.selection.ordinary import apply_rules, load

    rules = load(settings.results.no_failure)
    functions, reasons = apply_rules(selection.functions, rules, facts.release)
    return replace(selection, functions=functions), reasons


def _captures(
    facts: KernelFacts, selection: Selection, probes: Sequence[Probe], settings: Settings
) -> CapturePlan:
    from retsnoop_py.kernel.arguments.plan import plan_captures
    from retsnoop_py.kernel.arguments.specs import Limits

    limits = Limits(settings.args.max_sized, settings.args.max_str)
    if not probes:
        return plan_captures(facts, selection.functions, limits)
    from retsnoop_py.probes.context import ContextPlanner

    planner = ContextPlanner(facts, probes)
    return plan_captures(facts, selection.functions, limits, planner.plan)


def _settle(mode: SymbolizeMode, images: KernelImages) -> SymbolizeMode:
    """What can be shown of what was asked for."""
    if images.search.notice is None:
        return SymbolizeMode.INLINES if mode is SymbolizeMode.AUTO else mode
    if mode in (SymbolizeMode.LINES, SymbolizeMode.INLINES):
        raise InputError(
            "source lines were requested (-s), but no kernel image with DWARF was found",
            "install the kernel's debug package, set DEBUGINFOD_URLS, or name one with -k; "
            "-v shows every place that was tried",
        )
    return SymbolizeMode.NONE


def _specs(settings: Settings) -> list[ProbeSpec]:
    """What ``-J`` says."""
    if not settings.probes:
        return []
    from retsnoop_py.probes.spec import parse

    return [parse(text) for text in settings.probes]


def _probes(
    specs: Sequence[ProbeSpec], facts: KernelFacts, images: KernelImages | None
) -> tuple[Probe, ...]:
    from retsnoop_py.probes.choose import SourceLines, choose_probes

    return choose_probes(specs, facts, SourceLines(images))


def _units(images: KernelImages) -> CompileUnits:
    from retsnoop_py.symbolize.kernel import CompileUnits

    return CompileUnits(images)
