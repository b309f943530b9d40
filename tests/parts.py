# SPDX-License-Identifier: BSD-2-Clause
"""``make test``: what a change has to pass; ``make test-all``: every test there is.

``make test`` runs two parts at a time: a part such as the fuzzers uses one core only, and a guest
waits now and then. After a failure no further part begins. The output of a part is in
``build/test/PART.log``, and its end is printed.

``make test-all`` runs part by part, and is to be continued after an interruption.
``build/test-all.json`` records which parts passed, at which commit and in how many minutes. A part
that passed with the files of now is not run again. ``make test-all PART="wheel live-6.1"`` runs
these parts alone, ``make test-all AGAIN=1`` all of them again. The output of a part is in
``build/test-all/PART.log``.

Exit status: 0 if all parts passed, 1 if one failed, 2 for an unknown part, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "build" / "test-all.json"
LOGS, QUICK_LOGS = ROOT / "build" / "test-all", ROOT / "build" / "test"
OWN = ("5.10", "6.1", "6.12", "7.2", "7.3")
OTHER = {"x86_64": "arm64", "aarch64": "x86_64"}.get(platform.machine(), "arm64")
FOREIGN = tuple(f"{OTHER}/{series}" for series in ("5.10", "6.1", "6.12", "7.3"))
#: Lines of output that are printed of a part that failed, and in make test of one that passed.
TAIL, ENDING = 40, 3
_POLL_S = 0.2


class Part(NamedTuple):
    """Something to run, and what it tests. ``name`` is what PART= accepts."""

    name: str
    argv: Sequence[str]
    about: str
    env: dict[str, str] = {}  # noqa: RUF012 - never changed


def make(target: str, about: str, *words: str) -> Part:
    """The part that is a target of the Makefile."""
    name = target.removeprefix("test-")
    return Part(name, ["make", "--no-print-directory", target, *words], about)


def live(kernel: str) -> Part:
    """All live tests of the full selection on one kernel."""
    argv = [
        *(".venv/bin/pytest", "-q", "-n", "2", "--dist=loadgroup", "--no-loadscope-reorder"),
        *("--part", kernel, "tests/live"),
    ]
    every = {"RETSNOOP_KERNELS": " ".join((*OWN, *FOREIGN))}
    return Part(f"live-{kernel.replace('/', '-')}", argv, f"live tests on Linux {kernel}", every)


#: The cheapest first.
PARTS = (
    make("lint", "ruff, mypy, import contracts, clang-format, BPF objects"),
    make("test-unit", "unit tests"),
    make("test-thorough", "unit tests that take long"),
    make("test-golden", "recordings against their texts"),
    make("test-python", "unit and golden tests on the oldest and the newest Python"),
    make("test-sanitized", "the C extensions under AddressSanitizer and UBSan"),
    make("fuzz", "damaged recordings, objects, .BTF.ext and logs", "FOR=600"),
    make("test-site", "the site in Chromium"),
    make("test-source", "the source distribution, installed on this machine"),
    *(live(kernel) for kernel in OWN),
    *(live(kernel) for kernel in FOREIGN),
    make("test-wheel", "wheels in empty environments, and a trace with one", "KERNEL=6.12"),
    make("test-deb", "Debian packages on Debian 12, 13 and sid", "KERNEL=6.12"),
    make("test-standalone", "the one file, without anything beside it", "KERNEL=6.12"),
    make("test-live-standalone", "the live tests with the one file", "KERNEL=6.12"),
    make("test-install", "each way to install of README and docs/install.md"),
    make("test-tutorial", "the tutorial from a bare Debian 12"),
    make("test-release", "the release again from another folder, byte for byte"),
)


#: The parts of ``make test``: two at a time, one of each row. The live tests take the longest.
QUICK = (
    (
        Part(
            "host",
            [
                *(".venv/bin/pytest", "-q", "-n", "auto", "--maxprocesses=4"),
                *("tests/unit", "tests/golden"),
            ],
            "unit tests, also those that take long, and golden tests",
        ),
        make("test-quick", "live tests: all on 6.12, the core on other kernels"),
    ),
    (
        make("lint", "ruff, mypy, import contracts, clang-format, BPF objects"),
        make("test-source", "the source distribution, installed on this machine"),
        make("site", "the pages of docs/ as a site"),
        make("test-sanitized", "the C extensions under AddressSanitizer and UBSan"),
        make("fuzz", "damaged recordings, objects, .BTF.ext and logs, near-misses"),
        make("test-python", "unit and golden tests on the oldest and the newest Python"),
    ),
)


def tree() -> str:
    """The id of the files as they are now, also those that are new or not committed.

    An index of its own: that of the checkout may be locked by another git.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(ROOT / _git("rev-parse", "--git-path", "index"), index)
        env = {**os.environ, "GIT_INDEX_FILE": str(index)}
        _git("add", "--all", env=env)
        return _git("write-tree", env=env)


