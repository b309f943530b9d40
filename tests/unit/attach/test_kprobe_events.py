# SPDX-License-Identifier: BSD-2-Clause
"""Whose kprobe events they are, who has left some, and which calls they missed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.unit.session.records import ALLOC

from retsnoop_py.attach.guard import abandoned, is_alive, start_of, this_owner
from retsnoop_py.attach.kprobe import misses_of
from retsnoop_py.attach.kprobe_events import hooks_for, missed_probes
from retsnoop_py.kernel.tracefs import folder_with

DEFINITIONS = """\
p:rsnoop_12_345/in0_12_345 _text+100
r256:rsnoop_12_345/out0_12_345 _text+100
p:rsnoop_12_345/in1_12_345 _text+200
p:rsnoop_99_345/in0_99_345 _text+100
p:kprobes/mine vfs_read
p:rsnoop_12_345/in7_99_1 _text+100
"""


def test_those_who_are_gone_are_found_with_the_pairs_they_left() -> None:
    assert abandoned(DEFINITIONS, alive=lambda owner: owner == "99_345") == {"12_345": 2}
    assert abandoned(DEFINITIONS, alive=lambda owner: True) == {}
    assert abandoned("p:kprobes/mine vfs_read\n", alive=lambda owner: False) == {}


def test_an_owner_lives_as_long_as_its_process() -> None:
    owner = this_owner(os.getpid())
    assert is_alive(owner)
    assert not is_alive(f"{owner}1")
    assert not is_alive(f"{2**22 + 1}_1")


def test_a_name_with_parentheses_does_not_hide_the_start_time(tmp_path: Path) -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) 1 (b)) S {fields}\n")
    assert start_of(7, tmp_path) == 22
    assert start_of(8, tmp_path) is None


def test_misses_belong_to_the_probes_in_the_order_of_their_definition() -> None:
    profile = """\
  in0_12_345                                                 10               0
  out0_12_345                                                 9               1
  in0_99_345                                                  5               4
  in0_12_345                                                  7               2
  out0_12_345                                                 7               2
  in1_12_345                                                  1               3
  out1_12_345                                                 1               8
  mine                                                        3              33
"""
    assert list(missed_probes(profile, "12_345")) == [(0, 0, 0, 1), (0, 1, 2, 2), (1, 0, 3, 8)]
    assert list(missed_probes("", "12_345")) == []


def test_tracefs_is_where_kprobe_events_is(tmp_path: Path) -> None:
    assert folder_with(tmp_path, "kprobe_events") is None
    folder = tmp_path / "sys/kernel/debug/tracing"
    folder.mkdir(parents=True)
    (folder / "kprobe_events").touch()
    assert folder_with(tmp_path, "kprobe_events") == folder


def test_hooks_are_many_for_few_functions_and_enough_for_many() -> None:
    assert hooks_for(1, 2) == hooks_for(1200, 4) == 256
    assert 32 <= hooks_for(10_000, 4) < 100
    assert hooks_for(10_000, 128) == 256  # what the kernel would choose itself


def test_calls_inside_a_probe_are_nobodys_and_lost_returns_are_told_by_their_sessions() -> None:
    assert [(miss.count, miss.told) for miss in misses_of(ALLOC, 3, 5)] == [(3, True), (2, True)]
