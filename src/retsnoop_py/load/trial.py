# SPDX-License-Identifier: BSD-2-Clause
"""Load an object on the running kernel, each part by itself, and report the result of each.

libbpf loads an object as a whole and stops at the first failure. So this module makes missing
externs weak in a copy of the object, omits rejected maps, and loads programs alone if they do not
load together. Then no failure hides another.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from retsnoop_py.errors import BpfError, DataError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.libbpf.object import BpfObject, start_log, take_log
from retsnoop_py.load.attaching import (
    Attached,
    explain_registering,
    explain_replacement,
    explain_table,
    is_attachable,
)
from retsnoop_py.load.attempt import (
    FIXED,
    FREPLACE,
    FULL,
    STATS,
    STRUCT_OPS,
    Attempt,
    Copy,
    Loader,
    Replaced,
    can_interrupt,
)
from retsnoop_py.load.checked_object import open_object
from retsnoop_py.load.errno_rules import errno_in, errno_name
from retsnoop_py.load.loader_rules import explain_line
from retsnoop_py.load.map_rules import MapFacts
from retsnoop_py.load.model import VERSION, Explanation, LoadResult
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.read_log import ProgramLog
from retsnoop_py.load.refusal import Refusals, last_verdict
from retsnoop_py.load.shape import Shape
from retsnoop_py.text import parse_release
from retsnoop_py.value import Value

__all__ = ["TrialRequest", "try_object"]

#: Size in bytes of a buffer for a full log. The kernel rejects a program if its log does not fit.
_LARGE_LOG = 16 << 20
#: Number of instructions that no log buffer has room for.
_TOO_MANY_TO_LOG = 150_000
#: Maximum number of programs per load. Each program has its own log buffer.
_TOGETHER = 64
#: Maximum number of loads for an object with thousands of programs.
_MOST_LOADS = 16
#: After a rejection that took more seconds, no second load writes the full log, because writing
#: takes five times as long.
_PATIENCE = 3.0
#: Seconds and bytes for the log of a program that is too large to follow.
_PART_SECONDS, _PART_LOG = 1.0, 1 << 20
#: Older versions of Linux drop the end of a log. Newer ones drop the beginning, unless FIXED is
#: set.
_FIXED_SINCE = (6, 4)
_MAX_KEPT_LOG = 1 << 20

_EXTERN = re.compile(
    r"extern \S* ?(?:\([^)]*\) )?'(\w+)'[^:]*:? ?(?:\(strong\):? ?)?"
    r"(?:not found|not resolved|incompatible|func_proto|type|failed|is ambiguous)"
)
_NO_KCONFIG = "failed to open system Kconfig"
_PROG = re.compile(r"prog '([^']+)'")
_REFUSED = re.compile(r"prog '([^']+)': (?:BPF program load failed|failed to load)")
_MAP = re.compile(r"map '([^']+)': failed to create")
_PROCESSED = re.compile(r"^processed (\d+) insns", re.MULTILINE)
#: Number of characters at the end of a log in which the count is searched.
_ENDING = 4096
_TABLE_REASONS = ("struct-ops-missing", "struct-ops-member", "map-flags")
_TABLE = re.compile(r"struct_ops init_kern: struct (\w+) is not found in kernel BTF")
#: The struct_ops map with a member that the kernel's struct lacks.
_MEMBER = re.compile(r"struct_ops init_kern (\w+)(?: func ptr \w+)?: ")

_NOTHING = Explanation(
    "nothing-in-it",
    "Object File: Nothing to load",
    "libbpf finds no program and no map in the object.",
    'A function is a program if it is in a section that libbpf knows, such as SEC("xdp").'
    ' Functions in .text are only called. Maps are in SEC(".maps").',
)

_DAMAGED = (
    "Give a complete file from clang -target bpf -g -O2. If a copy or a build was cut short,"
    " build it again."
)

Kind = Literal["object", "btf", "map", "extern", "program", "attach", "kernel"]
Verdict = Literal["ok", "refused", "blocked", "unattached"]


class TrialRequest(Value):
    """What to load, and how. Without names: all programs and maps."""

    kernel: str
    programs: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    attach: bool = False
    #: Objects with programs that other programs replace in part (freplace).
    beside: tuple[Path, ...] = ()
    keep_logs: bool = False
    #: Only these parts (kind and name) and their prerequisites: a second attempt for failures.
    only: tuple[tuple[str, str], ...] | None = None
    #: The folder with the source files of the objects.
    source: Path | None = None


def try_object(path: Path, shape: Shape, request: TrialRequest) -> Iterator[LoadResult]:
    """Yield results in the order of the phases: object, BTF, externs, maps, programs.

    Raise OSError if the file cannot be read.
    """
    start_log(0)
    take_log()
    release = os.uname().release
    base = LoadResult(VERSION, request.kernel, str(path), "object", "ok", release=release)
    try:
        target = open_object(path, _kernel_btf(), request.source)
    except DataError as error:
        why = Explanation(
            "elf", "Object File: Not a BPF object", error.message, error.hint or _DAMAGED
        )
        yield _with(base, "object", "refused", "", why=why, shape=shape.name)
        return
    with Copy(path, target) as copy, Replaced(request.beside) as replaced:
        try:
            yield from _Trial(copy, target, shape, request, base, replaced).results()
        except DataError as error:  # an error in parts that are read only when needed
            why = Explanation("elf", "Object File: Not a BPF object", error.message, _DAMAGED)
            yield _with(base, "object", "refused", "", why=why, shape=shape.name)


@functools.cache
def _kernel_btf() -> Btf | None:
    """Return the running kernel's BTF, parsed once for all objects, or None."""
    try:
        return Btf(Path("/sys/kernel/btf/vmlinux").read_bytes())
    except (OSError, DataError):
        return None


