# SPDX-License-Identifier: BSD-2-Clause
"""Which failure of a run is explained, and what is said of it in the user's terms."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from retsnoop_py.api.failing import Failing, FailingCalls, ordinary
from retsnoop_py.cause.complaint import Choice, Evidence, choose, reported_elsewhere
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.killed import killed
from retsnoop_py.cause.operation import operation
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import answered, reason_of
from retsnoop_py.cause.wording import Wording
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.render import why_types as told
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session

__all__ = [
    "Chosen",
    "Survey",
    "counterpart",
    "session_of",
    "with_reason",
    "without_functions",
]

#: Evidence that speaks against a call.
_AGAINST = (Evidence.LOOKS, Evidence.ORDINARY, Evidence.NEVER)


class Chosen(Value):
    """A failure to explain.

    ``failing``: the kernel's functions that failed in it, None where none was seen. ``call``: the
    system call as the program made it, None where nothing watched. ``choice``: the evidence.
    ``alike``: other failures that have the same.
    """

    failing: Failing | None
    call: SystemCall | None = None
    choice: Choice | None = None
    alike: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """Its name."""
        if self.failing is not None:
            return self.failing.error
        assert self.call is not None
        return errno_name(self.call.error)

    @property
    def is_reported(self) -> bool:
        """Whether the command's own words are about it."""
        return self.choice is not None and self.choice.is_reported

    @property
    def is_hinted_at(self) -> bool:
        """Whether they at least name its path, its address or its error."""
        return self.choice is not None and self.choice.line is not None


class Survey:
    """What a run showed: the failures that kernel functions were followed in, and the witness's."""

    def __init__(self, failing: FailingCalls, witnessed: Witnessed, *, is_named: bool) -> None:
        self.failing = failing
        self.witnessed = witnessed
        self._is_named = is_named
        self._wording = Wording()
        self._matches = failing.of_calls(witnessed.calls)

    def chosen(self, *, failed: bool) -> Chosen | None:
        """The failure to explain; None if none of them is what the command ``failed`` by."""
        if self.witnessed.problem is not None:
            found = self.failing.complained_of(failed=failed)
            return None if found is None else Chosen(found)
        calls = [one for one in self.witnessed.calls if self.failing.is_wanted(one)]
        ranked = choose(self.witnessed, self._wording, self._ordinary, calls)
        best = self._best(ranked, failed=failed)
        if best is None:
            return None
        return Chosen(self._matches.get(best.call), best.call, best, tuple(_alike(best, ranked)))

    def of(self, failing: Failing) -> Chosen:
        """The same of a failure that was chosen already, as the next one of a process."""
        calls = [call for call, one in self._matches.items() if one is failing]
        return Chosen(failing, calls[-1] if calls else None)

    def _ordinary(self, call: SystemCall) -> Evidence | None:
        match = self._matches.get(call)
        return ordinary(call, match.chain if match is not None else ())

    def _best(self, ranked: Sequence[Choice], *, failed: bool) -> Choice | None:
        if not ranked:
            return None
        best = ranked[-1]
        if self._is_named or best.is_reported:
            return best
        if failed:
            return best if best.points >= 0 else None
        plain = [one for one in ranked if not any(bad in one.evidence for bad in _AGAINST)]
        return plain[-1] if plain else None

    def failures(self, chosen: Chosen | None) -> tuple[told.FailedCall, ...]:
        """All that failed, a row for each call and error."""
        rows: dict[tuple[str, str], told.FailedCall] = {}

        def add(row: told.FailedCall) -> None:
            key = row.syscall, row.error
            before = rows.pop(key, None)
            if before is not None:
                row = structs.replace(
                    row, count=row.count + before.count, chosen=row.chosen or before.chosen
                )
            rows[key] = row

        for call in self.witnessed.calls:
            if call in self._matches:
                continue
            ordinarily = self._ordinary(call)
            is_it = chosen is not None and chosen.failing is None and call == chosen.call
            reason = ordinarily.text if ordinarily else None
            add(told.FailedCall(call.name, "", errno_name(call.error), 1, reason, is_it))
        for one in self.failing:
            is_it = chosen is not None and one is chosen.failing
            add(
                told.FailedCall(one.syscall, one.function, one.error, one.count, one.probing, is_it)
            )
        return tuple(rows.values())

    def end_reason(self, chosen: Chosen | None, status: int | None) -> told.Reason | None:
        """Why a process of the command was killed, if that explains the exit ``status`` better.

        Better than ``chosen``, a failing call that the command reported; and where the command
        killed that process itself, better than one that it only hinted at.
        """
        if chosen is not None and chosen.is_reported:
            return None
        is_hinted_at = chosen is not None and chosen.is_hinted_at
        for end in reversed(self.witnessed.ends):
            if is_hinted_at and status != 128 + end.signal and self.witnessed.killed_itself(end):
                continue
            reason = killed(self.witnessed, end)
            if reason is not None:
                return _told(reason)
        return None

    def nothing(self, *, failed: bool, status: int | None) -> str:
        """Why nothing is explained."""
        if not failed:
            return "it succeeded. Only calls failed that most programs make to probe the system"
        elsewhere = reported_elsewhere(self.witnessed, self._wording, self.witnessed.calls)
        if elsewhere is not None:
            line, error = elsewhere
            return (
                f'it wrote "{line.text.strip()}", and none of its system calls returned {error}. '
                "The error comes from a server or from the program itself"
            )
        return (
            f"no failing system call explains exit status {status}. The program probably made "
            "this decision itself"
        )


