# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter
from tests.unit.selection.kernels import BASE, MODULES, Kernel, btf, labels, reasons

from retsnoop_py.errors import InputError, UnavailableError, UsageError
from retsnoop_py.kernel.functions import FuncFlags, ResultKind
from retsnoop_py.selection.model import GlobCount, Reason, Role, TypeSource
from retsnoop_py.selection.select import merge_ranges


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


@pytest.fixture
def old_kernel(tmp_path: Path) -> Kernel:
    """One whose list of traceable functions has no addresses."""
    return Kernel(tmp_path, addrs=False)


def test_entry_globs_choose_and_mark_and_allow_globs_choose(kernel: Kernel) -> None:
    for name in ("array_map_alloc", "other", "__sys_bpf", "__x64_sys_bpf"):
        kernel.add(name)

    selection = kernel.select(entry=["*sys_bpf"], allow=["array_*", "__sys_*"])

    assert labels(selection) == ["array_map_alloc", "__sys_bpf", "__x64_sys_bpf"]
    assert [f.is_entry for f in selection.functions] == [False, True, True]
    assert [f.address for f in selection.functions] == [BASE, BASE + 0x20, BASE + 0x30]
    assert {f.size for f in selection.functions} == {0x10}
    assert (selection.discovered, selection.matched, selection.unique) == (4, 3, 3)


def test_types_come_from_btf(kernel: Kernel) -> None:
    kernel.tree.btf(btf())
    for name in ("__sys_bpf", "array_map_alloc", "helper", "helper.constprop.0", "unknown"):
        kernel.add(name)

    functions = {f.name: f for f in kernel.select(entry=["*"]).functions}

    assert functions["__sys_bpf"].prototype == "int __sys_bpf(int cmd)"
    assert functions["__sys_bpf"].flags == FuncFlags.ENTRY | FuncFlags.SIGN32
    assert functions["array_map_alloc"].flags == FuncFlags.ENTRY | FuncFlags.PTR
    assert functions["array_map_alloc"].result.name == "struct bpf_map *"
    # other parameters than its origin, hence no id and no prototype, but the same result
    variant = functions["helper.constprop.0"]
    assert (variant.btf_id, variant.prototype) == (None, None)
    assert variant.flags == FuncFlags.ENTRY | FuncFlags.CANT_FAIL
    assert functions["unknown"].result.kind is ResultKind.UNKNOWN
    guessed = FuncFlags.SIGN32 | FuncFlags.GUESSED
    assert functions["unknown"].flags == FuncFlags.ENTRY | guessed


def test_functions_whose_result_tells_nothing_can_be_left_out(kernel: Kernel) -> None:
    kernel.tree.btf(btf())
    for name in ("__sys_bpf", "array_map_alloc", "helper", "helper.constprop.0", "unknown"):
        kernel.add(name)

    selection = kernel.select(entry=["__sys_bpf"], allow=["*"], telling=True)
    entries = kernel.select(entry=["helper"], allow=["*"], telling=True)

    assert labels(selection) == ["__sys_bpf", "array_map_alloc", "unknown"]
    assert "helper" in labels(entries)


def test_a_kernel_without_btf_can_be_selected_from(kernel: Kernel) -> None:
    kernel.add("f")
    selection = kernel.select(entry=["f"])

    assert selection.functions[0].result.kind is ResultKind.UNKNOWN
    assert selection.types == (TypeSource(None, False),)


def test_deny_globs_win(kernel: Kernel) -> None:
    for name in ("f_one", "f_two", "g"):
        kernel.add(name)

    selection = kernel.select(entry=["f_*"], allow=["g"], deny=["*_two", "g"])

    assert labels(selection) == ["f_one"]
    assert reasons(selection) == {
        "f_two": "denied by your glob: '*_two'",
        "g": "denied by your glob: 'g'",
    }


