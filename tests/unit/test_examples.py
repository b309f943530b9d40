# SPDX-License-Identifier: BSD-2-Clause
"""What the comparison of the pages' outputs with those of a run lets pass, and what not."""

from __future__ import annotations

from tests.examples import masked, shown


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


def test_the_tutorial_has_commands_with_outputs() -> None:
    page = shown("tutorial.md")
    assert [one.command.split()[0] for one in page].count("retsnoop-py") >= 3
    assert all("\n$ " not in one.output for one in page)
    assert any("because path->dentry" in one.output for one in page)
