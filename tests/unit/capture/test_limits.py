# SPDX-License-Identifier: BSD-2-Clause
"""Limits are raised, and a refusal is a warning that names the limit."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from retsnoop_py.capture.limits import raise_files, reserved_files
from retsnoop_py.errors import UnavailableError


def open_files() -> set[int]:
    """Our descriptors, the one that lists them among them."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def test_a_limit_that_suffices_stays_as_it_is() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_files(1) is None
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_more_than_any_kernel_allows_is_warned_of() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        warning = raise_files(1 << 40)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert warning is not None
    assert "RLIMIT_NOFILE" in warning


def test_descriptors_are_kept_for_what_follows_the_probes() -> None:
    before = open_files()
    with reserved_files():
        assert len(open_files()) == len(before) + 32
    assert open_files() == before


def test_too_few_to_load_anything_are_an_error_and_none_stays_taken() -> None:
    before = open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # below the limit are no more free numbers than reading this directory takes
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before), hard))
    try:
        with pytest.raises(UnavailableError, match="too few open files"), reserved_files():
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before


_FREED_AND_TAKEN = """
import ctypes
from retsnoop_py.capture.limits import return_large_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
return_large_memory()
libc.free(libc.malloc(8 << 20))
taken = libc.malloc(4 << 20)
with open("/proc/self/maps") as maps:
    heap = next(line for line in maps if line.rstrip().endswith("[heap]"))
start, end = (int(part, 16) for part in heap.split()[0].split("-"))
print("heap" if start <= taken < end else "mapped")
"""


def test_large_memory_never_comes_from_the_heap() -> None:
    """It would stay there: what is freed amid a heap is not given back."""
    done = subprocess.run(
        [sys.executable, "-c", _FREED_AND_TAKEN], capture_output=True, text=True, check=True
    )
    assert done.stdout == "mapped\n"
