# SPDX-License-Identifier: BSD-2-Clause
"""Choose the failure of a run to explain, and describe it in the user's terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import structs

from retsnoop_py.api.failing import Failing, FailingCalls, ordinary
from retsnoop_py.cause import names
from retsnoop_py.cause.complaint import (
    Choice,
    Evidence,
    choose,
    errors_written,
    lines_of,
    reported_elsewhere,
)
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.files import Identity, groups_of
from retsnoop_py.cause.killed import killed
from retsnoop_py.cause.netlink import answered, words
from retsnoop_py.cause.operation import object_of, operation
from retsnoop_py.cause.own_words import instead_of_call, meaning_of_status, own_decision
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.cause.wording import Wording
from retsnoop_py.kernel.capabilities import CAPABILITIES
from retsnoop_py.kernel.errno import ERRNO_NAMES, errno_name
from retsnoop_py.model import why as told
from retsnoop_py.model.session import Decision, ExplainedFailure
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.session.model import Session as CapturedSession

__all__ = [
    "Chosen",
    "Survey",
    "call_of",
    "counterpart",
    "explain_session",
    "session_of",
    "with_reason",
    "without_functions",
]

#: A path as programs quote it.
_QUOTED = re.compile(r"['\u2018]([^'\u2018\u2019]+)['\u2019]")
#: Errors that programs report about a path although no call returned them.
_OF_PATHS = ("EISDIR", "ENOTDIR", "EEXIST", "ENOTEMPTY", "ENOENT")
#: Devices that drivers create, and that programs need which look for them.
_DRIVERS = ("/dev/loop-control", "/dev/mapper/control", "/dev/fuse", "/dev/net/tun", "/dev/kvm")
#: Words in lines about errors; the first ones say that the line is about the end of the program.
_IS_FATAL = re.compile(r"\b(?:fatal|panic|error)(?: error)?: \S", re.I)
_COMPLAINS = re.compile(r"fatal|error|fail|cannot|can't|could not|not |denied|invalid|refuse", re.I)
#: The stream to which a command writes errors.
_ERRORS = 2


class Chosen(Value):
    """A failure to explain.

    ``failing``: the kernel functions that failed in it, or None. ``call``: the system call as the
    program made it, None without a witness. ``choice``: the evidence. ``alike``: other failures
    with the same evidence. ``is_named``: the user named the call or error. ``is_answer``: a netlink
    request that kernel functions rejected, without a failing system call; ``line`` is then the
    command's message about that error.
    """

    failing: Failing | None
    call: SystemCall | None = None
    choice: Choice | None = None
    alike: tuple[str, ...] = ()
    is_named: bool = False
    is_answer: bool = False
    line: str | None = None

    @property
    def error(self) -> str:
        """The name of the error."""
        if self.failing is not None:
            return self.failing.error
        assert self.call is not None
        return errno_name(self.call.error)

    @property
    def is_request(self) -> bool:
        """True for a netlink message, which is not a system call."""
        return self.is_answer or (self.call is not None and self.call.request is not None)

    @property
    def is_reported(self) -> bool:
        """True if the command's own message is about this failure."""
        return self.choice is not None and self.choice.is_reported

    @property
    def certainty(self) -> told.Certainty:
        """The certainty that the command failed because of this call."""
        if self.alike and self.is_hinted_at:
            return "unknown"
        return "observed" if self.is_reported or self.is_named else "inferred"

    @property
    def is_hinted_at(self) -> bool:
        """True if the command's message contains at least its path, its address or its error."""
        return self.choice is not None and self.choice.line is not None

    @property
    def has_words(self) -> bool:
        """Whether they have words for its error, and not only a name of it."""
        found = self.choice.evidence if self.choice is not None else ()
        return any(
            one in found for one in (Evidence.ERROR_TEXT, Evidence.OTHER_WORDS, Evidence.ANSWER)
        )

    @property
    def may_be_the_reason(self) -> bool:
        """True if programs do not make such a call in their ordinary work."""
        return self.choice is not None and not self.choice.is_ordinary

    @property
    def may_be_another(self) -> bool:
        """True if the command's message may instead be about a netlink answer."""
        return not self.is_hinted_at or not (
            self.is_reported or (self.choice is not None and not self.choice.is_ordinary)
        )


