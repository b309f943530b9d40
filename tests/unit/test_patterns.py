# SPDX-License-Identifier: BSD-2-Clause
"""No text makes a pattern of the package run for long."""

from __future__ import annotations

import pytest
from tests.unit.package_patterns import package_patterns
from tests.unit.pattern_cost import cost, tries_inside_names

PATTERNS = package_patterns()


def of_load() -> list[tuple[str | bytes, int]]:
    return [(pattern, flags) for name, pattern, flags in PATTERNS if ".load." in name]


def test_all_patterns_of_the_package_are_found() -> None:
    assert len(of_load()) > 350
    assert len(PATTERNS) > 550


@pytest.mark.parametrize(
    ("pattern", "power"),
    [
        ("abc", 1),
        (r"^a.*b", 1),
        (r"a.*b", 2),
        (r"a.*b.*c", 3),
        (r"a(?>.*?b).*c", 2),
        (r"^(?>.*?a)(?>.*?b)c", 1),
        (r"\s*\s*a", 3),
        (r"\w*fail\w*:", 3),
        (r"\bpin\w*\b.*x", 2),
        (r"x*+x*+y", 2),
        (r"^(?=.*?a)(?=.*?b)", 1),
        (r"foo\s+bar", 1),
        (r"foo.*", 1),
        (r"foo.*$", 2),
        (r"/sys/module/(?P<name>\w+)/\S*.*(?:no such file)", 3),
    ],
)
def test_the_cost_counts_the_repeats_that_multiply(pattern: str, power: int) -> None:
    assert cost(pattern)[:2] == (power, False)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:\W+)*x",
        r"(?:\W|: )*x",
        r"(a|a)*b",
        r"(?:a*)*b",
        r"(?:\w+ ?)*:",
        r"(?:: | is |\W+)*(?:not set)",
    ],
)
def test_a_repeat_that_reads_a_text_in_two_ways_is_exponential(pattern: str) -> None:
    assert cost(pattern).exponential


@pytest.mark.parametrize(("name", "pattern", "flags"), PATTERNS)
def test_no_pattern_costs_more_than_the_square_of_the_length(
    name: str, pattern: str | bytes, flags: int
) -> None:
    found = cost(pattern, flags)
    assert not found.exponential, f"{name}: exponential on {found.text!r} repeated"
    assert found.power <= 2, f"{name}: power {found.power} on {found.text!r} repeated"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w+) is",
        r"x|(?P<name>\S+)(?: not)? is",
        r"[\w.-]{1,60} is",
        r"(?<![a-z])\w+ is",
        r"(?:\w+ )?x",
    ],
)
def test_a_search_that_begins_inside_a_name_is_found(pattern: str) -> None:
    assert tries_inside_names(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b(\w+) is",
        r"(?<!\S)\S+ is",
        r"(?<![\w.-])[\w.-]{1,60} is",
        r"^\w+ is",
        r"is \w+",
        r"\w{1,4}x",
    ],
)
def test_a_search_that_begins_where_a_name_begins_passes(pattern: str) -> None:
    assert not tries_inside_names(pattern)


@pytest.mark.parametrize(("pattern", "flags"), of_load())
def test_names_in_a_log_are_tried_only_where_they_begin(pattern: str | bytes, flags: int) -> None:
    """One line of 4,096 underscores, dots or dashes kept ``explain`` busy for seconds."""
    assert not tries_inside_names(pattern, flags)