def _with(
    base: LoadResult,
    kind: Kind,
    verdict: Verdict,
    name: str,
    *,
    why: Explanation | None = None,
    **fields: Any,
) -> LoadResult:
    from msgspec.structs import replace

    place = fields.pop("source", None)
    if why is not None and why.place is not None:
        place = why.place
    return replace(
        base,
        kind=kind,
        verdict=verdict,
        name=name,
        reason=why.id if why else "",
        explanation=why,
        source=place,
        **fields,
    )


class _Trial:
    """The trial of an object, in one shape, on this kernel."""

    def __init__(
        self,
        copy: Copy,
        target: ObjectFile,
        shape: Shape,
        request: TrialRequest,
        base: LoadResult,
        replaced: Replaced,
    ) -> None:
        self._replaced = replaced
        self._copy = copy
        self._loader = Loader(copy, target, shape, replaced)
        self._target = target
        self._shape = shape
        self._request = request
        self._base = base
        self._release = parse_release(base.release)
        self._why = Refusals(copy.path, target, self._release)
        self._refused_maps: dict[str, Explanation] = {}
        self._refused_externs: dict[str, Explanation] = {}
        #: For each struct_ops map, its programs in order.
        self._tables: dict[str, tuple[str, ...]] = {}

    def _result(self, kind: Kind, verdict: Verdict, name: str = "", **fields: Any) -> LoadResult:
        return _with(self._base, kind, verdict, name, shape=self._shape.name, **fields)

    def results(self) -> Iterator[LoadResult]:
        """Yield all results."""
        try:
            with BpfObject(self._copy.path) as opened:
                listed = opened.programs()
                programs = [(one.name, one.section) for one in listed]
                maps = [one.name for one in opened.maps() if not one.is_internal]
                self._tables = {
                    one.name: tuple(dict.fromkeys(one.functions(listed).values()))
                    for one in opened.maps()
                    if one.kind == STRUCT_OPS
                }
                self._why.sections = dict(programs)
        except BpfError as error:
            yield self._result(
                "object",
                "refused",
                errno=errno_name(error.errno),
                why=self._why.of_opening(error.log, error.errno),
            )
            return
        if not programs and not maps:
            yield self._result("object", "refused", why=_NOTHING)
            return
        yield from self._ground(maps)
        if not self._broken:
            yield from self._programs([row for row in programs if self._is_wanted(row[0])])

    def _is_wanted(self, program: str) -> bool:
        only, wanted = self._request.only, self._request.programs
        if only is not None:
            tables = [name for name, functions in self._tables.items() if program in functions]
            attached = any(("attach", name) in only for name in (program, *tables))
            return attached or ("program", program) in only
        return not wanted or program in wanted

    def _attached(self, loaded: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the ``loaded`` programs that must also be attached, by themselves."""
        return [
            row
            for row in loaded
            if self._is_to_attach(row[0]) and not row[1].startswith("struct_ops")
        ]

    def _is_to_attach(self, name: str) -> bool:
        only = self._request.only
        return self._request.attach if only is None else ("attach", name) in only

    # -- prerequisites of programs: BTF, externs, maps --

    def _ground(self, maps: Sequence[str]) -> Iterator[LoadResult]:
        """Remove rejected parts until the rest loads; yield a result for each."""
        self._broken = False
        told_btf = False
        for _ in range(2 * len(maps) + len(self._target.strong_externs()) + 2):
            attempt = self._loader.load(())
            if "BTF loading error" in attempt.said and not told_btf:
                told_btf = True
                line = next(x for x in attempt.said.splitlines() if "BTF loading error" in x)
                why = explain_line(line)
                yield self._result("btf", "refused", errno=errno_in(line), why=why)
            if not attempt.error:
                break
            if self._without_stand_in(attempt):
                continue
            if self._failed_table_program(attempt):
                break  # all maps exist, and programs are loaded one by one later
            if unread := self._without_kconfig(attempt):
                yield from unread
                continue
            found = self._take_away(attempt)
            if found is None:
                self._broken = True
                yield self._result(
                    "object",
                    "refused",
                    errno=errno_name(attempt.error),
                    why=self._why.of_loader(attempt.said, attempt.error),
                )
                return
            if found.kind != "map" or self._is_wanted_map(found.name):
                yield found
        for name in maps:
            if name not in self._refused_maps and self._is_wanted_map(name):
                yield self._result("map", "ok", name)

    def _is_wanted_map(self, name: str) -> bool:
        return not self._request.maps or name in self._request.maps

    def _without_kconfig(self, attempt: Attempt) -> list[LoadResult]:
        """Continue without the kernel's configuration if it cannot be read."""
        from msgspec.structs import replace

        asked = self._target.kconfig()
        if _NO_KCONFIG not in attempt.said or self._loader.kconfig or not asked:
            return []
        self._loader.kconfig = "".join(f"{name}={value}\n" for name, value in asked.items())
        why = explain_line(_NO_KCONFIG)
        assert why is not None
        for name in asked:
            self._refused_externs[name] = replace(
                why,
                reason=why.reason.replace("its options", name),
                notes=("Programs were tried as if it were not set.",),
            )
        error = errno_name(attempt.error)
        return [
            self._result("extern", "refused", name, errno=error, why=self._refused_externs[name])
            for name in asked
        ]

    def _failed_table_program(self, attempt: Attempt) -> str:
        """Return the struct_ops program at which the load failed, or an empty string.

        libbpf loads all programs of a struct_ops map if the map is created.
        """
        named = _REFUSED.findall(attempt.said)
        section = self._why.sections.get(named[-1], "") if named else ""
        return named[-1] if section.startswith("struct_ops") else ""

    def _without_stand_in(self, attempt: Attempt) -> bool:
        """Omit a map that the kernel rejects even with one entry."""
        refused = {name for name in _MAP.findall(attempt.said) if name in self._loader.unsized_maps}
        self._loader.unsized_maps -= refused
        return bool(refused)

    def _take_away(self, attempt: Attempt) -> LoadResult | None:
        for line in attempt.said.splitlines():
            found = _EXTERN.search(line)
            if found and self._copy.weaken(found[1]):
                name = found[1]
                why = self._why.of_extern(name, attempt.error, line)
                self._refused_externs[name] = why
                return self._result(
                    "extern", "refused", name, errno=errno_name(attempt.error), why=why
                )
            table = _TABLE.search(line)
            for name in self._target.tables_of(table[1]) if table else ():
                if name not in self._refused_maps:
                    return self._refuse_map(name, attempt, line)
            made = _MAP.search(line) or _MEMBER.match(line.removeprefix("libbpf: "))
            if made and made[1] not in self._refused_maps:
                self._loader.made_maps |= attempt.before(made[1])
                return self._refuse_map(made[1], attempt, line)
        return None

    def _refuse_map(self, name: str, attempt: Attempt, line: str) -> LoadResult:
        from msgspec.structs import replace

        error = attempt.error
        with BpfObject(self._copy.path) as opened:
            found = [
                MapFacts(name, one.kind, one.flags, one.max_entries, one.key_size, one.value_size)
                for one in opened.maps()
                if one.name == name
            ]
        facts = found[0] if found else MapFacts(name)
        why = self._why.of_map(facts, error, line)
        if why.id == "map-size" and not facts.entries:
            self._loader.unsized_maps.add(name)
            why = replace(why, notes=("Programs that use it were tried with one entry in it.",))
        self._refused_maps[name] = why
        self._loader.refused_maps.add(name)
        return self._result(
            "map", "refused", name, errno=errno_name(error), why=why, span=attempt.span
        )

    # -- programs --

    def _programs(self, chosen: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        """Load the programs together; after a failure, load the programs that follow it."""
        yield from self._without_target(chosen)
        chosen = [row for row in chosen if self._has_target(row[1])]
        # Each load opens the whole object, so very many programs share larger loads with short
        # logs.
        many = len(chosen) // _MOST_LOADS
        together, level = (_TOGETHER, None) if many <= _TOGETHER else (many, STATS)
        all_loaded: set[str] = set()
        for start in range(0, len(chosen), together):
            rest = list(chosen[start : start + together])
            loaded: list[tuple[str, str]] = []
            while rest:
                attempt = self._loader.load([name for name, _ in rest], level)
                at = len(rest) if not attempt.error else self._failed_at(rest, attempt)
                if at < 0:
                    for row in rest:
                        yield from self._alone(row, self._loader.load([row[0]]), loaded)
                    break
                for row in rest[:at]:
                    yield from self._loaded(row, attempt, loaded)
                if at < len(rest):
                    if attempt.error == errno.ENOSPC:
                        attempt = self._loader.load([rest[at][0]])
                    yield from self._alone(rest[at], attempt, loaded)
                rest = rest[at + 1 :]
            all_loaded.update(name for name, _ in loaded)
            if rows := self._attached(loaded):
                yield from self._attach(rows)
        yield from self._register({name for name, _ in chosen}, all_loaded)

    def _has_target(self, section: str) -> bool:
        function = section.removeprefix(FREPLACE)
        return function == section or self._replaced.fd(function) is not None

    def _without_target(self, chosen: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        for name, section in chosen:
            if not self._has_target(section):
                why = explain_replacement(section.removeprefix(FREPLACE))
                yield self._result(
                    "program", "refused", name, section=section, why=self._why.placed(why, name)
                )

    @staticmethod
    def _failed_at(rest: Sequence[tuple[str, str]], attempt: Attempt) -> int:
        """Return the index of the program at which the load failed; -1 if uncertain."""
        named = _PROG.findall(attempt.said)
        names = [name for name, _ in rest]
        at = names.index(named[-1]) if named and named[-1] in names else -1
        before = names[: max(at, 0)]
        return at if all("processed " in attempt.logs[name] for name in before) else -1

    def _loaded(
        self, row: tuple[str, str], attempt: Attempt, loaded: list[tuple[str, str]]
    ) -> Iterator[LoadResult]:
        name, section = row
        refused = [one for one in self._refused_externs if one in self._target.externs_of(name)]
        if refused:
            why = self._why.placed(self._refused_externs[refused[0]], name)
            yield self._result("program", "blocked", name, section=section, why=why)
            return
        tables = [one for one in self._refused_maps.values() if one.id in _TABLE_REASONS]
        if name in attempt.unloaded and tables:
            why = self._why.placed(tables[0], name)
            yield self._result("program", "blocked", name, section=section, why=why)
            return
        told = _PROCESSED.findall(attempt.logs.get(name, "")[-_ENDING:])
        count = int(told[-1]) if told else None
        loaded.append(row)
        yield self._result("program", "ok", name, section=section, instructions=count)

    def _alone(
        self, row: tuple[str, str], attempt: Attempt, loaded: list[tuple[str, str]]
    ) -> Iterator[LoadResult]:
        """Yield the reason of a rejection, from a second load with a full log."""
        name, section = row
        if not attempt.error:
            yield from self._loaded(row, attempt, loaded)
            return
        short = attempt.logs.get(name, "")
        full = attempt
        log = last_verdict(short)
        if self._is_worth_a_log(name, log, attempt):
            again = self._loader.load([name], FULL, _LARGE_LOG)
            if again.error and again.error != errno.ENOSPC:
                full = again
                log = last_verdict(full.logs.get(name, "") or short)
        elif self._is_too_large(log, attempt) and can_interrupt():
            level = FULL | FIXED if self._release >= _FIXED_SINCE else FULL
            part = self._loader.load([name], level, _PART_LOG, patience=_PART_SECONDS)
            log.path.visits = last_verdict(part.logs.get(name, "")).path.visits
        why, verdict = self._program_reason(name, log, attempt)
        yield self._result(
            "program",
            verdict,
            name,
            section=section,
            errno=errno_name(attempt.error),
            why=why,
            instructions=log.processed,
            seconds=round(attempt.seconds, 3),
            span=attempt.span,
            source=self._target.function_place(name),
            log=full.logs.get(name, "")[-_MAX_KEPT_LOG:] if self._request.keep_logs else "",
        )

    def _is_worth_a_log(self, name: str, log: ProgramLog, attempt: Attempt) -> bool:
        """Return True if the path to the rejection is worth another load with a full log."""
        if attempt.levels.get(name) == FULL or not log.said:
            return False
        is_long = log.processed is not None and log.processed > _TOO_MANY_TO_LOG
        return not is_long and attempt.seconds < _PATIENCE

    @staticmethod
    def _is_too_large(log: ProgramLog, attempt: Attempt) -> bool:
        """Return True if the verifier reached its limit and the log has no path."""
        return attempt.error == errno.E2BIG and bool(log.said) and not log.path.visits

    def _program_reason(
        self, name: str, log: ProgramLog, attempt: Attempt
    ) -> tuple[Explanation, Verdict]:
        from msgspec.structs import replace

        missing = [
            one
            for one, why in self._refused_externs.items()
            if why.id == "ksym-missing" and one in self._target.externs_of(name)
        ]
        if missing:  # The symbol is 0 here, and the verifier's message is about this value.
            return self._why.placed(self._refused_externs[missing[0]], name), "blocked"
        why = self._why.of_program(name, log, attempt.said, attempt.error)
        if why.id == "unresolved-map" and self._refused_maps:
            return why, "blocked"
        blocked = [one for one in self._refused_externs if f"{one}()" in why.reason]
        if why.id == "kfunc-missing" and blocked:
            told = self._refused_externs[blocked[0]]
            return replace(why, reason=told.reason, suggestion=told.suggestion), "blocked"
        return why, "refused"

    def _attach(self, rows: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        """Load the loadable programs again, and attach each one."""
        attempt = self._loader.load([name for name, _ in rows], attach=True)
        for name, section in rows:
            missing = Attached(attempt.error, attempt.said, attempt.span)
            end = attempt.attached.get(name, missing)
            if not end.error:
                yield self._result("attach", "ok", name, section=section)
            elif end.has_no_target or not is_attachable(section, end.error):
                yield self._result("attach", "unattached", name, section=section)
            else:
                yield self._result(
                    "attach",
                    "refused",
                    name,
                    section=section,
                    errno=errno_name(end.error),
                    why=self._why.of_attachment(end.said, end.error, name),
                    span=end.span,
                    source=self._target.function_place(name),
                )

    def _register(self, chosen: set[str], loaded: set[str]) -> Iterator[LoadResult]:
        """Attach and detach each struct_ops map if all of its programs are ``chosen``."""
        for table, functions in self._tables.items():
            whole = bool(functions) and chosen.issuperset(functions)
            if not whole or table in self._refused_maps or not self._is_to_attach(table):
                continue
            if missing := [name for name in functions if name not in loaded]:
                why = self._why.placed(explain_table(missing[0]), missing[0])
                yield self._result("attach", "blocked", table, why=why)
                continue
            attempt = self._loader.load(functions, table=table)
            failed = Attached(attempt.error, attempt.said, attempt.span)
            end = attempt.attached.get(table, failed)
            if not end.error:
                yield self._result("attach", "ok", table)
                continue
            yield self._result(
                "attach",
                "refused",
                table,
                errno=errno_name(end.error),
                why=explain_registering(table, end.error, end.said),
                span=end.span,
            )