def _git(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def recorded() -> dict[str, dict[str, str]]:
    """What passed: by part its commit, the id of its files, minutes and date."""
    try:
        found = json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def passed(name: str, files: str) -> bool:
    """Whether a part has passed with the files that have the id ``files``."""
    return recorded().get(name, {}).get("tree") == files


def record(name: str, files: str, minutes: float) -> None:
    """Note that a part passed; whole or not at all."""
    told = recorded()
    told[name] = {
        "commit": _git("rev-parse", "HEAD"),
        "tree": files,
        "minutes": f"{minutes:.1f}",
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    RECORD.parent.mkdir(exist_ok=True)
    new = RECORD.with_suffix(".new")
    new.write_text(json.dumps(told, indent=1) + "\n")
    new.replace(RECORD)


def run(part: Part) -> int:
    """Run a part, its output in its log; its exit status. Ctrl-C ends all that it started."""
    running: list[subprocess.Popen[bytes]] = []
    with _ending_all(running):
        process = _start(part, LOGS, running)
        return process.wait()


def _start(
    part: Part, logs: Path, running: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start a part in a session of its own, and add it to ``running``."""
    logs.mkdir(parents=True, exist_ok=True)
    # Ctrl-C waits until there is a process to end
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with (logs / f"{part.name}.log").open("wb") as log:
            process = subprocess.Popen(
                part.argv,
                cwd=ROOT,
                env={**os.environ, **part.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
            )
        running.append(process)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


@contextmanager
def _ending_all(running: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Ctrl-C within the body ends the processes that run then, and all that they started."""
    try:
        yield
    except KeyboardInterrupt:
        left = [one for one in running if one.poll() is None]
        for process in left:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        for process in left:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        raise


def run_rows(rows: Sequence[Sequence[Part]]) -> list[str]:
    """Run the parts of each row one after the other, all rows at once; the names of what failed.

    After a failure no further part begins; those that run go on to their end.
    """
    waiting, failed = [list(row) for row in rows], []
    began: dict[int, tuple[Part, float, subprocess.Popen[bytes]]] = {}
    running: list[subprocess.Popen[bytes]] = []
    with _ending_all(running):
        while True:
            for row, parts in enumerate(waiting):
                if row not in began and parts and not failed:
                    part = parts.pop(0)
                    print(f"  {part.name:10} {part.about} ...", flush=True)
                    began[row] = part, time.monotonic(), _start(part, QUICK_LOGS, running)
            if not began:
                return failed
            time.sleep(_POLL_S)
            for row, (part, begin, process) in list(began.items()):
                status = process.poll()
                if status is None:
                    continue
                del began[row]
                _tell(part, status, (time.monotonic() - begin) / 60)
                if status:
                    failed.append(part.name)


def _tell(part: Part, status: int, minutes: float) -> None:
    """Print how a part ended, and the end of its output."""
    log = QUICK_LOGS / f"{part.name}.log"
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-(10 * TAIL if status else ENDING) :]))
    said = f"FAILED (status {status}) after" if status else "passed in"
    where = f", see {log.relative_to(ROOT)}" if status else ""
    print(f"  {part.name:10} {said} {minutes:.1f} min{where}", flush=True)


def run_all(parts: Iterable[Part], again: bool) -> list[str]:
    """Run what has not passed yet, going on after a failure; the names of what failed."""
    parts, failed = list(parts), []
    for number, part in enumerate(parts, start=1):
        head = f"[{number:2}/{len(parts)}] {part.name:22}"
        files = tree()
        if not again and passed(part.name, files):
            print(f"{head} passed before ({recorded()[part.name]['minutes']} min)", flush=True)
            continue
        print(f"{head} {part.about} ...", flush=True)
        begin = time.monotonic()
        status = run(part)
        minutes = (time.monotonic() - begin) / 60
        log = LOGS / f"{part.name}.log"
        if status == 0:
            record(part.name, files, minutes)
            print(f"{head} passed in {minutes:.1f} min", flush=True)
            continue
        failed.append(part.name)
        tail = log.read_text(errors="replace").splitlines()[-TAIL:]
        where = log.relative_to(ROOT)
        print("\n".join(tail))
        print(f"{head} FAILED (status {status}) after {minutes:.1f} min, see {where}", flush=True)
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    parser.add_argument("--test", action="store_true", help="run what make test runs")
    parser.add_argument("parts", nargs="*", metavar="PART", help="run these alone")
    parser.add_argument("--again", action="store_true", help="also run what has passed")
    parser.add_argument("--list", action="store_true", help="list the parts, and when they passed")
    options = parser.parse_args(argv)
    known = {part.name: part for part in PARTS}
    unknown = [name for name in options.parts if name not in known]
    if unknown:
        print(f"no part called {unknown[0]}; the parts are {' '.join(known)}", file=sys.stderr)
        return 2
    if options.list:
        files, told = tree(), recorded()
        for part in PARTS:
            when = told.get(part.name, {}).get("date", "") if passed(part.name, files) else ""
            print(f"{part.name:22} {when:20} {part.about}")
        return 0
    try:
        if options.test:
            failed = run_rows(QUICK)
        else:
            failed = run_all([known[name] for name in options.parts] or PARTS, options.again)
    except KeyboardInterrupt:
        goes_on = "" if options.test else "; `make test-all` continues with this part"
        print(f"\ninterrupted{goes_on}", file=sys.stderr)
        return 130
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
