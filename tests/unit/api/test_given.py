# SPDX-License-Identifier: BSD-2-Clause
"""Which operands of a condition are arguments of the system call, on functions compiled here."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.path import test_passed
from tests.unit.path.measured import types_of
from tests.unit.path.test_decide import FLAGS, OWN_FLAGS, Built
from tests.unit.path.test_deduce import graph_of

from retsnoop_py.api import given
from retsnoop_py.api.deducing import Functions
from retsnoop_py.api.given import given_operands
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.model import session as to
from retsnoop_py.model.why import GivenOperand
from retsnoop_py.path.analysis import FunctionPaths
from retsnoop_py.path.insn import Flow
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.names import Namer

CHAIN = ("__x64_sys_given", "middle", "deep")
EINVAL = to.Result("0xffffffea", "-EINVAL", -22, "EINVAL")
#: The system call's parameters: offset in its argument, name, type.
PARAMETERS = [(0, "flags", 0), (8, "uattr", 0), (16, "size", 0)]


@pytest.fixture(scope="module", params=["-O2", "-Os"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    machine, binary = machine_named("x86_64"), tmp_path_factory.mktemp("given") / "cases"
    own = (*FLAGS, *OWN_FLAGS[machine.name], request.param, "-Wl,-e,same")
    argv = [f"{machine.name}-linux-gnu-gcc", *own, "-Wall", "-Werror"]
    subprocess.run([*argv, "-o", str(binary), str(test_passed.SOURCE)], check=True)
    return Built(machine, binary)


#: The recorded arguments of functions: addresses, and one in a struct of only a pointer.
RECORDED = {
    "reads": (
        to.Argument("user", "&7", 7, "const int *"),
        to.Argument("at", "{.user=0x5000}", {"user": "0x5000"}, "sockptr_t"),
    ),
    "takes": (
        to.Argument("number", "7", 7, "int"),
        to.Argument("at", "0x5000", "0x5000", "void *"),
    ),
}


def stack_of(
    built: Built, chain: tuple[str, ...] = CHAIN, frameless: tuple[str, ...] = ()
) -> list[to.StackEntry]:
    """The kernel's stack when the innermost function of ``chain`` has returned an error.

    The stack lacks the frames of the functions ``frameless``, as if they had jumped.
    """
    names = {start: symbol for symbol, (start, _) in built.symbols.items()}
    rows = []
    for seq, (name, callee) in enumerate(zip(chain, (*chain[1:], ""), strict=True), 1):
        insns = [one for block in graph_of(built, name).blocks for one in block.insns]
        ends = [one.end for one in insns if one.flow is Flow.CALL and names[one.target] == callee]
        frame = to.Frame(hex(ends[0]), name) if ends else None
        recorded = RECORDED.get(name)
        call = to.Call(to.Func(name, "0x1"), seq, EINVAL, 1, arguments=recorded)
        rows.append(to.StackEntry(call, None if name in frameless else frame))
    return rows


def asked(
    built: Built,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    *names: str,
    without: str | None = None,
    chain: tuple[str, ...] = CHAIN,
    frameless: tuple[str, ...] = (),
) -> Any:
    """The answer for operands ``names`` in ``function``; without the code of ``without``."""
    stack = stack_of(built, chain, frameless)
    btf = types_of(test_passed.SOURCE, built.binary.parent)
    facts: Any = SimpleNamespace(btf=btf, root=Path("/nowhere"), machine="x86_64")
    symbols = {start: symbol for symbol, (start, _) in built.symbols.items()}

    def paths_of(_self: object, name: str) -> FunctionPaths:
        if name == without:
            raise UnavailableError(name)
        result = ResultType(ResultKind.INT)
        own = btf.find(name, Kind.FUNC)
        function = Function(name, built.symbols[name][0], 64, FuncFlags(0), result, btf_id=own)
        namer = Namer(facts, function, symbols.get, built.machine)
        return FunctionPaths(function, graph_of(built, name), namer)

    monkeypatch.setattr(Functions, "paths", paths_of)
    monkeypatch.setattr(given, "syscall_parameters", lambda *_: PARAMETERS)
    monkeypatch.setattr(given, "Kcore", lambda _path: nullcontext())
    operands = tuple(to.ConditionOperand(one, 0) for one in names)
    decided = to.Decision(to.CodePlace("0x5", 5, ""), "x == 0", True, operands)
    origin = to.Origin(to.Func(function, "0x1"), 3, EINVAL, "constant", decided=decided)
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, stack=stack)
    return given_operands(facts, session, origin)


def test_an_operand_is_followed_over_each_call(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(built, monkeypatch, "deep", "own->first[1]", "own->next", "mask", "at", "sink")
    assert found == (
        GivenOperand("own->next", 2, "uattr", member=True),
        GivenOperand("mask", 1, "flags"),
        GivenOperand("at", 3, "size"),
    )
    assert asked(
        built, monkeypatch, "deep", "mask & ~0xf0", "~mask", "own->next & 7", "mask + 1"
    ) == (
        GivenOperand("mask", 1, "flags"),
        GivenOperand("own->next", 2, "uattr", member=True),
    )
    assert asked(built, monkeypatch, "middle", "last", "own", "user->next", "size") == (
        GivenOperand("user->next", 2, "uattr", member=True),
        GivenOperand("size", 3, "size"),
    )


def test_a_number_that_the_kernel_reads_without_a_call_is_data_of_the_argument(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = ("__x64_sys_read", "reads", "takes")
    found = asked(built, monkeypatch, "takes", "number", "at", chain=chain)
    assert found == (
        GivenOperand("number", 2, "uattr", member=True),
        GivenOperand("at", 3, "size"),
    )


def test_another_recorded_address_is_another_argument(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that is not on the stack, between the two, may have passed another one."""
    chain = ("__x64_sys_read", "reads", "takes")
    expected = (GivenOperand("*at", 3, "size", member=True),)
    assert asked(built, monkeypatch, "takes", "*at", chain=chain) == expected
    other = to.Argument("at", "{.user=0x6000}", {"user": "0x6000"}, "sockptr_t")
    monkeypatch.setitem(RECORDED, "reads", (RECORDED["reads"][0], other))
    assert asked(built, monkeypatch, "takes", "*at", chain=chain) == ()


