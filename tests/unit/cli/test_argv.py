# SPDX-License-Identifier: BSD-2-Clause
"""The normaliser: one form for every way of writing the same command line.

A word that does not belong there: what it was probably meant to be.
"""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.cli import declare, doctor
from retsnoop_py.cli import main as entry
from retsnoop_py.cli.argv import Kind, Normalised, Table, normalise, refuse_words
from retsnoop_py.errors import UsageError

TABLE = declare.trace_table()


def options_of(*words: str) -> list[str]:
    return normalise(words, TABLE).option_argv


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-e", "foo"], ["--entry=foo"]),
        (["-efoo"], ["--entry=foo"]),
        (["-e=foo"], ["--entry=foo"]),
        (["--entry", "foo"], ["--entry=foo"]),
        (["--entry=foo"], ["--entry=foo"]),
        (["--ent", "foo"], ["--entry=foo"]),
        (["--ent=foo"], ["--entry=foo"]),
        (["--entry="], ["--entry="]),
        (["-e", ""], ["--entry="]),
        (["-a", "a", "-d", "d"], ["--allow=a", "--deny=d"]),
        (["-S"], ["--success-stacks=y"]),
        (["-Sn"], ["--success-stacks=n"]),
        (["-Sy"], ["--success-stacks=y"]),
        (["--success-stacks"], ["--success-stacks=y"]),
        (["--success-stacks=n"], ["--success-stacks=n"]),
        (["-s"], ["--symbolize=linenum"]),
        (["-ss"], ["--symbolize=s"]),
        (["-sn"], ["--symbolize=n"]),
        (["--symbolize"], ["--symbolize=linenum"]),
        (["--symb=none"], ["--symbolize=none"]),
        (["-vS"], ["--verbose", "--success-stacks=y"]),
        (["-vSn"], ["--verbose", "--success-stacks=n"]),
        (["-vvefoo"], ["--verbose", "--verbose", "--entry=foo"]),
        (["-ve", "foo"], ["--verbose", "--entry=foo"]),
        (["-vv"], ["--verbose", "--verbose"]),
        (["-v2"], ["--verbose", "--verbose"]),
        (["--verbose=2"], ["--verbose", "--verbose"]),
        (["--verbose=vv"], ["--verbose", "--verbose", "--verbose"]),
        (["-x", "-EINVAL"], ["--allow-errors=-EINVAL"]),
        (["-x-EINVAL"], ["--allow-errors=-EINVAL"]),
        (["-n", "-bash"], ["--comm=-bash"]),
        (["-L", "-5"], ["--longer=-5"]),
        (["--comm", "x"], ["--comm=x"]),
        (["--kprobes"], ["--kprobes"]),
        (["-E"], ["--call-stack"]),
        (["-C", "a.b=c=d"], ["--config=a.b=c=d"]),
        (["--stacks-map-size", "7"], ["--config=bpf.sessions-size=7"]),
        (["--stacks-map-size=7"], ["--config=bpf.sessions-size=7"]),
        (["--ringbuf-map-size", "7"], ["--config=bpf.ringbuf-size=7"]),
        (["--full-stacks"], ["--config=stacks.unfiltered=y", "--config=stacks.emit-addrs=y"]),
        (["-R"], ["--lbr=any_return"]),
        (["-Rany"], ["--lbr=any"]),
        (["--lbr-max-count", "3"], ["--config=fmt.lbr-max-count=3"]),
        (["--lbr-max-count=3"], ["--config=fmt.lbr-max-count=3"]),
        (["--intermediate-stacks"], ["--interim-stacks"]),
        (["-lv"], ["--debug=bpf", "--verbose"]),
        (["--bpf-logs"], ["--debug=bpf"]),
        (["-o", "-"], ["--output=-"]),
    ],
)
def test_every_spelling_has_one_form(words: list[str], expected: list[str]) -> None:
    line = normalise(words, TABLE)
    assert line.option_argv == expected
    assert not line.words
    assert line.command is None


