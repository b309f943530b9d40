# SPDX-License-Identifier: BSD-2-Clause
"""Which places of a kernel probes mean: a kernel made of files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree

from retsnoop_py.errors import InputError, UnavailableError, UsageError
from retsnoop_py.kernel.tracefs import Tracepoint
from retsnoop_py.probes.choose import MOST_PROBES, choose_probes
from retsnoop_py.probes.spec import Probe, parse

BASE = 0xFFFFFFFF81000000
FUNCTIONS = (
    "bpf_map_new_fd",
    "bpf_map_put",
    "bpf_map_free_deferred",
    "do_exit",
    "_raw_spin_lock",
    "twice",
    "twice",
    "__traceiter_sched_switch",
    "__traceiter_sched_waking",
)
TRACEPOINTS = ("sched/sched_switch", "sched/sched_waking", "syscalls/sys_enter_bpf")


class Lines:
    """Source lines and where their code is."""

    def __init__(self, places: dict[tuple[str, int], list[int]]) -> None:
        self._places = places

    def addresses_of(self, path: str, line: int) -> list[tuple[int, str]]:
        return [(address, f"kernel/{path}") for address in self._places[path, line]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    lines = [f"{BASE + 0x40 * i:x} t {name}" for i, name in enumerate(FUNCTIONS)]
    end = BASE + 0x40 * len(FUNCTIONS)
    made.kallsyms(*lines, f"{end:x} T _etext", f"{end + 8:x} D some_data")
    made.traceable(*FUNCTIONS[:-2])
    for number, name in enumerate(TRACEPOINTS):
        folder = f"sys/kernel/tracing/events/{name}"
        made.file(f"{folder}/id", f"{number + 300}\n")
        made.file(f"{folder}/enable", "0\n")
    made.file("sys/kernel/tracing/events/header_page", "")
    return made


def choose(tree: Tree, *texts: str, lines: Lines | None = None) -> tuple[Probe, ...]:
    return choose_probes(map(parse, texts), tree.facts, lines or Lines({}))


def labels(tree: Tree, *texts: str) -> list[str]:
    return [probe.label for probe in choose(tree, *texts)]


def refusal(tree: Tree, text: str) -> tuple[str, str | None]:
    with pytest.raises(InputError) as caught:
        choose(tree, text)
    return caught.value.message, caught.value.hint


def test_a_kprobe_is_at_its_function_or_behind(tree: Tree) -> None:
    start, inside = choose(tree, "kprobe:bpf_map_put", "kprobe:bpf_map_put+010")
    assert (start.label, start.address) == ("kprobe:bpf_map_put+0x0", BASE + 0x40)
    assert (inside.label, inside.address) == ("kprobe:bpf_map_put+0x8", BASE + 0x48)


def kcore(tmp_path: Path, code: bytes, address: int) -> None:
    """What the running kernel's memory has at ``address``."""
    header = b"\x7fELF".ljust(32, b"\0") + struct.pack("=QQIHHHHHH", 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = len(code)
    segment = struct.pack("=IIQQQQQQ", 1, 5, 64 + 56, address, 0, size, size, 0)
    (tmp_path / "proc/kcore").write_bytes(header + segment + code)


@pytest.mark.parametrize(
    ("code", "is_taken"),
    [
        ("2ee810000000", False),  # cs call, as gcc makes it of a thunk
        ("ffd0", False),  # call rax
        ("e810000000", True),
        ("4889c7", True),  # mov rdi, rax
    ],
)
def test_no_probe_stands_at_a_call_that_kprobes_do_not_come_back_from(
    tree: Tree, tmp_path: Path, code: str, is_taken: bool
) -> None:
    kcore(tmp_path, bytes.fromhex(code).ljust(0x40, b"\x90"), BASE + 0x48)
    tree.file("proc/sys/kernel/arch", "x86_64\n")
    there = Lines({("core.c", 7): [BASE + 0x48, BASE + 0x50]})
    at_line = [one.address for one in choose(tree, "kprobe:core.c:7", lines=there)]
    if is_taken:
        assert labels(tree, "kprobe:bpf_map_put+8") == ["kprobe:bpf_map_put+0x8"]
        assert at_line == [BASE + 0x48, BASE + 0x50]
    else:
        assert "the kernel would die" in refusal(tree, "kprobe:bpf_map_put+8")[0]
        assert at_line == [BASE + 0x50]


def test_a_kretprobe_has_no_offset(tree: Tree) -> None:
    (probe,) = choose(tree, "kretprobe:bpf_map_put")
    assert (probe.label, probe.address) == ("kretprobe:bpf_map_put", BASE + 0x40)


def test_a_glob_means_what_it_matches_and_may_be_probed(tree: Tree) -> None:
    assert labels(tree, "kprobe:bpf_map_*") == [
        "kprobe:bpf_map_new_fd+0x0",
        "kprobe:bpf_map_put+0x0",
        "kprobe:bpf_map_free_deferred+0x0",
    ]
    assert labels(tree, "kprobe:*_*d") == [
        "kprobe:bpf_map_new_fd+0x0",
        "kprobe:bpf_map_free_deferred+0x0",
    ]


def test_all_functions_of_one_name_are_probed(tree: Tree) -> None:
    probes = choose(tree, "kprobe:twice")
    assert [probe.address for probe in probes] == [BASE + 0x140, BASE + 0x180]


def test_a_place_is_probed_once(tree: Tree) -> None:
    assert labels(tree, "kprobe:bpf_map_put", "kprobe:bpf_map_p*", "kprobe:bpf_map_put+0x0") == [
        "kprobe:bpf_map_put+0x0"
    ]


def test_tracepoints_have_numbers(tree: Tree) -> None:
    probes = choose(tree, "tp:sched:*", "tp:*:sys_enter_?pf")
    assert [(probe.label, probe.event, probe.tracepoint) for probe in probes] == [
        ("tp:sched:sched_switch", 300, Tracepoint("sched", "sched_switch")),
        ("tp:sched:sched_waking", 301, Tracepoint("sched", "sched_waking")),
        ("tp:syscalls:sys_enter_bpf", 302, Tracepoint("syscalls", "sys_enter_bpf")),
    ]


def test_raw_tracepoints_have_iterators(tree: Tree) -> None:
    assert labels(tree, "rawtp:sched_switch") == ["rawtp:sched_switch"]
    assert labels(tree, "rawtp:sched_*") == ["rawtp:sched_switch", "rawtp:sched_waking"]


def test_a_source_line_is_probed_wherever_it_has_code(tree: Tree) -> None:
    lines = Lines({("core.c", 7): [BASE + 0x44, BASE + 0x50, BASE + 0x104]})
    probes = choose(tree, "kprobe:core.c:7", lines=lines)
    # not in _raw_spin_lock, into which it was inlined as well
    assert [(probe.label, probe.address) for probe in probes] == [
        ("kprobe:bpf_map_put+0x4 (kernel/core.c:7)", BASE + 0x44),
        ("kprobe:bpf_map_put+0x10 (kernel/core.c:7)", BASE + 0x50),
    ]


def test_a_source_line_only_where_nothing_may_be_probed_is_refused(tree: Tree) -> None:
    with pytest.raises(InputError, match="cannot be probed: in '_raw_spin_lock': every spin lock"):
        choose(tree, "kprobe:core.c:7", lines=Lines({("core.c", 7): [BASE + 0x104]}))
    with pytest.raises(InputError, match="the kernel frees its code after boot"):
        choose(tree, "kprobe:core.c:7", lines=Lines({("core.c", 7): [BASE - 0x1000]}))


def test_what_does_not_exist_names_what_does(tree: Tree) -> None:
    for text, message, hint in (
        (
            "kprobe:bpf_map_putt",
            "no kernel function has the name 'bpf_map_putt'",
            "did you mean bpf_map_put or bpf_map_new_fd?",
        ),
        ("kprobe:x*y", "matches no traceable kernel function", None),
        ("kprobe:some_data", "'some_data' is data, or code that is freed after boot", None),
        (
            "kprobe:bpf_map_put+0x40",
            "'bpf_map_put' has only 64 (0x40) bytes",
            "give an offset below 0x40",
        ),
        (
            "tp:sched:switch",
            "there is no tracepoint 'switch' in 'sched'",
            "did you mean tp:sched:sched_switch?",
        ),
        (
            "tp:shed:sched_switch",
            "no tracepoints in category 'shed'",
            "did you mean tp:sched:sched_switch?",
        ),
        (
            "tp:syscall:x",
            "no tracepoints in category 'syscall'",
            "did you mean tp:syscalls:...?",
        ),
        ("rawtp:swich", "'swich' is no raw tracepoint", "its module may not be loaded"),
        (
            "rawtp:sched_swich",
            "'sched_swich' is no raw tracepoint",
            "did you mean rawtp:sched_switch?",
        ),
    ):
        assert refusal(tree, text) == (
            f"-J {text}{'' if message.startswith('matches') else ':'} {message}",
            hint,
        )


def test_what_must_not_be_probed_says_why(tree: Tree) -> None:
    assert (
        "'_raw_spin_lock' cannot be probed: every spin" in refusal(tree, "kprobe:_raw_spin_lock")[0]
    )
    assert "matches only functions that cannot be probed" in refusal(tree, "kprobe:_raw_*")[0]
    assert "'do_exit' cannot be probed: it never returns" in refusal(tree, "kretprobe:do_exit")[0]
    assert labels(tree, "kprobe:do_exit") == ["kprobe:do_exit+0x0"]
    tree.blacklist((BASE + 0x44, BASE + 0x48))
    assert "in the kernel's kprobe blacklist" in refusal(tree, "kprobe:bpf_map_put+4")[0]
    assert labels(tree, "kprobe:bpf_map_put") == ["kprobe:bpf_map_put+0x0"]


def test_too_many_probes_are_refused_before_they_are_made(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    names = [f"f{i}" for i in range(MOST_PROBES + 1)]
    lines = [f"{BASE + 16 * i:x} t {name}" for i, name in enumerate(names)]
    tree.kallsyms(*lines, f"{BASE + 16 * len(names):x} T _etext")
    tree.traceable(*names)
    with pytest.raises(UsageError, match=f"matches {MOST_PROBES + 1} functions"):
        choose(tree, "kprobe:*")
    assert len(choose(tree, "kprobe:f?", "kprobe:f??", "kprobe:f0")) == 100
    with pytest.raises(UsageError, match=f"{MOST_PROBES + 1} probes are too many"):
        choose(tree, "kprobe:f??", "kprobe:f?", "kprobe:f???")


def test_a_kernel_without_tracefs_says_so(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.kallsyms(f"{BASE:x} t f")
    with pytest.raises(UnavailableError, match="has no events"):
        choose(tree, "tp:sched:*")
