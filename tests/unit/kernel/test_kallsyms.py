# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.tree import Tree

from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.kallsyms import Kallsyms, Symbol, require_addresses

BASE = 0xFFFFFFFF81000000


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def name_at(kallsyms: Kallsyms, address: int) -> str | None:
    found = kallsyms.lookup(address)
    return found[0].name if found else None


def test_a_function_ends_where_the_next_symbol_starts(tree: Tree) -> None:
    tree.kallsyms(
        "ffffffff81000000 T _stext",
        "ffffffff81000000 t first",
        "ffffffff81000010 d data",
        "ffffffff81000020 T second",
        "ffffffff81000040 T _etext",
        "ffffffff81000100 t gone_after_boot",
    )
    kallsyms = tree.facts.kallsyms

    assert name_at(kallsyms, BASE - 1) is None
    assert kallsyms.lookup(BASE + 0xF) == (Symbol(BASE, 16, "_stext", None), 15)
    assert name_at(kallsyms, BASE + 0x10) is None
    assert name_at(kallsyms, BASE + 0x20) == "second"
    assert name_at(kallsyms, BASE + 0x3F) == "second"
    assert name_at(kallsyms, BASE + 0x40) is None
    assert name_at(kallsyms, BASE + 0x101) is None
    assert name_at(kallsyms, (1 << 64) - 1) is None
    assert kallsyms.lookup(-1) is None
    assert kallsyms.lookup(1 << 64) is None


def test_the_first_function_of_an_address_names_it(tree: Tree) -> None:
    tree.kallsyms(
        "ffffffff81000000 D table",
        "ffffffff81000000 T strong",
        "ffffffff81000000 W weak",
        "ffffffff81000010 T _etext",
    )
    assert name_at(tree.facts.kallsyms, BASE) == "strong"


def test_padding_before_a_function_is_no_function(tree: Tree) -> None:
    tree.kallsyms(
        "ffffffff81000000 T before",
        "ffffffff81000010 T __pfx_func",
        "ffffffff81000020 T func",
        "ffffffff81000030 T _etext",
    )
    kallsyms = tree.facts.kallsyms

    assert name_at(kallsyms, BASE + 0x18) is None
    assert name_at(kallsyms, BASE + 0x20) == "func"


def test_modules_and_bpf_images_are_found_in_any_order(tree: Tree) -> None:
    tree.modules(("kvm", 0xFFFFFFFFC0200000, 0x1000))
    tree.kallsyms(
        "ffffffff81000000 T core",
        "ffffffff81000010 T _etext",
        "ffffffffc0200800 t late\t[kvm]",
        "ffffffffc0200000 t early\t[kvm]",
        "ffffffffc0100000 t bpf_prog_6deef7357e7b4530_f\t[bpf]",
    )
    kallsyms = tree.facts.kallsyms

    assert kallsyms.lookup(0xFFFFFFFFC02007FF) == (
        Symbol(0xFFFFFFFFC0200000, 0x800, "early", "kvm"),
        2047,
    )
    assert kallsyms.lookup(0xFFFFFFFFC0200FFF) == (
        Symbol(0xFFFFFFFFC0200800, 0x800, "late", "kvm"),
        2047,
    )
    assert kallsyms.lookup(0xFFFFFFFFC0201000) is None
    assert name_at(kallsyms, 0xFFFFFFFFC0100040) == "bpf_prog_6deef7357e7b4530_f"
    assert name_at(kallsyms, 0xFFFFFFFFC0180000) is None


def test_what_was_loaded_meanwhile_is_seen_once_the_list_is_outdated(tree: Tree) -> None:
    core = ("ffffffff81000000 T core", "ffffffff81000010 T _etext")
    tree.kallsyms(*core)
    kallsyms = tree.facts.kallsyms
    tree.kallsyms(
        "ffffffff81000000 T not_read_again",
        "ffffffff81000010 T _etext",
        "ffffffffc0100000 t bpf_trampoline_1\t[bpf]",
    )
    assert name_at(kallsyms, 0xFFFFFFFFC0100001) is None

    kallsyms.outdate()

    assert name_at(kallsyms, BASE) == "core"
    assert name_at(kallsyms, 0xFFFFFFFFC0100001) == "bpf_trampoline_1"
    assert kallsyms.address_of("bpf_trampoline_1", "bpf") == 0xFFFFFFFFC0100000


