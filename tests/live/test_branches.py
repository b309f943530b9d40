# SPDX-License-Identifier: BSD-2-Clause
"""Branch records: the guests' CPUs do not support them, and the tool reports that."""

from __future__ import annotations

import errno
import json

import pytest
from tests.live.support import PROGRAMS, PYTHON

from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.oldest_and_newest


def test_programs_that_take_branches_load_and_tell_what_they_got(machine: Machine) -> None:
    traced = ("map_create", "array_map_alloc_check")
    result = machine.run([PYTHON, str(PROGRAMS / "branches.py"), *traced])
    if machine.release.startswith("5.10."):  # no bpf_get_branch_snapshot(): test_user_stack.py
        assert result.status != 0
        return
    assert result.status == 0, result.err
    assert json.loads(result.out) == [errno.ENOENT] * 3
