# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of the C extensions with those of ``build/sanitized``: ``make test-sanitized``.

``python -m tests.sanitized [PYTEST-ARGUMENT ...]`` runs other tests than :data:`TESTS`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Tests that call the extensions with data of others, or from many threads.
TESTS = (
    "tests/unit/libbpf",
    "tests/unit/session/test_repeats.py",
    "tests/unit/kernel/test_btf.py",
    "tests/unit/kernel/test_kallsyms.py",
    "tests/golden/test_repeats.py",
)


def environment() -> dict[str, str]:
    """The environment in which Python loads the extensions with sanitizers.

    CPython's own small allocations are malloc's, so that reads beyond an object of bytes are found;
    what the interpreter never frees is no leak.
    """
    compiler = shlex.split(os.environ.get("CC") or "gcc")
    found = [
        subprocess.run(
            [*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return os.environ | {
        "LD_PRELOAD": ":".join(found),
        "PYTHONPATH": str(ROOT / "build" / "sanitized"),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


#: What is started from there, compilers above all, is no process with sanitizers.
_RUN = """
import os, sys
for name in ("LD_PRELOAD", "PYTHONPATH", "PYTHONMALLOC"):
    del os.environ[name]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main(arguments: list[str]) -> int:
    """Run the tests; pytest's status, or that of the signal that ended it."""
    argv = [sys.executable, "-c", _RUN, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    argv += ["--capture=sys"]  # what a sanitizer writes before it ends the process is seen
    argv += arguments or list(TESTS)
    done = subprocess.run(argv, cwd=ROOT, env=environment(), check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
