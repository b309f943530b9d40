# SPDX-License-Identifier: BSD-2-Clause
"""The page that says why a call failed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from retsnoop_py.model import session as to
from retsnoop_py.model.why import (
    VERSION,
    Certainty,
    Cost,
    ExplainedCall,
    FailedCall,
    FailingChainCall,
    Reason,
    Reported,
    Waiting,
    Why,
)
from retsnoop_py.render.contradicted import contradicted
from retsnoop_py.render.origin import origin_lines
from retsnoop_py.render.palette import Palette
from retsnoop_py.render.why import WhyPage
from retsnoop_py.session.paths import ALWAYS

RESULT = to.Result("0xffffffea", "-EINVAL", -22, "EINVAL")
CHECK = to.Func("array_map_alloc_check", "0x2")
ORIGIN = to.Origin(
    CHECK,
    3,
    RESULT,
    "constant",
    returned=to.CodePlace("0x9", 9, "", "kernel/bpf/arraymap.c", 63, 10),
    decided=to.Decision(
        to.CodePlace("0x5", 5, "", "kernel/bpf/arraymap.c", 58, 29),
        "attr->key_size != 4",
        True,
        (to.ConditionOperand("attr->key_size", 8),),
    ),
)
FRAME = to.Frame(
    "0x7", "map_create", 31, source=(to.Source("map_create", "kernel/bpf/syscall.c", 1269),)
)
#: The last lines of each answer to a call of which nothing else is known.
CERTAINTY = ["", "    certainty: call inferred, reason unknown, condition observed"]
CALL = ExplainedCall(
    "bpf",
    "EINVAL",
    4711,
    4711,
    "loader",
    "loader",
    "",
    "observed",
    (to.Argument("cmd", "BPF_MAP_CREATE", 0), to.Argument("attr", "{...}", {"x": 1})),
    to.Source("create_maps", "loader.c", 88),
    (
        FailingChainCall(to.Func("map_create", "0x1"), RESULT, FRAME),
        FailingChainCall(CHECK, RESULT),
    ),
    ORIGIN,
)


def page(found: Why, *, verbose: bool = False) -> list[str]:
    return list(WhyPage(Palette(), verbose=verbose).lines(found))


def test_the_call_the_chain_and_the_condition() -> None:
    who = "loader (PID 4711), at loader.c:88 (create_maps)"
    assert page(Why(VERSION, "6.12", "x86_64", 2, "unknown", ("./loader",), 1, explained=CALL)) == [
        f"bpf(BPF_MAP_CREATE, ...) returned EINVAL to {who}",
        "",
        "    map_create              kernel/bpf/syscall.c:1269",
        "  ! array_map_alloc_check",
        "        kernel/bpf/arraymap.c:63:10   returned -EINVAL",
        "        kernel/bpf/arraymap.c:58:29   because attr->key_size != 4   attr->key_size = 8",
        *CERTAINTY,
    ]


def test_the_condition_of_a_loop_names_the_number_of_elements() -> None:
    decided = replace(ORIGIN.decided, elements=18)
    origin = replace(ORIGIN, decided=decided)
    told = "(a loop rejected 18 elements; this one passed the most tests)"
    assert any(f"key_size != 4 {told}" in one for one in origin_lines(origin, 8, Palette()))
    cut = replace(origin, earlier=5)
    assert any("rejected 18 elements or more;" in one for one in origin_lines(cut, 8, Palette()))
    none = replace(origin, decided=replace(ORIGIN.decided, ended=True))
    told = "key_size != 4 (the loop ended: none of its elements matched)"
    assert any(told in one for one in origin_lines(none, 8, Palette()))


def test_what_does_not_fit_the_window_goes_on_below() -> None:
    found = Why(VERSION, "6.12", "x86_64", 2, "unknown", ("./loader",), 1, explained=CALL)
    assert list(WhyPage(Palette(), width=72).lines(found)) == [
        "bpf(BPF_MAP_CREATE, ...)",
        "    returned EINVAL to loader (PID 4711),",
        "    at loader.c:88 (create_maps)",
        "",
        "    map_create              kernel/bpf/syscall.c:1269",
        "  ! array_map_alloc_check",
        "        kernel/bpf/arraymap.c:63:10   returned -EINVAL",
        "        kernel/bpf/arraymap.c:58:29",
        "            because attr->key_size != 4",
        "            attr->key_size = 8",
        "",
        "    certainty: call inferred, reason unknown, condition observed",
    ]


def test_where_no_place_is_known_there_is_no_line_for_it() -> None:
    origin = to.Origin(CHECK, 4, RESULT, "unknown", unknown="blocks that ran were not seen")
    assert list(origin_lines(origin, 8, Palette())) == [
        "        what decided is not known: blocks that ran were not seen"
    ]
    assert list(origin_lines(origin, 8, Palette(), 48)) == [
        "            what decided is not known: blocks",
        "            that ran were not seen",
    ]


def test_what_is_told_without_having_been_followed_says_so() -> None:
    inner = replace(ORIGIN, function=to.Func("__do_sys_mremap", "0x7"))
    outer = replace(ORIGIN, made="callee", callee="__do_sys_mremap", decided=None, unknown="why")
    call = replace(CALL, origin=outer, deduced=inner)
    found = page(Why(VERSION, "", "", 2, "unknown", ("x",), 1, explained=call))
    assert not any("not known" in line for line in found)
    at = found.index("    __do_sys_mremap (by its arguments, not followed)")
    assert "because attr->key_size != 4" in found[at + 2]


def test_what_the_condition_tested_is_below_it() -> None:
    decided = to.Decision(to.CodePlace("0x7", 7, ""), "attr->deadline < attr->runtime", True)
    result = to.Result("0x0", "false", 0)
    inner = to.Origin(to.Func("is_valid", "0x3"), 4, result, "constant", decided=decided)
    found = page(
        Why(VERSION, "", "", 3, "unknown", ("x",), 1, explained=replace(CALL, tested=(inner,)))
    )
    assert found[-4:-2] == [
        "    is_valid",
        "        is_valid+0x7   because attr->deadline < attr->runtime",
    ]


def test_what_the_kernel_said_is_below_the_condition() -> None:
    said = (to.KernelMessage("printk", "bad magic\x1b"),)
    found = page(Why(VERSION, "", "", 3, "unknown", ("x",), 1, explained=replace(CALL, said=said)))
    assert found[-4:-2] == ["", "    the kernel said: bad magic\\x1b"]


def test_the_line_of_the_source_is_below_its_place() -> None:
    place = to.CodePlace("0x5", 5, "", "kernel/bpf/arraymap.c", 58, 29, text="\tif (a || b)  ")
    origin = to.Origin(CHECK, 3, RESULT, "constant", decided=to.Decision(place, "a", True))
    assert list(origin_lines(origin, 8, Palette())) == [
        "        kernel/bpf/arraymap.c:58:29   because a",
        "              58 | if (a || b)",
    ]


def test_that_nothing_decided_is_no_want_of_knowledge() -> None:
    origin = replace(ORIGIN, decided=None, returned=None, unknown=ALWAYS)
    (line,) = origin_lines(origin, 4, Palette())
    assert line == f"    {ALWAYS}"


def test_an_error_in_place_of_a_pointer_is_told_by_its_name() -> None:
    operand = to.ConditionOperand("pidfd_pid()", (1 << 64) - 9)
    decided = to.Decision(to.CodePlace("0x5", 5, ""), "IS_ERR(pidfd_pid())", True, (operand,))
    (line,) = origin_lines(to.Origin(CHECK, 3, RESULT, "constant", decided=decided), 0, Palette())
    assert line.endswith("because IS_ERR(pidfd_pid())   pidfd_pid() = ERR_PTR(-EBADF)")


@pytest.mark.parametrize(
    ("condition", "instruction", "value"),
    [
        ("(nlh->nlmsg_flags & 0x200) != 0", "", "0x605"),
        (None, "test ah, 2; jne 0x9", "0x605"),
        (None, "test eax, eax; jne 0x9", "1541"),
        ("size != 4", "", "1541"),
        ("(-13 >> size & 1) != 0", "", "1541"),
    ],
)
def test_of_flags_the_bits_are_shown(condition: str | None, instruction: str, value: str) -> None:
    operand = to.ConditionOperand("x", 0x605)
    decided = to.Decision(to.CodePlace("0x5", 5, instruction), condition, True, (operand,))
    (line,) = origin_lines(to.Origin(CHECK, 3, RESULT, "constant", decided=decided), 0, Palette())
    assert line.endswith(f"x = {value}")


@pytest.mark.parametrize(
    ("condition", "value", "shown"),
    [
        ("x > 10000", 70_369_281, "70369281"),
        ("ucount >= x", 65530, "65530"),
        ("x > page_limit", 8 * 4096, "0x8000"),
        ("x > 7", 1 << 30, "0x40000000"),
        ("x > y", (1 << 64) - 1 << 20, hex((1 << 64) - 1 << 20)),
        ("x != 10000", 70_369_281, hex(70_369_281)),
    ],
)
def test_an_amount_is_decimal(condition: str, value: int, shown: str) -> None:
    operand = to.ConditionOperand("x", value)
    decided = to.Decision(to.CodePlace("0x5", 5, ""), condition, True, (operand,))
    (line,) = origin_lines(to.Origin(CHECK, 3, RESULT, "constant", decided=decided), 0, Palette())
    assert line.endswith(f"x = {shown}")


def test_two_amounts_have_the_same_base() -> None:
    operands = (to.ConditionOperand("x", 20970), to.ConditionOperand("y", 0x80000))
    decided = to.Decision(to.CodePlace("0x5", 5, ""), "x < y", True, operands)
    (line,) = origin_lines(to.Origin(CHECK, 3, RESULT, "constant", decided=decided), 0, Palette())
    assert line.endswith("because x < y   x = 20970, y = 524288")


def test_a_value_that_two_tests_compare_is_shown_once() -> None:
    operands = (to.ConditionOperand("x", 1), to.ConditionOperand("y", 2))
    place = to.CodePlace("0x5", 5, "")
    decided = to.Decision(place, "x != 0 && x != y", True, (operands[0], *operands))
    (line,) = origin_lines(to.Origin(CHECK, 3, RESULT, "constant", decided=decided), 0, Palette())
    assert line.endswith("because x != 0 && x != y   x = 1, y = 2")


def test_an_inlined_test_does_not_return_the_error_of_its_caller() -> None:
    file = "kernel/cgroup/cgroup.c"
    inline = (to.Source("is_root", file, 436, 5), to.Source("write", file, 3608, 6))
    test = to.CodePlace("0x5", 5, "", file, 436, 5, inline)
    decided = to.Decision(test, "a", True)
    same = replace(test, column=29, inline=(replace(inline[0], column=29), inline[1]))
    origin = to.Origin(CHECK, 3, RESULT, "constant", returned=same, decided=decided)
    assert list(origin_lines(origin, 0, Palette())) == [
        f"{file}:3608:6             returned -EINVAL",
        f"{file}:436:5 in is_root   because a",
    ]
    part = replace(same, inline=(same.inline[0], replace(inline[0], line=422), inline[1]))
    rows = list(origin_lines(replace(origin, returned=part), 0, Palette()))
    assert rows[0] == f"{file}:3608:6             returned -EINVAL"
    other = replace(same, line=440, inline=(replace(inline[0], line=440), inline[1]))
    origin = replace(origin, returned=other)
    assert next(origin_lines(origin, 0, Palette())).startswith(f"{file}:440:29 in is_root")


def test_of_a_headers_function_it_is_told_where_it_is_used() -> None:
    inline = (
        to.Source("d_is_dir", "include/linux/dcache.h", 429, 30),
        to.Source("graft_tree", "fs/namespace.c", 2733, 6),
    )
    place = to.CodePlace("0x5", 5, "", "include/linux/dcache.h", 429, 30, inline)
    origin = to.Origin(CHECK, 3, RESULT, "constant", decided=to.Decision(place, "a", True))
    where = "include/linux/dcache.h:429:30 in d_is_dir (fs/namespace.c:2733)"
    assert list(origin_lines(origin, 4, Palette())) == [f"    {where}   because a"]
    near = replace(place, inline=(inline[0], to.Source("user", inline[0].file, 9, 1)))
    origin = to.Origin(CHECK, 3, RESULT, "constant", decided=to.Decision(near, "a", True))
    where = "include/linux/dcache.h:429:30 in d_is_dir"
    assert list(origin_lines(origin, 4, Palette())) == [f"    {where}   because a"]


def test_what_programs_try_at_any_time_is_listed_on_demand() -> None:
    failures = (
        FailedCall("openat", "__x64_sys_openat", "ENOENT", 3, "looks for a file"),
        FailedCall("mount", "__x64_sys_mount", "EPERM", 1),
        FailedCall("bpf", "__x64_sys_bpf", "EINVAL", 1, chosen=True),
    )
    found = Why(VERSION, "", "", 1, "unknown", ("x",), 1, failures, unknown="it is its own logic")
    assert page(found) == [
        "x: it is its own logic",
        "",
        "System calls that failed (-v lists all):",
        "    mount  EPERM   1",
        "  ! bpf    EINVAL  1",
    ]
    assert "    openat  ENOENT  3  looks for a file" in page(found, verbose=True)


def test_names_cannot_command_the_terminal() -> None:
    evil = Why(VERSION, "", "", 1, "unknown", ("\x1b[2J",), 1, unknown="x")
    assert page(evil) == ["\\x1b[2J: x"]


MISSING = Reason(
    "not-found",
    "/srv/x does not exist. The directory /srv does.",
    "inferred",
    ("check the spelling: there is /srv/y", "or create it: mkdir -p /srv/x"),
    later=True,
)


def answer(reported: Reported, **changes: object) -> list[str]:
    call = replace(
        CALL, error="ENOENT", what="opening /srv/x", reason=MISSING, reported=reported, **changes
    )
    lines = page(Why(VERSION, "", "", 2, "unknown", ("cat", "/srv/x"), 1, (), call))
    return lines[: lines.index("")]


def test_the_answer_comes_first_in_the_users_terms() -> None:
    assert answer(Reported(True, "observed", ("the command wrote this error",), "cat: ...")) == [
        "loader: opening /srv/x failed with ENOENT (No such file or directory).",
        "  /srv/x does not exist. The directory /srv does.",
        "  To change: check the spelling: there is /srv/y",
        "             or create it: mkdir -p /srv/x",
    ]


def test_doubt_is_said() -> None:
    guessed = answer(Reported(False, "inferred"))
    assert "showed no text about this error" in guessed[-1]
    alike = answer(Reported(True, "unknown", alike=("opening /b (ENOENT)",)))
    assert alike[-1] == "  The command may also mean opening /b (ENOENT)."


@pytest.mark.parametrize("known", ["observed", "inferred", "unknown"])
def test_each_certainty_has_a_word_of_its_own(known: Certainty) -> None:
    reported = Reported(True, known)
    reason = Reason("x", "The reason.", known)
    origin = ORIGIN if known != "unknown" else replace(ORIGIN, decided=None, unknown="why")
    call = replace(CALL, what="x", certainty=known, reason=reason, reported=reported, origin=origin)
    lines = page(Why(VERSION, "", "", 1, known, ("x",), 1, (), call))
    assert lines[-1] == f"    certainty: call {known}, reason {known}, condition {known}"
    words = {"observed": "   because ", "inferred": "   probably because ", "unknown": "not known"}
    assert [one for one, word in words.items() if any(word in line for line in lines)] == [known]


def test_a_command_that_was_killed() -> None:
    reason = Reason("killed", "Signal SIGKILL killed x (PID 7): y (PID 8) sent it.", "observed")
    found = Why(VERSION, "", "", 1, "unknown", ("x",), 137, reason=reason)
    assert page(found) == ["x: Signal SIGKILL killed x (PID 7): y (PID 8) sent it."]


def test_a_command_that_hangs() -> None:
    waiting = Waiting(
        7,
        7,
        "flock",
        "flock",
        "3</tmp/l>, LOCK_EX",
        4.2,
        "lock",
        sentence="flock (PID 7) has waited 4.2 s for a lock on /tmp/l. PID 6 (x) holds it.",
        advice=("end PID 6", "or wait"),
        kernel_stack=(to.Frame("0x7", "__x64_sys_flock", 31), FRAME),
    )
    other = Waiting(6, 6, "x", sentence="x (PID 6) waits for a signal.", kernel_stack=(FRAME,))
    failed = FailedCall("openat", "__x64_sys_openat", "ENOENT", 1, "looks for a file")
    found = Why(
        VERSION, "", "", 1, "observed", ("x",), 124, (failed,), waiting=(waiting, *[other] * 10)
    )
    lines = page(found)
    assert lines[:11] == [
        waiting.sentence,
        "  To change: end PID 6",
        "             or wait",
        "",
        "flock(3</tmp/l>, LOCK_EX)",
        "",
        "    __x64_sys_flock   +0x1f",
        "  ! map_create        kernel/bpf/syscall.c:1269",
        "",
        "Other threads:",
        "  x (PID 6) waits for a signal.",
    ]
    assert lines[-1] == "  and 2 more (-v lists all)"
    verbose = page(found, verbose=True)
    assert verbose.count("  ! map_create   kernel/bpf/syscall.c:1269") == 10
    assert verbose[-1].split() == ["openat", "ENOENT", "1", "looks", "for", "a", "file"]


def test_the_cost_is_on_the_verbose_page_only() -> None:
    cost = Cost(14.26, 0.31, 6.1, 2.0, 5.85)
    found = Why(VERSION, "", "", 1, "unknown", ("x",), 1, unknown="no call failed", cost=cost)
    line = (
        "retsnoop-py took 13.9 s in addition to the 0.3 s that CMD ran: attaching 6.1 s, detaching "
        "2.0 s, other 5.8 s."
    )
    assert " ".join(page(found, verbose=True)).endswith(line)
    assert line not in " ".join(page(found))


@pytest.mark.parametrize(
    ("condition", "name", "value", "is_refuted"),
    [
        ("current->bpf_ctx == NULL && capable() == 0", "current->bpf_ctx", 0xFFFF8881, True),
        ("current->bpf_ctx == NULL && capable() == 0", "current->bpf_ctx", 0, False),
        ("op == 5", "op", 5, False),
        ("op == 0xffffffea", "op", -22, False),
        ("op == -1", "op", 255, False),
        ("(op & 3) == 1", "op", 5, False),
        ("(op & ~0x3) != 0", "op", 3, True),
        ("(op & 3) == 1 && (op & 4) != 0", "op", 4, True),
        ("p->op == 1", "op", 5, False),
        ("op > 4", "op", 1, True),
        ("op > 4", "op", -1, False),
        ("op < 1 || op > 9", "op", 5, True),
        ("op < 1 || op > 9", "op", 10, False),
        ("x != NULL && (op < 1 || y != 0)", "op", 5, False),
        ("!IS_ERR(op)", "op", -22, False),
        ("(" * 5000 + "op", "op", 1, False),
    ],
)
def test_a_value_that_the_condition_refutes_was_changed_by_the_probe(
    condition: str, name: str, value: int, is_refuted: bool
) -> None:
    assert bool(contradicted(condition, {name: [value]})) is is_refuted


def test_of_several_reads_of_one_expression_one_has_to_fit() -> None:
    assert contradicted("op > 4 && x == 1", {"op": [1, 2], "x": [1]}) == ["op > 4"]
    assert not contradicted("op > 4 && x == 1", {"op": [1, 5], "x": [1]})


def test_a_condition_that_is_not_complete_says_so() -> None:
    origin = replace(ORIGIN, decided=replace(ORIGIN.decided, unnamed=2))
    told = "key_size != 4 (and 2 tests whose expression is not known)"
    assert any(told in one for one in origin_lines(origin, 8, Palette()))
    origin = replace(ORIGIN, decided=replace(ORIGIN.decided, unnamed=1, condition=None))
    assert any("(and 1 test before it)" in one for one in origin_lines(origin, 8, Palette()))
