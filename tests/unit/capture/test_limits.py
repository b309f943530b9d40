# SPDX-License-Identifier: BSD-2-Clause
"""Limits are raised, and a refusal is a warning that names the limit."""

from __future__ import annotations

import resource
from pathlib import Path

from retsnoop_py.capture.limits import raise_files, reserved_files


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


def test_where_none_are_left_keeping_some_is_no_error() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_files()) + 1, hard))
    try:
        with reserved_files():
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