def test_an_outdated_list_stays_where_the_file_cannot_be_read_any_more(tree: Tree) -> None:
    tree.kallsyms("ffffffff81000000 T core", "ffffffff81000010 T _etext")
    kallsyms = tree.facts.kallsyms
    tree.kallsyms("0000000000000000 T core")
    kallsyms.outdate()

    assert name_at(kallsyms, 0xFFFFFFFFC0100001) is None
    assert name_at(kallsyms, BASE) == "core"


def test_names_are_found_in_vmlinux_first(tree: Tree) -> None:
    tree.kallsyms(
        "0000000000000010 A per_cpu_thing",
        "ffffffffc0200000 t dup\t[kvm]",
        "ffffffffc0300000 t dup",
        "ffffffffc0400000 t dup\t[zram]",
    )
    kallsyms = tree.facts.kallsyms

    assert [s.module for s in kallsyms.named("dup")] == [None, "kvm", "zram"]
    assert [s.address for s in kallsyms.named("dup", "zram")] == [0xFFFFFFFFC0400000]
    assert kallsyms.address_of("dup") == 0xFFFFFFFFC0300000
    assert kallsyms.address_of("dup", "nfs") is None
    assert kallsyms.address_of("per_cpu_thing") is None


def test_data_is_known_as_such(tree: Tree) -> None:
    tree.kallsyms(
        "0000000000000010 A per_cpu_thing",
        "ffffffff81000000 T core",
        "ffffffffc0200000 d list\t[kvm]",
    )
    kallsyms = tree.facts.kallsyms

    assert kallsyms.lists("per_cpu_thing", None)
    assert kallsyms.lists("list", "kvm")
    assert not kallsyms.lists("list", None)
    assert not kallsyms.lists("thing", None)


@pytest.mark.parametrize(
    ("value", "cause", "hint"),
    [
        ("0", "this process lacks CAP_SYSLOG", "run as root, or with CAP_SYSLOG"),
        ("1", "this process lacks CAP_SYSLOG", "run as root, or with CAP_SYSLOG"),
        ("2", "kernel.kptr_restrict is 2", "`sysctl kernel.kptr_restrict=1`"),
        (None, "hides the addresses", "`sysctl kernel.kptr_restrict=1`"),
    ],
)
def test_hidden_addresses_have_their_true_cause_and_what_to_do(
    tree: Tree, value: str | None, cause: str, hint: str
) -> None:
    """kallsyms_show_value(): 0 and 1 hide them from who lacks CAP_SYSLOG, 2 from everybody."""
    path = tree.kallsyms(
        "0000000000000000 A fixed_percpu_data",
        "0000000000000000 T _stext",
        "0000000000000000 T _etext",
    )
    if value is not None:
        tree.file("proc/sys/kernel/kptr_restrict", f"{value}\n")

    for ask in (lambda: tree.facts.kallsyms, lambda: require_addresses(path)):
        with pytest.raises(PrivilegeError) as caught:
            ask()
        assert cause in caught.value.message
        assert hint in (caught.value.hint or "")


def test_addresses_that_are_shown_are_enough(tree: Tree, tmp_path: Path) -> None:
    path = tree.kallsyms(
        "0000000000000000 A fixed_percpu_data",
        "ffffffff81000000 T _stext",
        "0000000000000000 t nothing",
    )
    require_addresses(path)
    require_addresses(tmp_path / "absent")


@pytest.mark.parametrize("lines", [(), ("nonsense",)])
def test_a_file_without_symbols_is_refused(tree: Tree, lines: tuple[str, ...]) -> None:
    tree.kallsyms(*lines)
    with pytest.raises(UnavailableError, match="lists no symbols"):
        _ = tree.facts.kallsyms


