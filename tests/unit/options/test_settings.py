# SPDX-License-Identifier: BSD-2-Clause
"""What several options come to together."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from retsnoop_py.options.settings import trace_settings
from retsnoop_py.options.table import Words

EPERM_EACCES = frozenset({errno.EPERM, errno.EACCES})


@pytest.mark.parametrize(
    ("said", "errors"),
    [
        ({"case": ["lsm"]}, EPERM_EACCES),
        ({"case": ["lsm"], "trace": True}, EPERM_EACCES),
        ({"case": ["lsm"], "allow-errors": ["ENOENT"]}, {errno.ENOENT}),
        ({"case": ["lsm"], "allow-errors": ["any"]}, None),
        ({"case": ["lsm"], "success-stacks": ["y"]}, None),
        ({"case": ["lsm"], "success-stacks": ["n"]}, EPERM_EACCES),
        ({"case": ["lsm", "bpf"]}, None),
        ({"case": ["bpf"]}, None),
    ],
)
def test_the_preset_lsm_selects_the_errors_it_is_about(said: Any, errors: Any) -> None:
    filters = trace_settings(Words(said)).filters
    assert filters.allow_errors == errors
    assert filters.success == ("y" in said.get("success-stacks", ()))
