# SPDX-License-Identifier: BSD-2-Clause
"""One run on several kernels: what is asked of each, and in which order its output is shown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from retsnoop_py.cli import on, trace
from retsnoop_py.cli.argv import normalise
from retsnoop_py.cli.declare import trace_table
from retsnoop_py.cli.on import run_lines
from retsnoop_py.cli.verdict import Judge
from retsnoop_py.errors import InputError, OutputError, UsageError
from retsnoop_py.model.session import VERSION, RunResult
from retsnoop_py.render.palette import Palette
from retsnoop_py.settings import VerdictSettings
from retsnoop_py.vm.errors import KernelCrashed


def asked(*words: str) -> on.OnRequest:
    line = normalise(words, trace_table())
    return on.request(line, trace.COMMAND.call(line))


def test_a_guest_gets_the_same_command_line_without_what_is_for_this_side() -> None:
    words = ("--on", "5.10,7.2", "-vTe", "a*", "--jobs=1", "-o", "x.rsn", "--fail-on", "EPERM")
    found = asked(*words, "--on", "6.1,5.10", "-Sn", "--", "sh", "-o", "x")
    assert found.kernels == ("5.10", "7.2", "6.1")
    assert found.words == (
        *("--verbose", "--trace", "--entry=a*", "--fail-on=EPERM", "--success-stacks=n"),
    )
    assert found.settings.command == ("sh", "-o", "x")
    assert (found.jobs, found.timeout) == (1, 600.0)


@pytest.mark.parametrize(
    "words",
    [
        ["--on", "5.10", "-e", "a"],
        ["--on", ",", "-e", "a", "--", "true"],
        ["--on", "host", "-e", "a", "--", "true"],
        ["--on", "5.10", "-e", "a", "-k", "vmlinux", "--", "true"],
        ["--on", "5.10", "-e", "a", "--user", "nobody", "--", "true"],
        ["--on", "5.10", "-e", "a", "--jobs", "none", "--", "true"],
        ["--on", "5.10", "-e", "a", "--timeout", "0", "--", "true"],
        ["--on", "5.10", "-e", "a", "--expect", "EPERM", "--expect-none", "--", "true"],
        ["--on", "5.10", "-e", "a", "--fail-on", "EFOO", "--", "true"],
    ],
)
def test_what_makes_no_sense_in_a_guest_is_told_before_one_boots(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        asked(*words)
    assert caught.value.message


def test_an_unknown_kernel_and_a_folder_that_is_missing_are_told_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no kernel called 4\.4"):
        on.run(asked("--on", "5.10,4.4", "-e", "a", "--", "true"))
    nowhere = str(tmp_path / "missing" / "x.rsn")
    with pytest.raises(OutputError, match=r"x\.rsn"):
        on.run(asked("--on", "5.10", "-e", "a", "-o", nowhere, "--", "true"))


def test_each_kernel_has_a_recording_of_its_own() -> None:
    assert on.recording_path(Path("out/bad.rsn"), "5.10") == Path("out/bad.5.10.rsn")
    assert on.recording_path(Path("bad"), "/boot/bzImage") == Path("bad._boot_bzImage")


def test_output_comes_in_the_order_of_the_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    with on._Outlet(["old", "new"], is_json=False) as outlet:
        outlet.write("new", 1, b"n1\n")
        outlet.write("old", 1, b"o1\n")
        outlet.write("new", 2, b"n2\n")
        outlet.write("new", 1, b"n3\n")
        assert capfd.readouterr().out == "==> old <==\no1\n"
        outlet.end("old")
        outlet.write("new", 1, b"n4\n")
        outlet.end("new")
    out, err = capfd.readouterr()
    assert out == "==> new <==\nn1\nn3\nn4\n"
    assert err == "==> new <==\nn2\n"


def test_lines_of_json_name_their_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    with on._Outlet(["5.10"], is_json=True) as outlet:
        outlet.write("5.10", 1, b'{"type":"sess')
        outlet.write("5.10", 1, b'ion"}\n{"cut')
        outlet.end("5.10")
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line) == {"on": "5.10", "type": "session"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"on":"6.12","b":1}',
        b'{"b":1,"on":{"x":[]}}',
        b'{"\\u006fn":"6.12","b":1}',
        b'{"b":2,"on":1,"b":1}',
    ],
)
def test_a_guest_does_not_pose_as_another_kernel(
    capfd: pytest.CaptureFixture[str], line: bytes
) -> None:
    with on._Outlet(["5.10"], is_json=True) as outlet:
        outlet.write("5.10", 1, b"{}\n{broken\n[1]\n" + line + b"\n")
        outlet.end("5.10")
    empty, found = capfd.readouterr().out.splitlines()
    assert empty == '{"on":"5.10"}'
    assert found == '{"on":"5.10","b":1}'


def test_a_line_of_json_without_end_takes_no_memory(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on, "_MAX_LINE", 1000, raising=False)
    with on._Outlet(["5.10"], is_json=True) as outlet:
        outlet.write("5.10", 1, b'{"a":"')
        for _ in range(50):
            outlet.write("5.10", 1, b'{"x' * 100)
            assert len(outlet._line) <= 1300
        outlet.write("5.10", 1, b'"}\n{"b":1}\n')
        outlet.end("5.10")
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line) == {"on": "5.10", "b": 1}


def test_a_guest_names_no_file_of_this_machine_and_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nasty = "\u202e\x9b2J"
    made = RunResult(VERSION, "ok", 0, why=(nasty,), recording="/etc/shadow")
    (tmp_path / "summary").write_bytes(msgspec.json.encode(made))
    found = on._summary(tmp_path / "summary", "6.12", "6.12.1", 0)
    assert (found.recording, found.kernel) == ("", "6.12.1")
    on._print_json(found)
    shown = capsys.readouterr().out
    assert shown.removesuffix("\n").isprintable()
    assert json.loads(shown)["why"] == [nasty]


def test_the_console_of_a_lost_guest_controls_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    error = KernelCrashed("Linux 6.12 crashed", "its console:\n\x1b]0;FORGED\x07\n ::add-mask::a")
    with on._Outlet(["6.12"], is_json=False) as outlet:
        assert on._lost("6.12", "6.12.1", error, outlet).verdict == "crashed"
        outlet.end("6.12")
    shown = capfd.readouterr().err
    assert "\x1b" not in shown
    _, stop, *lines, go = shown.splitlines()
    assert stop.removeprefix("::stop-commands::") == go.strip(":")
    assert " ::add-mask::a" in lines


def row(verdict: str, **fields: object) -> RunResult:
    return RunResult(VERSION, verdict, 0, **fields)


def test_the_table_has_a_row_for_each_and_says_why() -> None:
    many = dict.fromkeys(("EPERM", "ENOENT", "EINVAL", "EIO", "EBUSY", "ENOMEM"), 1)
    rows = [
        row("ok", on="5.10", kernel="5.10.0", command_status=0),
        row("unexpected", on="6.1", kernel="6.1.0", sessions=many, why=("EPERM: caught",)),
        row("crashed", on="7.2", why=("Linux 7.2 went down\x1b",), lost={"lost_kernel": 2}),
    ]
    title, first, second, why, third, reason = run_lines(rows, Palette("", "", "", "", ""))
    assert first.split() == ["5.10", "5.10.0", "none", "-", "0", "ok"]
    assert "1 EPERM, 1 ENOENT, 1 EINVAL, 1 EIO, 2 more errors" in second
    assert why.strip() == "EPERM: caught"
    assert third.split() == ["7.2", "-", "-", "lost_kernel", "2", "-", "crashed"]
    assert reason.strip() == "Linux 7.2 went down\\x1b"
    assert title.index("verdict") == second.index("unexpected")


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [(["ok", "ok"], 0), (["ok", "failed"], 2), (["unexpected", "crashed"], 3), (["error"], 2)],
)
def test_the_exit_status_sums_up(verdicts: list[str], status: int) -> None:
    assert on._status([row(verdict) for verdict in verdicts]) == status


@pytest.mark.parametrize(
    ("settings", "command", "status"),
    [
        (VerdictSettings(), 5, 5),
        (VerdictSettings(fail_on=frozenset({2})), 5, 5),
        (VerdictSettings(expect=frozenset({2})), 5, 3),
        (VerdictSettings(expect_none=True), 5, 5),
        (VerdictSettings(expect_none=True), None, 0),
    ],
)
def test_the_status_of_the_command_stays_where_nothing_was_caught(
    settings: VerdictSettings, command: int | None, status: int, tmp_path: Path
) -> None:
    judge = Judge(settings, tmp_path / "summary")
    assert judge.status(0, command) == status
    told = json.loads((tmp_path / "summary").read_text())
    assert (told["exit_status"], told.get("command_status")) == (status, command)


@pytest.mark.parametrize(("command", "status"), [(5, 0), (139, 139), (None, 0)])
def test_what_was_expected_makes_a_failing_command_a_success_unless_killed(
    command: int | None, status: int
) -> None:
    judge = Judge(VerdictSettings(expect=frozenset({2})))
    judge.caught._having[2] = 1
    assert judge.status(0, command) == status
