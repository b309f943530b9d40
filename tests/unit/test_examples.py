# SPDX-License-Identifier: BSD-2-Clause
"""Differences that the comparison of a page's output with a run accepts, and rejects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples import PAGES, ROOT, Shown, difference, masked, shown, shown_on, special

_FENCE = r"^```(.*)\n(?:.*\n)*?```$"


def test_times_and_addresses_are_not_compared() -> None:
    one = """\
18:06:09.483217 -> 18:06:09.493221 TID/PID 1/1 (a/a):
!  10us [-EPERM]  f   x = 0xffff89068041be40
"""
    two = """\
18:07:00.000000 -> 18:07:00.000001 TID/PID 22/22 (a/a):
!  1234us [-EPERM]  f   x = 0xffff000000000000
"""
    assert masked(one) == masked(two)


def test_progress_of_what_took_long_is_not_compared() -> None:
    slow = "Attaching 8 of 8 functions...\nx\nDetaching 1,008 of 2,016 functions...\ny\n"
    assert masked(slow) == ["x", "y"]


def test_functions_lines_and_small_values_are_compared() -> None:
    line = "  a.c:58:29   because attr->key_size != 4   attr->key_size = 0x8"
    for other in (line.replace("58", "59"), line.replace("0x8", "0x9"), line.replace("!=", "==")):
        assert masked(line) != masked(other)


def test_of_another_release_lines_are_not_compared_and_names_are() -> None:
    line = "  map_create+0x258  kernel/bpf/syscall.c:1353:5  Linux 6.12.107+deb13-amd64\n"
    other = "  map_create+0x25c  kernel/bpf/syscall.c:1360:9  Linux 6.12.117+deb13-amd64\n"
    assert masked(line) != masked(other)
    assert masked(line, moved=True) == masked(other, moved=True)
    assert masked(line, moved=True) != masked(other.replace("map_", "prog_"), moved=True)
    assert not difference(line, other, moved=True)


def test_the_tutorial_has_commands_with_outputs() -> None:
    page = shown("docs/tutorial.md")
    outputs = [one.output for one in page if one.output is not None]
    assert [one.command.split()[0] for one in page].count("retsnoop-py") >= 3
    assert not any("\n$ " in text for text in outputs)
    assert any("because path->dentry" in text for text in outputs)


def test_the_closing_line_may_be_left_out_and_must_be_right() -> None:
    told = "3 calls of entry functions, 1 failed; 1 printed.\nx\n"
    assert not difference("x\n", told)
    assert not difference("x\n3 calls of entry functions, 1 failed; 1 printed.\n", told)
    assert difference("x\n4 calls of entry functions, 1 failed; 1 printed.\n", told)


def test_a_gap_of_a_page_is_any_lines_and_any_words() -> None:
    told = "b: failed\nReceiving data...\n12:00:00.000001 -> x\n  f   a=1 b=2\n  g\nDONE in 3 ms.\n"
    assert not difference("b: failed\n...\n  f   a=1 ...\n  g\n", told)
    assert not difference("...\n  f   ... b=2\n  g\n", told)
    for untrue in ("failed\n...\n", "...\n  f   a=2 ...\n  g\n", "...\n  f   a=1 b=2\n"):
        assert difference(untrue, told)


def test_what_the_data_file_says_is_about_commands_that_are_there() -> None:
    pages = [one for page in PAGES for one in shown(page)]
    for row in special():
        about = [one for one in pages if one.page == row["page"]]
        about = [one for one in about if one.command.startswith(row.get("command", ""))]
        assert about, f"needed no longer: {row}"
        assert all(len(str(reason)) > 20 for key, reason in row.items() if key == "not-run")
    mine = [one for one in pages if "./loader" in one.command and one.kernel]
    assert [one.command for one in mine if "loader" not in one.needs] == []


def test_every_block_says_what_it_is() -> None:
    for page in PAGES:
        for fence in re.findall(
            r"^```(.*)\n(?:.*\n)*?```$", (ROOT / page).read_text(), re.MULTILINE
        ):
            assert fence, f"{page}: a block is console, sh, text or of a language"


def test_what_is_shown_of_a_command_is_in_a_console_block() -> None:
    """Otherwise a shown run would not be tested."""
    for page in PAGES:
        text = re.sub(r"^```console\n(.*?)^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
        assert not re.search(r"^ *\$ \w", text, re.MULTILINE), page


@pytest.mark.parametrize("one", shown_on("host"), ids=lambda one: one.command)
def test_what_needs_no_kernel_prints_what_its_page_shows(one: Shown) -> None:
    words = ["sh", "-c", f"exec 2>&1; {one.command}"]
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    folder = ROOT / "tests/golden"
    done = subprocess.run(words, cwd=folder, env=env, stdout=-1, text=True, check=False)
    if one.output is None:
        assert done.returncode == int(one.needs.get("status", "0")), done.stdout
    else:
        assert not difference(one.output, done.stdout), done.stdout