class Survey:
    """The failures of a run: those with followed kernel functions, and the witness's records."""

    def __init__(self, failing: FailingCalls, witnessed: Witnessed, *, is_named: bool) -> None:
        self.failing = failing
        self.witnessed = witnessed
        self._is_named = is_named
        self._wording = Wording()
        self._matches = failing.of_calls(witnessed.calls)

    def chosen(self, *, failed: bool) -> Chosen | None:
        """Return the failure to explain; None if no failure explains why the command ``failed``."""
        if self.witnessed.problem is not None:
            found = self.failing.complained_of(failed=failed)
            return None if found is None else Chosen(found)
        calls = [one for one in self.witnessed.calls if self.failing.is_wanted(one)]
        ranked = choose(self.witnessed, self._wording, self._ordinary, calls)
        best = self._best(ranked, failed=failed)
        if best is None:
            return None
        return Chosen(
            self._matches.get(best.call),
            best.call,
            best,
            tuple(_alike(best, ranked)),
            self._is_named,
        )

    def may_be_request(self, chosen: Chosen | None) -> bool:
        """Return True if a run with netlink's functions may show more than ``chosen``.

        That further run shows the functions that rejected a message. Even if no rejected message
        was recorded, these functions may have made the error, for example in a list that spans
        several messages.
        """
        if chosen is not None and chosen.is_request:
            return True
        if any(one.request is not None for one in self.witnessed.calls):
            return False
        uses_it = self.witnessed.uses_netlink or self.witnessed.problem is not None
        return uses_it and (chosen is None or chosen.may_be_another)

    def with_request(self, chosen: Chosen | None, requests: FailingCalls) -> Chosen | None:
        """Return ``chosen``, with the functions that rejected it if it is a netlink message.

        Otherwise, return the request that may explain the error better, if there is one.
        """
        if chosen is None or not chosen.is_request:
            return self._refused(requests) or chosen
        same = [one for one in requests if one.error == chosen.error and not one.is_never_meant]
        return replace(chosen, failing=same[-1]) if same else chosen

    def _refused(self, requests: FailingCalls) -> Chosen | None:
        """Return the netlink request to explain: the last with an error that the command wrote."""
        written = errors_written(self.witnessed, self._wording)
        if written is not None:
            errors, line = written
            names = {errno_name(one) for one in errors}
            meant = [one for one in requests if one.error in names and not one.is_never_meant]
            if meant:
                return Chosen(meant[-1], is_answer=True, line=line.text.strip())
        last = requests.complained_of(failed=True)
        if last is None or last.is_never_meant:
            return None
        return Chosen(last, is_answer=True)

    def of(self, failing: Failing) -> Chosen:
        """Return the choice for a given failure, such as the next failure of a process."""
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
            likely = [one for one in ranked if self._is_likely(one)]
            return likely[-1] if likely else None
        plain = [one for one in ranked if not one.is_ordinary]
        return plain[-1] if plain else None

    def _is_likely(self, choice: Choice) -> bool:
        """Return True if a failed command may have failed because of this call.

        A call of ordinary probing must have its error in the command's text. A file search must
        have its error or its path there; a phrase such as "not found" with the last part of the
        path also suffices. If the command wrote nothing, a search may be the reason without any
        text.
        """
        evidence = choice.evidence
        if choice.points < 0:
            return False
        if Evidence.ORDINARY in evidence or Evidence.NEVER in evidence:
            return Evidence.ERROR_TEXT in evidence
        is_silent = not any(one.stream == _ERRORS for one in self.witnessed.written)
        return is_silent or Evidence.LOOKS not in evidence or _is_looked_for(choice)

    def failures(self, chosen: Chosen | None) -> tuple[told.FailedCall, ...]:
        """Return all failures, a row for each call and error."""
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
        """Return why a process of the command was killed, if that explains the exit ``status``.

        A failing call that the command reported explains it better. If the command killed the
        process itself, a failing call that the command only hinted at explains it better, too.
        """
        known = self._known_search(chosen) if status else None
        if known is not None:
            return _told(known)
        if chosen is not None and chosen.is_reported:
            return None
        unresolved = names.unresolved(self.witnessed)
        if unresolved is not None and status:
            return _told(unresolved)
        is_hinted_at = chosen is not None and chosen.is_hinted_at
        if status and not (chosen is not None and chosen.has_words):
            checked = self._checked_by_program() if chosen is None else None
            checked = checked or own_decision(self.witnessed)
            if checked is None and chosen is None:
                checked = self._missing_driver()
            if checked is not None:
                return _told(checked)
        is_known = chosen is not None and (is_hinted_at or chosen.may_be_the_reason)
        meant = meaning_of_status(self.witnessed, status) if status and not is_known else None
        if meant is not None:
            return _told(meant)
        for end in reversed(self.witnessed.ends):
            if is_hinted_at and status != 128 + end.signal and self.witnessed.killed_itself(end):
                continue
            reason = killed(self.witnessed, end)
            if reason is not None:
                return _told(reason)
        return None

    def _known_search(self, chosen: Chosen | None) -> Reason | None:
        """Return the meaning of the line that chose the call, if it explains more than the call."""
        choice = chosen.choice if chosen is not None else None
        return instead_of_call(choice.line.text) if choice is not None and choice.line else None

    def still_running(self) -> str | None:
        """Return a warning about processes that still run, such as a daemon's; None without any."""
        running = self.witnessed.running
        if not running:
            return None
        what = "1 process" if len(running) == 1 else f"{len(running)} processes"
        ids = ", ".join(map(str, running[:3]))
        return (
            f"WARNING: {what} that the command started did not end with it (PID {ids}); "
            "retsnoop-py does not see what happens there later. "
            f"why -p {running[0]} waits for the next failure"
        )

    def _checked_by_program(self) -> Reason | None:
        """Return why the program reported an error that no call returned, or None.

        Example: rm(1) detects EISDIR itself. The path is in quotation marks in the program's text.
        """
        found = reported_elsewhere(self.witnessed, self._wording, self.witnessed.calls)
        if found is None:
            return None
        line, error = found
        quoted = _QUOTED.search(line.text)
        own = [one for one in self.witnessed.calls if one.pid == line.pid]
        if quoted is None or not own or error not in _OF_PATHS:
            return None
        number = next(one for one, name in ERRNO_NAMES.items() if name == error)
        call = replace(
            own[-1],
            name="",
            error=number,
            texts=((0, quoted[1]),),
            arguments=(0,) * 6,
            address=None,
            places=(),
            request=None,
        )
        return reason_of(Scene(call, Witnessed(), _identity(call)))

    def _missing_driver(self) -> Reason | None:
        """Return the device of a driver that a program did not find before it wrote another error.

        mount(8) writes EPERM, which no call returned, if it finds no loop device.
        """
        found = reported_elsewhere(self.witnessed, self._wording, self.witnessed.calls)
        if found is None:
            return None
        for call in reversed(self.witnessed.calls):
            is_search = errno_name(call.error) in ("ENOENT", "ENODEV", "ENXIO")
            if call.pid != found[0].pid or not is_search or object_of(call) not in _DRIVERS:
                continue
            reason = reason_of(Scene(call, Witnessed(), _identity(call)))
            if reason is not None:
                return replace(reason, is_inferred=True)
        return None

    def nothing(self, *, failed: bool, status: int | None) -> str:
        """Return why no failure is explained."""
        if not failed:
            return "it succeeded. Only calls failed that most programs make to probe the system"
        elsewhere = reported_elsewhere(self.witnessed, self._wording, self.witnessed.calls)
        if elsewhere is not None:
            line, error = elsewhere
            return (
                f'it wrote "{line.text.strip()}", and none of its system calls returned {error}. '
                "The error comes from a server or from the program itself"
            )
        text = f"no failing system call explains exit status {status}. The program probably made "
        said = [one.text.strip() for one in lines_of(self.witnessed) if one.stream == _ERRORS]
        complaints = [one for one in said if _IS_FATAL.search(one)]
        complaints = complaints or [one for one in said if _COMPLAINS.search(one)] or said
        if not complaints:
            return f"{text}this decision itself"
        return f'{text}this decision itself, and wrote "{complaints[-1]}"'


