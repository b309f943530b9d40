# SPDX-License-Identifier: BSD-2-Clause
"""Which of its arguments a function passes on, of functions compiled here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.unit.path.test_decide import FLAGS, OWN_FLAGS, Built
from tests.unit.path.test_deduce import graph_of

from retsnoop_py.path.insn import Flow, Insn, Machine, Mem, user_copy
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.passed import Copied, FromUser, Own, call_before, passed
from retsnoop_py.path.values import State, apply

SOURCE = Path(__file__).with_name("passed.c")
#: By caller of inner(): its four arguments.
CASES = {
    "same": (Own(0), Own(1), Own(2), None),
    "turned": (Own(2), Own(1), Own(0), None),
    "kept_over_a_call": (Own(0), Own(1), Own(2), Own(4)),
    "from_memory": (Own(0, (24,)), Own(0, (40,)), Own(0, (64,)), Own(0, (64, 8))),
    "changed": (Own(0, (), 1), None, Own(2), None),
    "either": (None, Own(1), Own(2), None),
    "copied": (Own(2), Own(0), Copied(Own(1)), None),
    # the result of the first call is in the register of the first argument on arm64
    "first_calls": (None, None, None, None),
    "of_either_memory": (FromUser(Own(0)), Own(2), Own(3), None),
    "of_a_loop": (Own(0), None, Own(2), Own(3)),
    "changed_by_a_call": (None, Own(1), Own(2), None),
}


class Callees(dict[int, str]):
    """The called functions, by address."""

    #: The size of what arguments of inner() and of other functions point to.
    behind = 64

    def name_of(self, address: int) -> str | None:
        return self.get(address)

    def size_behind(self, function: str, argument: int) -> int:
        return self.behind if function else 0


def callees_of(built: Built) -> Callees:
    return Callees({start: symbol for symbol, (start, _) in built.symbols.items()})


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> Machine:
    return machine_named(request.param)


@pytest.fixture(
    scope="module", params=["-O2", "-Os", "-fno-omit-frame-pointer", "-fpatchable-function-entry=0"]
)
def built(
    machine: Machine, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    binary = tmp_path_factory.mktemp("passed") / "cases"
    own = (*FLAGS, *OWN_FLAGS[machine.name], request.param, "-Wl,-e,same")
    argv = [f"{machine.name}-linux-gnu-gcc", *own, "-Wall", "-Werror"]
    subprocess.run([*argv, "-o", str(binary), str(SOURCE)], check=True)
    return Built(machine, binary)


@pytest.mark.parametrize("name", CASES)
def test_an_argument_is_followed_back_to_the_callers(built: Built, name: str) -> None:
    """What only some paths give, or what was computed, is no argument of the caller."""
    graph = graph_of(built, name)
    names = callees_of(built)
    calls = [
        one
        for block in graph.blocks
        for one in block.insns
        if one.flow is Flow.CALL and names.get(one.target) == "inner"
    ]
    assert calls
    for one in calls:
        found = call_before(graph, one.end)
        assert found == one
        given = tuple(passed(graph, one, number, names) for number in range(4))
        # a constant is no argument, and a caller may know that a loop runs as often as `last`
        assert given == CASES[name]


def test_arguments_on_the_stack_are_followed_too(built: Built) -> None:
    """x86-64 passes six arguments in registers, arm64 eight."""
    graph = graph_of(built, "of_the_stack")
    names = callees_of(built)
    insns = [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    (call,) = [one for one in insns if names.get(one.target) == "many"]
    given = [passed(graph, call, number, names) for number in range(10)]
    assert given == [Own(number) for number in (8, 1, 2, 3, 4, 5, 0, 7, 9, 7)]


@pytest.mark.parametrize(
    ("name", "behind", "expected"),
    [
        ("stores", 0, [Own(1), Own(2), Own(0)]),
        ("stores_and_shares", 64, [None, None, None]),
        # the call got another struct, which ends before the member
        ("stores_and_shares", 8, [None, Own(2), Own(0)]),
    ],
)
def test_a_member_that_the_caller_set(
    built: Built, name: str, behind: int, expected: list[Own | None]
) -> None:
    graph, callees = graph_of(built, name), callees_of(built)
    callees.behind = behind
    insns = [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    (call,) = [one for one in insns if callees.get(one.target) == "checks"]
    assert [passed(graph, call, 0, callees, member=at) for at in (0, 8, 16)] == expected
    assert passed(graph, call, 0, callees) is None


def test_a_member_in_a_part_of_a_wider_store_is_unknown(built: Built) -> None:
    graph, callees = graph_of(built, "stores_wide"), callees_of(built)
    insns = [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    (call,) = [one for one in insns if callees.get(one.target) == "checks_pair"]
    assert [passed(graph, call, 0, callees, member=at) for at in (0, 4)] == [Own(0), None]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("_copy_from_user", (0, 1)),
        ("__arch_copy_from_user", (0, 1)),
        ("copy_struct_from_user.constprop.0", (0, 2)),
        # these fill a struct with other members
        ("copy_clone_args_from_user", None),
        ("copy_msghdr_from_user", None),
        ("strncpy_from_user", None),
        (None, None),
    ],
)
def test_functions_that_copy_bytes_as_they_are(
    name: str | None, numbers: tuple[int, int] | None
) -> None:
    assert user_copy(name) == numbers


@pytest.mark.parametrize(
    ("after", "kind"), [((), "load"), (("other", 0x100), "load"), (("check", 0), "unknown")]
)
def test_a_copy_of_the_user_that_a_later_call_may_change_is_unknown(
    after: tuple[str, int] | tuple[()], kind: str
) -> None:
    """The second argument of the copied struct is read after a call with an address."""
    machine = machine_named("x86_64")
    names = {1: "_copy_from_user", 2: "check", 3: "other"}
    state = State(machine, names.get, at_entry=True)
    calls = [(1, 0), *([(2 if after[0] == "check" else 3, after[1])] if after else [])]
    for step, (target, offset) in enumerate(calls, 1):
        state.step, state.insn = step, Insn(step, 1, "call", "call", (), Flow.CALL, target)
        state.regs["rdi"] = state.make("stack", value=offset - 0x40)
        state.regs["rsi"] = state.make("param", name="rsi")
        state.regs["rdx"] = state.const(16, 8)
        apply(state, state.insn)
    found = state.load(Mem("rsp", None, 1, -0x40 + 8, 4))
    assert (found.kind, found.value) == (kind, 8 if kind == "load" else 0)


@pytest.mark.parametrize(("value", "expected"), [(7, Own(3)), (0, None), (-1, None), (None, None)])
def test_paths_with_another_constant_did_not_run(
    built: Built, value: int | None, expected: Own | None
) -> None:
    graph = graph_of(built, "or_a_constant")
    names = callees_of(built)
    insns = [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    calls = [one for one in insns if names.get(one.target) == "inner"]
    assert calls
    for call in calls:
        if len(calls) == 1:  # else each call has its own constant
            assert passed(graph, call, 3, names, value=value) == expected


def test_a_number_read_from_the_user_has_an_argument_as_address(built: Built) -> None:
    """x86-64 reads it in a helper; arm64 reads it inline, which is not recognized."""
    if not built.machine.user_reads:
        assert built.machine.name == "aarch64"
        return
    graph = graph_of(built, "of_the_user")
    names = callees_of(built)
    insns = [one for block in graph.blocks for one in block.insns if one.flow is Flow.CALL]
    (call,) = [one for one in insns if names.get(one.target) == "inner"]
    given = [passed(graph, call, number, names) for number in range(4)]
    assert given == [FromUser(Own(1)), Own(2), Own(0), None]


def test_what_is_behind_another_instruction_is_no_call(built: Built) -> None:
    graph = graph_of(built, "same")
    assert call_before(graph, graph.code.address + 1) is None
    assert call_before(graph, graph.code.address - 64) is None
