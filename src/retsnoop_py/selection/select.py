# SPDX-License-Identifier: BSD-2-Clause
"""Select functions: match the user's globs against the kernel's functions.

Functions are identified by line numbers of kallsyms, so functions of the same name stay apart. A
function is selected if an entry or allow glob matches and no deny glob does. It is traced if the
kernel can trace it. Each selected function that is not traced is recorded with the reason.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import compress, groupby
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.errors import UnavailableError, UsageError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.flags import UNKNOWN_RESULT, flags_of, is_plain_u64, result_for
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import FuncFlags, ResultKind, ResultType, source_name
from retsnoop_py.libbpf.facts import State
from retsnoop_py.selection import deny_list, globs
from retsnoop_py.selection.explain import NoMatch, no_match
from retsnoop_py.selection.globs import NameGlob, PathGlob
from retsnoop_py.selection.model import (
    GlobCount,
    Reason,
    Rejection,
    Role,
    Selection,
    TypeSource,
    UnitSource,
)
from retsnoop_py.settings import SelectionSettings
from retsnoop_py.value import Value, replace


class GlobSpec(Value):
    """A glob with its ``origin``.

    If a ``mandatory`` entry glob matches no function, this is an error. Source paths are not
    mandatory, because a file may have no traceable function. ``reason`` and ``detail`` are for deny
    globs.
    """

    glob: NameGlob | PathGlob
    origin: str
    mandatory: bool = False
    reason: Reason = Reason.DENIED
    detail: str = ""

    @property
    def is_internal(self) -> bool:
        """Return True if the glob is in the list of functions that are never traced."""
        return self.reason is Reason.DENIED_INTERNALLY


class Plan(Value):
    """Globs by role, in the order in which they are matched.

    ``otherwise`` has, by origin, the globs that replace a preset's entry globs on some kernels.
    """

    entry: tuple[GlobSpec, ...]
    allow: tuple[GlobSpec, ...]
    deny: tuple[GlobSpec, ...]
    otherwise: Mapping[str, tuple[GlobSpec, ...]] = MappingProxyType({})

    def on(self, can_trace: Callable[[NameGlob], bool]) -> Plan:
        """Return the plan for a kernel; ``can_trace`` returns whether any match can be traced."""
        entry = self.entry
        for origin, instead in self.otherwise.items():
            own = [asked for asked in entry if asked.origin == origin]
            if not any(isinstance(a.glob, NameGlob) and can_trace(a.glob) for a in own):
                entry = (*(asked for asked in entry if asked.origin != origin), *instead)
        return replace(self, entry=entry)

    @property
    def names(self) -> frozenset[str]:
        """Return the exact function names that the user wrote."""
        asked = (one for one in (*self.entry, *self.allow) if one.origin in ("-e", "-a"))
        globs = (one.glob for one in asked)
        return frozenset(g.name for g in globs if isinstance(g, NameGlob) and g.is_exact)


def make_plan(settings: SelectionSettings) -> Plan:
    """Parse all globs and add the globs of presets and of the internal deny list.

    Raise :class:`UsageError` for an invalid glob, an unknown preset, or no entry glob at all.
    """
    chosen = [globs.load_preset(name) for name in settings.presets]
    entry = [_entry(spec, "-e") for spec in settings.entry]
    allow = [GlobSpec(globs.parse(spec), "-a") for spec in settings.allow]
    denied = [_denied(spec, Reason.DENIED) for spec in settings.deny]
    for preset in chosen:
        entry += [_entry(spec, f"preset {preset.name}") for spec in preset.entry]
        allow += [GlobSpec(globs.parse(spec), f"preset {preset.name}") for spec in preset.allow]
        denied += [_denied(spec, Reason.DENIED_BY_PRESET, preset.name) for spec in preset.deny]
    if not entry:
        raise UsageError(
            "no entry functions given",
            "name an entry function, such as -e '*sys_bpf', or a preset, such as -c bpf",
        )
    internal = [
        GlobSpec(NameGlob(entry.glob), "internal", False, Reason.DENIED_INTERNALLY, entry.reason)
        for entry in deny_list.load()
    ]
    otherwise = {
        f"preset {preset.name}": tuple(
            GlobSpec(globs.parse(spec), f"preset {preset.name}") for spec in preset.entry_otherwise
        )
        for preset in chosen
        if preset.entry_otherwise
    }
    return Plan(tuple(entry), tuple(allow), (*denied, *internal), otherwise)


def _entry(spec: str, origin: str) -> GlobSpec:
    glob = globs.parse(spec)
    return GlobSpec(glob, origin, mandatory=isinstance(glob, NameGlob))


def _denied(spec: str, reason: Reason, preset: str | None = None) -> GlobSpec:
    origin = f"preset {preset}" if preset else "-d"
    detail = f"{preset}, '{spec}'" if preset else f"'{spec}'"
    return GlobSpec(globs.parse(spec), origin, reason=reason, detail=detail)


def build_functions(
    facts: KernelFacts,
    indexes: Iterable[int],
    entries: Container[int],
    *,
    prototypes: bool = True,
    telling: bool = False,
) -> tuple[FunctionTable, tuple[TypeSource, ...]]:
    """Return the functions at ``indexes`` of kallsyms, in that order, and their BTF sources.

    Functions in ``entries`` start sessions. Without ``prototypes`` the functions have none, because
    writing prototypes takes longer than all other steps. ``telling``: omit functions whose result
    cannot be a failure or false, such as void functions.
    """
    chosen = array("I", indexes)
    addresses, extents, names, modules = facts.kallsyms.table.columns(chosen)
    btfs: dict[str, Btf | None] = {"": facts.btf}
    for module in sorted(set(modules) - {""}):
        btfs[module] = facts.module_btf(module)
    ids, known = [0] * len(names), [_UNKNOWN] * len(names)
    for module, places in _by_module(modules).items():
        found, returned = _looked_up(
            btfs[module], [one for place in places for one in names[place]]
        )
        at = 0
        for place in places:
            end = at + place.stop - place.start
            ids[place], known[place] = found[at:end], returned[at:end]
            at = end
    starts = [index in entries for index in chosen]
    if telling:
        kept = [begins or not one.is_mute for begins, one in zip(starts, known, strict=True)]
        addresses, extents = (
            array(one.typecode, compress(one, kept)) for one in (addresses, extents)
        )
        names, modules = list(compress(names, kept)), list(compress(modules, kept))
        ids, known = list(compress(ids, kept)), list(compress(known, kept))
        starts = list(compress(starts, kept))
    functions = FunctionTable(
        names,
        [module or None for module in modules],
        addresses,
        [one.flags | _ENTRY * begins for one, begins in zip(known, starts, strict=True)],
        [one.result for one in known],
        [btf_id or None for btf_id in ids],
        extents,
        facts.kallsyms.size,
        list(map(_prototype, map(btfs.get, modules), ids)) if prototypes else (),
    )
    sources = [TypeSource(module or None, btf is not None) for module, btf in btfs.items()]
    return functions, tuple(sources)


def _by_module(modules: Sequence[str]) -> dict[str, list[slice]]:
    """Return the positions of each module's functions, as a few runs: addresses are sorted."""
    found: dict[str, list[slice]] = {}
    at = 0
    for module, run in groupby(modules):
        end = at + len(list(run))
        found.setdefault(module, []).append(slice(at, end))
        at = end
    return found