def test_an_optional_value_is_never_taken_from_the_next_word() -> None:
    line = normalise(["-S", "n", "-s", "s"], TABLE)
    assert line.option_argv == ["--success-stacks=y", "--symbolize=linenum"]
    assert [word.text for word in line.words] == ["n", "s"]


def test_everything_behind_two_dashes_is_the_command() -> None:
    line = normalise(["-e", "foo", "--", "ls", "-e", "--", "-T", ""], TABLE)
    assert line.option_argv == ["--entry=foo"]
    assert line.command == ("ls", "-e", "--", "-T", "")


def test_options_may_stand_behind_a_word() -> None:
    line = normalise(["word", "-v"], TABLE)
    assert line.option_argv == ["--verbose"]
    assert [(word.text, word.position) for word in line.words] == [("word", 0)]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--con", "x"], "--con is ambiguous: --config, --config-help", "write one of them out"),
        (["--kprobe"], "--kprobe is ambiguous: --kprobes, --kprobes-multi", "write one"),
        (["--entri", "x"], "unknown option --entri", "did you mean --entry or"),
        (["--entyr", "x"], "unknown option --entyr", "did you mean --entry?"),
        (["--zzz"], "unknown option --zzz", "retsnoop-py --help"),
        (["-Z"], "unknown option -Z", "retsnoop-py --help"),
        (["-vZ"], "unknown option -Z in '-vZ'", "retsnoop-py --help"),
        (["-entry", "x"], "unknown option -entry", "two dashes: --entry"),
        (["-e"], "-e needs a value (GLOB)", "retsnoop-py --help"),
        (["-e", "--", "ls"], "-e needs a value (GLOB)", "retsnoop-py --help"),
        (["--pid"], "--pid needs a value (PID)", "retsnoop-py --help"),
        (["-e", "-a", "x"], "-e needs a value (GLOB), but '-a' follows", "--entry=-a"),
        (["--dry-run=yes"], "--dry-run takes no value ('--dry-run=yes')", "retsnoop-py --help"),
        (["--stacks-map-size"], "--stacks-map-size needs a value (N)", "retsnoop-py --help"),
    ],
)
def test_a_wrong_option_is_one_message_and_the_next_step(
    words: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        normalise(words, TABLE)
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_status == 64


def test_old_spellings_are_not_what_is_abbreviated() -> None:
    assert normalise(["--interi"], TABLE).option_argv == ["--interim-stacks"]
    assert normalise(["--inter"], TABLE).option_argv == ["--interim-stacks"]
    assert normalise(["--intermed"], TABLE).option_argv == ["--interim-stacks"]


@pytest.mark.parametrize("word", ["-l", "--bpf-logs", "--stacks-map-size=7"])
def test_old_spellings_of_what_a_command_has_not_are_refused_as_that(word: str) -> None:
    table = declare.command_table(doctor.COMMAND)
    with pytest.raises(UsageError, match="concerns tracing"):
        normalise([word], table)


def test_the_table_comes_from_the_rows() -> None:
    kinds = {spec.long: spec.kind for spec in TABLE.specs}
    assert kinds["entry"] is Kind.VALUE
    assert kinds["success-stacks"] is Kind.OPTIONAL
    assert kinds["verbose"] is Kind.FLAG
    assert kinds["dry-run"] is Kind.FLAG
    letters = "".join(sorted(spec.short for spec in TABLE.specs if spec.short))
    assert letters == "ABCEFIJKLMNPSTVXacdehknopsvx"


_PIECES = st.sampled_from(
    shlex.split(
        "-e -a -d -c -x -X -S -Sn -s -ss -sn -vS -vv -v2 -p -n -L 7 foo -EINVAL --ent --entry "
        "--entry=x --symbolize --success-stacks=n --verbose=2 -C a.b=c --full-stacks -efoo "
        "--stacks-map-size --dry-run -K - '' = -o -k"
    )
)
_ARGV = st.lists(_PIECES | st.text(max_size=5), max_size=8)
_COMMAND = st.lists(_PIECES | st.just("--") | st.text(max_size=5), max_size=5)


def _try(words: list[str], table: Table = TABLE) -> Normalised | None:
    try:
        return normalise(words, table)
    except UsageError:
        return None


@given(_ARGV, st.none() | _COMMAND)
def test_normalising_twice_changes_nothing(words: list[str], command: list[str] | None) -> None:
    line = _try(words + ([] if command is None else ["--", *command]))
    if line:
        assert normalise(line.argv, TABLE).argv == line.argv


@given(_ARGV, _COMMAND)
def test_the_command_is_never_lost_nor_changed(words: list[str], command: list[str]) -> None:
    before = _try([word for word in words if word != "--"])
    if before:
        whole = normalise([*(word for word in words if word != "--"), "--", *command], TABLE)
        assert whole.command == tuple(command)
        assert whole.option_argv == before.option_argv
        assert whole.words == before.words


@given(_ARGV)
def test_any_words_end_in_a_form_or_a_usage_error(words: list[str]) -> None:
    line = _try(words)
    if line:
        known = {spec.long for spec in TABLE.specs}
        assert all(name in known for name, _ in line.options)


FILES = {"ovl_a.c", "ovl_b.c", "notes"}
COMMANDS = {"ls", "python3"}


@pytest.mark.parametrize(
    ("words", "word", "hint"),
    [
        (["-e", "ovl_a.c", "ovl_b.c"], "ovl_b.c", "expanded your glob; quote it: -e 'GLOB'"),
        (["-a", "ovl_a.c", "ovl_b.c", "-v"], "ovl_b.c", "quote it: -a 'GLOB'"),
        (["-e", "x", "ls", "notes"], "ls", "retsnoop-py ... -- ls notes"),
        (["-e", "x", "./loader", "a b"], "./loader", "-- ./loader 'a b'"),
        (["-e", "x", "/bin/nothing"], "/bin/nothing", "-- /bin/nothing"),
        (["-e", "x", "python3", "--", "-c", "1"], "python3", "-- python3 -c 1"),
        (["-c", "bpf", "notes"], "notes", "if the shell expanded a glob, quote it"),
        (["tcp_connect"], "tcp_connect", "-e ('-e tcp_connect')"),
        (["-S", "n", "-e", "x"], "n", "glued to -S: -Sn"),
        (["-e", "x", "-s", "s"], "s", "glued to -s: -ss"),
        (["-v", "2"], "2", "say -v, -vv or -vvv"),
        (["-v", "vm", "list"], "vm", "first word: retsnoop-py vm ..."),
        (["fnctions", "tcp_connect"], "fnctions", "did you mean retsnoop-py functions?"),
        (["explian"], "explian", "did you mean retsnoop-py explain?"),
        (["vn", "list"], "vn", "did you mean retsnoop-py vm?"),
    ],
)
def test_the_hint_says_what_to_write_instead(words: list[str], word: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_words(normalise(words, TABLE), FILES.__contains__, COMMANDS.__contains__)
    assert caught.value.message == f"unexpected word '{word}'"
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("functions --colums x", "unknown option --colums", "'retsnoop-py functions --help'"),
        ("load --on", "--on needs a value (KERNEL,...)", "'retsnoop-py load --help'"),
        ("vm run --onn 5.10", "unknown option --onn", "did you mean --on?"),
        ("vm run --xyzzy", "No such option: --xyzzy", "'retsnoop-py vm run --help'"),
    ],
)
def test_a_wrong_option_of_a_command_leads_to_that_commands_help(
    words: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(words.split()) == 64
    told = capsys.readouterr().err
    assert f"error: {message}\nhint: {hint}" in told


def test_options_of_a_command_without_its_dashes_are_recognised() -> None:
    with pytest.raises(UsageError, match="unknown option -Z") as caught:
        normalise(["-e", "x", "ls", "-Z", "a b"], TABLE)
    assert (caught.value.hint or "").endswith("put -- before it: -- ls -Z 'a b'")


def test_a_command_behind_two_dashes_is_no_stray_word() -> None:
    refuse_words(normalise(["-e", "x", "--", "ls", "notes"], TABLE))
