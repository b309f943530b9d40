# SPDX-License-Identifier: BSD-2-Clause
"""``python -m tests.fuzz [--for SECONDS] [--seed N] [TARGET ...]``: run the fuzzers.

Each target gets a share of the time, in a process of its own. A crash, a hang or excessive memory
use of that process is also a finding. A failing example is stored in ``build/fuzz``. ``python -m
tests.fuzz --repeat TARGET FILE`` tries an example again.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import SUFFIXES

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "fuzz"
#: Extra seconds of a target for its start, its last example, and shrinking a failing example.
GRACE_S = 90.0


def worker(*words: object, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``tests.fuzz.worker``. Raise subprocess.TimeoutExpired after ``timeout`` seconds."""
    argv = [sys.executable, "-m", "tests.fuzz.worker", *map(str, words)]
    return subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout
    )


def run(name: str, seconds: float, seed: int) -> str | None:
    """Search in target ``name``. Return a finding, or None."""
    current = KEPT / f"current-{name}{SUFFIXES[name]}"
    current.unlink(missing_ok=True)
    try:
        done = worker(name, seconds, seed, current, timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        return _kept(name, current, "it does not end")
    if done.returncode < 0:
        killer = signal.Signals(-done.returncode).name
        return _kept(name, current, f"it died of {killer}\n{done.stderr[-2000:]}")
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or not lines:
        return _kept(name, current, f"the fuzzer failed\n{done.stderr[-2000:]}")
    print(f"  fuzz     {name}: {lines[0]} examples in {seconds:.0f} s (seed {seed})", flush=True)
    return _kept(name, current, "\n".join(lines[1:])) if done.returncode else None


def _kept(name: str, current: Path, complaint: str) -> str:
    """Store the example. Return the complaint and the command that repeats it."""
    if not current.is_file():
        return f"{name}: {complaint}"
    data = current.read_bytes()
    path = KEPT / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}{current.suffix}"
    path.write_bytes(data)
    words = [".venv/bin/python", "-m", "tests.fuzz", "--repeat", name, path.relative_to(ROOT)]
    return f"{name}: {complaint}\n  to repeat: {shlex.join(map(str, words))}"


def main() -> int:
    """Run all targets, or the named targets. Return 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--for", dest="seconds", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, help="to make the same examples again")
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "FILE"))
    parser.add_argument("targets", nargs="*", choices=[*SUFFIXES, []], metavar="TARGET")
    options = parser.parse_args()
    if options.repeat:
        done = worker(*options.repeat)
        print(done.stdout + done.stderr, end="")
        return done.returncode
    KEPT.mkdir(parents=True, exist_ok=True)
    names = options.targets or list(SUFFIXES)
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    found = [run(name, options.seconds / len(names), seed) for name in names]
    complaints = [one for one in found if one is not None]
    print("\n".join(complaints), end="\n" if complaints else "")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