def _is_looked_for(choice: Choice) -> bool:
    """Return True if the command's text is about the object that a call searched for."""
    evidence = choice.evidence
    if Evidence.ERROR_TEXT in evidence:
        return True
    is_path = any("/" in text for _, text in choice.call.texts)
    if Evidence.FULL_NAME in evidence and is_path:
        return True
    is_named = Evidence.FULL_NAME in evidence or Evidence.SHORT_NAME in evidence
    return is_named and Evidence.OTHER_WORDS in evidence


def _alike(best: Choice, ranked: Sequence[Choice]) -> list[str]:
    """Return other calls with the same evidence and another reason."""
    found = []
    for one in reversed(ranked):
        if one.points != best.points:
            break
        text = f"{_what(one.call)} ({errno_name(one.call.error)})"
        if _is_same_search(one.call, best.call):
            continue
        if text != f"{_what(best.call)} ({errno_name(best.call.error)})":
            found.append(text)
    return list(dict.fromkeys(found))[:2]


#: Characters of the name of a process (TASK_COMM_LEN).
_PROCESS = 15


def _is_same_search(one: SystemCall, best: SystemCall) -> bool:
    """Return whether both calls looked for the same name, or one for a folder of the other.

    A search of PATH is over when the process has the name of the program.
    """
    path, other = object_of(one), object_of(best)
    if errno_name(one.error) != "ENOENT" or one.error != best.error or not path:
        return False
    if one.name.startswith("execve") and best.process == PurePath(path).name[:_PROCESS]:
        return True
    return PurePath(path).name == PurePath(other).name or other.startswith(f"{path}/")


