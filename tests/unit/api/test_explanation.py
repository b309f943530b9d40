# SPDX-License-Identifier: BSD-2-Clause
"""What a session says of why its call failed: which call made the error, and what it tested."""

from __future__ import annotations

import pytest
from msgspec import structs

from retsnoop_py.api.explanation import Explanation
from retsnoop_py.model import session as to

EINVAL = to.Result("0xffffffea", "-EINVAL", -22, "EINVAL")
NO = to.Result("0x0", "false", 0)
PLACE = to.CodePlace("0x5", 5, "")


def func(name: str) -> to.Func:
    return to.Func(name, "0x1")


def origin(
    name: str, seq: int, made: str, *operands: str, result: to.Result = EINVAL, **more: str
) -> to.Origin:
    """That of call ``seq``, decided by a condition of these operands."""
    condition = f"{operands[0]} == {more.pop('against', '0')}" if operands else None
    named = tuple([to.ConditionOperand(one, 0) for one in operands])
    decided = to.Decision(PLACE, condition, True, named) if operands else None
    return to.Origin(func(name), seq, result, made, more.get("callee"), decided=decided)


def explanation(*paths: to.Origin, chain: tuple[str, ...]) -> Explanation:
    """Of a session whose failing ``chain`` has the events 1, 2, ..."""
    stack = [
        to.StackEntry(to.Call(func(name), seq, EINVAL, 1)) for seq, name in enumerate(chain, 1)
    ]
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, stack=stack, paths=paths)
    return Explanation(session, chain[0], "EINVAL")


def test_the_error_is_made_where_no_function_below_gave_it() -> None:
    found = explanation(
        origin("outer", 1, "callee", callee="inner"),
        origin("inner", 2, "constant", "attr->size"),
        origin("cleanup", 3, "constant", "other"),
        chain=("outer", "inner", "cleanup"),
    )
    made = found.origin()
    assert made is not None
    assert made.function.name == "inner"
    assert [one.function.name for one in found.call().chain] == ["outer", "inner"]


@pytest.mark.parametrize(
    ("errors", "end"),
    [
        # a comparison below, as of proc_match() where block probes cannot fire
        (("ENOENT", "ENOENT", "EPERM"), "lookup"),
        (("ENOENT", "ENOENT", "EPERM", "EPERM"), "lookup"),
        (("ENOENT", "EPERM", "EPERM"), "syscall"),
        # an error
        (("EPERM", "EPERM", "EPERM"), "match"),
        (("ENOENT", "ENOENT", "EINVAL"), "match"),
    ],
)
def test_without_observed_blocks_a_comparison_is_not_taken_for_an_error(
    errors: tuple[str, ...], end: str
) -> None:
    numbers = {"EPERM": -1, "ENOENT": -2, "EINVAL": -22}
    names = ("syscall", "lookup", "match", "compare")
    stack = [
        to.StackEntry(
            to.Call(func(name), seq, to.Result("0x0", f"-{error}", numbers[error], error), 1)
        )
        for seq, (name, error) in enumerate(zip(names, errors, strict=False), 1)
    ]
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, stack=stack)
    call = Explanation(session, "syscall", errors[0]).call("block probes cannot fire")
    assert call.chain[-1].function.name == end
    assert call.unknown == "block probes cannot fire"


def test_where_a_way_does_not_tell_the_same_error_below_does() -> None:
    found = explanation(
        origin("outer", 1, "unknown"),
        origin("inner", 2, "constant", "attr->size"),
        chain=("outer", "inner"),
    )
    made = found.origin()
    assert made is not None
    assert made.function.name == "inner"


def test_a_call_below_a_function_that_nobody_may_trace_gave_it() -> None:
    outer = origin("sys_bpf", 1, "callee", callee="do_sys_bpf")
    check = origin("check", 2, "constant", "attr->size")
    made = explanation(outer, check, chain=("sys_bpf", "check")).origin()
    assert made is not None
    assert made.function.name == "check"