def test_a_function_that_is_jumped_to_has_arguments_too(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(built, "__x64_sys_jump")
    assert not [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    found = asked(built, monkeypatch, "takes", "number", "at", chain=("__x64_sys_jump", "takes"))
    assert found == (GivenOperand("number", 1, "flags"), GivenOperand("at", 3, "size"))


def test_the_same_recorded_address_is_the_same_argument(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = ("__x64_sys_read", "reads", "takes")
    found = asked(
        built, monkeypatch, "takes", "*at", "at", "number", chain=chain, frameless=("reads",)
    )
    assert found == (GivenOperand("*at", 3, "size", member=True),)


def test_in_its_own_function_the_operand_has_the_name(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(built, monkeypatch, CHAIN[0], "flags", "uattr->next", "nothing")
    assert found == (
        GivenOperand("flags", 1, "flags"),
        GivenOperand("uattr->next", 2, "uattr", member=True),
    )


@pytest.mark.parametrize(
    ("operand", "recorded", "is_kept"),
    [
        (to.ConditionOperand("mask", 5), (to.Argument("flags", "5", 5, "int"),), True),
        (to.ConditionOperand("mask", 4), (to.Argument("flags", "5", 5, "int"),), False),
        (to.ConditionOperand("mask", 4), (), True),
        (to.ConditionOperand("mask", None), (to.Argument("flags", "5", 5, "int"),), True),
        (to.ConditionOperand("mask", 4), (to.Argument("flags", "&7", 7, "int *"),), True),
        (to.ConditionOperand("mask & ~0xf0", 5), (to.Argument("flags", "21", 21, "int"),), True),
        (to.ConditionOperand("mask & ~0xf0", 4), (to.Argument("flags", "21", 21, "int"),), False),
        (to.ConditionOperand("mask & 0x14", 4), (to.Argument("flags", "5", 5, "int"),), True),
        (to.ConditionOperand("~mask", -6), (to.Argument("flags", "5", 5, "int"),), True),
        (to.ConditionOperand("~mask", 5), (to.Argument("flags", "5", 5, "int"),), False),
    ],
)
def test_a_value_that_the_kernel_changed_is_not_the_argument(
    operand: to.ConditionOperand, recorded: tuple[to.Argument, ...], is_kept: bool
) -> None:
    assert given._fits(GivenOperand("mask", 1, "flags"), operand, recorded) == is_kept
    member = GivenOperand("attr->flags", 1, "attr", member=True)
    passed = (to.Argument("attr", "&{...}", {"flags": 5}, "struct attr *"),)
    changed = to.ConditionOperand("attr->flags", 4)
    assert not given._fits(member, changed, passed)
    assert given._fits(member, to.ConditionOperand("attr->flags", 5), passed)
    assert given._fits(member, to.ConditionOperand("attr->size", 4), passed)


def test_code_that_cannot_be_read_gives_nothing(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(built, monkeypatch, "deep", "mask", without="middle") == ()


def test_a_function_that_is_not_on_the_stack_has_no_callers(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(built, monkeypatch, "inner", "flags") == ()
