# SPDX-License-Identifier: BSD-2-Clause
"""The failed system calls of a program, and the call that its message is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.cause.complaint import Evidence
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.cause.operation import object_of, opens_to_create
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.package import read
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.selection.globs import Preset

__all__ = [
    "Failing",
    "FailingCalls",
    "chain_of",
    "is_looked_for",
    "kernel_name",
    "ordinary",
    "presets_for",
    "syscall_globs",
    "syscall_name",
]

#: Functions of system calls, by machine. On x86-64, one function of a call without arguments, like
#: vfork(2), has two names, and the kernel lists the second one. On arm64 the second name belongs to
#: inline functions only. The kernel may not allow tracing any of them.
_SYSCALLS = {"x86_64": ("__x64_sys_*", "__do_sys_*"), "aarch64": ("__arm64_sys_*",)}
#: Functions for 32-bit programs, and a file that exists if the kernel runs such programs.
_SYSCALLS_32 = {"x86_64": ("__ia32_*sys_*", Path("/proc/sys/abi/vsyscall32"))}
_PREFIX = re.compile(r"__[a-z0-9]+_(?:compat_)?sys_")
#: The entry functions of a preset for all system calls, and the errors that the preset is for.
_ANY_CALL, _REFUSALS = ("*_sys_*",), ("EPERM", "EACCES")
#: Internal results of a call that a signal interrupted; the program sees EINTR, or no error.
_RESTARTED = ("ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK")


def syscall_globs(machine: str, *, compat: bool) -> list[str]:
    """Return globs for this machine's system calls; with ``compat`` also for 32-bit ones."""
    globs = [*_SYSCALLS.get(machine, ("__*_sys_*",))]
    if compat and machine in _SYSCALLS_32 and _SYSCALLS_32[machine][1].exists():
        globs.append(_SYSCALLS_32[machine][0])
    return globs


def syscall_name(function: str) -> str:
    """Return the system call of a kernel function: ``bpf`` for ``__x64_sys_bpf``."""
    return _PREFIX.sub("", function, count=1)


class _Probing(Value):
    calls: tuple[str, ...]
    errors: tuple[str, ...]
    reason: str
    never: bool
    may_matter: bool
    inside: str | None


class _Rules(Value):
    probing: tuple[_Probing, ...]
    looked_for: tuple[str, ...]
    asked: frozenset[tuple[str, str, int]]


@lru_cache(1)
def _rules() -> _Rules:
    import tomllib

    text = read(Path(__file__).with_name("probing.toml")).decode()
    found = tomllib.loads(text)
    return _Rules(
        tuple(
            _Probing(
                tuple(row["calls"]),
                tuple(row["errors"]),
                row["reason"],
                row.get("never", False),
                row.get("may-matter", False),
                row.get("inside"),
            )
            for row in found["probing"]
        ),
        tuple(path for row in found["looked-for"] for path in row["paths"]),
        frozenset(
            (row["call"], row["argument"], value)
            for row in found["asked-at-any-time"]
            for value in row["values"]
        ),
    )


def _probing(syscall: str, error: str, chain: Sequence[str]) -> _Probing | None:
    """Return the rule for failing calls that are usually part of a program's ordinary work."""
    for rule in _rules().probing:
        is_there = rule.inside is None or rule.inside in chain
        if (
            error in rule.errors
            and is_there
            and any(fnmatchcase(syscall, kernel_name(x)) for x in rule.calls)
        ):
            return rule
    return None


def is_looked_for(path: str) -> bool:
    """Return True for a file that libraries search for, rather than the program itself."""
    return any(fnmatchcase(path, one) for one in _rules().looked_for)


def presets_for(function: str, error: str) -> list[Preset]:
    """Return the presets for calls of ``function`` that return ``error``.

    A preset for all system calls explains refusals; it does not apply to other errors.
    """
    from retsnoop_py.selection.globs import load_preset, preset_names

    found = []
    for preset in map(load_preset, preset_names()):
        for_all = any(fnmatchcase(function, one) for one in _ANY_CALL if one in preset.entry)
        if for_all and error not in _REFUSALS:
            continue
        if any(fnmatchcase(function, one) for one in preset.entry):
            found.append(preset)
    return found


class Failing:
    """Calls of ``function`` that failed with ``error``: ``count`` calls with the same chain.

    ``chain`` contains the names of the functions that failed, outermost first. ``last`` is the
    newest call and ``order`` its number among all failures.
    """

    def __init__(self, function: str, error: str, chain: tuple[str, ...]) -> None:
        self.function = function
        self.syscall = syscall_name(function)
        self.error = error
        self.chain = chain
        found = _probing(self.syscall, error, chain)
        self.probing = found.reason if found else None
        self.is_never_meant = found is not None and found.never
        self.count = 0
        self.order = 0
        self.last: Session | None = None