def test_a_function_that_gave_it_and_was_not_followed_is_asked_for() -> None:
    found = explanation(origin("outer", 1, "callee", callee="inner"), chain=("outer",))
    assert found.asks_of(["outer"]) == "inner"
    assert found.asks_of(["outer", "inner"]) is None


def test_an_error_that_a_function_was_handed_is_that_of_another_one() -> None:
    """As tcp_sendmsg_locked() does: what made the error returned before the chain's end began."""
    outer = origin("send", 1, "callee", callee="wait")
    earlier = origin("wait", 3, "constant", "attr->size", result=NO)
    wait = origin("wait", 4, "constant", "sk->state")
    end = origin("give_back", 2, "argument")
    before = explanation(outer, end, chain=("send", "give_back"))
    assert before.origin() == outer
    assert before.asks_of(["send", "give_back"]) == "wait"
    after = explanation(outer, earlier, wait, end, chain=("send", "give_back"))
    assert after.origin() == wait
    assert after.asks_of(["send", "give_back", "wait"]) is None
    assert [one.function.name for one in after.call().chain] == ["send", "wait"]


def test_the_function_whose_yes_or_no_decided_is_asked_for_and_then_told() -> None:
    outer = origin("outer", 1, "constant", "is_valid()")
    before = explanation(outer, chain=("outer",))
    assert before.tests(["outer"]) == "is_valid"
    assert before.tested() == ()
    inner = origin("is_valid", 2, "constant", "attr->size", result=NO)
    earlier = origin("is_valid", 0, "constant", "another", result=NO)
    after = explanation(earlier, outer, inner, chain=("outer",))
    assert after.tests(["outer", "is_valid"]) is None
    assert after.call().tested == (inner,)
    assert after.call().origin == outer


def test_of_several_tests_the_last_one_decided() -> None:
    """As in __sched_setscheduler(): ``policy == 6 && !__checkparam_dl()``."""
    names = ("attr->policy", "is_valid()")
    decided = to.Decision(
        PLACE,
        "attr->policy == 6 && is_valid() != 1",
        True,
        (to.ConditionOperand(names[0], 6), to.ConditionOperand(names[1], 0)),
    )
    outer = to.Origin(func("outer"), 1, EINVAL, "constant", None, decided=decided)
    assert explanation(outer, chain=("outer",)).tests(["outer"]) == "is_valid"
    inner = origin("is_valid", 2, "constant", "attr->size", result=NO)
    assert explanation(outer, inner, chain=("outer",)).tested() == (inner,)


def test_a_pointer_that_was_not_found_is_reason_enough() -> None:
    found = explanation(origin("outer", 1, "constant", "find()", against="NULL"), chain=("outer",))
    assert found.tests(["outer"]) is None


def test_what_the_kernel_said_in_the_call_is_told() -> None:
    said = (to.KernelMessage("printk", "x: Can't lookup blockdev"),)
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, said=said)
    assert Explanation(session, "__x64_sys_mount", "EINVAL").call().said == said


def test_a_function_that_calls_itself_is_told_once_for_each_call() -> None:
    outer = origin("walk", 1, "constant", "walk()")
    inner = origin("walk", 2, "constant", "walk()", result=NO)
    found = explanation(outer, inner, chain=("walk",))
    assert found.tested() == (inner,)
    assert found.tests(["walk"]) is None


def test_a_function_that_returned_something_else_is_not_passed_unseen() -> None:
    """As perf_event_free_task() does below copy_process(): the clean-up behind the error."""
    null = to.Result("0x0", "NULL", 0, "NULL")
    clean_up = origin("clean_up", 2, "constant", "list->next", result=null)
    made = explanation_of(("outer", EINVAL), ("clean_up", null), paths=(clean_up,))
    assert made.origin() is None
    assert made.call().certainty == "unknown"
    inner = origin("inner", 2, "constant", "attr->size")
    made = explanation_of(("outer", EINVAL), ("inner", EINVAL), paths=(inner,))
    assert made.origin() == inner
    assert made.call().certainty == "observed"