def _prototype(btf: Btf | None, btf_id: int) -> str | None:
    """Return the prototype of function ``btf_id`` in C; None without BTF."""
    return btf.prototype(btf_id)[1] if btf is not None and btf_id else None


#: A plain number, because operations on IntFlag are slow.
_ENTRY = int(FuncFlags.ENTRY)


class _Returned(NamedTuple):
    """How to read the results of functions with one return type.

    ``is_mute``: no result is a failure or false. ``by_name``: the function's name may determine
    another type (:func:`result_for`).
    """

    result: ResultType
    flags: int
    is_mute: bool
    by_name: bool


def _returned(result: ResultType, *, by_name: bool = False) -> _Returned:
    flags = flags_of(result)
    is_mute = FuncFlags.CANT_FAIL in flags and result.kind is not ResultKind.BOOL
    return _Returned(result, int(flags), is_mute, by_name)


#: The result type of a function without BTF.
_UNKNOWN = _returned(UNKNOWN_RESULT)


def _looked_up(btf: Btf | None, names: Sequence[str]) -> tuple[array[int], list[_Returned]]:
    """Return the BTF ids of functions with these names (0 if missing) and their result types.

    A compiler's variant may have other parameters than the original function, but the same result.
    """
    nothing = array("I", bytes(4 * len(names)))
    ids = btf.ids_of(names, Kind.FUNC) if btf is not None else nothing
    typed = ids[:]
    if btf is not None:
        variants = [at for at, name in enumerate(names) if "." in name and not ids[at]]
        origins = btf.ids_of([source_name(names[at]) for at in variants], Kind.FUNC)
        for at, origin in zip(variants, origins, strict=True):
            typed[at] = origin
    results = _results(btf, typed) if btf is not None else {}
    known = [results.get(one, _UNKNOWN) for one in typed]
    for at, one in enumerate(known):
        if one is _UNKNOWN or one.by_name:
            told = one.result if one is not _UNKNOWN else None
            result = result_for(names[at], told)
            if result is not one.result:
                known[at] = _returned(result)
    return ids, known


