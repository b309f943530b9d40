# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.tracefs import KprobeBlacklist
from retsnoop_py.libbpf.facts import Line


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_list_with_addresses_is_read_where_names_do_not_tell(tree: Tree) -> None:
    tree.traceable("a", "b [kvm]")
    tree.traceable("ffffffff81000004 a", "ffffffffc0200004 b [kvm]", addrs=True)
    facts = tree.facts
    assert not facts.traceable.has_addresses

    assert facts.tell_namesakes()
    traceable = facts.traceable
    assert traceable.has_addresses
    assert not facts.tell_namesakes()
    assert traceable.table.line(1) == Line(0xFFFFFFFFC0200004, b"b", b"kvm", b"\0", 0)


def test_without_such_a_list_names_are_all_there_is(tree: Tree) -> None:
    tree.traceable("a", "b [kvm]")
    assert not tree.facts.tell_namesakes()


def test_functions_are_found_by_name_and_module(tree: Tree) -> None:
    tree.traceable("a", "b [kvm]")
    traceable = tree.facts.traceable

    assert not traceable.has_addresses
    assert traceable.contains("a")
    assert traceable.contains("b")
    assert traceable.contains("b", "kvm")
    assert not traceable.contains("b", "zram")
    assert not traceable.contains("c")


def test_trace_points_without_a_function_are_not_counted(tree: Tree) -> None:
    tree.traceable("a", "__ftrace_invalid_address___496", "b")
    assert len(tree.facts.traceable) == 2


def test_debugfs_serves_where_tracefs_does_not(tree: Tree) -> None:
    tree.file("sys/kernel/debug/tracing/available_filter_functions", "a\n")
    assert tree.facts.traceable.contains("a")


@pytest.mark.parametrize(
    ("files", "reason", "hint"),
    [
        ({"proc/filesystems": "nodev\ttracefs\n"}, "not mounted", "mount -t tracefs"),
        ({"proc/filesystems": "nodev\tproc\n"}, "has no tracefs", "CONFIG_FTRACE"),
        ({"sys/kernel/tracing/trace": ""}, "cannot trace functions", "CONFIG_DYNAMIC_FTRACE"),
        ({"sys/bus/event_source/devices/uprobe/type": "9"}, "has no kprobes", "vm run"),
        (
            {
                "sys/bus/event_source/devices/kprobe/type": "8",
                "proc/filesystems": "nodev\ttracefs\n",
            },
            "not mounted",
            "mount -t tracefs",
        ),
    ],
)
def test_a_missing_list_says_what_the_kernel_lacks(
    tree: Tree, files: dict[str, str], reason: str, hint: str
) -> None:
    for path, text in files.items():
        tree.file(path, text)
    with pytest.raises(UnavailableError, match=reason) as caught:
        _ = tree.facts.traceable
    assert hint in (caught.value.hint or "")


def test_the_blacklist_covers_its_ranges_only(tree: Tree) -> None:
    tree.blacklist((0x2000, 0x2010), (0x1000, 0x1020), (0x1010, 0x1018))
    blacklist = tree.facts.kprobe_blacklist

    covered = [0xFFF, 0x1000, 0x1019, 0x1020, 0x1FFF, 0x2000, 0x200F, 0x2010]
    assert [blacklist.covers(a) for a in covered] == [0, 1, 1, 0, 0, 1, 1, 0]


def test_no_debugfs_means_no_blacklist(tmp_path: Path) -> None:
    assert not KprobeBlacklist(tmp_path / "absent").covers(0)
