# SPDX-License-Identifier: BSD-2-Clause
"""Patterns that are not tried where they cannot match."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retsnoop_py.load import loader_rules, operation_rules, prefilter
from retsnoop_py.load.prefilter import PatternSet, fold, needed_words

RULES = [row[2] for row in loader_rules._RULES]
OPERATIONS = [operation.words for operation in operation_rules.OPERATIONS]
HERE = Path(__file__).parent
#: What re.IGNORECASE takes for ASCII letters.
ASCII = st.characters(codec="ascii")
ALIKE = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}


def lines_of_tests() -> list[str]:
    tree = ast.parse((HERE / "test_explain.py").read_text())
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    texts.append((HERE / "agent.log").read_text(errors="replace"))
    return sorted({line for text in texts for line in text.splitlines()})


def numbers(patterns: PatternSet, text: str) -> list[int]:
    return [number for number, _ in patterns.search(text)]


def disguised(text: str, chance: random.Random) -> str:
    """``text`` with some letters as re.IGNORECASE takes them as well."""
    return "".join(
        chance.choice([letter, letter.upper(), *ALIKE.get(letter.lower(), "")]) for letter in text
    )


@pytest.mark.parametrize("patterns", [RULES, OPERATIONS], ids=["rules", "operations"])
def test_each_line_meets_the_same_patterns_as_without_an_index(patterns: list[str]) -> None:
    compiled = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    indexed = PatternSet(patterns, re.IGNORECASE, after=0)
    lines = lines_of_tests()
    assert len(lines) > 500
    for line in lines:
        assert numbers(indexed, line) == [
            number for number, pattern in enumerate(compiled) if pattern.search(line)
        ]


@pytest.mark.parametrize("pattern", sorted({*RULES, *OPERATIONS}))
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_what_a_rule_matches_passes_its_prefilter(pattern: str, data: st.DataObject) -> None:
    patterns = PatternSet([pattern], re.IGNORECASE, after=0)
    text = data.draw(st.from_regex(re.compile(pattern, re.IGNORECASE), alphabet=ASCII))
    for line in (text, disguised(text, data.draw(st.randoms()))):
        if re.search(pattern, line, re.IGNORECASE):
            assert numbers(patterns, line) == [0]


def test_most_rules_need_words() -> None:
    without = [pattern for pattern in (*RULES, *OPERATIONS) if not all(needed_words(pattern))]
    assert len(without) < 0.1 * (len(RULES) + len(OPERATIONS))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("map '[^']+': failed", [({"': failed"}, {"map '"})]),
        ("first|second", [({"first"},), ({"second"},)]),
        (r"a(?:b|\w)c", [({"a"}, {"c"})]),
        ("(?:first|second) (?:time)?", [({"first", "second"}, {" "})]),
        ("(?:first)?", [()]),
        ("(?:first){2}", [({"first"},)]),
        ("(?=.*first)", [({"first"},)]),
        ("(?!first)", [()]),
        ("[Ff]irst", [({"first"},)]),
        ("[fF][rs]", [({"f"},)]),
        (r"\d+", [()]),
    ],
)
def test_words_of_a_pattern(pattern: str, words: list[tuple[set[str], ...]]) -> None:
    assert needed_words(pattern) == [tuple(map(frozenset, sets)) for sets in words]


def test_letters_that_are_the_same_but_for_case_are_folded_to_one() -> None:
    for letter, others in ALIKE.items():
        for other in others:
            assert fold(other) == letter
            assert re.fullmatch(letter, other, re.IGNORECASE)


def test_the_first_texts_are_not_worth_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(prefilter, "needed_words", lambda *given: asked.append(given[0]) or [()])
    patterns = PatternSet(["one", "other"], after=2)
    assert numbers(patterns, "one other") == numbers(patterns, "other one") == [0, 1]
    assert not asked
    assert numbers(patterns, "other") == [1]
    assert asked == ["one", "other"]


def test_without_the_parser_of_re_all_patterns_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(prefilter, "import_module", gone)
    assert list(PatternSet(["one", "other"], after=0).candidates("")) == [0, 1]
