# SPDX-License-Identifier: BSD-2-Clause
"""Texts for newcomers are in plain English: pages, help texts, messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.plain import Count, count, messages, page

import retsnoop_py
from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.declare import command_of

ROOT = Path(__file__).parents[2]
#: The pages that a newcomer reads first. Other pages are added when they are rewritten.
PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("install", "tutorial", "why", "doctor", "load", "api")),
    *(f"docs/topics/{name}.md" for name in ("globs", "lbr", "recording", "sessions")),
    *(f"docs/howto/{name}.md" for name in ("containers", "eperm", "old-kernels", "production")),
)
#: Hits per 100 sentences.
MOST = 5


def assert_plain(found: Count) -> None:
    assert found.sentences
    assert found.per_100 <= MOST, "\n".join(f"'{hit}' in: {text}" for hit, text in found.hits)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_plain(name: str) -> None:
    assert_plain(count([page((ROOT / name).read_text())]))


def test_help_texts_are_plain() -> None:
    commands = [command_of(name) for name in ("trace", *SUB_COMMANDS) if name != "vm"]
    texts = {one.help for command in commands for one in command.options if not one.hidden}
    assert_plain(count([*texts, *(command.text for command in commands)]))


def test_messages_are_plain() -> None:
    modules = sorted(Path(retsnoop_py.__file__).parent.rglob("*.py"))
    assert_plain(count(text for one in modules for text in messages(one.read_text())))


def test_a_sentence_that_is_not_plain_is_found() -> None:
    found = count(["Nobody pays who is told nothing. retsnoop-py prints the error of each call."])
    assert (found.sentences, found.per_100) == (2, 100)
    assert [hit.lower() for hit, _ in found.hits] == ["nobody", "is told"]


def test_code_is_no_prose_and_values_are_no_words() -> None:
    text = (
        "# Title\n\n```sh\nof them whatever\n```\n\nUse `whatever` in the [first page](whose.md).\n"
    )
    assert count([page(text)]) == Count(1, ())
    source = '"""Of what it is."""\nraise E(f"{name} is {of} no file at {place}", "give a path")\n'
    assert list(messages(source)) == ["X is X no file at X", "give a path"]