def explanation_of(*chain: tuple[str, to.Result], paths: tuple[to.Origin, ...]) -> Explanation:
    stack = [
        to.StackEntry(to.Call(func(name), seq, result, 1))
        for seq, (name, result) in enumerate(chain, 1)
    ]
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, stack=stack, paths=paths)
    return Explanation(session, chain[0][0], "EINVAL")


def test_a_link_that_its_way_does_not_tell_makes_the_condition_inferred() -> None:
    found = explanation(
        origin("outer", 1, "unknown"),
        origin("inner", 2, "constant", "attr->size"),
        chain=("outer", "inner"),
    )
    assert found.call().certainty == "inferred"
    deduced = origin("__do_sys_x", 2, "constant", "flags")
    assert found.call(deduced=deduced).certainty == "inferred"


def test_one_of_many_elements_that_a_loop_rejected_is_inferred() -> None:
    outer = origin("outer", 1, "constant", "fits()")
    inner = origin("fits", 2, "constant", "a->x", result=NO)
    assert explanation(outer, inner, chain=("outer",)).call().certainty == "observed"
    assert inner.decided is not None
    many = structs.replace(inner, decided=structs.replace(inner.decided, elements=3))
    assert explanation(outer, many, chain=("outer",)).call().certainty == "inferred"
    refuted = structs.replace(inner, decided=structs.replace(inner.decided, refuted=("a->x",)))
    assert explanation(outer, refuted, chain=("outer",)).call().certainty == "inferred"
    none = structs.replace(inner, decided=structs.replace(inner.decided, ended=True))
    assert explanation(outer, none, chain=("outer",)).call().certainty == "observed"


def test_of_several_calls_the_one_that_returned_the_tested_value_is_meant() -> None:
    outer = origin("outer", 1, "constant", "check()")
    no = origin("check", 2, "constant", "a->x", result=NO)
    yes = origin("check", 3, "constant", "a->y", result=to.Result("0x1", "true", 1))
    assert explanation(outer, no, yes, chain=("outer",)).tested() == (no,)


def test_a_further_run_follows_only_what_leads_to_the_condition() -> None:
    found = explanation(origin("middle", 2, "callee", callee="inner"), chain=("outer", "middle"))
    assert found.needed(["outer", "middle.*", "other[x]"]) == ["middle.*"]


def test_a_further_run_keeps_what_only_gave_back_an_error_that_it_was_handed() -> None:
    found = explanation(
        origin("outer", 1, "callee", callee="wait"),
        origin("give_back", 2, "argument"),
        chain=("outer", "give_back"),
    )
    assert found.needed(["give_back", "outer", "other"]) == ["give_back", "outer"]


@pytest.mark.parametrize("name", ["__do_sys_x", "clean_up"])
def test_below_a_function_that_cannot_be_followed_only_what_ran_inside_it_counts(name: str) -> None:
    outer = origin("sys_x", 1, "callee", callee="__do_sys_x")
    null = to.Result("0x0", "NULL", 0, "NULL")
    inner = origin("check", 2, "constant", "attr->size", result=null)
    stack = [
        to.StackEntry(to.Call(func("sys_x"), 1, EINVAL, 1)),
        to.StackEntry(None, to.Frame("0x9", name, 3)),
        to.StackEntry(to.Call(func("check"), 2, null, 1)),
    ]
    paths = (outer, inner)
    session = to.Session(1, "", "", 0, 0, 1, 1, "x", "x", 0, True, stack=stack, paths=paths)
    call = Explanation(session, "sys_x", "EINVAL").call()
    is_inside = name == "__do_sys_x"
    assert call.origin == (inner if is_inside else outer)
    assert call.certainty == ("inferred" if is_inside else "unknown")


def test_a_condition_that_only_tests_who_gave_the_error_is_not_the_deciding_one() -> None:
    """As IS_ERR(inode) in ext4_create(): what decided is inside what gave the pointer."""
    made = origin("create", 1, "callee", "IS_ERR(new_inode())", callee="new_inode")
    call = explanation(made, chain=("create",)).call()
    assert call.origin == made
    assert call.certainty == "unknown"
    assert call.unknown == "it is inside new_inode(), which was not followed"
