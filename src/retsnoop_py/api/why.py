# SPDX-License-Identifier: BSD-2-Clause
"""Explain why a command failed: the system call, the kernel functions, the condition.

The user needs no function names. The command runs several times, and each run uses the results of
the previous run. The first run follows every system call. If the kernel has a mechanism that hooks
all functions at once, this run also traces all functions inside. Otherwise, a second run lists the
functions with the kernel's own tracer. Then the module selects the call that the command's message
is about, and follows its failed functions block by block. If such a function returns the result of
a function that was not followed, another run follows that function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from msgspec import structs

from retsnoop_py.api.choosing import (
    Chosen,
    Survey,
    call_of,
    counterpart,
    session_of,
    with_reason,
    without_functions,
)
from retsnoop_py.api.deducing import callees, deduced
from retsnoop_py.api.explanation import Explanation
from retsnoop_py.api.failing import (
    Failing,
    FailingCalls,
    chain_of,
    presets_for,
    syscall_globs,
)
from retsnoop_py.api.given import given_operands
from retsnoop_py.api.runs import Replayed, Run
from retsnoop_py.api.spent import Spent
from retsnoop_py.api.waiting import still_ran, told_waits, with_lines
from retsnoop_py.api.why_request import WhyOptions, WhyRequest
from retsnoop_py.attach.features import Features
from retsnoop_py.capture.command import Command, find_user
from retsnoop_py.capture.hang import HangWatch
from retsnoop_py.capture.witness import Witness
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError, UsageError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.kallsyms import read_modules
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.kernel.switches import JIT
from retsnoop_py.kernel.tracefs import require_proc
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.model import session as to
from retsnoop_py.model import why as told
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.text import having_number
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.selection import deny_list
from retsnoop_py.settings import (
    ArgSettings,
    SelectionSettings,
    Settings,
    SymbolizeMode,
    ViewSettings,
)
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session

__all__ = ["Inquiry", "why", "why_recorded"]

#: Never followed: these calls return another call's result, or they do not return.
_NO_CALLS = ("*_sys_rt_sigreturn", "*_sys_sigreturn", "*_sys_restart_syscall")
#: Handlers of netlink requests: the result goes into the answer, and sending succeeds.
_REQUESTS = ("*_rcv_msg", "audit_receive_msg")
#: nftables sends its requests in batches; each message of a batch has a function.
_BATCHES = ("nf_tables_new*", "nf_tables_del*", "nf_tables_get*", "nf_tables_commit")
#: All functions of a kernel.
_MAX_FUNCTIONS = 200_000
#: Maximum size of code that a run follows block by block, in bytes: attaching to a block takes
#: milliseconds.
_MOST_CODE = 6000
#: Maximum number of functions inside a call that are traced, the last ones first.
_MOST_INSIDE = 250
#: Maximum number of sessions of the last run that are kept for the choice.
_KEPT = 256
#: Parts of warnings about globs that ``why`` generated, not the user.
_NOT_OF_US = ("take long to attach", "matches no kernel function", "is not traced")
OnText = Callable[[str], None]


def why(
    command: Sequence[str] = (),
    *,
    on_step: OnText | None = None,
    handle_signals: bool = False,
    **options: Unpack[WhyOptions],
) -> told.Why:
    """Return why ``command`` failed, or the next failure of a process ``pid``.

    The result is a value of docs/json.md. ``on_step`` gets a description of each step at its start.
    ``handle_signals`` as for :func:`trace`. Raises the errors of a live run, and UsageError without
    a command and a pid.
    """
    asked = WhyRequest.of(command, options)
    return Inquiry(asked, on_step, handle_signals=handle_signals).answer()


def why_recorded(path: str | PathLike[str], asked: WhyRequest | None = None) -> told.Why:
    """Return why the last failure in a recording happened; it needs followed paths (``--path``).

    Raises InputError and DataError like :func:`replay`.
    """
    from retsnoop_py.recording.replay import Replay

    asked = asked or WhyRequest()
    overrides = ReplayOverrides(capture=True, kernel_image=asked.kernel, source=asked.source)
    recorded = Replayed(Replay(Path(path), overrides))
    failing = FailingCalls(asked.syscalls, asked.errors)
    for session in recorded:
        failing.add(session)
    chosen = failing.complained_of(failed=True)
    unknown = None if chosen else "no failing call is in this recording"
    return told.Why(
        told.VERSION,
        recorded.kernel,
        recorded.machine,
        1,
        "inferred" if chosen else "unknown",
        tuple(recorded.command),
        None,
        _told(failing, chosen),
        Explanation.of(chosen.last).call() if chosen and chosen.last else None,
        unknown,
        warnings=tuple(recorded.warnings),
    )


class Inquiry:
    """The runs that lead to an answer.

    ``started``: the start of the program, by time.monotonic(), if its start counts for the cost.
    """

    def __init__(
        self,
        asked: WhyRequest,
        on_step: OnText | None = None,
        *,
        handle_signals: bool = False,
        started: float | None = None,
    ) -> None:
        if bool(asked.command) == bool(asked.pids):
            raise UsageError(
                "why needs a command or a process",
                "retsnoop-py why -- CMD runs CMD; why -p PID waits for a process",
            )
        self._asked = asked
        self._say = on_step or (lambda _: None)
        self._spent = Spent(started)
        self._handle_signals = handle_signals
        self._facts = KernelFacts(loading=True, keeping=True)
        self._runs = 0
        self._exit_status: int | None = None
        self._has_own_input = _reads_input()
        self._interrupted = False
        self._everything = False
        self._warnings: list[str] = []
        self._kernel = ("", "")
        #: The witness's records of the last run.
        self._witnessed = Witnessed()
        self._repeated: SystemCall | None = None
        #: The waits of the threads when the first run was ended early.
        self._waits: tuple[told.Waiting, ...] = ()
        #: The functions of the last run.
        self._traced: frozenset[str] = frozenset()
        self._modules = self._modules_now()
        #: Modules that a run loaded: their functions were not hooked in that run.
        self._new_modules: frozenset[str] = frozenset()

    def answer(self) -> told.Why:
        """Run the command until the condition is known, or until a further run would add nothing.

        Raises the errors of a live run.
        """
        failing, first = self._survey()
        failed = self._exit_status != 0
        is_named = bool(self._asked.syscalls or self._asked.errors)
        survey = Survey(failing, self._witnessed, is_named=is_named)
        if (running := survey.still_running()) is not None and self._asked.command:
            self._warnings.append(running)
        chosen = survey.of(first) if first is not None else survey.chosen(failed=failed)
        if self._waits:
            return self._hanging(survey, chosen if first is not None or is_named else None)
        rows = survey.failures(chosen)
        if failed and not is_named:
            killed = survey.end_reason(chosen, self._exit_status)
            if killed is not None:
                return self._whole(survey.failures(None), None, None, killed)
        if failed and self._may_ask_netlink() and survey.may_be_request(chosen):
            requests, _ = self._survey(netlink=True)
            chosen = survey.with_request(chosen, requests)
            is_request = chosen is not None and chosen.is_request
            rows += _told(requests, chosen.failing if chosen is not None and is_request else None)
        if chosen is None:
            return self._whole(rows, None, self._nothing(survey, failed=failed))
        explained = self._meant(chosen, survey)
        return self._whole(rows, explained, None)

    def _hanging(self, survey: Survey, chosen: Chosen | None) -> told.Why:
        """Return the waits of the threads, with a failing call that the user or CMD named."""
        if chosen is None:
            found = survey.chosen(failed=True)
            chosen = found if found is not None and found.is_reported else None
        explained = None
        if chosen is not None:
            explained = self._meant(chosen, survey)
        return self._whole(survey.failures(chosen), explained, None)

    def _meant(self, chosen: Chosen, survey: Survey) -> told.ExplainedCall:
        """Return the explanation with its meaning for the user."""
        explained = self._explained(chosen)
        return with_reason(explained, chosen, survey.witnessed, self._repeated)

    def _explained(self, chosen: Chosen) -> told.ExplainedCall:
        """Return the explanation from the kernel's functions."""
        if chosen.failing is not None:
            return self._explain(chosen.failing, chosen)
        assert chosen.call is not None
        return without_functions(chosen.call)

    def _explain(self, chosen: Failing, choice: Chosen) -> told.ExplainedCall:
        """Return the condition, as far as further runs find it."""
        assert chosen.last is not None
        explanation = Explanation.of(chosen.last)
        inner: to.Origin | None = None
        unknown: str | None = None
        chain = chosen.chain
        if self._everything or not self._again:
            follow = _innermost(chosen.last)
        else:
            inside, follow = self._inside(chosen)
            chain = tuple(dict.fromkeys([*chain, *inside]))
        while self._again and follow:
            found, unknown = self._follow(chosen, chain, follow, choice)
            if found is None:
                break
            explanation = Explanation.of(found)
            inner = deduced(
                self._facts, found, explanation.origin(), self._asked.kernel, self._traced
            )
            chain = chain_of(found)
            follow = self._next(explanation, found, follow) if inner is None else []
        call = self._with_lines(explanation.call(unknown or self._why_no_line(), inner))
        given = given_operands(self._facts, explanation.session, inner or call.origin)
        return structs.replace(call, given=given)

    def _with_lines(self, call: told.ExplainedCall) -> told.ExplainedCall:
        """Return the call with the chain's lines, which the run with all functions omits."""
        frames = [one.frame for one in call.chain if one.frame is not None]
        if not frames or any(one.source for one in frames):
            return call
        lined = iter(with_lines(frames, self._facts, self._asked.kernel))
        chain = tuple(
            one if one.frame is None else structs.replace(one, frame=next(lined))
            for one in call.chain
        )
        return structs.replace(call, chain=chain)

    @property
    def _again(self) -> int:
        """The number of runs that are left."""
        most = self._asked.reruns_after(self._exit_status)
        return 0 if self._interrupted else max(most + 1 - self._runs, 0)

    def _announce_reruns(self) -> None:
        """Report how often the command may run, before it runs."""
        asked = self._asked
        reruns = asked.reruns_after(None)
        if asked.command and reruns:
            condition = " if it fails" if asked.reruns is None else ""
            self._say(f"CMD may run up to {reruns + 1} times{condition}; --reruns 0 runs it once")

    def _may_ask_netlink(self) -> bool:
        """Return True if a run may search for failed netlink requests inside successful calls.

        It needs a run that may otherwise be needed for the functions inside a system call.
        """
        asked = self._asked
        is_open = not (asked.syscalls or asked.errors)
        return bool(asked.command and self._again > 1 and self._everything and is_open)

    # -- the runs --

    def _inside(self, chosen: Failing) -> tuple[list[str], list[str]]:
        """Run on kernels that cannot hook all functions: list the functions inside the chosen call.

        Return the functions, newest first, and the functions to follow: their code may have made
        the error.
        """
        from retsnoop_py.attach.function_graph import FunctionGraph

        if not self._asked.command:
            return self._hinted(chosen)
        self._say(f"{self._name(self._runs + 1)}: listing the functions inside {chosen.function}")
        user = None
        if self._asked.user is not None:
            user = find_user(self._asked.user)
        try:
            with (
                Command(
                    self._asked.command, quiet=True, user=user, keep_env=self._asked.keep_env
                ) as command,
                FunctionGraph(self._facts.root, chosen.function, command.pid) as graph,
            ):
                self._runs += 1
                command.release()
                command.wait(lambda: False)
                self._compare_status(command.exit_status)
                inside = graph.calls()
        except UnavailableError as error:
            self._warnings.append(f"WARNING: {error.message}")
            return self._hinted(chosen)
        traceable = self._traceable(inside)[:_MOST_INSIDE]
        return traceable, self._makers(traceable, chosen.error) or [chosen.function]

    def _hinted(self, chosen: Failing) -> tuple[list[str], list[str]]:
        """Return the functions of presets for the call, if no tracer lists functions."""
        presets = presets_for(chosen.function, chosen.error)
        if not presets or self._again < 2:
            return [], [chosen.function]
        self._say(
            f"{self._name(self._runs + 1)}: following what presets have inside {chosen.function}: "
            + ", ".join(one.name for one in presets)
        )
        selection = SelectionSettings(
            entry=(chosen.function,),
            allow=tuple(glob for one in presets for glob in one.allow),
            deny=tuple(glob for one in presets for glob in one.deny),
        )
        found: Session | None = None
        for session in self._run(_looking_for(selection), quiet=True):
            if self._is_like(session, chosen):
                found = session
                if self._asked.pids:
                    break
        if found is None:
            return [], [chosen.function]
        return list(chain_of(found)), _innermost(found)

    def _traceable(self, names: Sequence[str]) -> list[str]:
        """Return the names that the deny list does not contain."""
        denied = deny_list.load()
        return [
            name
            for name in names
            if not any(fnmatchcase(name.partition("[")[0], deny.glob) for deny in denied)
        ]

    def _makers(self, names: Sequence[str], error: str) -> list[str]:
        """Return functions with an error's number in their code, as many as fit into a run."""
        number = next((one for one, name in ERRNO_NAMES.items() if name == error), None)
        if number is None:
            return []
        symbols = self._facts.kallsyms
        try:
            machine = machine_named(self._facts.machine)
            with Kcore(self._facts.root / "proc/kcore") as source:
                found = having_number(symbols, source, names, -number, machine)
        except RetsnoopError as problem:
            self._warnings.append(f"WARNING: {problem.message}")
            return []
        room, follow = _MOST_CODE, []
        for symbol in found:
            room -= symbol.size
            if room < 0:
                break
            follow.append(f"{symbol.name}[{symbol.module}]" if symbol.module else symbol.name)
        return follow

    def _survey(self, *, netlink: bool = False) -> tuple[FailingCalls, Failing | None]:
        """Run to find failures: system calls, or ``netlink`` requests.

        For a running process, also return the failure that ended the run.
        """
        failing = FailingCalls(self._asked.syscalls, self._asked.errors)
        everything = self._everything = self._hooks_all()
        if not self._runs:
            self._announce_reruns()
        calls = syscall_globs(self._facts.machine, compat=everything)
        selection = SelectionSettings(
            entry=self._present((*_REQUESTS, *_BATCHES) if netlink else calls),
            allow=("*",) if everything else (),
            deny=_NO_CALLS,
            telling=everything,
        )
        inside = ", and all functions inside" if everything else ""
        what = "netlink requests" if netlink else "every system call"
        self._say(f"{self._name(self._runs + 1)}: following {what}{inside}")
        for session in self._run(_looking_for(selection), quiet=netlink):
            one = failing.add(session)
            if one is None or self._asked.command:
                continue
            if failing.is_asked_for(one) and (one.probing is None or self._asked.errors):
                return failing, one
        return failing, None

    def _present(self, globs: Sequence[str]) -> tuple[str, ...]:
        """Return the globs that match a function here; all of them if none does.

        A kernel may have no audit or nftables, and no function of a kind that can be traced.
        """
        table, listed = self._facts.kallsyms.table, self._facts.functions.listed
        counts = table.match(listed, [(glob, None) for glob in globs]).counts
        found = tuple(glob for glob, count in zip(globs, counts, strict=True) if count)
        return found or tuple(globs)

    def _hooks_all(self) -> bool:
        """Return True if there is a mechanism that hooks all functions at once.

        Return False if the kernel interprets BPF programs: with all functions hooked, 7.3 then
        needed more than 400 s to attach. Raises PrivilegeError or UnavailableError if tracing is
        impossible.
        """
        from retsnoop_py.capture.rights import raise_memlock, require_rights

        require_rights()
        require_proc(self._facts.root, "why")
        raise_memlock()
        # read here what the run needs: an error must precede the announcement of the run
        self._facts.require_btf()
        _ = self._facts.functions
        features = Features()
        many = (Mechanism.KPROBE_SESSION, Mechanism.KPROBE_MULTI)
        if any(features.verdict(one).works for one in many):
            return not JIT.is_off(self._facts.root)
        features.require_any()
        return False

    def _follow(
        self, chosen: Failing, chain: tuple[str, ...], follow: Sequence[str], choice: Chosen
    ) -> tuple[Session | None, str | None]:
        """Run and follow functions block by block; return the failure, or why it is missing."""
        names = ", ".join(follow)
        self._say(f"{self._name(self._runs + 1)}: following {names} block by block")
        settings = Settings(
            selection=SelectionSettings(
                entry=(chosen.function,),
                allow=(*chain, *follow, *self._beside(chosen), *self._of_new_modules()),
            ),
            # the trace contains the paths of calls that did not fail
            views=ViewSettings(call_stack=True, call_trace=True, user_stack=True),
            args=ArgSettings(capture=True),
            paths=tuple(follow),
            max_functions=_MAX_FUNCTIONS,
        )
        kept: list[Session] = []
        try:
            for session in self._run(settings, quiet=True):
                if not self._is_like(session, chosen):
                    continue
                kept = [*kept[1 - _KEPT :], session]
                if self._asked.pids and session.paths:
                    break
        except InputError as error:
            return None, error.message
        except UnavailableError as error:
            return None, f"{error.message}; {error.hint}" if error.hint else error.message
        found = self._same(kept, choice) or _best(kept, chain)
        if found is None:
            return None, f"it did not fail again{self._because_of_input()}"
        self._repeated = call_of(self._witnessed, found)
        if not found.paths:
            return found, "no probe in the blocks of the followed functions fired"
        return found, None

    def _same(self, kept: Sequence[Session], choice: Chosen) -> Session | None:
        """Return the failure of a further run that is the chosen call again, or None."""
        if choice.call is None:
            return None
        call = counterpart(self._witnessed, choice.call)
        return session_of(kept, call) if call is not None else None

    def _beside(self, chosen: Failing) -> list[str]:
        """Return additional functions to trace, to explain a function that cannot be followed.

        They are the callees of a system call's second function, if no other function gave its
        error.
        """
        assert chosen.last is not None
        return [] if _hands_on(chosen.last) else callees(self._facts, chosen.function)

    def _is_like(self, session: Session, chosen: Failing) -> bool:
        return (
            session.report == "final"
            and session.failed
            and bool(session.calls)
            and session.calls[0].error == chosen.error
        )

    def _run(self, settings: Settings, *, quiet: bool) -> Iterator[Session]:
        """Yield the sessions of a live run of the command, or of the processes."""
        asked = self._asked
        settings = asked.placed_in(replace(settings, quiet_command=quiet))
        watch = None
        if not self._runs:
            watch = HangWatch(self._facts.machine)
            settings = replace(
                settings, stop_after_ns=asked.limit_ns, ends_command=bool(asked.limit_ns)
            )
        witness = Witness.of(self._facts, watch)
        run = Run(
            settings,
            on_message=self._hear,
            handle_signals=self._handle_signals,
            witness=witness,
            facts=self._facts,
        )
        try:
            self._spent.begin()
            with run:
                self._spent.release()
                self._runs += 1
                self._kernel = run.kernel
                self._traced = frozenset(run.function_names)
                yield from run
        finally:
            self._witnessed = witness.found
            self._note_losses()
            self._spent.end(self._witnessed.ends, run.detach_seconds)
        self._note_modules()
        self._interrupted = run.interrupted or bool(watch and watch.timed_out)
        if (
            watch is not None
            and self._interrupted
            and (watch.timed_out or still_ran(self._witnessed.ends, run.interrupted_at))
        ):
            self._waits = told_waits(watch.waits, self._facts, asked.kernel)
        if not asked.command:
            return
        if self._exit_status is None:
            self._exit_status = run.exit_status
        elif not run.interrupted:
            self._compare_status(run.exit_status)

    def _note_losses(self) -> None:
        """Warn about records that this run lost."""
        lost, problem = self._witnessed.lost, self._witnessed.problem
        if lost:
            self._hear(
                f"WARNING: {lost} records of what the command did were lost, because they came "
                "faster than they were read; the failing call may be one of them"
            )
        elif problem is not None:
            self._hear(
                f"WARNING: the command's own calls and messages were not recorded ({problem}); the "
                "answer is about the kernel functions that failed last"
            )

    def _modules_now(self) -> frozenset[str]:
        return frozenset(one.name for one in read_modules(self._facts.root / "proc/modules"))

    def _note_modules(self) -> None:
        """Remember which modules a run loaded; read the symbols again if modules changed."""
        before, self._modules = self._modules, self._modules_now()
        self._new_modules |= self._modules - before
        if self._modules != before:
            self._facts = KernelFacts(loading=True, keeping=True)

    def _of_new_modules(self) -> list[str]:
        """Return globs for the functions of modules that a run loaded, if all can be hooked."""
        return [f"*[{name}]" for name in sorted(self._new_modules)] if self._everything else []

    def _compare_status(self, status: int | None) -> None:
        """Report a further run with another exit status than the first; None: it was aborted."""
        if status not in (None, self._exit_status):
            self._warnings.append(
                f"WARNING: run {self._runs} exited with status {status}, run 1 with "
                f"{self._exit_status}{self._because_of_input()}"
            )

    def _because_of_input(self) -> str:
        """Return a possible reason why a further run differs from the first."""
        if not (self._asked.command and self._has_own_input):
            return ""
        return "; further runs read /dev/null as standard input"

    def _hear(self, line: str) -> None:
        is_news = line.startswith("WARNING") and line not in self._warnings
        if is_news and not any(part in line for part in _NOT_OF_US):
            self._warnings.append(line)

    def _name(self, number: int) -> str:
        return f"run {number}" if self._asked.command else f"step {number}"

    # -- evaluation of the runs --

    def _next(
        self, explanation: Explanation, session: Session, followed: Sequence[str]
    ) -> list[str]:
        """Return the functions to follow in a further run; empty if it would add nothing."""
        deeper = explanation.asks_of(followed) or explanation.tests(followed)
        if self._new_modules and _is_deeper(session, followed):
            return _innermost(session)
        if deeper:
            symbols = self._symbols_of(deeper)
            needed = explanation.needed(followed)
            return [*needed, symbols] if symbols else []
        if explanation.origin() is None:
            innermost = _innermost(session)
            return [] if set(innermost) <= set(followed) else innermost
        return []

    def _symbols_of(self, name: str) -> str | None:
        """Return a glob for a function that the compiler may have renamed; None without probes."""
        plain, bracket, module = name.partition("[")
        try:
            traceable = self._facts.traceable
            if traceable.contains(plain):
                return name
            return f"{plain}.*{bracket}{module}" if traceable.table.count(f"{plain}.") else None
        except RetsnoopError:
            return name

    def _nothing(self, survey: Survey, *, failed: bool) -> str:
        """Return why no failure is explained."""
        if self._asked.pids:
            return "no system call failed until it was ended"
        names = ", ".join((*self._asked.syscalls, *self._asked.errors))
        if names:
            return f"no call that failed is one of {names}"
        return survey.nothing(failed=failed, status=self._exit_status)

    def _why_no_line(self) -> str | None:
        if self._interrupted:
            return "it was ended before the functions could be followed"
        if self._asked.reruns == 0:
            return "the condition takes another run (--reruns)"
        if self._runs == 1 and self._asked.reruns_after(self._exit_status) == 0:
            return (
                "the command exited with status 0, so it did not run again. One run shows the "
                "failed call; --reruns 2 runs it again for the condition"
            )
        return None

    def _whole(
        self,
        rows: tuple[told.FailedCall, ...],
        call: told.ExplainedCall | None,
        unknown: str | None,
        reason: told.Reason | None = None,
    ) -> told.Why:
        release, machine = self._kernel
        certainty: told.Certainty = "unknown"
        if reason is not None:
            certainty = reason.certainty
        elif self._waits:
            certainty = self._waits[0].certainty
        elif call is not None:
            certainty = call.reported.certainty if call.reported is not None else "inferred"
        return told.Why(
            told.VERSION,
            release,
            machine,
            self._runs,
            certainty,
            self._asked.command,
            self._exit_status,
            rows,
            call,
            unknown,
            reason,
            self._waits,
            tuple(self._warnings),
            self._spent.cost(),
        )


