# SPDX-License-Identifier: BSD-2-Clause
"""What programs are attached to where that is not there or takes nobody; programs too long."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

import pytest

from retsnoop_py.load.attaching import (
    btf_target,
    explain_attachment,
    explain_registering,
    explain_target,
    is_attachable,
    why_no_kprobe,
    why_no_trampoline,
)
from retsnoop_py.load.errno_rules import explain_size
from retsnoop_py.load.map_rules import MapFacts, explain_map

SYMBOLS = """ffffffff81000000 T _stext
ffffffff81000100 T vfs_read
ffffffff81000200 t closed
ffffffff81000300 t unhooked
ffffffff81000400 t twice
ffffffff81000500 t twice
ffffffff81000600 t gone.isra.0
ffffffff81000700 t gone.cold
ffffffff81000800 T _etext
"""
SAID = "libbpf: prog 'x': failed to find kernel BTF type ID of 'no_such': -3"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kernel's files."""
    for path, text in (
        ("proc/kallsyms", SYMBOLS),
        ("proc/modules", ""),
        ("sys/kernel/debug/kprobes/blacklist", "0xffffffff81000200-0xffffffff81000300\tclosed\n"),
        ("sys/kernel/tracing/available_filter_functions", "vfs_read\nclosed\ntwice\ntwice\n"),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("closed", "closed to kprobes"),
        ("unhooked", "ftrace has no hook"),
        ("twice", "2 functions have the name twice"),
        ("gone", "This kernel has gone.isra.0 and gone.cold,"),
        ("never", "no symbol never"),
    ],
)
def test_why_a_function_takes_no_kprobe(function: str, said: str, root: Path) -> None:
    assert said in why_no_kprobe(function, root)


def test_of_a_function_that_takes_one_and_of_a_kernel_that_shows_nothing_there_is_no_word(
    root: Path, tmp_path: Path
) -> None:
    assert why_no_kprobe("vfs_read", root) == ""
    assert why_no_kprobe("vfs_read", tmp_path / "nothing") == ""


@pytest.mark.parametrize(
    ("section", "what", "prefix"),
    [
        ("tp_btf/no_such", "the tracepoint no_such", "btf_trace_"),
        ("lsm.s/no_such", "the hook of security modules no_such", "bpf_lsm_"),
        ("iter/no_such", "the iterator no_such", "bpf_iter_"),
        ("fentry/no_such", "attached to no_such, and this kernel's BTF has no such function", ""),
    ],
)
def test_what_a_program_is_attached_to_by_btf_is_called_what_it_is(
    section: str, what: str, prefix: str
) -> None:
    why = explain_target("no_such", section, SAID)
    assert (why.id, btf_target(section)[1]) == ("attach-target-missing", prefix)
    assert what in why.reason


def test_a_program_that_is_too_long_to_be_read_is_measured() -> None:
    assert "1,000,003 instructions" in explain_size("x", 1_000_003).reason
    assert "takes 4,096 of who lacks CAP_BPF" in explain_size("x", 5000).reason


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("unhooked", "ftrace has no hook in it"),
        ("twice", "2 functions have the name twice"),
        ("gone", "This kernel has gone.isra.0"),
        ("vfs_read", ""),
    ],
)
def test_why_a_function_with_btf_takes_no_trampoline(function: str, said: str, root: Path) -> None:
    told = why_no_trampoline(function, root)
    assert said in told
    assert bool(said) is bool(told)


@pytest.mark.parametrize(
    ("section", "error", "reason"),
    [
        ("tp/sched/sched_switch", errno.EACCES, "tracepoint-arguments"),
        ("tracepoint/sched", errno.EINVAL, "attach-section"),
        ("kprobe/", errno.EINVAL, "attach-section"),
        ("kprobe/vfs_read+0x3", errno.EILSEQ, "kprobe-target"),
        ("kprobe.multi/no_such_*", errno.ENOENT, "kprobe-target"),
        ("uprobe//nowhere/bin:main", errno.ENOENT, "uprobe-target"),
        ("fentry/vfs_read", errno.EBUSY, ""),
    ],
)
def test_an_attachment_is_judged_by_its_section_where_words_tell_less(
    section: str, error: int, reason: str
) -> None:
    why = explain_attachment("libbpf: something", error, "x", section)
    assert (why.id if why is not None else "") == reason


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errno.EEXIST, "has the name that 'slow' gives itself"),
        (errno.EBUSY, "is in the place of 'slow'"),
        (errno.EINVAL, "a function that it must have is missing"),
    ],
)
def test_why_a_table_of_functions_is_not_registered(error: int, told: str) -> None:
    why = explain_registering("slow", error)
    assert why.id == "struct-ops-refused"
    assert told in why.reason
    assert errno.errorcode[error] in why.reason


def test_what_the_kernel_logged_of_a_table_is_told() -> None:
    why = explain_registering("slow", errno.EINVAL, "TCP: slow does not implement required ops")
    assert why.reason.endswith("Its log says: TCP: slow does not implement required ops")


def test_an_iterator_over_one_thing_has_to_be_told_which() -> None:
    assert not is_attachable("iter/cgroup", errno.EINVAL)
    assert is_attachable("iter/cgroup", errno.ENOENT)
    assert is_attachable("iter/task", errno.EINVAL)


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        (MapFacts("m", 1, 0, 4, 600, 8), "E2BIG", "keys of 600 bytes"),
        (MapFacts("m", 6, 0, 1, 4, 40000), "ENOMEM", "values of 40,000 bytes"),
        (MapFacts("m", 2, 0, 4, 4, 0x7FFFFFFF), "E2BIG", "values of 2,147,483,647 bytes"),
        (MapFacts("m", 16, 0, 100000, 4, 8), "E2BIG", "NR_CPUS"),
        (MapFacts("m", 9, 1, 4, 4, 8), "ENOTSUPP", "BPF_F_NO_PREALLOC is not allowed"),
        (MapFacts("m", 29, 1, 10, 4, 8), "EINVAL", "with each task"),
        (MapFacts("m", 13, 0, 8, 4, 4), "EINVAL", "contains maps"),
        (MapFacts("m", 7, 0, 4, 4, 7), "EINVAL", "addresses of 8 bytes"),
        (MapFacts("m", 22, 0, 4, 4, 4), "EINVAL", "keys of 4 and values of 4 bytes, 4 entries"),
        (MapFacts("m", 1, 0, 1 << 30, 4, 8), "ENOMEM", "cannot be had"),
    ],
)
def test_a_map_is_told_by_what_it_asks_for(facts: MapFacts, error: str, said: str) -> None:
    assert said in explain_map(facts, error, (6, 12)).reason


def test_a_section_puts_no_words_into_a_command() -> None:
    section = "kprobe.multi/x'; id >y; '"
    told = explain_attachment("libbpf: something", errno.ENOENT, "x", section)
    assert told is not None
    words = shlex.split(told.suggestion.partition(" lists ")[0])
    assert words == ["retsnoop-py", "functions", "x'; id >y; '"]
