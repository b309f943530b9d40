# SPDX-License-Identifier: BSD-2-Clause
"""What BTF and the symbol list say against a trampoline, before the kernel is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter

from retsnoop_py.attach.fitness import KernelFitness
from retsnoop_py.attach.trampoline import Signature, SignatureFlags, read_signatures
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.mechanism import Mechanism

BASE = 0xFFFFFFFF81000000
#: Name, and how many symbols have it.
ONCE = ("plain", "printf", "pair", "huge", "wide", "many", "damaged")
SYMBOLS = dict.fromkeys(ONCE, 1) | {"twin": 2}


def write_btf(home: Path) -> None:
    btf = BtfWriter()
    integer = btf.int("int", 4, SIGNED)
    pointer = btf.ptr(integer)
    pair = btf.struct("pair", 16, [("a", pointer, 0), ("b", pointer, 64)])
    alias = btf.add(Kind.TYPEDEF, "pair_t", btf.add(Kind.CONST, "", pair))
    huge = btf.struct("huge", 24, [])
    btf.func("plain", integer, [("a", integer), ("b", pointer)])
    btf.func("printf", 0, [("format", pointer), ("", 0)])
    btf.func("pair", pair, [])
    btf.func("huge", 0, [("h", huge)])
    btf.func("wide", pointer, [("p", alias), ("c", integer)])
    btf.func("many", integer, [(f"a{i}", integer) for i in range(13)])
    btf.func("damaged", integer, [(f"a{i}", pair) for i in range(256)])
    btf.func("twin", integer)
    (home / "sys/kernel/btf").mkdir(parents=True)
    (home / "sys/kernel/btf/vmlinux").write_bytes(btf.bytes())


@pytest.fixture
def facts(tmp_path: Path) -> KernelFacts:
    write_btf(tmp_path)
    names = [name for name, count in SYMBOLS.items() for _ in range(count)]
    lines = [f"{BASE:x} T _stext", *(f"{BASE + 16 * i:x} t {name}" for i, name in enumerate(names))]
    lines += [f"{BASE + 0x1000:x} t plain\t[veth]", f"{BASE + 0x2000:x} d plainly"]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/kallsyms").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "proc/modules").write_text("")
    return KernelFacts(tmp_path)


def function(facts: KernelFacts, name: str, module: str | None = None) -> Function:
    btf_id = facts.require_btf().find(name, Kind.FUNC)
    address = BASE + 16 * list(SYMBOLS).index(name) if name in SYMBOLS else BASE + 0x800
    result = ResultType(ResultKind.INT)
    return Function(name, address, 16, FuncFlags(0), result, module, btf_id)


def signature(facts: KernelFacts, name: str) -> Signature:
    one = function(facts, name)
    return read_signatures(facts, [one])[one.address]


def test_signatures_count_parameters_slots_and_symbols_of_the_name(facts: KernelFacts) -> None:
    assert signature(facts, "plain") == Signature(2, 2, 0, 4, 1)
    assert signature(facts, "wide") == Signature(2, 3, 0, 8, 1)
    assert signature(facts, "printf") == Signature(
        1, 1, SignatureFlags.VARIADIC | SignatureFlags.VOID, 0, 1
    )
    assert signature(facts, "pair").flags == SignatureFlags.STRUCT_RESULT
    assert signature(facts, "huge").flags == SignatureFlags.LARGE_PARAM | SignatureFlags.VOID
    assert signature(facts, "damaged")[:2] == (255, 255), "not 0 after 256 parameters"
    assert signature(facts, "twin").namesakes == 2


def test_a_modules_function_has_types_of_the_kernels_btf(facts: KernelFacts) -> None:
    base = BtfWriter()
    integer = base.int("int", 4, SIGNED)
    split = BtfWriter(base)
    split.func("plain", integer, [("a", integer)])
    vmlinux = Btf(base.bytes())
    facts.btf = vmlinux
    facts._module_btf["veth"] = Btf(split.bytes(), vmlinux)
    btf_id = facts._module_btf["veth"].functions(["plain"])["plain"]
    one = Function("plain", 1, 1, FuncFlags(0), ResultType(ResultKind.INT), "veth", btf_id)
    assert read_signatures(facts, [one]) == {1: Signature(1, 1, 0, 4, 1)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("printf", "variable number"),
        ("pair", "returns a struct"),
        ("huge", "more than 16 bytes"),
        ("many", "up to 12"),
        ("damaged", "up to 12"),
        ("twin", "2 symbols of this name"),
        ("unknown", "BTF does not contain"),
    ],
)
@pytest.mark.parametrize("mechanism", [Mechanism.FSESSION_MULTI, Mechanism.FENTRY])
def test_what_trampolines_cannot_take_is_known(
    mechanism: Mechanism, name: str, words: str, facts: KernelFacts
) -> None:
    one = function(facts, name)
    fitness = KernelFitness(facts, [one])
    assert words in fitness.unfit(mechanism, [0])[0]
    assert fitness.unfit(Mechanism.KPROBE_SESSION, [0]) == {}


@pytest.mark.parametrize("name", ["plain", "wide"])
def test_ordinary_functions_are_fit(name: str, facts: KernelFacts) -> None:
    one = function(facts, name)
    fitness = KernelFitness(facts, [one])
    assert not any(fitness.unfit(mechanism, [0]) for mechanism in Mechanism)


def test_modules_are_not_for_fsession_multi(facts: KernelFacts) -> None:
    one = function(facts, "plain", "veth")
    assert "module" in KernelFitness(facts, [one]).unfit(Mechanism.FSESSION_MULTI, [0])[0]


def test_events_leave_what_has_no_symbol_of_its_own_to_single_kprobes(facts: KernelFacts) -> None:
    lines = ("_stext", "func"), ("twin\t[veth]", "twin\t[veth]")
    text = "".join(
        f"{base + 16 * i:x} t {name}\n"
        for base, names in zip((BASE, BASE - 0x1000), lines, strict=True)
        for i, name in enumerate(names)
    )
    (facts.root / "proc/kallsyms").write_text(text)
    result = ResultType(ResultKind.INT)
    inside, below = (
        Function("twin", address, 16, FuncFlags(0), result, "veth", None)
        for address in (BASE + 16, BASE - 0x1000)
    )
    fitness = KernelFitness(facts, [inside, below])
    reasons = fitness.unfit(Mechanism.KPROBE_EVENTS, [0, 1])
    assert reasons.keys() == {1}
    assert "no unique symbol" in reasons[1]
    assert fitness.unfit(Mechanism.KPROBE, [1]) == {}
