# SPDX-License-Identifier: BSD-2-Clause
"""Load an object once, with selected programs and without the rejected maps.

libbpf loads a file, so this module makes a copy in memory. It can then make externs weak in the
copy. Each load selects its own maps and programs, and leaves nothing in the kernel.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from retsnoop_py.errors import BpfError, DataError
from retsnoop_py.libbpf.object import BpfMap, BpfObject, Program, VerifierLog, take_log
from retsnoop_py.load.attaching import Attached, attach_once, register_once
from retsnoop_py.load.checked_object import open_object, read_checked
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.shape import Shape
from retsnoop_py.value import Value

__all__ = [
    "FIXED",
    "FREPLACE",
    "FULL",
    "STATS",
    "STRUCT_OPS",
    "Attempt",
    "Copy",
    "Loader",
    "Replaced",
    "can_interrupt",
]

#: Log levels of bpf(2): STATS prints statistics only, FULL also the executed path. FIXED (Linux
#: 6.4) is added to keep the beginning of a log that exceeds its buffer.
STATS, FULL, FIXED = 4, 5, 8
#: BPF_MAP_TYPE_STRUCT_OPS: a struct_ops map.
STRUCT_OPS = 26
#: Prefix of a section with a program that replaces a function. The function's name follows.
FREPLACE = "freplace/"

#: Sizes of a log in bytes: for statistics only, and for a short program.
_SHORT_LOG, _SMALL_LOG = 64 << 10, 1 << 20
#: Maximum number of instructions of a short program.
_SHORT_PROGRAM = 4096
_WEAK_BIND = 2
#: BPF_MAP_TYPE_RINGBUF and _USER_RINGBUF: max_entries is their size in bytes, a multiple of a page.
_RINGS, _PAGE = frozenset({27, 31}), 4096


class Copy:
    """An object in memory; :meth:`weaken` makes its strong externs weak."""

    def __init__(self, path: Path, target: ObjectFile) -> None:
        self._data = bytearray(read_checked(path))
        self._strong = target.strong_externs()
        self._fd = os.memfd_create("retsnoop-load", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(self._fd), "wb") as file:
            file.write(self._data)
        self.path = Path(f"/proc/self/fd/{self._fd}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def weaken(self, name: str) -> bool:
        """Make extern ``name`` weak; return False if it is already weak."""
        at = self._strong.pop(name, None)
        if at is None:
            return False
        info = self._data[at]
        os.pwrite(self._fd, bytes([_WEAK_BIND << 4 | info & 15]), at)
        return True


class Replaced:
    """Loaded programs of other objects with functions that freplace programs replace."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._opened = ExitStack()
        self._fds: dict[str, int | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def fd(self, function: str) -> int | None:
        """Return the file descriptor of a program that calls ``function``; None if none loads."""
        if function not in self._fds:
            found = (self._load(path, function) for path in self._paths)
            self._fds[function] = next((fd for fd in found if fd is not None), None)
        return self._fds[function]

    def _load(self, path: Path, function: str) -> int | None:
        try:
            target = open_object(path)
            with Copy(path, target) as copy:
                opened = BpfObject(copy.path)
        except (BpfError, DataError):
            return None  # that object's own results report the error
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


class Attempt(Value):
    """The result of a load: libbpf's messages, verifier logs, attach errors.

    ``maps``: the maps that the load was to create, in order. ``unloaded``: selected programs that
    libbpf skipped, because they belong to no struct_ops map of this load.
    """

    error: int
    said: str
    logs: dict[str, str]
    levels: dict[str, int]
    attached: dict[str, Attached]
    maps: tuple[str, ...]
    unloaded: frozenset[str]
    #: Start and end of the load, in ns of CLOCK_MONOTONIC.
    span: tuple[int, int]

    @property
    def seconds(self) -> float:
        """Return the duration of the load."""
        return (self.span[1] - self.span[0]) / 1e9

    def before(self, name: str) -> set[str]:
        """Return the maps that were created before map ``name`` was tried."""
        return set(self.maps[: self.maps.index(name)] if name in self.maps else ())


def can_interrupt() -> bool:
    """Return True if a timer can interrupt a load: no other code uses SIGALRM."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and not any(signal.getitimer(signal.ITIMER_REAL))
    )


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the verifier (EAGAIN) after ``seconds``; libbpf tries four more times. 0: never."""
    if not seconds:
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Loader:
    """Load the copy of an object. Some of its maps are omitted or made small."""

    def __init__(self, copy: Copy, target: ObjectFile, shape: Shape, replaced: Replaced) -> None:
        self._copy = copy
        self._target = target
        self._shape = shape
        self._replaced = replaced
        #: Rejected maps, which are omitted.
        self.refused_maps: set[str] = set()
        #: Maps without a size, which get a single entry for programs.
        self.unsized_maps: set[str] = set()
        #: The kernel's configuration, line by line, if the kernel does not show it.
        self.kconfig = ""
        #: Maps that were created once, so that no later load tries them again.
        self.made_maps: set[str] = set()

    def load(
        self,
        wanted: Sequence[str],
        level: int | None = STATS,
        size: int = 0,
        *,
        attach: bool = False,
        table: str = "",
        patience: float = 0,
    ) -> Attempt:
        """Load the object with its ``wanted`` programs, and without rejected maps.

        ``attach``: also attach each program. ``table``: also attach this struct_ops map. ``level``:
        the log level, None for a level per program. ``size``: bytes per log. ``patience``:
        interrupt the kernel after this number of seconds, which ends the logs; see
        :func:`can_interrupt`.
        """
        logs: dict[str, VerifierLog] = {}
        levels = {name: self._level(name) if level is None else level for name in wanted}
        attached: dict[str, Attached] = {}
        take_log()
        begin = time.monotonic_ns()
        error, said = 0, ""
        maps: list[str] = []
        unloaded: frozenset[str] = frozenset()
        try:
            with BpfObject(self._copy.path, kconfig=self.kconfig) as opened:
                programs = opened.programs()
                maps = self._choose_maps(opened.maps(), wanted, programs)
                self._shape.apply(opened, self._target)
                chosen = []
                for program in programs:
                    is_wanted = program.name in wanted
                    program.set_autoload(is_wanted)
                    if is_wanted:
                        own = levels[program.name]
                        room = size or (_SMALL_LOG if own == FULL else _SHORT_LOG)
                        logs[program.name] = program.keep_log(room, own)
                        self._replace(program)
                        chosen.append(program)
                with _interrupted_after(patience):
                    opened.load()
                said = take_log()
                unloaded = frozenset(one.name for one in chosen if not one.is_loaded)
                if attach:
                    attached = {one.name: attach_once(one) for one in chosen}
                if table:
                    attached[table] = register_once(opened.map(table))
        except BpfError as failure:
            error, said = failure.errno or errno.EINVAL, failure.log
        span = (begin, time.monotonic_ns())
        texts = {name: log.text for name, log in logs.items()}
        return Attempt(error, said, texts, levels, attached, tuple(maps), unloaded, span)

    def _level(self, name: str) -> int:
        """Return the log level of a program: FULL if the verifier can follow it quickly.

        Most programs are short, and for these a second load takes longer than a full log. For a
        long program, writing the log takes most of the time.
        """
        target = self._target
        is_short = 0 < target.instruction_count(name) <= _SHORT_PROGRAM
        return FULL if is_short and not target.has_loop(name) else STATS

    def _replace(self, program: Program) -> None:
        function = program.section.removeprefix(FREPLACE)
        if function != program.section:
            fd = self._replaced.fd(function)
            assert fd is not None
            program.replace(fd, function)

    def _choose_maps(
        self, maps: Sequence[BpfMap], wanted: Sequence[str], programs: Sequence[Program]
    ) -> list[str]:
        """Create only the needed maps, because some maps take gigabytes or a long time.

        libbpf loads the programs of a struct_ops map only with the map. The map keeps only the
        wanted programs.
        """
        needed = self._needed(wanted) if wanted else None
        created = []
        for one in maps:
            one.unpin()  # pinned maps belong to others; nothing may stay behind
            if one.is_internal:
                continue
            if one.name in self.unsized_maps:
                one.set_max_entries(_PAGE if one.kind in _RINGS else 1)
                one.set_autocreate(needed is None or one.name in needed)
                continue
            known = one.name in self.refused_maps or (not wanted and one.name in self.made_maps)
            unused = needed is not None and one.name not in needed
            if one.kind == STRUCT_OPS and wanted:
                functions = one.functions(programs)
                one.leave_out(at for at, name in functions.items() if name not in wanted)
                unused = set(functions.values()).isdisjoint(wanted)
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