def test_what_is_never_traced_says_why(kernel: Kernel) -> None:
    for name in ("do_exit", "bpf_ktime_get_ns", "default_idle", "f"):
        kernel.add(name)

    selection = kernel.select(entry=["*"])

    never = "retsnoop-py never traces it"
    assert labels(selection) == ["f"]
    assert reasons(selection) == {
        "do_exit": f"{never}: it never returns, so its result would never be seen",
        "bpf_ktime_get_ns": f"{never}: our own BPF programs call it for every event",
        "default_idle": f"{never}: it belongs to the idle loop, where tracing has crashed kernels",
    }


def test_a_preset_brings_all_three_kinds_of_globs(kernel: Kernel) -> None:
    for name in ("__sys_bpf", "map_create", "find_vma_prev", "bpf_lsm_bpf", "other", "mine"):
        kernel.add(name)

    selection = kernel.select(presets=["bpf"], allow=["mine", "find_vma*"])

    assert labels(selection) == ["__sys_bpf", "map_create", "mine"]
    assert reasons(selection) == {
        "find_vma_prev": "denied by the preset: bpf, 'find_vma*'",
        "bpf_lsm_bpf": "denied by the preset: bpf, 'bpf_lsm_*'",
    }


def test_matching_functions_without_a_trace_point_are_told(kernel: Kernel) -> None:
    kernel.add("f")
    kernel.add("f.cold", traceable=False)
    kernel.add("f_asm", traceable=False)
    kernel.add("__pfx_f", traceable=False)
    kernel.add("g_asm", traceable=False)

    none = "the kernel has no trace point in it"
    assert reasons(kernel.select(entry=["*f*"])) == {
        "f.cold": f"{none}: it is the unlikely part of another function",
        "f_asm": none,
    }


def test_blacklisted_functions_are_left_out(kernel: Kernel) -> None:
    kernel.add("f")
    address = kernel.add("f_int3")
    kernel.tree.blacklist((address, address + 0x10))

    selection = kernel.select(entry=["f*"])

    assert labels(selection) == ["f"]
    assert reasons(selection) == {"f_int3": "in the kernel's kprobe blacklist"}


def test_a_blacklist_with_hidden_addresses_covers_nothing(kernel: Kernel) -> None:
    kernel.add("f")
    kernel.tree.blacklist((0, 0))
    assert labels(kernel.select(entry=["f"])) == ["f"]


def test_with_addresses_only_the_traceable_one_of_a_name_is_taken(kernel: Kernel) -> None:
    kernel.add("t_start", traceable=False)
    address = kernel.add("t_start")
    kernel.add("t_start", traceable=False)

    selection = kernel.select(entry=["t_start"])

    assert [f.address for f in selection.functions] == [address]


def test_without_addresses_all_of_a_name_are_taken_if_all_are_listed(old_kernel: Kernel) -> None:
    old_kernel.add("t_start")
    old_kernel.add("f")
    old_kernel.add("t_start")

    assert [f.address for f in old_kernel.select(entry=["t_start"]).functions] == [
        BASE,
        BASE + 0x20,
    ]


def test_without_addresses_unequal_numbers_are_ambiguous(old_kernel: Kernel) -> None:
    old_kernel.add("f")
    old_kernel.add("s_next")
    old_kernel.add("s_next", traceable=False)

    selection = old_kernel.select(entry=["f"], allow=["s_next"])

    assert labels(selection) == ["f"]
    assert [r.reason for r in selection.rejections] == [Reason.AMBIGUOUS] * 2


def test_a_single_symbol_is_not_ambiguous_however_often_listed(old_kernel: Kernel) -> None:
    old_kernel.add("do_one_initcall")
    old_kernel.list_again("do_one_initcall")

    assert labels(old_kernel.select(entry=["do_one_initcall"])) == ["do_one_initcall"]


