# SPDX-License-Identifier: BSD-2-Clause
"""``make test-sanitized``: run the tests of the C extensions with ``build/sanitized``.

``python -m tests.sanitized [PYTEST-ARGUMENT ...]`` runs other tests than :data:`TESTS`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Tests that pass foreign data to the extensions, or call them from many threads.
TESTS = (
    "tests/unit/libbpf",
    "tests/unit/attach/test_guard.py",
    "tests/unit/session/test_repeats.py",
    "tests/unit/kernel/test_btf.py",
    "tests/unit/kernel/test_kallsyms.py",
    "tests/golden/test_repeats.py",
)


def environment() -> dict[str, str]:
    """Return the environment in which Python loads the extensions with sanitizers.

    CPython allocates small objects with malloc, so that the sanitizer finds reads beyond bytes
    objects. Memory that the interpreter never frees is not reported as a leak.
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


#: Processes started from Python, such as compilers, run without sanitizers.
_RUN = """
import os, sys
for name in ("LD_PRELOAD", "PYTHONPATH", "PYTHONMALLOC"):
    del os.environ[name]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def main(arguments: list[str]) -> int:
    """Run the tests. Return the status of pytest, or of the signal that ended it."""
    argv = [sys.executable, "-c", _RUN, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    argv += ["--capture=sys"]  # shows the report that a sanitizer writes before it ends the process
    argv += arguments or list(TESTS)
    done = subprocess.run(argv, cwd=ROOT, env=environment(), check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
