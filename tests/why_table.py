# SPDX-License-Identifier: BSD-2-Clause
"""Run ``why`` for every case of a table of failing calls, in a few runs for all cases.

One run of ``why`` takes half a minute in an emulated guest, and a table has 134 cases. Therefore,
one run surveys all cases. Each case then goes through ``why`` separately and shares only its
further runs with other cases. The sessions of a case are recognized by their thread, which has the
name of the case. From these sessions, everything is removed that a run for only this case would not
trace::

    python -m tests.why_table --kernel 6.12 --json told.jsonl
    python -m tests.why_table --kernel 6.12 --program more.c --cases more.toml mq_flags keyctl_size

prints the cases whose answers differ from ``tests/live/failures.toml``, and the number of right
answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from retsnoop_py.api.failing import Failing, FailingCalls
from retsnoop_py.api.why import Inquiry, _best
from retsnoop_py.api.why_request import WhyRequest
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.settings import ArgSettings, SelectionSettings, Settings, ViewSettings
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.model import session as to

HERE = Path(__file__).parent / "live"
#: Number of cases that share one further run.
TOGETHER = 24


class Cut:
    """A session as if only ``functions`` had been traced, and ``followed`` block by block."""

    def __init__(self, whole: Session, functions: set[str], followed: set[str]) -> None:
        self._whole = whole
        self._functions = functions
        self._followed = followed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    @property
    def calls(self) -> tuple[to.Call, ...]:
        return tuple(one for one in self._whole.calls if one.function.name in self._functions)

    @property
    def paths(self) -> tuple[Any, ...]:
        return tuple(one for one in self._whole.paths if one.function.name in self._followed)

    @property
    def record(self) -> to.Session:
        whole = self._whole.record
        stack = [
            row
            for row in whole.stack or ()
            if row.call is None or row.call.function.name in self._functions
        ]
        paths = tuple(one for one in whole.paths if one.function.name in self._followed)
        return msgspec.structs.replace(whole, stack=stack, paths=paths)


class Request:
    """A further run that a case requires, and its sessions."""

    def __init__(
        self, name: str, chosen: Failing, chain: Sequence[str], follow: Sequence[str]
    ) -> None:
        self.name = name
        self.chosen = chosen
        self.chain = tuple(chain)
        self.follow = tuple(follow)
        self.answered = threading.Event()
        self.kept: list[Session] = []
        self.error: str | None = None
        self.traced: frozenset[str] = frozenset()

    @property
    def cut(self) -> list[Cut]:
        """Return the sessions that a run for only this case would have."""
        traced = _plain([*self.chain, *self.follow, self.chosen.function])
        return [Cut(one, traced, _plain(self.follow)) for one in self.kept]


class Case(Inquiry):
    """One case, with its further runs in ``ask``."""

    def __init__(
        self, name: str, asked: WhyRequest, facts: KernelFacts, ask: Callable[[Request], None]
    ) -> None:
        super().__init__(asked)
        self.name = name
        self._ask = ask
        self._facts = facts
        self._runs, self._everything, self._exit_status = 1, True, 1

    def _follow(
        self, chosen: Failing, chain: tuple[str, ...], follow: Sequence[str]
    ) -> tuple[Any, str | None]:
        request = Request(self.name, chosen, [*chain, *self._beside(chosen)], follow)
        self._ask(request)
        self._traced = request.traced
        self._runs += 1
        if request.error:
            return None, request.error
        like: list[Any] = [one for one in request.cut if self._is_like(one, chosen)]  # type: ignore[arg-type]
        found = _best(like, chain)
        return (found, None) if found is not None else (None, "it did not fail again")

    def tell(self, chosen: Failing) -> dict[str, Any]:
        """Return the answer for the chosen call."""
        call = self._explain(chosen)
        told: dict[str, Any] = json.loads(
            msgspec.json.encode(self._whole([chosen], chosen, call, None))
        )
        return told


class Together(Inquiry):
    """One run for many cases."""

    def survey(self) -> dict[str, FailingCalls]:
        """Return the failures by thread name."""
        self._by_thread: dict[str, FailingCalls] = defaultdict(FailingCalls)
        self._survey()
        return self._by_thread

    def _run(self, settings: Settings, *, quiet: bool) -> Iterator[Session]:
        for one in super()._run(settings, quiet=quiet):
            self._by_thread[one.thread].add(one)
            yield one

    def follow(self, requests: Sequence[Request]) -> None:
        """Add the sessions to each of ``requests``."""
        settings = Settings(
            selection=SelectionSettings(
                entry=tuple(sorted({one.chosen.function for one in requests})),
                allow=tuple(
                    sorted({name for one in requests for name in (*one.chain, *one.follow)})
                ),
            ),
            views=ViewSettings(call_stack=True, call_trace=True, user_stack=True),
            args=ArgSettings(capture=True),
            paths=tuple(sorted({name for one in requests for name in one.follow})),
        )
        by_name = {one.name: one for one in requests}
        for session in super()._run(settings, quiet=True):
            one = by_name.get(session.thread)
            if one and session.calls and session.calls[0].function.name == one.chosen.function:
                one.kept.append(session)
                one.traced = self._traced


class Guest:
    """All cases of ``names``, in the guest."""

    def __init__(self, program: str, names: Sequence[str], kernel: str | None) -> None:
        self._program = program
        self._names = names
        self._kernel = Path(kernel) if kernel else None
        self._waiting: list[Request] = []
        #: Number of cases that are not waiting. Only one case reads sessions at a time.
        self._awake = 0
        self._changed = threading.Condition()
        self._turn = threading.Lock()

    def tell(self) -> None:
        """Print a line of JSON for each case."""
        started = time.monotonic()
        found, facts = Together(self._asked(*self._names)).survey(), KernelFacts()
        _say(f"survey: {time.monotonic() - started:.0f} s")
        for name in self._names:
            chosen = found[name].complained_of(failed=True) if name in found else None
            if chosen is None:
                print(json.dumps({"name": name, "told": None}), flush=True)
                continue
            case = Case(name, self._asked(name), facts, self._ask)
            self._awake += 1
            threading.Thread(target=self._one, args=(case, chosen), daemon=True).start()
        self._until_all_wait()
        while self._waiting:
            requests, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            self._follow(requests)
            with self._changed:
                self._awake += len(requests)
            for one in requests:
                one.answered.set()
            self._until_all_wait()

    def _asked(self, *names: str) -> WhyRequest:
        return WhyRequest((self._program, *names), kernel=self._kernel)

    def _until_all_wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._awake)

    def _ask(self, request: Request) -> None:
        with self._changed:
            self._waiting.append(request)
            self._awake -= 1
            self._changed.notify()
        self._turn.release()
        request.answered.wait()
        self._turn.acquire()

    def _one(self, case: Case, chosen: Failing) -> None:
        with self._turn:
            try:
                told = case.tell(chosen)
                print(json.dumps({"name": case.name, "told": told}), flush=True)
            except Exception as error:  # noqa: BLE001 - of one case; the others go on
                _say(f"{case.name}: {error!r}")
        with self._changed:
            self._awake -= 1
            self._changed.notify()

    def _follow(self, requests: Sequence[Request]) -> None:
        started = time.monotonic()
        try:
            Together(self._asked(*(one.name for one in requests))).follow(requests)
        except RetsnoopError as error:
            _say(f"{error}: {error.message}")
            if len(requests) > 1:
                # one of the requests is impossible; each then reports its own problem
                for one in requests:
                    self._follow([one])
                return
            requests[0].error = error.message
        _say(f"{len(requests)} cases followed: {time.monotonic() - started:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _plain(names: Sequence[str]) -> set[str]:
    return {name.partition("[")[0] for name in names}


# -- outside --


def lines_of(told: dict[str, Any]) -> set[str]:
    """Return the places of the deciding condition and of tested conditions, also inlined places."""
    call = told.get("explained") or {}
    origins = [call.get("origin") or {}, *call.get("tested", ())]
    places = [(one.get("decided") or {}).get("place", {}) for one in origins]
    return {f"{at['file']}:{at['line']}" for one in places for at in one.get("inline", ())}


def is_deduced(case: dict[str, Any], told: dict[str, Any]) -> bool:
    """Return True if the deduced condition in a callee is reported and equals the table's."""
    inner = (told.get("explained") or {}).get("deduced") or {}
    place = (inner.get("decided") or {}).get("place", {})
    lines = {f"{at['file']}:{at['line']}" for at in place.get("inline", ())}
    return not lines.isdisjoint(case["at"])


