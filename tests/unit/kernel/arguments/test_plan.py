# SPDX-License-Identifier: BSD-2-Clause
"""What is captured of functions, by what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter

from retsnoop_py.kernel.arguments.model import Role
from retsnoop_py.kernel.arguments.plan import CapturePlan, plan_captures
from retsnoop_py.kernel.arguments.specs import MAX_SPECS, Limits
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType


@pytest.fixture
def known(tmp_path: Path) -> dict[str, int]:
    """The functions of a small kernel below ``tmp_path``, by name."""
    w = BtfWriter()
    number = w.int("int", 4, SIGNED)
    regs = w.struct("pt_regs", 168, [])
    functions = {
        "take": w.func("take", number, [("n", number), ("m", number)]),
        "__x64_sys_take": w.func("__x64_sys_take", number, [("__unused", w.ptr(regs))]),
        "nothing": w.func("nothing", 0),
    }
    w.func("__do_sys_take", number, [("fd", number)])
    path = tmp_path / "sys/kernel/btf/vmlinux"
    path.parent.mkdir(parents=True)
    path.write_bytes(w.bytes())
    arch = tmp_path / "proc/sys/kernel/arch"
    arch.parent.mkdir(parents=True)
    arch.write_text("x86_64\n")
    return functions


def planned(root: Path, known: dict[str, int], *names: str) -> CapturePlan:
    result = ResultType(ResultKind.INT)
    functions = [
        Function(name, 0x1000 * i, 16, FuncFlags(0), result, btf_id=known.get(name))
        for i, name in enumerate(names)
    ]
    return plan_captures(KernelFacts(root), functions, Limits())


@pytest.mark.parametrize(
    ("name", "arguments", "note"),
    [
        ("take", ["n", "m"], ""),
        ("take.llvm.1234567", ["n", "m"], ""),
        ("__x64_sys_take", ["fd"], ""),
        ("nothing", [], ""),
        ("unknown", ["rdi", "rsi", "rdx", "rcx", "r8", "r9"], "registers: no BTF"),
        (
            "take.isra.0",
            ["rdi", "rsi", "rdx", "rcx", "r8", "r9"],
            "registers: a clone of take, its arguments may have moved",
        ),
        (
            "take.constprop.0.isra.0",
            ["rdi", "rsi", "rdx", "rcx", "r8", "r9"],
            "registers: a clone of take, its arguments may have moved",
        ),
    ],
)
def test_by_what_is_known(
    tmp_path: Path, known: dict[str, int], name: str, arguments: list[str], note: str
) -> None:
    (capture,) = planned(tmp_path, known, name).captures
    assert [one.name for one in capture.arguments.arguments] == arguments
    assert capture.arguments.note == note


def test_facts_and_plans_are_in_the_order_of_the_functions(
    tmp_path: Path, known: dict[str, int], object_btf: Btf
) -> None:
    plan = planned(tmp_path, known, "unknown", "nothing", "take")
    told = [len(one.arguments) for one in plan.facts.functions]
    assert told == [6, 0, 2]
    assert [one.role for one in plan.facts.functions[2].arguments] == [Role.VALUE, Role.VALUE]
    assert len(plan.facts.types) == 1
    assert plan.counts == (6, 0, 2)
    packed = plan.packed(object_btf, trampolines=True)
    assert [one[0] for one in packed] == [6, 0, 2, 6, 0, 2]
    assert {len(one) for one in packed} == {8 + MAX_SPECS * 16}
    assert len(plan.packed(object_btf, trampolines=False)) == 3
