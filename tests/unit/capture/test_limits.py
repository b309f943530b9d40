# SPDX-License-Identifier: BSD-2-Clause
"""Limits are raised, and a refusal is a warning that names the limit."""

from __future__ import annotations

import resource

from retsnoop_py.capture.limits import raise_limits


def test_a_limit_that_suffices_stays_as_it_is() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_limits(1) is None
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_more_than_any_kernel_allows_is_warned_of() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        warning = raise_limits(1 << 40)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert warning is not None
    assert "RLIMIT_NOFILE" in warning
