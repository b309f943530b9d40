# SPDX-License-Identifier: BSD-2-Clause
"""Load one object on the running kernel, each of its parts by itself, and say what became of it.

libbpf loads an object as a whole and gives up at the first thing that is refused. Here externs
that the kernel lacks are made weak in a copy of the object, maps that it refuses are left out, and
programs are loaded alone where they do not load together; so one failure hides no other.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, Self

from retsnoop_py.errors import BpfError, DataError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.libbpf.object import BpfMap, BpfObject, Program, VerifierLog, start_log, take_log
from retsnoop_py.load import since
from retsnoop_py.load.denied import why_denied
from retsnoop_py.load.diagnose import diagnose
from retsnoop_py.load.loader_rules import (
    btf_target,
    errno_in,
    explain_errno,
    explain_line,
    explain_map,
    explain_replacement,
    explain_size,
    explain_target,
)
from retsnoop_py.load.model import VERSION, Explanation, LoadResult
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.read_log import ProgramLog, Segment, read_log, segments
from retsnoop_py.load.shape import Shape
from retsnoop_py.value import Value

__all__ = ["TrialRequest", "try_object"]

#: Log levels of bpf(2): statistics only, and with the way through the program.
_STATS, _FULL = 4, 5
#: Bytes of a log. A kernel refuses a program whose log is longer than the buffer.
_SHORT_LOG, _SMALL_LOG, _LARGE_LOG = 64 << 10, 1 << 20, 16 << 20
#: Instructions of a program that is short.
_SHORT_PROGRAM = 4096
#: Instructions followed that no log has room for.
_TOO_MANY_TO_LOG = 150_000
#: Programs that are loaded together at most: each has a log of its own meanwhile.
_TOGETHER = 64
#: Loads of all programs of an object that has thousands.
_MOST_LOADS = 16
#: Seconds of a refusal after which the program is not followed a second time to write it down:
#: writing takes five times as long.
_PATIENCE = 3.0
_MAX_KEPT_LOG = 1 << 20
_WEAK_BIND = 2
#: BPF_MAP_TYPE_RINGBUF and _USER_RINGBUF, whose entries are bytes, of whole pages.
_RINGS, _PAGE = frozenset({27, 31}), 4096
_STRUCT_OPS = 26

_EXTERN = re.compile(
    r"extern \S* ?(?:\([^)]*\) )?'(\w+)'[^:]*:? ?(?:\(strong\):? ?)?"
    r"(?:not found|not resolved|incompatible|func_proto|type|failed|is ambiguous)"
)
_TARGET = re.compile(r"type ID of '([^']+)'")
_PROG = re.compile(r"prog '([^']+)'")
_MAP = re.compile(r"map '([^']+)': failed to create")
_PROCESSED = re.compile(r"^processed (\d+) insns", re.MULTILINE)
#: Characters of a log's end in which that is looked for.
_ENDING = 4096
_TABLE = re.compile(r"struct_ops init_kern: struct (\w+) is not found in kernel BTF")
_ADDRESS = re.compile(r"address of function (\w+) cannot be found")
_KPROBE = re.compile(r"k(?:ret)?probe '([^+']+)")
_FREPLACE = "freplace/"
_UNATTACHED = frozenset({errno.EOPNOTSUPP, errno.ESRCH, 524})

#: enum libbpf_errno of libbpf's libbpf.h, from 4000 on; no errno of the kernel's.
_LIBBPF_ERRORS = dict(
    enumerate(
        [
            "LIBELF",
            "FORMAT",
            "KVERSION",
            "ENDIAN",
            "INTERNAL",
            "RELOC",
            "LOAD",
            "VERIFY",
            "PROG2BIG",
            "KVER",
            "PROGTYPE",
        ],
        4000,
    )
)

_NOTHING = Explanation(
    "nothing-in-it",
    "Object File: Nothing to load",
    "libbpf finds no program and no map in the object.",
    'A function is a program in a section that libbpf knows, as SEC("xdp"); what is in .text is'
    ' called only. Maps are in SEC(".maps").',
)

Kind = Literal["object", "btf", "map", "extern", "program", "attach", "kernel"]
Verdict = Literal["ok", "refused", "blocked", "unattached"]


class TrialRequest(Value):
    """What to load and how. Without names, all programs and maps count."""

    kernel: str
    programs: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    attach: bool = False
    #: Objects with programs that those of others replace functions of (freplace).
    beside: tuple[Path, ...] = ()
    keep_logs: bool = False
    #: Nothing but these, by kind and name, and what they stand on: what failed is tried once more.
    only: tuple[tuple[str, str], ...] | None = None


def try_object(path: Path, shape: Shape, request: TrialRequest) -> Iterator[LoadResult]:
    """Results in the order of the phases: the object, its BTF, externs, maps, programs.

    Raises OSError where the file cannot be read.
    """
    start_log(0)
    take_log()
    release = os.uname().release
    base = LoadResult(VERSION, request.kernel, str(path), "object", "ok", release=release)
    try:
        target = ObjectFile(path, _kernel_btf())
    except DataError as error:
        why = Explanation("elf", "Object File: Not a BPF object", error.message, error.hint or "")
        yield _with(base, "object", "refused", "", why=why, shape=shape.name)
        return
    with _Copy(path, target) as copy, _Replaced(request.beside) as replaced:
        yield from _Trial(copy, target, shape, request, base, replaced).results()


@functools.cache
def _kernel_btf() -> Btf | None:
    """That of the running kernel, which is taken apart once for all objects."""
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


class _Copy:
    """The object in memory, whose strong externs can be made weak."""

    def __init__(self, path: Path, target: ObjectFile) -> None:
        self._data = bytearray(path.read_bytes())
        self._strong = target.strong_externs()
        self._fd = os.memfd_create("retsnoop-load", os.MFD_CLOEXEC)
        os.write(self._fd, self._data)
        self.path = Path(f"/proc/self/fd/{self._fd}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def weaken(self, name: str) -> bool:
        """Let the object do without extern ``name``; False where it does so already."""
        at = self._strong.pop(name, None)
        if at is None:
            return False
        info = self._data[at]
        os.pwrite(self._fd, bytes([_WEAK_BIND << 4 | info & 15]), at)
        return True


class _Replaced:
    """Loaded programs of other objects, of which programs here take the place of functions."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._opened = ExitStack()
        self._fds: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def fd(self, function: str) -> int | None:
        """The program that calls ``function``; None where no object has one that loads."""
        if function not in self._fds:
            found = (self._load(path, function) for path in self._paths)
            self._fds[function] = next((fd for fd in found if fd is not None), None)
        return self._fds[function]

    def _load(self, path: Path, function: str) -> int | None:
        try:
            target = ObjectFile(path)
            opened = BpfObject(path)
        except (BpfError, DataError):
            return None  # which that object's own results tell
        with ExitStack() as stack:
            stack.callback(opened.close)
            names = [one.name for one in opened.programs()]
            name = next((one for one in names if target.has_function(one, function)), None)
            if name is None:
                return None
            for one in opened.maps():
                one.unpin()
            for program in opened.programs():
                program.set_autoload(program.name == name)
            try:
                opened.load()
            except BpfError:
                return None
            self._opened.push(stack.pop_all())
            return opened.program(name).fd