def _alike(best: Choice, ranked: Sequence[Choice]) -> list[str]:
    """Other calls with the same evidence, for another reason."""
    found = []
    for one in reversed(ranked):
        if one.points != best.points:
            break
        text = f"{operation(one.call)} ({errno_name(one.call.error)})"
        if text != f"{operation(best.call)} ({errno_name(best.call.error)})":
            found.append(text)
    return list(dict.fromkeys(found))[:2] if best.line is not None else []


def counterpart(witnessed: Witnessed, like: SystemCall) -> SystemCall | None:
    """The call of another run that is the same: by name, error and texts, the last of them."""
    same = [
        one
        for one in witnessed.calls
        if (one.name, one.error) == (like.name, like.error)
        and (one.texts, one.address) == (like.texts, like.address)
    ]
    return same[-1] if same else None


def session_of(sessions: Sequence[Session], call: SystemCall) -> Session | None:
    """The session that is a call's: of its thread, the last one that had ended by then."""
    found = [one for one in sessions if one.tid == call.tid and one.end_ns <= call.time]
    return max(found, key=lambda one: one.end_ns) if found else None


def with_reason(
    explained: told.ExplainedCall, chosen: Chosen, witnessed: Witnessed
) -> told.ExplainedCall:
    """The same with what it means for the user."""
    call, choice = chosen.call, chosen.choice
    if call is None:
        return _of_request(explained)
    said = tuple(one.text for one in explained.said)
    condition = _condition(explained)
    scene = Scene(call, witnessed, _identity(call), said, _functions(explained), *condition)
    reason = reason_of(scene)
    reported = None
    if choice is not None:
        line = choice.line.text.strip() if choice.line is not None else None
        reported = told.Reported(
            choice.is_reported,
            tuple(one.text for one in choice.evidence),
            line,
            chosen.alike,
        )
    return structs.replace(
        explained,
        what=operation(call),
        reason=None if reason is None else _told(reason),
        reported=reported,
    )


def _of_request(explained: told.ExplainedCall) -> told.ExplainedCall:
    """The same of a netlink request: the kernel answers it with an error and a message.

    Anything else that no system call was recorded for stays as it is.
    """
    if not explained.syscall.endswith(("_rcv_msg", "_receive_msg")):
        return explained
    said = tuple(one.text for one in explained.said)
    reason = answered(said)
    return structs.replace(
        explained,
        what="a netlink request",
        reason=None if reason is None else _told(reason),
    )


def _condition(
    explained: told.ExplainedCall,
) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    """The innermost condition that decided, and the values that it compared, as far as known."""
    known = (explained.origin, explained.deduced, *explained.tested)
    decided = [one.decided for one in known if one is not None and one.decided is not None]
    if not decided or decided[-1].check:
        return None, ()
    last = decided[-1]
    return last.condition, tuple(
        (one.name, one.value) for one in last.operands if one.value is not None
    )


def _functions(explained: told.ExplainedCall) -> tuple[str, ...]:
    """The kernel's functions that failed in the call, outermost first, as far as runs followed."""
    names = [one.function.name for one in explained.chain]
    for origin in (explained.origin, *explained.tested):
        if origin is not None:
            names += [origin.function.name, *filter(None, [origin.callee])]
    return tuple(dict.fromkeys(names))


def without_functions(call: SystemCall) -> told.ExplainedCall:
    """What is told of a call that no function of the kernel was seen to fail in."""
    if call.is_filtered and call.was_entered is False:
        unknown = "the kernel did not begin this call. A seccomp filter returned the error"
    elif call.was_entered is False:
        unknown = "the kernel did not begin this call. A tracer (ptrace) made its result"
    elif call.is_filtered and call.was_entered is None:
        unknown = (
            "no kernel function of this call ran, and the process has a seccomp filter. The "
            "filter probably returned the error"
        )
    elif errno_name(call.error) == "ENOSYS":
        unknown = "this kernel does not have this system call"
    else:
        unknown = "retsnoop-py saw no kernel function fail in this call"
    return told.ExplainedCall(
        call.name,
        errno_name(call.error),
        call.tid,
        call.pid,
        call.process,
        call.process,
        "",
        unknown=unknown,
    )


def _identity(call: SystemCall) -> Identity:
    groups: tuple[int, ...] = ()
    if call.uid:
        try:
            name = pwd.getpwuid(call.uid).pw_name
            groups = tuple(os.getgrouplist(name, call.gid))
        except (KeyError, OSError):
            groups = ()
    return Identity(call.uid, call.gid, groups)


def _told(reason: Reason) -> told.Reason:
    return told.Reason(reason.kind, reason.text, reason.advice, reason.is_seen_later)
