# SPDX-License-Identifier: BSD-2-Clause
"""Mechanisms that a kernel's switches and files rule out, without anything being tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree

from retsnoop_py.attach.features import Features, Verdict
from retsnoop_py.errors import UnavailableError
from retsnoop_py.libbpf.facts import ListFormat
from retsnoop_py.mechanism import Mechanism

EVENTS = "sys/kernel/tracing/kprobe_events"
MECHANISMS = [one for one in Mechanism if one is not Mechanism.AUTO]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.file("proc/sys/kernel/ftrace_enabled", "1\n")
    tree.file("sys/kernel/debug/kprobes/enabled", "1\n")
    return tree


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_works_while_ftrace_is_off(tree: Tree, mechanism: Mechanism) -> None:
    tree.file("proc/sys/kernel/ftrace_enabled", "0\n")
    features = Features(1, tree.root)
    verdict = features.verdict(mechanism)
    assert verdict == Verdict(False, "kernel.ftrace_enabled is 0, so that no hook is ever called")
    with pytest.raises(UnavailableError, match=r"kernel\.ftrace_enabled is 0"):
        features.require(mechanism)


def test_kprobes_that_are_off_take_only_what_needs_them(tree: Tree) -> None:
    tree.file("sys/kernel/debug/kprobes/enabled", "0\n")
    tree.file(EVENTS, "")
    features = Features(None, tree.root)
    for mechanism in (Mechanism.KPROBE, Mechanism.KPROBE_EVENTS):
        assert "kprobes/enabled is 0" in (features.verdict(mechanism).reason or "")
    assert features.verdict(Mechanism.FENTRY).reason == "this kernel has no BTF"


def test_events_take_a_file_that_can_be_written_and_keep_what_is_in_it(tree: Tree) -> None:
    assert not Features(None, tree.root).verdict(Mechanism.KPROBE_EVENTS).works
    path = tree.file(EVENTS, "p:other/probe vfs_read\n")
    assert Features(None, tree.root).verdict(Mechanism.KPROBE_EVENTS).works
    assert path.read_text() == "p:other/probe vfs_read\n"
    path.unlink()
    path.mkdir()
    verdict = Features(None, tree.root).verdict(Mechanism.KPROBE_EVENTS)
    assert verdict == Verdict(False, "/sys/kernel/tracing/kprobe_events: Is a directory")


def test_a_list_that_the_kernel_has_given_up_is_told_as_such(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def gone(path: Path, form: ListFormat) -> None:
        raise OSError(errno.ENODEV, "No such device", str(path))

    monkeypatch.setattr("retsnoop_py.kernel.tracefs.SymbolTable", gone)
    with pytest.raises(UnavailableError, match="given up function tracing") as caught:
        _ = tree.facts.traceable
    assert "reboot" in str(caught.value.hint)
