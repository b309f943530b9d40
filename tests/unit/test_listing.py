# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.selection.kernels import Kernel, btf

from retsnoop_py.attach.plan import AttachPlan, Refusal, RungPlan
from retsnoop_py.errors import InputError
from retsnoop_py.listing import LeftOut, Listed, Listing, advice, build, columns, groups, left_out
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.render.palette import Palette
from retsnoop_py.selection.explain import NoMatch


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    kernel = Kernel(tmp_path)
    kernel.tree.btf(btf())
    kernel.add("__sys_bpf")
    kernel.add("array_map_alloc")
    kernel.add("lonely_one")
    kernel.add("array_map_free.isra.0")
    kernel.add("array_map_gone", traceable=False)
    kernel.add("map_check")
    kernel.add("map_check.constprop.0")
    kernel.add("dummy_map", "dummy")
    kernel.tree.modules(("dummy", 4096, 0xFFFFFFFFC0200000))
    return kernel


def listing(
    kernel: Kernel,
    entry: Sequence[str],
    allow: Sequence[str] = (),
    plan: Sequence[tuple[Mechanism, tuple[int, ...]]] = (),
    unfit: dict[int, str] | None = None,
    **more: Sequence[str],
) -> Listing:
    selection = kernel.select(entry, allow, **more)
    functions = selection.functions
    refused = tuple(Refusal(functions[i], why) for i, why in (unfit or {}).items())
    made = AttachPlan(functions, tuple(RungPlan(*rung) for rung in plan), refused)
    return build(kernel.tree.facts, selection, made if plan else None, None)


def test_each_function_has_its_mechanism_and_prototype(kernel: Kernel) -> None:
    plan = [(Mechanism.KPROBE_SESSION, (0,)), (Mechanism.KPROBE, (1,))]
    made = listing(kernel, ["__sys_bpf"], ["*_alloc"], plan)
    assert [(f.name, f.mechanism, f.prototype, f.entry) for f in made.functions] == [
        ("__sys_bpf", "kprobe.session", "int __sys_bpf(int cmd)", True),
        ("array_map_alloc", "kprobe", "struct bpf_map *array_map_alloc(void)", False),
    ]
    assert made.functions[0].address == "0xffffffff81000000"


def test_without_a_plan_the_mechanism_is_open(kernel: Kernel) -> None:
    (function,) = listing(kernel, ["__sys_bpf"]).functions
    assert function.mechanism is None
    shown = "\n".join(groups(Listing(functions=(function,)), 80, Palette()))
    assert shown.startswith("1 function traced (the mechanism is not known here):")


def test_what_no_mechanism_can_take_is_left_out_with_the_others(kernel: Kernel) -> None:
    plan = [(Mechanism.FENTRY, (0,))]
    made = listing(kernel, ["__sys_bpf"], ["array_map_*"], plan, {1: "too big"}, deny=["*isra*"])
    assert [f.name for f in made.functions] == ["__sys_bpf"]
    assert [(r.name, r.reason, r.text) for r in made.left_out] == [
        ("array_map_alloc", "unfit", "too big"),
        ("array_map_free.isra.0", "denied", "denied by your glob: '*isra*'"),
        ("array_map_gone", "not_traceable", "the kernel has no trace point in it"),
    ]


def test_copies_of_a_function_and_near_names_are_offered(kernel: Kernel) -> None:
    made = listing(kernel, ["__sys_bpf"], ["map_check", "array_map_free", "lonly_one", "zzz"])
    told = list(advice(made))
    assert told == [
        "'map_check' has copies made by the compiler that are not traced: map_check.constprop.0",
        "'array_map_free' matches no kernel function; did you mean array_map_free.isra.0?",
        "'lonly_one' matches no kernel function; did you mean lonely_one?",
        "'zzz' matches no kernel function",
    ]