def _what(call: SystemCall) -> str:
    """Return the operation of a system call or a netlink message."""
    return operation(call) if call.request is None else words(call)


def counterpart(witnessed: Witnessed, like: SystemCall) -> SystemCall | None:
    """Return the last call of another run with the same name, error and texts, or None."""
    same = [
        one
        for one in witnessed.calls
        if (one.name, one.error) == (like.name, like.error)
        and (one.texts, one.address) == (like.texts, like.address)
    ]
    return same[-1] if same else None


def session_of(sessions: Sequence[Session], call: SystemCall) -> Session | None:
    """Return the session of a call: the last one in its thread that had ended by then."""
    found = [one for one in sessions if one.tid == call.tid and one.end_ns <= call.time]
    return max(found, key=lambda one: one.end_ns) if found else None


def call_of(witnessed: Witnessed, session: Session) -> SystemCall | None:
    """Return the system call of a session: the first one that ended after it in its thread."""
    found = [
        one for one in witnessed.calls if one.tid == session.tid and one.time >= session.end_ns
    ]
    return min(found, key=lambda one: one.time) if found else None


def with_reason(
    explained: told.ExplainedCall,
    chosen: Chosen,
    witnessed: Witnessed,
    again: SystemCall | None = None,
) -> told.ExplainedCall:
    """Return the explained call with its meaning for the user.

    ``again`` is the call in the run that observed the condition, if that is a further run.
    """
    call, choice = chosen.call, chosen.choice
    if chosen.is_answer:
        return _of_answer(explained, chosen)
    if call is None:
        return explained
    said = tuple(one.text for one in explained.said)
    scene = Scene(call, witnessed, _identity(call), said, _functions(explained))
    decided = _decided(explained)
    if decided is not None:
        operands = [one for one in decided.operands if one.value is not None]
        scene = replace(
            scene,
            condition=decided.condition,
            values=tuple((one.name, one.value) for one in operands),
            again=again.arguments if again is not None else (),
            given=frozenset(one.name for one in explained.given),
            untold=decided.unnamed,
            is_case=decided.cases,
        )
    reason = reason_of(scene)
    reported = None
    if choice is not None:
        line = choice.line.text.strip() if choice.line is not None else None
        reported = told.Reported(
            choice.is_reported or chosen.is_named,
            chosen.certainty,
            tuple(one.text for one in choice.evidence),
            line,
            chosen.alike,
        )
    return structs.replace(
        explained,
        what=_what(call),
        reason=None if reason is None else _told(reason),
        reported=reported,
    )


