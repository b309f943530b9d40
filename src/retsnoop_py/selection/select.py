# SPDX-License-Identifier: BSD-2-Clause
"""The selection: what the user wrote, as globs, against what the kernel has.

Everything works on line numbers of kallsyms, so functions of one name stay apart. A function
is chosen if an entry or allow glob matches it and no deny glob does, and traced if the kernel
can trace it; each one that is chosen and not traced is kept with the reason.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.errors import UnavailableError, UsageError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.flags import flags_of, is_plain_u64, result_for
from retsnoop_py.kernel.functions import (
    FuncFlags,
    Function,
    ResultKind,
    ResultType,
    source_name,
)
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
    chosen = [globs.load_preset(name) for name in settings.presets]
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
            "name an entry function, such as -e '*sys_bpf', or a preset, such as -c bpf",
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


def build_functions(
    facts: KernelFacts,
    indexes: Iterable[int],
    entries: Container[int],
    *,
    prototypes: bool = True,
    telling: bool = False,
) -> tuple[tuple[Function, ...], tuple[TypeSource, ...]]:
    """The functions at ``indexes`` of kallsyms, in that order, and the BTF they come from.

    Those in ``entries`` start sessions. Without ``prototypes`` they have none: writing them
    takes longer than all the rest. ``telling``: leave out those whose result cannot be a failure
    or false, such as functions without a result.
    """
    chosen = list(indexes)
    symbols = list(facts.kallsyms.fields(chosen))
    names: dict[str | None, list[str]] = {None: []}
    for _, _, name, module in symbols:
        names.setdefault(module, []).append(name)
    types = {
        module: _Types(facts.btf if module is None else facts.module_btf(module), names[module])
        for module in (None, *sorted(filter(None, names)))
    }
    rows = []
    for index, symbol in zip(chosen, symbols, strict=True):
        btf_id, result, flags, is_mute = types[symbol[3]].returned(symbol[2])
        if index in entries:
            flags |= FuncFlags.ENTRY
        elif is_mute and telling:
            continue
        rows.append((*symbol, btf_id, result, flags))
    columns = zip(*rows, strict=True) if rows else [()] * 7
    addresses, sizes, labels, of, ids, results, flagged = columns
    texts = [
        types[module].prototype(btf_id) if prototypes and btf_id is not None else None
        for module, btf_id in zip(of, ids, strict=True)
    ]
    functions = Function.from_columns(labels, addresses, sizes, flagged, results, of, ids, texts)
    return tuple(functions), tuple(TypeSource(one, t.btf is not None) for one, t in types.items())


class _Returned(NamedTuple):
    """How the results of functions with one return type read.

    ``is_mute``: none of them is a failure or false. ``by_name``: the function's name may say
    something else (:func:`result_for`).
    """

    result: ResultType
    flags: FuncFlags
    is_mute: bool
    by_name: bool


def _returned(result: ResultType, *, by_name: bool = False) -> _Returned:
    flags = flags_of(result)
    is_mute = FuncFlags.CANT_FAIL in flags and result.kind is not ResultKind.BOOL
    return _Returned(result, flags, is_mute, by_name)


class _Types:
    """What the functions of these names return, looked up in one BTF."""

    def __init__(self, btf: Btf | None, names: list[str]) -> None:
        self.btf = btf
        origins = {name: source_name(name) for name in names if "." in name}
        self._ids = btf.functions({*names, *origins.values()}) if btf else {}
        self._results = self._known(btf, list(self._ids.values())) if btf else {}
        # A variant takes other parameters than its origin, but what it returns is the same.
        self._origins = {name: self._ids[o] for name, o in origins.items() if o in self._ids}

    @staticmethod
    def _known(btf: Btf, ids: list[int]) -> dict[int, _Returned]:
        """What the functions ``ids`` return by BTF."""
        returns = btf.returns(ids)
        kinds = {type_id: btf.result(type_id) for type_id in set(returns)}
        known = {
            type_id: _returned(result, by_name=is_plain_u64(result))
            for type_id, result in kinds.items()
        }
        return {btf_id: known[type_id] for btf_id, type_id in zip(ids, returns, strict=True)}

    def returned(self, name: str) -> tuple[int | None, ResultType, FuncFlags, bool]:
        """The BTF id of function ``name``, its result, the flags, and whether it is mute."""
        btf_id = self._ids.get(name)
        known = self._results.get(btf_id or self._origins.get(name, 0))
        if known is None or known.by_name:
            result = result_for(name, known.result if known else None)
            if known is None or result is not known.result:
                known = _returned(result)
        return btf_id, known.result, known.flags, known.is_mute

    def prototype(self, btf_id: int) -> str | None:
        """The prototype of function ``btf_id`` in C."""
        return self.btf.prototype(btf_id)[1] if self.btf is not None else None


def select(
    facts: KernelFacts,
    settings: SelectionSettings,
    units: UnitSource | None = None,
    *,
    prototypes: bool = True,
) -> Selection:
    """Choose the functions to trace; ``units`` resolves source paths.

    ``prototypes``: the functions have them, which costs more than everything else here.
    Raises :class:`UsageError` for a bad glob, :class:`NoMatch` if a mandatory entry glob
    finds nothing that can be traced, and what reading the facts raises.
    """
    return Selector(facts, settings, units, prototypes=prototypes).run()


_COLD = "it is the unlikely part of another function"


class _Chosen(Value):
    """What the globs match: by function the first glob that does, and counts by glob."""

    entries: dict[int, Asked]
    allowed: dict[int, Asked]
    entry_counts: list[int]
    allow_counts: list[int]


class Selector:
    """One selection under way."""

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
        """Select."""
        chosen = self._choose()
        if self._has_namesakes(chosen) and self.facts.tell_namesakes():
            self.functions = self.facts.functions
            chosen = self._choose()
        return self._select(chosen)

    def _has_namesakes(self, chosen: _Chosen) -> bool:
        states, ambiguous = self.functions.states, int(State.AMBIGUOUS)
        return any(states[i] == ambiguous for i in (*chosen.entries, *chosen.allowed))

    def _choose(self) -> _Chosen:
        """What the entry and allow globs match."""
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
            unique=len({(f.name, f.module) for f in functions}),
            types=types,
        )

    # -- matching --

    def _can_trace(self, glob: NameGlob) -> bool:
        listed = self.functions.listed
        return bool(self.kallsyms.table.match(listed, [(glob.name, glob.module)]).symbols)

    def _matches(
        self, asked: Sequence[Asked], subset: array[int]
    ) -> tuple[dict[int, Asked], list[int]]:
        """The first glob that matches each function of ``subset``, and the counts of all."""
        counts = [0] * len(asked)
        found: dict[int, Asked] = {}
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
        """The functions of ``subset`` whose code the matching source files hold."""
        if self._units is None:
            raise UnavailableError(
                f"'{glob.spec}' needs a kernel image with debug information",
                "install the kernel's debug package, or use -k VMLINUX",
            )
        if glob.pattern not in self._ranges:
            ranges = self._units.functions_in(glob.pattern)
            if not ranges:
                known = array("I", sorted((*self.functions.listed, *self.functions.others)))
                addresses = [line[0] for line in self.kallsyms.table.lines(known)]
                included = self._units.included_in(glob.pattern, addresses)
                ranges = [(address, address + 1) for address in included]
            self._ranges[glob.pattern] = merge_ranges(ranges)
        found: list[int] = []
        for first, beyond in self._ranges[glob.pattern]:
            found += self._between(first, beyond, subset)
        return found

    # -- reasons --

    def _rejections(self, subset: array[int], denied: dict[int, Asked]) -> dict[int, Rejection]:
        """Why functions of ``subset`` are not traced."""
        states, ambiguous = self.functions.states, int(State.AMBIGUOUS)
        found = {
            index: self._refusal(index, Reason.BLACKLISTED)
            for first, beyond in self._blacklist.ranges
            for index in self._between(first, beyond, subset)
        }
        for index in subset:
            if states[index] == ambiguous:
                found[index] = self._refusal(index, Reason.AMBIGUOUS)
        for index, deny in denied.items():
            found[index] = self._refusal(index, deny.reason, deny.detail)
        return dict(sorted(found.items()))

    def _between(self, first: int, beyond: int, subset: array[int]) -> array[int]:
        """The functions of ``subset`` that begin at one of these addresses."""
        if first >= beyond:  # as where the kernel hides addresses
            return subset[:0]
        above = self.kallsyms.table.above
        start = bisect_left(subset, above(max(first, 1) - 1))
        return subset[start : bisect_left(subset, above(beyond - 1), start)]

    def _untraceable(self, indexes: Sequence[int]) -> list[Rejection]:
        found = []
        for _, _, name, module in self.kallsyms.table.lines(array("I", indexes)):
            detail = _COLD if ".cold" in name else ""
            named = name in self._named
            found.append(Rejection(name, module or None, Reason.NOT_TRACEABLE, detail, named))
        return found

    def _refusal(self, index: int, reason: Reason, detail: str = "") -> Rejection:
        name, module = self.kallsyms.name(index)
        return Rejection(name, module, reason, detail, name in self._named)

    def _check_entries(self, traced: list[int], rejections: list[Rejection]) -> None:
        mandatory = [asked for asked in self.plan.entry if asked.mandatory]
        _, counts = self._matches(mandatory, array("I", traced))
        # a preset is for many kernels, and not all have all of its entry functions
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
    role: Role, asked: Sequence[Asked], matched: Sequence[int], untraceable: Sequence[int]
) -> list[GlobCount]:
    return [
        GlobCount(one.glob.spec, role, one.origin, count, other, one.is_internal)
        for one, count, other in zip(asked, matched, untraceable, strict=False)
    ]


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same addresses in as few ranges as possible, ascending, without address 0."""
    merged: list[tuple[int, int]] = []
    for first, beyond in sorted((max(first, 1), beyond) for first, beyond in ranges):
        if first >= beyond:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(beyond, merged[-1][1]))
        else:
            merged.append((first, beyond))
    return merged