def _reads_input() -> bool:
    """Return True if standard input is not /dev/null, which further runs read."""
    try:
        return os.fstat(0).st_rdev != Path(os.devnull).stat().st_rdev
    except OSError:  # standard input is closed
        return True


def _hands_on(session: Session) -> bool:
    """Return True if a system call returned the result of a function in it, as far as known."""
    first, *below = session.calls
    return bool(below) and below[0].error in (None, first.error)


def _innermost(session: Session) -> list[str]:
    """Return the functions to follow first: the maker of the error, then others if they fit.

    The error was made in the innermost function that returned it, counted from the system call. A
    function below it that returned another result either made the condition that it tested, or ran
    after the error existed. Next come the failed functions below it, the nearest first, and then
    its callers. Functions that only pass a system call on are skipped, if a function below them
    gave the error.
    """
    names = chain_of(session)
    calls = session.calls
    error = calls[0].error
    maker = 0
    for number, call in enumerate(calls):
        if call.result is not None and call.error != error:
            break
        maker = number
    failed = [call.error is not None or call.result is None for call in calls]
    below = [number for number in range(maker + 1, len(calls)) if failed[number]]
    found: list[int] = []
    room = _MOST_CODE
    for number in [maker, *below, *range(maker - 1, -1, -1)]:
        room -= session.traced(calls[number].function).size
        if found and (room < 0 or (number == 0 and _hands_on(session))):
            break
        found.append(number)
    return list(dict.fromkeys(names[number] for number in sorted(found, reverse=True)))