def explain_session(
    session: CapturedSession, call: SystemCall, witnessed: Witnessed
) -> ExplainedFailure:
    """Return the meaning of a failed system call for the user, around a session of a trace."""
    said = tuple(one.text for one in session.said)
    chain = tuple(one.function.name for one in session.calls)
    reason = reason_of(Scene(call, witnessed, _identity(call), said, chain))
    told_reason = None if reason is None else _told(reason)
    return ExplainedFailure(call.name, errno_name(call.error), _what(call), told_reason)


def _of_answer(explained: told.ExplainedCall, chosen: Chosen) -> told.ExplainedCall:
    """Return the explanation of a netlink request, with the kernel's message as the reason."""
    reason = answered([one.text for one in explained.said])
    evidence = ["the kernel's answer to a netlink request has this error"]
    if chosen.line is not None:
        evidence.append(Evidence.ERROR_TEXT.text)
    is_sure = chosen.line is not None
    reported = told.Reported(
        is_sure, "observed" if is_sure else "inferred", tuple(evidence), chosen.line
    )
    return structs.replace(
        explained,
        what=f"the netlink request to {explained.syscall}()",
        reason=None if reason is None else _told(reason),
        reported=reported,
    )


def _decided(explained: told.ExplainedCall) -> Decision | None:
    """Return the innermost decision; None if it only tests another function's result."""
    known = (explained.origin, explained.deduced, *explained.tested)
    decided = [one.decided for one in known if one is not None and one.decided is not None]
    return None if not decided or decided[-1].check else decided[-1]


def _functions(explained: told.ExplainedCall) -> tuple[str, ...]:
    """Return the kernel functions that failed in the call, outermost first."""
    names = [one.function.name for one in explained.chain]
    for origin in (explained.origin, *explained.tested):
        if origin is not None:
            names += [origin.function.name, *filter(None, [origin.callee])]
    return tuple(dict.fromkeys(names))


def without_functions(call: SystemCall) -> told.ExplainedCall:
    """Return the explanation of a call without any failing kernel function."""
    if call.request is not None:
        unknown = "this run did not follow the functions that handle a netlink message"
    elif call.deferred is not None:
        unknown = f"{call.deferred.value}. retsnoop-py follows system calls only"
    elif call.is_filtered and call.was_entered is False:
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
        "unknown",
        unknown=unknown,
    )


def _identity(call: SystemCall) -> Identity:
    """Return the process's rights: as captured, else from the user database."""
    state = call.state
    if state is None or state.groups is None:
        return Identity(call.uid, call.gid, groups_of(call.uid))
    overrides = bool(state.capabilities >> CAPABILITIES.index("DAC_OVERRIDE") & 1)
    return Identity(call.uid, call.gid, state.groups, overrides and not state.namespace)


def _told(reason: Reason) -> told.Reason:
    certainty: told.Certainty = "observed"
    if reason.is_seen_later or reason.is_inferred:
        certainty = "inferred"
    return told.Reason(reason.kind, reason.text, certainty, reason.advice, reason.is_seen_later)