def ordinary(call: SystemCall, chain: Sequence[str] = ()) -> Evidence | None:
    """Return how ordinary such a failing call is in programs' work; None if unknown.

    ``chain``: the kernel functions that failed in the call, if known.
    """
    name = kernel_name(call.name)
    if is_looked_for(object_of(call)) or _asks_at_any_time(call):
        return Evidence.ORDINARY
    rule = _probing(name, errno_name(call.error), chain)
    if rule is None:
        return None
    if rule.never:
        return Evidence.NEVER
    if rule.may_matter and opens_to_create(call):
        return None  # a program looks for no file that it is about to create
    return Evidence.LOOKS if rule.may_matter else Evidence.ORDINARY


def _asks_at_any_time(call: SystemCall) -> bool:
    """Return True for requests that programs make at any time, by the first or second argument."""
    number = {"ioctl": 1, "prctl": 0}.get(call.name)
    if number is None:
        return False
    value = call.arguments[number] & 0xFFFFFFFF
    return any(name == call.name and value == asked for name, _, asked in _rules().asked)


#: System calls with different names in the kernel and in asm/unistd.h.
_KERNEL_NAMES = {
    "stat": "newstat",
    "lstat": "newlstat",
    "fstat": "newfstat",
    "uname": "newuname",
    "umount2": "umount",
    "sendfile": "sendfile64",
}


def kernel_name(name: str) -> str:
    """Return the name of a system call's kernel function: ``newstat`` for ``stat``."""
    return _KERNEL_NAMES.get(name, name)


class FailingCalls:
    """The failed system calls, as they arrive."""

    def __init__(self, syscalls: Sequence[str] = (), errors: Sequence[str] = ()) -> None:
        self._syscalls = tuple(map(kernel_name, syscalls))
        self._errors = errors
        #: By thread: the end of each call in ns, and its failure.
        self._seen: dict[int, list[tuple[int, Failing]]] = {}
        self._found: dict[tuple[str, str, tuple[str, ...]], Failing] = {}
        self._order = 0

    def add(self, session: Session) -> Failing | None:
        """Count a session; return None if the program does not see a failure."""
        if session.report != "final" or not session.failed or not session.calls:
            return None
        first = session.calls[0]
        if first.error is None or first.error in _RESTARTED:
            return None
        key = first.function.name, first.error, chain_of(session)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Failing(*key)
        self._order += 1
        found.count += 1
        found.order = self._order
        found.last = session
        self._seen.setdefault(session.tid, []).append((session.end_ns, found))
        return found

    def of_calls(self, calls: Iterable[SystemCall]) -> dict[SystemCall, Failing]:
        """Return the failure of each call, by its thread and time.

        Calls without a failing kernel function are skipped: a seccomp filter rejected them, or the
        kernel does not have such a call.
        """
        found = {}
        places = dict.fromkeys(self._seen, 0)
        ordered = {tid: sorted(seen, key=lambda one: one[0]) for tid, seen in self._seen.items()}
        direct = [one for one in calls if one.deferred is None]
        for call in sorted(direct, key=lambda one: one.time):
            seen, at = ordered.get(call.tid, []), places.get(call.tid, 0)
            last: Failing | None = None
            while at < len(seen) and seen[at][0] <= call.time:
                last, at = seen[at][1], at + 1
            places[call.tid] = at
            if last is not None and last.error == errno_name(call.error):
                found[call] = last
        return found

    def is_wanted(self, call: SystemCall) -> bool:
        """Return True if the call is one that the user named, or if the user named none."""
        if self._syscalls and kernel_name(call.name) not in self._syscalls:
            return False
        return not self._errors or errno_name(call.error) in self._errors

    def __iter__(self) -> Iterator[Failing]:
        """Iterate over the failures, by the time of their last calls."""
        return iter(sorted(self._found.values(), key=lambda one: one.order))

    def __len__(self) -> int:
        return len(self._found)

    def is_asked_for(self, one: Failing) -> bool:
        """Return True if the failure is one that the user named, or if the user named none."""
        if self._syscalls and one.syscall not in self._syscalls:
            return False
        return not self._errors or one.error in self._errors

    def complained_of(self, *, failed: bool) -> Failing | None:
        """Return the failure that the program's message is about: the last that is not probing.

        If the program ``failed`` without other failures, return the last of the probable probing
        calls; also if the user named it. This method is for runs without recorded messages:
        recordings, and requests that netlink answers.
        """
        is_named = bool(self._syscalls or self._errors)
        asked = [
            one for one in self if self.is_asked_for(one) and (is_named or not one.is_never_meant)
        ]
        plain = [one for one in asked if one.probing is None]
        if plain:
            return plain[-1]
        if asked and (failed or is_named):
            return asked[-1]
        return None


def chain_of(session: Session) -> tuple[str, ...]:
    """Return the functions of a session's deepest chain, as globs that match only them."""
    return tuple(
        one.function.name + (f"[{one.function.module}]" if one.function.module else "")
        for one in session.calls
    )