@pytest.mark.parametrize("addrs", [True, False])
def test_functions_of_one_name_in_different_modules_stay_apart(tmp_path: Path, addrs: bool) -> None:
    kernel = Kernel(tmp_path, addrs=addrs)
    kernel.add("init")
    kernel.add("init", "kvm")
    kernel.add("init", "zram", traceable=False)
    kernel.add("init", "nfs")

    assert labels(kernel.select(entry=["init"])) == ["init", "init [kvm]", "init [nfs]"]
    assert labels(kernel.select(entry=["init[kvm]"])) == ["init [kvm]"]
    assert labels(kernel.select(entry=["init [*v*]"])) == ["init [kvm]"]
    assert labels(kernel.select(entry=["*"], deny=["*[kvm]"])) == ["init", "init [nfs]"]


def test_module_functions_have_the_types_of_their_module(kernel: Kernel) -> None:
    vmlinux = BtfWriter()
    number = vmlinux.int("int", 4, SIGNED)
    vmlinux.func("init", 0)
    module = BtfWriter(vmlinux)
    module.func("init", number, [("n", number)])
    kernel.tree.btf(vmlinux.bytes())
    kernel.tree.btf(module.bytes(), "kvm")
    kernel.add("init")
    kernel.add("init", "kvm")
    kernel.add("init", "nfs")

    selection = kernel.select(entry=["init"])

    assert [f.prototype for f in selection.functions] == [
        "void init(void)",
        "int init(int n)",
        None,
    ]
    assert selection.types == (
        TypeSource(None, True),
        TypeSource("kvm", True),
        TypeSource("nfs", False),
    )


# -- source paths --


def test_a_path_takes_the_functions_whose_code_it_holds(kernel: Kernel) -> None:
    kernel.add("helper")  # of another file
    first = kernel.add("map_create")
    kernel.add("helper")
    kernel.add("map_copy.isra.0")
    last = kernel.add("map_asm", traceable=False)
    kernel.add("beyond")
    kernel.units.files["kernel/bpf/syscall.c"] = [(first, first + 0x20), (first + 0x20, last + 16)]

    selection = kernel.select(entry=["map_create"], allow=[":kernel/bpf/syscall.c"])

    assert labels(selection) == ["map_create", "helper", "map_copy.isra.0"]
    assert [f.address for f in selection.functions] == [BASE + 0x10, BASE + 0x20, BASE + 0x30]
    assert reasons(selection) == {"map_asm": "the kernel has no trace point in it"}
    assert GlobCount(":kernel/bpf/syscall.c", Role.ALLOW, "-a", 3, 1) in selection.globs


def test_a_file_that_another_one_includes_takes_its_functions(kernel: Kernel) -> None:
    first, other = kernel.add("of_deadline"), kernel.add("of_policy")
    kernel.units.files["kernel/sched/build_policy.c"] = [(first, other + 0x10)]
    kernel.units.included["kernel/sched/deadline.c"] = [first]

    selection = kernel.select(entry=["of_policy"], allow=[":kernel/sched/deadline.c"])

    assert labels(selection) == ["of_deadline", "of_policy"]
    assert GlobCount(":kernel/sched/deadline.c", Role.ALLOW, "-a", 1, 0) in selection.globs


def test_a_path_can_mark_entries_and_deny(kernel: Kernel) -> None:
    first = kernel.add("one")
    second = kernel.add("two")
    kernel.units.files = {"a.c": [(first, second + 16)], "b.c": [(second, second + 16)]}

    selection = kernel.select(entry=[":a.c", ":absent.c"], deny=[":b.c"])

    assert labels(selection) == ["one"]
    assert selection.functions[0].is_entry
    assert reasons(selection) == {"two": "denied by your glob: ':b.c'"}


def test_only_paths_that_hold_nothing_are_an_error(kernel: Kernel) -> None:
    kernel.add("one")
    kernel.units.files = {"a.c": [(0, 0), (0x1000, 0x2000)]}

    with pytest.raises(InputError, match=r"no traceable function comes from ':a.c'"):
        kernel.select(entry=[":a.c"])


def test_a_path_needs_debug_information(kernel: Kernel) -> None:
    kernel.add("one")
    with pytest.raises(UnavailableError, match="debug information") as caught:
        kernel.select(entry=[":a.c"])
    assert "-k" in (caught.value.hint or "")