def is_right(case: dict[str, Any], told: dict[str, Any] | None) -> bool:
    """Return True if the answer of ``why`` equals the table's."""
    origin = ((told or {}).get("explained") or {}).get("origin") or {}
    if "gives" in case:
        return bool(origin.get("made") == "callee" and origin.get("callee") == case["gives"])
    if not case["at"]:
        return not origin.get("decided") and "always returns this" in origin.get("unknown", "")
    return not lines_of(told or {}).isdisjoint(case["at"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--program", type=Path, default=HERE / "programs/failures.c")
    parser.add_argument("--cases", type=Path, default=HERE / "failures.toml")
    parser.add_argument("--json", type=Path, help="append what is told of each case")
    parser.add_argument("--seconds", type=float, default=500, help="stop asking after so many")
    parser.add_argument("--vmlinux", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        Guest(str(asked.program), asked.names, asked.vmlinux).tell()
        return
    table = tomllib.loads(asked.cases.read_text())["cases"] if asked.cases.exists() else {}
    names = asked.names or list(table)
    vmlinux = ensure(asked.kernel, debug=True).vmlinux
    with Machine(asked.kernel) as machine:
        program = machine.share / "failing"
        flags = ["-O2", "-pthread", "-o", str(program), str(asked.program)]
        subprocess.run([shutil.which("gcc") or "cc", *flags], check=True)
        argv = [sys.executable, "-m", "tests.why_table", "--inside", "--program", str(program)]
        argv += ["--vmlinux", str(vmlinux)] if vmlinux else []
        job = machine.start(["env", "-C", str(HERE.parent.parent), *argv, *names])
        end = time.monotonic() + asked.seconds
        while job.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
        out, err = (text.decode() for text in job.output())
    print(err, file=sys.stderr)
    answers = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
    if asked.json:
        with asked.json.open("a") as out:
            out.writelines(json.dumps(one) + "\n" for one in answers)
    right = 0
    for one in answers:
        case = table.get(one["name"])
        if case is None or is_right(case, one["told"]):
            right += case is not None
            continue
        origin = ((one["told"] or {}).get("explained") or {}).get("origin")
        print(f"{one['name']}: {case}, told: {sorted(lines_of(one['told'] or {}))} {origin}\n")
    print(f"{right} of {len(answers)} are right")
    calls = [one for one in answers if "gives" in table.get(one["name"], {}) and one["told"]]
    known = [one["name"] for one in calls if is_deduced(table[one["name"]], one["told"])]
    print(f"{len(known)} of {len(calls)} that end at a callee have its condition: {known}")


if __name__ == "__main__":
    main()