def test_a_missing_file_is_refused(tree: Tree) -> None:
    with pytest.raises(UnavailableError, match="No such file") as caught:
        _ = tree.facts.kallsyms
    assert caught.value.hint


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from("tTWd"), st.sampled_from("abc")),
        min_size=1,
        max_size=20,
    )
)
def test_every_lookup_agrees_with_a_search_of_all_symbols(
    symbols: list[tuple[int, str, str]],
) -> None:
    symbols.sort(key=lambda symbol: symbol[0])  # as those of the kernel itself come
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        tree.kallsyms(
            *(f"{BASE + offset:x} {kind} {name}" for offset, kind, name in symbols),
            f"{BASE + 64:x} T _etext",
        )
        kallsyms = tree.facts.kallsyms
    for probe in range(70):
        starts = [offset for offset, _, _ in symbols if offset <= probe]
        start = max(starts, default=None)
        names = [n for o, k, n in symbols if o == start and k in "tTW"]
        expected = (names[0], probe - start) if names and start is not None and probe < 64 else None
        found = kallsyms.lookup(BASE + probe)
        assert (found and (found[0].name, found[1])) == expected


def test_a_variable_of_the_kernel_is_found_by_its_name(tree: Tree) -> None:
    tree.kallsyms(
        "0000000000012345 A current_kprobe",
        "ffffffff81000000 T core",
        "ffffffff82000000 D my_variable",
        "ffffffff82000010 d variable\t[veth]",
        "ffffffff82000020 D variable",
        "ffffffff82000030 b textbuf.4",
        "ffffffff82000040 b last",
    )
    kallsyms = tree.facts.kallsyms

    assert kallsyms.data_address("current_kprobe") == 0x12345
    assert kallsyms.data_address("textbuf") == 0xFFFFFFFF82000030
    assert kallsyms.data_address("last") == 0xFFFFFFFF82000040
    assert kallsyms.data_address("variable") == 0xFFFFFFFF82000020
    assert kallsyms.data_address("able") is None


def test_a_kprobe_event_is_told_a_place_from_the_beginning_of_the_kernel(tree: Tree) -> None:
    tree.kallsyms(
        "ffffffff81000000 T _text",
        "ffffffff81000040 T _stext",
        "ffffffff81000100 t func",
        "ffffffff82000000 T _etext",
        "ffffffffc0200010 t init\t[kvm]",
    )
    places = tree.facts.kallsyms.probe_places([BASE + 0x104, 0xFFFFFFFFC0200010, BASE - 1])
    assert places == [f"_text+{0x104}", f"_text+{0xC0200010 - 0x81000000}", None]


#: As on arm64: a module below the kernel, mapping symbols in it, and no ``_text`` where only
#: functions are listed.
ARM64 = (
    "ffff800010080000 T _stext",
    "ffff800010081000 T vfs_read",
    "ffff800011000000 T _etext",
    "ffff800001200000 t $x\t[veth]",
    "ffff800001200000 t veth_open\t[veth]",
    "ffff800001200040 t $d\t[veth]",
    "ffff800001200048 t $x\t[veth]",
    "ffff800001200100 t twin\t[veth]",
    "ffff800001200140 t twin\t[veth]",
    "ffff800001300000 t twin\t[dummy]",
)


def test_an_event_is_told_what_lies_below_the_kernel_by_a_symbol_of_its_module(tree: Tree) -> None:
    tree.kallsyms(*ARM64)
    kallsyms = tree.facts.kallsyms
    modules = 0xFFFF800001200000

    assert kallsyms.probe_places([0xFFFF800010081000]) == [f"_stext+{0x1000}"]
    assert kallsyms.probe_places([modules, modules + 8]) == ["veth:veth_open+0", "veth:veth_open+8"]
    # which of two functions of one name the kernel would take nobody can tell
    assert kallsyms.probe_places([modules + 0x140]) == [f"veth:veth_open+{0x140}"]
    assert kallsyms.probe_places([modules + 0x100000]) == ["dummy:twin+0"]
    assert kallsyms.probe_places([modules - 4]) == [None]


def test_only_namesakes_leave_no_symbol_to_count_from(tree: Tree) -> None:
    tree.kallsyms(*ARM64[:3], *ARM64[7:])
    assert tree.facts.kallsyms.probe_places([0xFFFF800001200140]) == [None]


def test_mapping_symbols_are_no_functions_and_end_none(tree: Tree) -> None:
    tree.modules(("veth", 0xFFFF800001200000, 0x1000))
    tree.kallsyms(*ARM64)
    kallsyms = tree.facts.kallsyms

    assert kallsyms.named("$x") == kallsyms.named("$d") == []
    assert kallsyms.lookup(0xFFFF800001200050) == (
        Symbol(0xFFFF800001200000, 0x100, "veth_open", "veth"),
        0x50,
    )
