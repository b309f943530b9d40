# SPDX-License-Identifier: BSD-2-Clause
"""A word that does not belong there: what it was probably meant to be."""

from __future__ import annotations

import pytest

from retsnoop_py.cli import tables
from retsnoop_py.cli.argv import normalise
from retsnoop_py.cli.positional import refuse_words
from retsnoop_py.errors import UsageError

TABLE = tables.trace_table()
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
    ],
)
def test_the_hint_says_what_to_write_instead(words: list[str], word: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_words(normalise(words, TABLE), FILES.__contains__, COMMANDS.__contains__)
    assert caught.value.message == f"unexpected word '{word}'"
    assert hint in (caught.value.hint or "")


def test_options_of_a_command_without_its_dashes_are_recognised() -> None:
    with pytest.raises(UsageError, match="unknown option -Z") as caught:
        normalise(["-e", "x", "ls", "-Z", "a b"], TABLE)
    assert (caught.value.hint or "").endswith("put -- before it: -- ls -Z 'a b'")


def test_a_command_behind_two_dashes_is_no_stray_word() -> None:
    refuse_words(normalise(["-e", "x", "--", "ls", "notes"], TABLE))