def _results(btf: Btf, ids: array[int]) -> dict[int, _Returned]:
    """Return the result types of the functions ``ids``, by BTF."""
    present = array("I", filter(None, ids))
    returns = btf.returns(present)
    of_types = {}
    for type_id in set(returns):
        result = btf.result(type_id)
        of_types[type_id] = _returned(result, by_name=is_plain_u64(result))
    return dict(zip(present, map(of_types.__getitem__, returns), strict=True))


def select(
    facts: KernelFacts,
    settings: SelectionSettings,
    units: UnitSource | None = None,
    *,
    prototypes: bool = True,
) -> Selection:
    """Select the functions to trace; ``units`` resolves source paths.

    ``prototypes``: add prototypes, which takes longer than all other steps. Raise
    :class:`UsageError` for an invalid glob, :class:`NoMatch` if a mandatory entry glob matches no
    traceable function, and errors of reading the facts.
    """
    return Selector(facts, settings, units, prototypes=prototypes).run()


_COLD = "it is the unlikely part of another function"


class _Chosen(Value):
    """The matches of the globs: the first matching glob of each function, and counts per glob."""

    entries: dict[int, GlobSpec]
    allowed: dict[int, GlobSpec]
    entry_counts: list[int]
    allow_counts: list[int]


class Selector:
    """A running selection."""

    def __init__(
        self,
        facts: KernelFacts,
        settings: SelectionSettings,
        units: UnitSource | None,
        *,
        prototypes: bool = True,
    ) -> None:
        plan = make_plan(settings)
        self.facts = facts
        self.kallsyms = facts.kallsyms
        self.functions = facts.functions
        self.plan = plan.on(self._can_trace)
        self._units = units
        self._prototypes = prototypes
        self._telling = settings.telling
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._blacklist = facts.kprobe_blacklist
        self._named = self.plan.names

    def run(self) -> Selection:
        """Run the selection."""
        chosen = self._choose()
        if self._has_namesakes(chosen) and self.facts.tell_namesakes():
            self.functions = self.facts.functions
            chosen = self._choose()
        return self._select(chosen)

    def _has_namesakes(self, chosen: _Chosen) -> bool:
        states, ambiguous = self.functions.states, int(State.AMBIGUOUS)
        if ambiguous not in states:
            return False
        return any(states[i] == ambiguous for i in (*chosen.entries, *chosen.allowed))

    def _choose(self) -> _Chosen:
        """Return the matches of the entry and allow globs."""
        listed = self.functions.listed
        entries, entry_counts = self._matches(self.plan.entry, listed)
        allowed, allow_counts = self._matches(self.plan.allow, listed)
        return _Chosen(entries, allowed, entry_counts, allow_counts)

    def _select(self, chosen: _Chosen) -> Selection:
        plan = self.plan
        subset = array("I", sorted(chosen.entries | chosen.allowed))
        denied, deny_counts = self._matches(plan.deny, subset)
        rejections = self._rejections(subset, denied)
        traced = [i for i in subset if i not in rejections]
        asked = (*plan.entry, *plan.allow)
        others, other_counts = self._matches(asked, self.functions.others)
        refused = [*rejections.values(), *self._untraceable(sorted(others))]
        self._check_entries(traced, refused)
        functions, types = build_functions(
            self.facts,
            traced,
            chosen.entries.keys(),
            prototypes=self._prototypes,
            telling=self._telling,
        )
        return Selection(
            functions=functions,
            rejections=tuple(refused),
            globs=(
                *_counts(Role.ENTRY, plan.entry, chosen.entry_counts, other_counts),
                *_counts(
                    Role.ALLOW, plan.allow, chosen.allow_counts, other_counts[len(plan.entry) :]
                ),
                *_counts(Role.DENY, plan.deny, deny_counts, [0] * len(plan.deny)),
            ),
            discovered=self.facts.traceable_count,
            matched=len(subset) - len(denied),
            unique=len(set(zip(functions.names, functions.modules, strict=True))),
            types=types,
        )

    # -- matching --

    def _can_trace(self, glob: NameGlob) -> bool:
        listed = self.functions.listed
        return bool(self.kallsyms.table.match(listed, [(glob.name, glob.module)]).symbols)

    def _matches(
        self, asked: Sequence[GlobSpec], subset: array[int]
    ) -> tuple[dict[int, GlobSpec], list[int]]:
        """Return the first glob that matches each function of ``subset``, and counts per glob."""
        counts = [0] * len(asked)
        found: dict[int, GlobSpec] = {}
        for position, one in enumerate(asked):
            if isinstance(one.glob, PathGlob):
                indexes = self._in_units(one.glob, subset)
                counts[position] = len(indexes)
                for index in indexes:
                    found.setdefault(index, one)
        named = [(i, a.glob) for i, a in enumerate(asked) if isinstance(a.glob, NameGlob)]
        matches = self.kallsyms.table.match(subset, [(g.name, g.module) for _, g in named])
        for (position, _), count in zip(named, matches.counts, strict=True):
            counts[position] = count
        for index, glob in zip(matches.symbols, matches.globs, strict=True):
            found[index] = asked[named[glob][0]]
        return found, counts

    def _in_units(self, glob: PathGlob, subset: array[int]) -> list[int]:
        """Return the functions of ``subset`` with code from the matching source files."""
        if self._units is None:
            raise UnavailableError(
                f"'{glob.spec}' needs a kernel image with debug information",
                "install the kernel's debug package, or use -k VMLINUX",
            )
        if glob.pattern not in self._ranges:
            ranges = self._units.functions_in(glob.pattern)
            if not ranges:
                known = array("I", sorted((*self.functions.listed, *self.functions.others)))
                addresses = self.kallsyms.table.columns(known)[0]
                included = self._units.included_in(glob.pattern, addresses)
                ranges = [(address, address + 1) for address in included]
            self._ranges[glob.pattern] = merge_ranges(ranges)
        found: list[int] = []
        for first, beyond in self._ranges[glob.pattern]:
            found += self._between(first, beyond, subset)
        return found

    # -- reasons --

    def _rejections(self, subset: array[int], denied: dict[int, GlobSpec]) -> dict[int, Rejection]:
        """Return why functions of ``subset`` are not traced."""
        states, ambiguous = self.functions.states, int(State.AMBIGUOUS)
        found = {
            index: self._refusal(index, Reason.BLACKLISTED)
            for first, beyond in self._blacklist.ranges
            for index in self._between(first, beyond, subset)
        }
        for index in subset if ambiguous in states else ():
            if states[index] == ambiguous:
                found[index] = self._refusal(index, Reason.AMBIGUOUS)
        for index, deny in denied.items():
            found[index] = self._refusal(index, deny.reason, deny.detail)
        return dict(sorted(found.items()))

    def _between(self, first: int, beyond: int, subset: array[int]) -> array[int]:
        """Return the functions of ``subset`` that begin in this address range."""
        if first >= beyond:  # for example if the kernel hides addresses
            return subset[:0]
        above = self.kallsyms.table.above
        start = bisect_left(subset, above(max(first, 1) - 1))
        return subset[start : bisect_left(subset, above(beyond - 1), start)]

    def _untraceable(self, indexes: Sequence[int]) -> list[Rejection]:
        _, _, names, modules = self.kallsyms.table.columns(array("I", indexes))
        reason, asked = Reason.NOT_TRACEABLE, self._named
        return [
            Rejection(name, module or None, reason, _COLD if ".cold" in name else "", name in asked)
            for name, module in zip(names, modules, strict=True)
        ]

    def _refusal(self, index: int, reason: Reason, detail: str = "") -> Rejection:
        name, module = self.kallsyms.name(index)
        return Rejection(name, module, reason, detail, name in self._named)

    def _check_entries(self, traced: list[int], rejections: list[Rejection]) -> None:
        mandatory = [asked for asked in self.plan.entry if asked.mandatory]
        _, counts = self._matches(mandatory, array("I", traced))
        # A preset is for many kernels, and a kernel may lack some of its entry functions.
        served = {one.origin for one, count in zip(mandatory, counts, strict=True) if count}
        for asked, count in zip(mandatory, counts, strict=True):
            if asked.origin != "-e" and asked.origin in served:
                continue
            if not count and isinstance(asked.glob, NameGlob):
                raise no_match(self.facts, asked.glob, self.functions, rejections)
        if not traced:
            specs = ", ".join(f"'{asked.glob.spec}'" for asked in self.plan.entry)
            raise NoMatch(
                f"no traceable function comes from {specs}",
                "use a path relative to the kernel's source, such as ':kernel/bpf/*.c'",
                rejections,
            )


def _counts(
    role: Role, asked: Sequence[GlobSpec], matched: Sequence[int], untraceable: Sequence[int]
) -> list[GlobCount]:
    return [
        GlobCount(one.glob.spec, role, one.origin, count, other, one.is_internal)
        for one, count, other in zip(asked, matched, untraceable, strict=False)
    ]


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same addresses in as few ranges as possible, ascending, without address 0."""
    merged: list[tuple[int, int]] = []
    for first, beyond in sorted((max(first, 1), beyond) for first, beyond in ranges):
        if first >= beyond:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(beyond, merged[-1][1]))
        else:
            merged.append((first, beyond))
    return merged