class _Attempt(Value):
    """How one load ended: what libbpf said, the verifier's log of each program, attach errors.

    ``maps``: those that were to be created, in their order. ``unloaded``: programs that libbpf left
    out although they were wanted, since no table of functions that is there has them.
    """

    error: int
    said: str
    logs: dict[str, str]
    levels: dict[str, int]
    seconds: float
    attached: dict[str, tuple[int, str, tuple[int, int]]]
    maps: tuple[str, ...]
    unloaded: frozenset[str] = frozenset()
    span: tuple[int, int] = (0, 0)

    def before(self, name: str) -> set[str]:
        """The maps that were created before map ``name`` was tried."""
        return set(self.maps[: self.maps.index(name)] if name in self.maps else ())


class _Trial:
    """One object, in one shape, on this kernel."""

    def __init__(
        self,
        copy: _Copy,
        target: ObjectFile,
        shape: Shape,
        request: TrialRequest,
        base: LoadResult,
        replaced: _Replaced,
    ) -> None:
        self._replaced = replaced
        self._copy = copy
        self._target = target
        self._shape = shape
        self._request = request
        self._base = base
        self._release = since.parse_release(base.release)
        self._refused_maps: dict[str, Explanation] = {}
        self._refused_externs: dict[str, Explanation] = {}
        self._sections: dict[str, str] = {}
        #: Those of no size, of which programs get one with a single entry.
        self._unsized: set[str] = set()
        #: Maps that have been created once, which need not be tried again.
        self._made_maps: set[str] = set()

    def _result(self, kind: Kind, verdict: Verdict, name: str = "", **fields: Any) -> LoadResult:
        return _with(self._base, kind, verdict, name, shape=self._shape.name, **fields)

    def results(self) -> Iterator[LoadResult]:
        """All of them."""
        try:
            with BpfObject(self._copy.path) as opened:
                programs = [(one.name, one.section) for one in opened.programs()]
                maps = [one.name for one in opened.maps() if not one.is_internal]
                self._sections = dict(programs)
        except BpfError as error:
            yield self._result(
                "object",
                "refused",
                errno=_name(error.errno),
                why=self._loader_reason(error.log, error.errno),
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
            return ("program", program) in only or ("attach", program) in only
        return not wanted or program in wanted

    def _attached(self, loaded: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of ``loaded`` that are to be attached as well."""
        only = self._request.only
        if only is not None:
            return [row for row in loaded if ("attach", row[0]) in only]
        return list(loaded) if self._request.attach else []

    # -- what programs stand on: BTF, externs, maps --

    def _ground(self, maps: Sequence[str]) -> Iterator[LoadResult]:
        """Take away what is refused until the rest can be made."""
        self._broken = False
        told_btf = False
        for _ in range(2 * len(maps) + len(self._target.strong_externs()) + 2):
            attempt = self._load(())
            if "BTF loading error" in attempt.said and not told_btf:
                told_btf = True
                line = next(x for x in attempt.said.splitlines() if "BTF loading error" in x)
                why = explain_line(line)
                yield self._result("btf", "refused", errno=errno_in(line), why=why)
            if not attempt.error:
                break
            if self._without_stand_in(attempt):
                continue
            found = self._take_away(attempt)
            if found is None:
                self._broken = True
                yield self._result(
                    "object",
                    "refused",
                    errno=_name(attempt.error),
                    why=self._loader_reason(attempt.said, attempt.error),
                )
                return
            yield found
        wanted = self._request.maps
        for name in maps:
            if name not in self._refused_maps and (not wanted or name in wanted):
                yield self._result("map", "ok", name)

    def _without_stand_in(self, attempt: _Attempt) -> bool:
        """Do without one that is refused with one entry, too."""
        refused = {name for name in _MAP.findall(attempt.said) if name in self._unsized}
        self._unsized -= refused
        return bool(refused)

    def _take_away(self, attempt: _Attempt) -> LoadResult | None:
        for line in attempt.said.splitlines():
            found = _EXTERN.search(line)
            if found and self._copy.weaken(found[1]):
                name = found[1]
                why = explain_line(line) or explain_errno(_name(attempt.error), name, line)
                self._refused_externs[name] = why
                return self._result("extern", "refused", name, errno=_name(attempt.error), why=why)
            table = _TABLE.search(line)
            for name in self._target.tables_of(table[1]) if table else ():
                if name not in self._refused_maps:
                    return self._refuse_map(name, attempt, line)
            made = _MAP.search(line)
            if made and made[1] not in self._refused_maps:
                self._made_maps |= attempt.before(made[1])
                return self._refuse_map(made[1], attempt, line)
        return None

    def _refuse_map(self, name: str, attempt: _Attempt, line: str) -> LoadResult:
        error = attempt.error
        with BpfObject(self._copy.path) as opened:
            one = next((each for each in opened.maps() if each.name == name), None)
            facts = (one.kind, one.flags, one.max_entries) if one else (0, 0, -1)
        if error == errno.EPERM:
            why = why_denied(self._release)
        elif one is not None and one.kind == _STRUCT_OPS:
            why = explain_line(line) or explain_errno(_name(error), f"map '{name}'", line)
        else:
            kind, flags, entries = facts
            why = explain_map(name, _name(error), kind, flags, entries, self._release, line)
            if why.id == "map-size" and not entries:
                self._unsized.add(name)
                why = self._noted(why)
        self._refused_maps[name] = why
        return self._result("map", "refused", name, errno=_name(error), why=why, span=attempt.span)

    @staticmethod
    def _noted(why: Explanation) -> Explanation:
        from msgspec.structs import replace

        return replace(why, notes=("Programs that use it were tried with one entry in it.",))

    # -- programs --

    def _programs(self, chosen: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        """Load them together, time and again with what comes behind the one that was refused."""
        yield from self._without_target(chosen)
        chosen = [row for row in chosen if self._has_target(row[1])]
        # each load opens the whole object: of very many programs more at a time, with short logs
        many = len(chosen) // _MOST_LOADS
        together, level = (_TOGETHER, None) if many <= _TOGETHER else (many, _STATS)
        for start in range(0, len(chosen), together):
            rest = list(chosen[start : start + together])
            loaded: list[tuple[str, str]] = []
            while rest:
                attempt = self._load([name for name, _ in rest], level)
                at = len(rest) if not attempt.error else self._failed_at(rest, attempt)
                if at < 0:
                    for row in rest:
                        yield from self._alone(row, self._load([row[0]]), loaded)
                    break
                for row in rest[:at]:
                    yield from self._loaded(row, attempt, loaded)
                if at < len(rest):
                    if attempt.error == errno.ENOSPC:
                        attempt = self._load([rest[at][0]])
                    yield from self._alone(rest[at], attempt, loaded)
                rest = rest[at + 1 :]
            if rows := self._attached(loaded):
                yield from self._attach(rows)

    def _has_target(self, section: str) -> bool:
        function = section.removeprefix(_FREPLACE)
        return function == section or self._replaced.fd(function) is not None

    def _without_target(self, chosen: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        for name, section in chosen:
            if not self._has_target(section):
                why = explain_replacement(section.removeprefix(_FREPLACE))
                yield self._result(
                    "program", "refused", name, section=section, why=self._placed(why, name)
                )

    @staticmethod
    def _failed_at(rest: Sequence[tuple[str, str]], attempt: _Attempt) -> int:
        """Which program the load ended with; -1 where libbpf does not tell, or not surely."""
        named = _PROG.findall(attempt.said)
        names = [name for name, _ in rest]
        at = names.index(named[-1]) if named and named[-1] in names else -1
        before = names[: max(at, 0)]
        return at if all("processed " in attempt.logs[name] for name in before) else -1

    def _loaded(
        self, row: tuple[str, str], attempt: _Attempt, loaded: list[tuple[str, str]]
    ) -> Iterator[LoadResult]:
        name, section = row
        refused = [one for one in self._refused_externs if one in self._target.externs_of(name)]
        if refused:
            why = self._placed(self._refused_externs[refused[0]], name)
            yield self._result("program", "blocked", name, section=section, why=why)
            return
        tables = [one for one in self._refused_maps.values() if one.id == "struct-ops-missing"]
        if name in attempt.unloaded and tables:
            why = self._placed(tables[0], name)
            yield self._result("program", "blocked", name, section=section, why=why)
            return
        told = _PROCESSED.findall(attempt.logs.get(name, "")[-_ENDING:])
        count = int(told[-1]) if told else None
        loaded.append(row)
        yield self._result("program", "ok", name, section=section, instructions=count)

    def _alone(
        self, row: tuple[str, str], attempt: _Attempt, loaded: list[tuple[str, str]]
    ) -> Iterator[LoadResult]:
        """Say why it is refused, from a second load with a whole log."""
        name, section = row
        if not attempt.error:
            yield from self._loaded(row, attempt, loaded)
            return
        short = attempt.logs.get(name, "")
        full = attempt
        log = _program_log(short)
        if self._is_worth_a_log(name, log, attempt):
            again = self._load([name], _FULL, _LARGE_LOG)
            if again.error and again.error != errno.ENOSPC:
                full = again
                log = _program_log(full.logs.get(name, "") or short)
        why, verdict = self._program_reason(name, log, attempt)
        yield self._result(
            "program",
            verdict,
            name,
            section=section,
            errno=_name(attempt.error),
            why=why,
            instructions=log.processed,
            seconds=round(attempt.seconds, 3),
            span=attempt.span,
            source=self._target.function_place(name),
            log=full.logs.get(name, "")[-_MAX_KEPT_LOG:] if self._request.keep_logs else "",
        )

    def _level(self, name: str) -> int:
        """The whole log at once for programs that must be short to follow, as most are.

        Each load takes long by itself; what is followed for long takes longest to be written down.
        """
        target = self._target
        is_short = 0 < target.instruction_count(name) <= _SHORT_PROGRAM
        return _FULL if is_short and not target.has_loop(name) else _STATS

    def _is_worth_a_log(self, name: str, log: ProgramLog, attempt: _Attempt) -> bool:
        """Whether the way to the refusal is to be written down, in one more load."""
        if attempt.levels.get(name) == _FULL or not log.said:
            return False
        is_long = log.processed is not None and log.processed > _TOO_MANY_TO_LOG
        return not is_long and attempt.seconds < _PATIENCE

    def _program_reason(
        self, name: str, log: ProgramLog, attempt: _Attempt
    ) -> tuple[Explanation, Verdict]:
        why = diagnose(log, self._target, name)
        if why is None:
            return self._loader_reason(attempt.said, attempt.error, name), "refused"
        if why.id == "attach-target" and (found := _ADDRESS.search("\n".join(why.words))):
            why = self._with_address(why, found[1])
        if why.id == "unresolved-map" and self._refused_maps:
            return why, "blocked"
        if why.id == "kfunc-missing" and any(
            extern in why.reason for extern in self._refused_externs
        ):
            return why, "blocked"
        return why, "refused"

    @staticmethod
    def _with_address(why: Explanation, function: str) -> Explanation:
        """With what the kernel has of ``function``, which is in its BTF, and no symbol."""
        from msgspec.structs import replace

        from retsnoop_py.load.kprobe_target import why_no_trampoline

        more = why_no_trampoline(function)
        return replace(why, reason=f"{why.reason} {more}") if more else why

    def _attach(self, rows: Sequence[tuple[str, str]]) -> Iterator[LoadResult]:
        """Load what loads once more, and attach each of it."""
        attempt = self._load([name for name, _ in rows], attach=True)
        for name, section in rows:
            missing = (attempt.error, attempt.said, attempt.span)
            error, said, span = attempt.attached.get(name, missing)
            if not error:
                yield self._result("attach", "ok", name, section=section)
            elif error in _UNATTACHED and not _says_why(said):
                yield self._result("attach", "unattached", name, section=section)
            else:
                yield self._result(
                    "attach",
                    "refused",
                    name,
                    section=section,
                    errno=_name(error),
                    why=self._loader_reason(said, error, name),
                    span=span,
                    source=self._target.function_place(name),
                )

    def _loader_reason(self, said: str, error: int, name: str = "") -> Explanation:
        """From what libbpf said, or the errno where that tells nothing."""
        label = f"program '{name}'" if name else "the object"
        for line in said.splitlines():
            why = explain_line(line)
            if why is not None and why.id not in ("btf-refused", "rights"):
                return self._placed(self._with_facts(why, name), name)
        if error == errno.EPERM:
            return why_denied(self._release)
        found = self._size_reason(name, error) or self._type_reason(name, error)
        lines = [line for line in said.splitlines() if "failed to load" not in line]
        why = found or explain_errno(_name(error), label, lines[-1] if lines else "")
        return self._placed(why, name)

    def _with_facts(self, why: Explanation, name: str) -> Explanation:
        """With what this kernel has instead of what it does not have, or why it says no."""
        from msgspec.structs import replace

        words = why.words[0] if why.words else ""
        more = ""
        if why.id == "attach-target-missing" and (found := _TARGET.search(words)):
            section = self._sections.get(name, "")
            why = explain_target(found[1], section, words)
            prefix = btf_target(section)[1]
            names = self._target.functions_like(prefix + found[1])
            near = [one.removeprefix(prefix) for one in names]
            more = f"It has {' and '.join(near)}." if near else ""
        elif why.id == "kprobe-target" and (found := _KPROBE.search(words)):
            from retsnoop_py.load.kprobe_target import why_no_kprobe

            more = why_no_kprobe(found[1])
        elif why.id == "attach-hook":
            from retsnoop_py.load.kprobe_target import why_no_trampoline

            more = why_no_trampoline(self._sections.get(name, "").rpartition("/")[2])
        return replace(why, reason=f"{why.reason} {more}") if more else why

    def _size_reason(self, name: str, error: int) -> Explanation | None:
        """A program of more instructions than the kernel looks at: E2BIG before the verifier."""
        count = self._target.instruction_count(name) if name else 0
        if error != errno.E2BIG or not count:
            return None
        return explain_size(name, count)

    def _type_reason(self, name: str, error: int) -> Explanation | None:
        """A type of program or attachment that this kernel is too old for."""
        if not name or error not in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        with BpfObject(self._copy.path) as opened:
            program = next((one for one in opened.programs() if one.name == name), None)
            kind, section = (program.kind, program.section) if program else (0, "")
        known = since.by_number("program_types", kind)
        if known is not None and known.release > self._release:
            return self._too_old(
                name, "program-type-unsupported", "Program type", "PROG_TYPE_", known
            )
        attached = since.attach_type_of(section)
        if attached is not None and attached.release > self._release:
            return self._too_old(name, "attach-type-unsupported", "Attach type", "", attached)
        return None

    def _too_old(
        self, name: str, id_: str, title: str, prefix: str, known: since.Known
    ) -> Explanation:
        major, minor = self._release
        return Explanation(
            id_,
            f"Kernel Support: {title}",
            f"Program '{name}' is of {title.lower()} BPF_{prefix}{known.name}, which came with"
            f" Linux {known.since}; this is {major}.{minor}.",
            "Require that kernel, or leave the program out there (bpf_program__set_autoload()).",
        )

    def _placed(self, why: Explanation, name: str) -> Explanation:
        from msgspec.structs import replace

        if why.place is not None or not name:
            return why
        return replace(why, place=self._target.function_place(name))

    # -- one load --

    def _load(
        self,
        wanted: Sequence[str],
        level: int | None = _STATS,
        size: int = 0,
        *,
        attach: bool = False,
    ) -> _Attempt:
        """Load the object with ``wanted`` of its programs, and without what was refused.

        ``level`` is that of the logs, None for each program's own; ``size``: bytes for each.
        """
        logs: dict[str, VerifierLog] = {}
        levels = {name: self._level(name) if level is None else level for name in wanted}
        attached: dict[str, tuple[int, str, tuple[int, int]]] = {}
        take_log()
        begin = time.monotonic_ns()
        error, said = 0, ""
        maps: list[str] = []
        unloaded: frozenset[str] = frozenset()
        try:
            with BpfObject(self._copy.path) as opened:
                maps = self._prepare(opened.maps(), wanted)
                self._shape.apply(opened, self._target)
                chosen = []
                for program in opened.programs():
                    is_wanted = program.name in wanted
                    program.set_autoload(is_wanted)
                    if is_wanted:
                        own = levels[program.name]
                        room = size or (_SMALL_LOG if own == _FULL else _SHORT_LOG)
                        logs[program.name] = program.keep_log(room, own)
                        self._replace(program)
                        chosen.append(program)
                opened.load()
                said = take_log()
                unloaded = frozenset(one.name for one in chosen if not one.is_loaded)
                if attach:
                    attached = {one.name: _attach(one) for one in chosen}
        except BpfError as failure:
            error, said = failure.errno or errno.EINVAL, failure.log
        span = (begin, time.monotonic_ns())
        seconds = (span[1] - span[0]) / 1e9
        texts = {name: log.text for name, log in logs.items()}
        return _Attempt(error, said, texts, levels, seconds, attached, tuple(maps), unloaded, span)

    def _replace(self, program: Program) -> None:
        function = program.section.removeprefix(_FREPLACE)
        if function != program.section:
            fd = self._replaced.fd(function)
            assert fd is not None
            program.replace(fd, function)

    def _prepare(self, maps: Sequence[BpfMap], wanted: Sequence[str]) -> list[str]:
        """Have only those maps created that are needed: some take gigabytes, or long."""
        needed = self._needed(wanted) if wanted else None
        created = []
        for one in maps:
            one.unpin()  # nothing is to stay behind, and what is pinned is somebody's
            if one.is_internal:
                continue
            if one.name in self._unsized:
                one.set_max_entries(_PAGE if one.kind in _RINGS else 1)
                one.set_autocreate(needed is None or one.name in needed)
                continue
            known = one.name in self._refused_maps or (not wanted and one.name in self._made_maps)
            unused = needed is not None and one.name not in needed and one.kind != _STRUCT_OPS
            if known or unused:
                one.set_autocreate(False)
            else:
                created.append(one.name)
        return created

    def _needed(self, wanted: Sequence[str]) -> set[str] | None:
        found: set[str] = set()
        for name in wanted:
            used = self._target.maps_of(name)
            if used is None:
                return None
            found |= used
        return found


def _attach(program: Program) -> tuple[int, str, tuple[int, int]]:
    """Attach and detach; the errno, 0 if it worked, what libbpf said, and when that was."""
    begin = time.monotonic_ns()
    error, said = 0, ""
    try:
        program.attach().close()
    except BpfError as failure:
        error, said = failure.errno or errno.EINVAL, failure.log
    return error, said, (begin, time.monotonic_ns())


def _says_why(said: str) -> bool:
    return any(explain_line(line) is not None for line in said.splitlines())


def _program_log(text: str) -> ProgramLog:
    """The last segment of one program's log that has a verdict."""
    found = [read_log(segment) for segment in segments(BytesIO(text.encode()))]
    ended = [log for log in found if log.processed is not None or log.followed or log.said]
    return ended[-1] if ended else read_log(Segment(1, (), 0, 0))


def _name(number: int) -> str:
    if number in _LIBBPF_ERRORS:
        return f"LIBBPF_{_LIBBPF_ERRORS[number]}"
    return ERRNO_NAMES.get(number, str(number))
