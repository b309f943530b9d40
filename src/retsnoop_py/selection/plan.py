# SPDX-License-Identifier: BSD-2-Clause
"""From what the user wrote to three lists of globs: entry, allow and deny."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retsnoop_py.errors import UsageError
from retsnoop_py.selection import deny_list, globs
from retsnoop_py.selection.globs import NameGlob, PathGlob
from retsnoop_py.selection.model import Reason
from retsnoop_py.settings import SelectionSettings
from retsnoop_py.value import Value, replace

__all__ = ["Asked", "Plan", "make_plan"]


class Asked(Value):
    """One glob: ``origin`` says where it comes from.

    An entry glob is ``mandatory`` if finding nothing for it is an error: a source path may
    well hold nothing that can be traced. ``reason`` and ``detail`` are those of a deny glob.
    """

    glob: NameGlob | PathGlob
    origin: str
    mandatory: bool = False
    reason: Reason = Reason.DENIED
    detail: str = ""

    @property
    def is_internal(self) -> bool:
        """Whether it comes from the list of what is never traced."""
        return self.reason is Reason.DENIED_INTERNALLY


class Plan(Value):
    """Globs by role, in the order in which they are tried.

    ``otherwise`` has, by origin, what replaces the entry globs of a preset on some kernels.
    """

    entry: tuple[Asked, ...]
    allow: tuple[Asked, ...]
    deny: tuple[Asked, ...]
    otherwise: Mapping[str, tuple[Asked, ...]] = MappingProxyType({})

    def on(self, can_trace: Callable[[NameGlob], bool]) -> Plan:
        """The plan for a kernel of which ``can_trace`` says if it can trace what a glob matches."""
        entry = self.entry
        for origin, instead in self.otherwise.items():
            own = [asked for asked in entry if asked.origin == origin]
            if not any(isinstance(a.glob, NameGlob) and can_trace(a.glob) for a in own):
                entry = (*(asked for asked in entry if asked.origin != origin), *instead)
        return replace(self, entry=entry)

    @property
    def names(self) -> frozenset[str]:
        """The functions whose very names the user asked for."""
        asked = (one for one in (*self.entry, *self.allow) if one.origin in ("-e", "-a"))
        globs = (one.glob for one in asked)
        return frozenset(g.name for g in globs if isinstance(g, NameGlob) and g.is_exact)


def make_plan(settings: SelectionSettings) -> Plan:
    """Parse all globs and add those of the presets and the internal deny list.

    Raises :class:`UsageError` for a bad glob, an unknown preset, or no entry glob at all.
    """
    chosen = [globs.load(name) for name in settings.presets]
    entry = [_entry(spec, "-e") for spec in settings.entry]
    allow = [Asked(globs.parse(spec), "-a") for spec in settings.allow]
    denied = [_denied(spec, Reason.DENIED) for spec in settings.deny]
    for preset in chosen:
        entry += [_entry(spec, f"preset {preset.name}") for spec in preset.entry]
        allow += [Asked(globs.parse(spec), f"preset {preset.name}") for spec in preset.allow]
        denied += [_denied(spec, Reason.DENIED_BY_PRESET, preset.name) for spec in preset.deny]
    if not entry:
        raise UsageError(
            "no entry functions given",
            "say where to start: -e GLOB, such as -e '*sys_bpf', or a preset such as -c bpf",
        )
    internal = [
        Asked(NameGlob(entry.glob), "internal", False, Reason.DENIED_INTERNALLY, entry.reason)
        for entry in deny_list.load()
    ]
    otherwise = {
        f"preset {preset.name}": tuple(
            Asked(globs.parse(spec), f"preset {preset.name}") for spec in preset.entry_otherwise
        )
        for preset in chosen
        if preset.entry_otherwise
    }
    return Plan(tuple(entry), tuple(allow), (*denied, *internal), otherwise)


def _entry(spec: str, origin: str) -> Asked:
    glob = globs.parse(spec)
    return Asked(glob, origin, mandatory=isinstance(glob, NameGlob))


def _denied(spec: str, reason: Reason, preset: str | None = None) -> Asked:
    origin = f"preset {preset}" if preset else "-d"
    detail = f"{preset}, '{spec}'" if preset else f"'{spec}'"
    return Asked(globs.parse(spec), origin, reason=reason, detail=detail)
