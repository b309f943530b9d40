# SPDX-License-Identifier: BSD-2-Clause
"""The target of a run: the kernel's facts, the selected functions, the images with DWARF.

This module reads the kernel without changing it, so a dry run uses it as well.
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
    """The kernel and the functions to trace; ``symbolize`` is never ``AUTO``.

    ``images`` is None if neither the selection nor the output needs DWARF. ``notice`` explains
    missing source lines if the user did not explicitly request them. ``captures`` contains the
    arguments to record. ``ordinary`` contains results that are not failures, with functions and
    reasons.
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
        """The offset of the running kernel from vmlinux in bytes; None without an image."""
        vmlinux = self.images.vmlinux() if self.images is not None else None
        return vmlinux.bias if vmlinux is not None else None

    @property
    def image_report(self) -> tuple[str, ...]:
        """Every image that was examined, and why it was not used."""
        return self.images.report if self.images is not None else ()

    @property
    def image_warnings(self) -> list[str]:
        """Warnings about opened images."""
        return self.images.warnings if self.images is not None else []

    def symbolizer(self) -> KernelSymbolizer:
        """Return a symbolizer for this kernel; a context manager that closes the images."""
        from retsnoop_py.symbolize.kernel import KernelSymbolizer

        return KernelSymbolizer(self.facts, self.symbolize, self.images)


def choose_target(
    settings: Settings, facts: KernelFacts | None = None, *, prototypes: bool = False
) -> Target:
    """Find images and functions; read prototypes with ``prototypes``, or if the run needs them.

    ``facts`` describe the running kernel, if the caller has read some already. Raises the errors of
    :func:`~retsnoop_py.selection.select.select` and
    :func:`~retsnoop_py.probes.choose.choose_probes`; UnavailableError on a kernel without BTF;
    InputError if source lines were explicitly requested and no image has them.
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
    """Return the selection with results marked that are not failures, and the reasons."""
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
    """Return the requested mode, reduced to a mode that the images support."""
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
    """Return the parsed ``-J`` options."""
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