def _looking_for(selection: SelectionSettings) -> Settings:
    """Return the settings of a run that finds failing calls, without source lines."""
    return Settings(selection=selection, max_functions=_MAX_FUNCTIONS, symbolize=SymbolizeMode.NONE)


def _is_deeper(session: Session, followed: Sequence[str]) -> bool:
    """Return True if a module's function made the error and was not followed yet."""
    inner = _innermost(session)
    return bool(inner) and inner[0] not in followed and "[" in inner[0]


def _told(failing: Iterable[Failing], chosen: Failing | None) -> tuple[told.FailedCall, ...]:
    """Return all failures, a row for each call and error."""
    rows: dict[tuple[str, str], told.FailedCall] = {}
    for one in failing:
        key = one.syscall, one.error
        before = rows.pop(key, None)
        rows[key] = told.FailedCall(
            one.syscall,
            one.function,
            one.error,
            one.count + (before.count if before else 0),
            one.probing,
            one is chosen or bool(before and before.chosen),
        )
    return tuple(rows.values())


def _best(sessions: Sequence[Session], chain: tuple[str, ...]) -> Session | None:
    """Return the last session with the same functions, else with the same end, else any.

    If a file is missing, the kernel's cache of names decides which functions fail.
    """
    same = [one for one in sessions if chain_of(one) == chain]
    alike = [one for one in sessions if chain_of(one)[-1] == chain[-1]]
    return next((among[-1] for among in (same, alike, sessions) if among), None)
