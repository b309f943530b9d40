# SPDX-License-Identifier: BSD-2-Clause
"""

The format files of tracepoints, as kernels write them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.tree import Tree

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.tracefs import KprobeBlacklist, TraceField, parse_format
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


#: In the form that trace_events.c has had since 2009.
EXEC = """\
name: sched_process_exec
ID: 312
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;

print fmt: "filename=%s pid=%d", __get_str(filename), REC->pid
"""

FORMS = {
    "int sig": TraceField("sig", "int", 8, 4),
    "unsigned long long when": TraceField("when", "unsigned long long", 8, 4),
    "const char * path": TraceField("path", "const char *", 8, 4),
    "struct sk_buff *skb": TraceField("skb", "struct sk_buff *", 8, 4),
    "enum hrtimer_mode mode": TraceField("mode", "enum hrtimer_mode", 8, 4),
    "char comm[16]": TraceField("comm", "char", 8, 4, is_array=True),
    "char comm[TASK_COMM_LEN]": TraceField("comm", "char", 8, 4, is_array=True),
    "__u8 mac[ 2 * (3) ]": TraceField("mac", "__u8", 8, 4, is_array=True),
    "__data_loc char[] name": TraceField("name", "char", 8, 4, is_array=True, is_dynamic=True),
    "__rel_loc u32[] list": TraceField(
        "list", "u32", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    # what kernels make of it
    "__rel_loc char text[]": TraceField(
        "text", "char", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    "__rel_loc u32 list[]": TraceField(
        "list", "u32", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    "__data_loc unsigned long[] mask": TraceField(
        "mask", "unsigned long", 8, 4, is_array=True, is_dynamic=True
    ),
    "void (*function)(struct timer_list *)": TraceField(
        "void (*function)(struct timer_list *)", "", 8, 4
    ),
}


def test_a_format_has_the_fields_of_its_own() -> None:
    assert parse_format(EXEC) == (
        TraceField("filename", "char", 8, 4, is_array=True, is_dynamic=True),
        TraceField("pid", "pid_t", 12, 4, is_signed=True),
    )


@pytest.mark.parametrize("text", FORMS)
def test_a_field_is_read_as_c_declares_it(text: str) -> None:
    assert parse_format(f"\tfield:{text};\toffset:8;\tsize:4;\tsigned:0;") == (FORMS[text],)


NAME = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.startswith("common_")
)
TYPE = st.sampled_from(
    ["int", "unsigned int", "char", "const char *", "struct sock *", "dev_t", "enum x", "void **"]
)


@given(TYPE, NAME, st.integers(0, 1 << 16), st.integers(0, 1 << 16), st.booleans(), st.booleans())
def test_any_declaration_comes_back(
    type_: str, name: str, offset: int, size: int, signed: bool, array: bool
) -> None:
    text = f"{type_} {name}" + ("[N + 1]" if array else "")
    line = f"\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:{signed:d};\n"
    assert parse_format(line) == (TraceField(name, type_, offset, size, signed, array),)


@given(st.text(alphabet="field:\t;ofset0 1z[]*()_common\n", max_size=120))
def test_damaged_formats_do_no_harm(text: str) -> None:
    with suppress(StopIteration):
        assert all(field.offset >= 0 for field in parse_format(text + EXEC))