def test_ranges_that_touch_are_merged() -> None:
    assert merge_ranges([(5, 7), (1, 3), (3, 4), (6, 6), (6, 9), (0, 0)]) == [(1, 4), (5, 9)]


# -- entry globs that find nothing --


def fails(kernel: Kernel, *entry: str) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        kernel.select(entry=entry)
    return caught.value.message, caught.value.hint or ""


def test_no_entry_glob_is_a_usage_error(kernel: Kernel) -> None:
    with pytest.raises(UsageError, match="no entry functions") as caught:
        kernel.select(allow=["f"])
    assert "-c bpf" in (caught.value.hint or "")


def test_every_entry_glob_must_find_something(kernel: Kernel) -> None:
    kernel.add("found")
    assert "entry glob 'xyz*' matches no kernel function" in fails(kernel, "found", "xyz*")[0]


def test_an_entry_that_is_refused_says_why(kernel: Kernel) -> None:
    kernel.add("do_exit")
    kernel.add("asm_only", traceable=False)

    assert "do_exit: retsnoop-py never traces it: it never returns" in fails(kernel, "do_exit")[0]
    assert "asm_only: the kernel has no trace point in it" in fails(kernel, "asm_*")[0]


def test_a_variant_the_compiler_made_is_suggested(kernel: Kernel) -> None:
    kernel.add("map_copy.isra.0")
    kernel.add("map_copy_other")

    assert fails(kernel, "map_copy") == (
        "entry glob 'map_copy' matches no kernel function",
        "did you mean map_copy.isra.0?",
    )


@pytest.mark.parametrize(
    ("typed", "meant"), [("sys_bpf", "__x64_sys_bpf"), ("__x64_sys_bfp", "__x64_sys_bpf")]
)
def test_near_names_are_suggested(kernel: Kernel, typed: str, meant: str) -> None:
    for name in ("__x64_sys_bpf", "vfs_read", "do_filp_open"):
        kernel.add(name)
    assert meant in fails(kernel, typed)[1]


def test_a_module_that_is_not_loaded_is_named(kernel: Kernel) -> None:
    kernel.add("f", "kvm")
    kernel.tree.modules(("kvm", MODULES, 0x1000))

    assert fails(kernel, "f[zram]") == (
        "entry glob 'f [zram]': module 'zram' is not loaded",
        "run `modprobe zram`",
    )
    assert "matches no kernel function" in fails(kernel, "g[kvm]")[0]


def test_a_glob_the_shell_expanded_is_recognised(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.add("ovl_open")
    (tmp_path / "ovl_notes.txt").touch()
    monkeypatch.chdir(tmp_path)

    message, hint = fails(kernel, "ovl_notes.txt")

    assert "matches no kernel function" in message
    assert "did the shell expand a glob?" in hint


def test_data_is_no_function(kernel: Kernel) -> None:
    kernel.add("f")
    assert "'some_data' is data" in fails(kernel, "some_data")[0]


def test_the_perf_preset_follows_callees_where_its_entries_have_no_trace_points(
    kernel: Kernel,
) -> None:
    kernel.add("__x64_sys_perf_event_open", traceable=False)
    kernel.add("security_perf_event_open")
    kernel.add("hw_breakpoint_event_init")
    found = kernel.select(presets=["perf"])

    entries = [function.name for function in found.functions if function.is_entry]
    assert entries == ["security_perf_event_open", "hw_breakpoint_event_init"]


def test_the_perf_preset_enters_at_the_system_call_where_it_can(kernel: Kernel) -> None:
    kernel.add("__x64_sys_perf_event_open")
    kernel.add("perf_ioctl")
    kernel.add("security_perf_event_open")
    found = kernel.select(presets=["perf"])

    entries = [function.name for function in found.functions if function.is_entry]
    assert entries == ["__x64_sys_perf_event_open", "perf_ioctl"]
