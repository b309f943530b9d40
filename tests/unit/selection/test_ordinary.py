# SPDX-License-Identifier: BSD-2-Clause
"""Results that look like failures and are none: the list, the user's own, what they do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit import cpu_limit

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.kernel.functions import ERROR_SHIFT, FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.selection import ordinary
from retsnoop_py.selection.ordinary import Rule, apply_rules, load, ordinary_results, parse
from retsnoop_py.session.results import error_of

PTR = FuncFlags.PTR
INT = FuncFlags.SIGN32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def function(name: str, flags: FuncFlags) -> Function:
    kind = ResultKind.PTR if flags & PTR else ResultKind.INT
    return Function(name, 0x1000, 16, flags, ResultType(kind, 8 if flags & PTR else 4))


def results(text: str, one: Function, release: str = "6.12.1") -> tuple[str, ...]:
    (made,), _ = apply_rules([one], parse(text, "list"), release)
    return ordinary_results(made)


def test_every_shipped_entry_has_a_reason_and_names_a_function() -> None:
    rules = load()
    assert rules
    assert all(len(rule.reason) > 10 and rule.error is not None for rule in rules)
    keys = [(rule.glob, rule.error, rule.first) for rule in rules]
    assert len(keys) == len(set(keys))


def test_no_log_that_nobody_asked_for_is_no_failure_where_the_function_is() -> None:
    log = function("bpf_log_attr_create_vlog", PTR)
    (made,), reasons = apply_rules([log], load(), "7.2.0-1-amd64")
    assert made.flags == PTR | FuncFlags.NULL_OK
    assert error_of(made, 0) is None
    assert error_of(made, -22) == 22
    assert reasons == {"NULL of 'bpf_log_attr_create_vlog' is no failure": "no log was asked for"}
    (older,), none = apply_rules([log], load(), "6.12.0")
    assert (older, none) == (log, {})


def test_a_file_with_many_rules_takes_little_time(home: Path) -> None:
    """``sudo -E`` keeps the HOME of another user: 1 MiB of rules took more than an hour."""
    own = home / "retsnoop-py/no-failure.txt"
    own.parent.mkdir()
    exact = "".join(f"exact{number} NULL * a reason\n" for number in range(30_000))
    own.write_text("fun* NULL * a reason\n" + exact)
    functions = [function(f"function_{number}", PTR) for number in range(1_000)]
    with cpu_limit.at_most(5):
        table, _ = apply_rules(functions, load(), "6.12")
    assert all(one.flags & FuncFlags.NULL_OK for one in table)
    own.write_text("".join(f"*a{number}* NULL * a reason\n" for number in range(101)))
    with pytest.raises(DataError, match=r"no-failure.txt:101: more than 100 functions"):
        load()


def test_a_terminal_obeys_no_reason() -> None:
    (rule,) = parse("find_vma NULL * a\x1b[2Jreason", "list")
    assert rule.reason == "a\\x1b[2Jreason"


@pytest.mark.parametrize("release", ["5.10.0", "6.12.1", "7.2.0-1-amd64"])
def test_a_program_without_a_target_in_btf_is_no_failure(release: str) -> None:
    """BPF_OBJ_GET_INFO_BY_FD asks for it, and goes on without."""
    (made,), _ = apply_rules([function("bpf_prog_get_target_btf", PTR)], load(), release)
    assert ordinary_results(made) == ("NULL",)


def test_an_error_number_can_be_ordinary_too() -> None:
    one = function("find_it", INT)
    (made,), _ = apply_rules([one], parse("find_* -ENOENT * it is looked up", "list"), "6.1.0")
    assert made.flags == INT | 2 << ERROR_SHIFT
    assert error_of(made, -2) is None
    assert error_of(made, -3) == 3
    assert ordinary_results(made) == ("-ENOENT",)


@pytest.mark.parametrize(
    ("kernels", "release", "counts"),
    [
        ("*", "5.10.0-30-amd64", True),
        ("6.1", "6.1.170", True),
        ("6.1", "6.12.1", False),
        ("6.2-", "6.12.1", True),
        ("6.2-", "6.1.1", False),
        ("-6.1", "5.10.3", True),
        ("-6.1", "6.2.0", False),
        ("5.10-6.1", "6.1.9", True),
        ("5.10-6.1", "7.2-rc1", False),
    ],
)
def test_a_rule_is_of_some_kernels(kernels: str, release: str, counts: bool) -> None:
    found = results(f"f NULL {kernels} a reason", function("f", PTR), release)
    assert found == (("NULL",) if counts else ())


def test_null_is_no_question_for_who_returns_no_pointer() -> None:
    assert results("f NULL * x", function("f", INT)) == ()
    assert results("f -EPERM * x", function("f", FuncFlags.CANT_FAIL)) == ()
    assert results("f -1 * x\nf NULL * y", function("f", PTR)) == ("NULL", "-EPERM")


def test_copies_made_by_the_compiler_count_as_the_function() -> None:
    assert results("f NULL * x", function("f.constprop.0", PTR)) == ("NULL",)
    assert results("f NULL * x", function("f.cold", PTR)) == ()


def test_later_rules_go_before_earlier_ones() -> None:
    f = function("find_it", PTR)
    assert results("find_it -EPERM * x\nfind_* -ENOENT * y", f) == ("-ENOENT",)
    assert results("find_* NULL * x\nfind_it failure * NULL is bad here", f) == ()
    assert results("find_it failure * x\nfind_* NULL * y", f) == ("NULL",)


def test_the_users_own_list_and_a_further_file_are_read(home: Path) -> None:
    own = home / "retsnoop-py/no-failure.txt"
    own.parent.mkdir()
    own.write_text("# mine\n\nmine -ENOENT 6.1- looked up\n")
    further = home / "more.txt"
    further.write_text("more NULL * nothing found\n")
    rules = load(further)
    assert rules[-2:] == [
        Rule("mine", 2, "looked up", (6, 1)),
        Rule("more", 0, "nothing found"),
    ]
    assert load()[-1].glob == "mine"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("f NULL *", "list:2: 3 of 4 fields"),
        ("f NUL * x", "list:2: 'NUL' is neither NULL"),
        ("f ENOENT * x", "'ENOENT' is neither"),
        ("f -4096 * x", "'-4096' is neither"),
        ("f -0 * x", "'-0' is neither"),
        ("f -\u0663 * x", "is neither"),
        ("f NULL 6 x", "kernels '6': expected"),
        ("f NULL - x", "kernels '-': expected"),
        ("f NULL 6.1-7 x", "kernels '6.1-7': expected"),
    ],
)
def test_what_is_no_rule_is_told_with_its_line(line: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        parse(f"# head\n{line}\n", "list")
    assert problem in caught.value.message
    assert "FUNCTION RESULT KERNELS REASON" in (caught.value.hint or "")


def test_a_file_that_cannot_be_read_is_told(home: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(home / "missing.txt")
    binary = home / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not text"):
        load(binary)


def test_the_module_ships_its_list() -> None:
    assert ordinary.SHIPPED.is_file()
