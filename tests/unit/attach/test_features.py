# SPDX-License-Identifier: BSD-2-Clause
"""Mechanisms that a kernel's switches and files rule out, without anything being tried."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree

from retsnoop_py.attach.features import Features, Verdict
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.switches import FTRACE, JIT
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
    assert verdict == Verdict(False, FTRACE.off, FTRACE.command)
    with pytest.raises(UnavailableError, match=r"kernel\.ftrace_enabled is 0") as caught:
        features.require(mechanism)
    assert caught.value.hint == "run `sysctl kernel.ftrace_enabled=1`"


def test_without_any_mechanism_the_cause_of_all_is_named_and_no_mechanism(tree: Tree) -> None:
    tree.file("proc/sys/kernel/ftrace_enabled", "0\n")
    with pytest.raises(UnavailableError) as caught:
        Features(1, tree.root).require_any()
    assert caught.value.message.startswith("tracing does not work here: kernel.ftrace_enabled is 0")
    assert caught.value.hint == "run `sysctl kernel.ftrace_enabled=1`"


def test_a_mechanism_that_calls_kernel_functions_needs_the_jit(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel answers is what 6.12 answered with net.core.bpf_jit_enable=0."""
    monkeypatch.setattr("retsnoop_py.libbpf.links.kprobe_multi", lambda session: 0)
    monkeypatch.setattr("retsnoop_py.libbpf.links.fsession_multi", lambda _: 0)
    features = Features(1, tree.root)
    for answer, works in ((errno.EACCES, True), (524, False)):
        features = Features(1, tree.root)
        monkeypatch.setattr("retsnoop_py.libbpf.links.kfunc", lambda _, answer=answer: answer)
        assert features.verdict(Mechanism.KPROBE_SESSION).works is works
        assert features.verdict(Mechanism.FSESSION_MULTI).works is works
        assert features.verdict(Mechanism.KPROBE_MULTI).works
    assert features.verdict(Mechanism.KPROBE_SESSION).next_step == JIT.command


def test_without_sysfs_the_btf_is_not_said_to_be_missing(tmp_path: Path) -> None:
    verdict = Features(None, tmp_path).verdict(Mechanism.FENTRY)
    assert verdict.reason == "the kernel's BTF cannot be read: nothing is mounted on /sys"
    assert verdict.next_step == "mount -t sysfs sysfs /sys"


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
    def gone(path: Path, form: ListFormat) -> None:
        raise OSError(errno.ENODEV, "No such device", str(path))

    monkeypatch.setattr("retsnoop_py.kernel.tracefs.SymbolTable", gone)
    with pytest.raises(UnavailableError, match="disabled function tracing") as caught:
        _ = tree.facts.traceable
    assert "reboot" in str(caught.value.hint)