def test_copies_that_are_chosen_too_are_not_offered(kernel: Kernel) -> None:
    made = listing(kernel, ["__sys_bpf"], ["map_check", "map_check*"])
    assert not made.near


def test_what_is_never_traced_is_not_offered(kernel: Kernel) -> None:
    kernel.add("bpf_get_current_comm")
    made = listing(kernel, ["__sys_bpf"], ["bpf_get_current_com"])
    assert list(advice(made)) == ["'bpf_get_current_com' matches no kernel function"]


def test_what_was_refused_comes_with_the_error(kernel: Kernel) -> None:
    with pytest.raises(NoMatch) as caught:
        kernel.select(["array_map_gone"])
    assert [r.name for r in left_out(caught.value.rejections)] == ["array_map_gone"]


# -- as text --

FUNCTIONS = (
    Listed(
        name="do_it",
        module=None,
        entry=True,
        mechanism="kprobe.multi",
        prototype="int do_it(struct a_rather_long_name *first, const char *second, int third)",
        source="kernel/it.c",
        btf_id=1,
        address="0x1",
        size=16,
    ),
    Listed(
        name="no_prototype",
        module="mod",
        entry=False,
        mechanism="kprobe.multi",
        prototype=None,
        source=None,
        btf_id=None,
        address="0x2",
        size=16,
    ),
)
LEFT_OUT = (
    LeftOut(name="one", module="mod", reason="denied", text="denied by your glob: '*'"),
    LeftOut(name="two", module=None, reason="denied", text="denied by your glob: '*'"),
)
LISTING = Listing(functions=FUNCTIONS, left_out=LEFT_OUT)


def test_a_pipe_gets_six_columns() -> None:
    rows = [line.split("\t") for line in columns(LISTING)]
    assert rows == [
        ["entry", "do_it", "-", "kprobe.multi", "kernel/it.c", FUNCTIONS[0].prototype],
        ["traced", "no_prototype", "mod", "kprobe.multi", "-", "-"],
        ["left-out", "one", "mod", "-", "-", "denied by your glob: '*'"],
        ["left-out", "two", "-", "-", "-", "denied by your glob: '*'"],
    ]


def test_a_terminal_gets_groups_that_fit() -> None:
    shown = list(groups(LISTING, 60, Palette()))
    assert shown == [
        "2 functions traced by kprobe.multi:",
        "  entry  int do_it(struct a_rather_long_name *first, const",
        "         char *second, int third)",
        "         kernel/it.c",
        "         no_prototype (no prototype in BTF) [mod]",
        "",
        "2 functions left out: denied by your glob: '*'",
        "  one [mod], two",
        "",
    ]


def test_entry_functions_come_first_on_a_terminal() -> None:
    shown = list(groups(Listing(functions=FUNCTIONS[::-1]), 120, Palette()))
    assert shown[1].startswith("  entry  int do_it(")
    only = list(groups(Listing(functions=FUNCTIONS[1:]), 120, Palette()))
    assert only[1] == "  no_prototype (no prototype in BTF) [mod]"


def test_names_and_files_stand_out_on_a_terminal() -> None:
    shown = "\n".join(groups(LISTING, 120, Palette(source="2", name="1")))
    assert "entry  int \x1b[1mdo_it\x1b[0m(struct" in shown
    assert "\x1b[1mno_prototype\x1b[0m (no" in shown
    assert "\x1b[2mkernel/it.c\x1b[0m" in shown


def test_json_is_one_document() -> None:
    error = InputError("nothing", "try more")
    document = msgspec.json.decode(LISTING.as_json("6.12", error))
    assert document["kernel"] == "6.12"
    assert document["error"] == {"message": "nothing", "hint": "try more"}
    assert [f["name"] for f in document["functions"]] == [f.name for f in FUNCTIONS]
    assert document["left_out"][0] == {
        "name": "one",
        "module": "mod",
        "reason": "denied",
        "text": "denied by your glob: '*'",
    }
