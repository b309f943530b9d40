# SPDX-License-Identifier: BSD-2-Clause
"""Help on topics, man pages and docs/reference.md: all of it is there, and nothing is garbled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retsnoop_py.cli import manual
from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.help import TOPICS, Topic, commands, complete, topic_blocks
from retsnoop_py.cli.main import main
from retsnoop_py.cli.markdown import Block, parse, plain, roff, section
from retsnoop_py.options.config import KEYS
from retsnoop_py.text import display_width

ROOT = Path(__file__).parents[3]
PAGES = manual.man_pages()
#: The requests of man(7) and groff that the pages use.
REQUESTS = {
    ".TH",
    ".SH",
    ".SS",
    ".PP",
    ".TP",
    ".IP",
    ".B",
    ".BR",
    ".RS",
    ".RE",
    ".nf",
    ".fi",
    ".br",
}
#: The escapes: a backslash, a minus, nothing, a blank, fonts, named characters.
ESCAPES = re.compile(r"\\(?:e|-|&| |f[BIR]|\((?:aq|ga|ha|ti|bu))")


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_plain_text_that_fits(topic: Topic) -> None:
    blocks = topic_blocks(topic)
    lines = plain(blocks, 80)
    assert len(lines) > 15
    assert "\x1b" not in "".join(lines)
    for line in lines:
        if not line.startswith("    "):  # code, and words that cannot be broken
            assert display_width(line) <= 80 or len(line.split()) == 1, line
            assert "](" not in line
            assert "**" not in line


def test_a_topic_is_bold_on_a_terminal_only() -> None:
    blocks = parse("# Title\n\nSay `-e` twice.\n")
    assert plain(blocks, 80) == ["TITLE", "", "Say `-e` twice."]
    assert plain(blocks, 80, bold=True)[2] == "Say \x1b[1m-e\x1b[22m twice."


def test_bold_text_is_no_code() -> None:
    blocks = parse("With `-- CMD`, **it runs CMD again**.\n")
    assert plain(blocks, 80) == ["With `-- CMD`, it runs CMD again."]
    assert plain(blocks, 80, bold=True)[0].count("\x1b[1m") == 6  # each word is bold
    assert roff(blocks) == [".PP", r"With \fB\-\- CMD\fR, \fBit runs CMD again\fR."]


def test_every_topic_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for topic in TOPICS:
        assert main(["help", topic.name]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("\n".join(plain(topic_blocks(topic), 80)[:9]))


def test_help_without_a_word_lists_all_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    shown = capsys.readouterr().out
    for topic in TOPICS:
        assert re.search(rf"^{topic.name} +{re.escape(topic.about)}$", shown, re.MULTILINE)


def test_help_on_a_command_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    topics = {topic.name for topic in TOPICS}
    for name in SUB_COMMANDS:
        if name not in topics:
            assert main(["help", name]) == 0
            assert f"Usage: retsnoop-py {name}" in capsys.readouterr().out
    assert main(["help", "load"]) == 0
    assert capsys.readouterr().out.endswith("Its options: retsnoop-py load --help\n")


def test_a_misspelt_topic_is_answered_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help", "recordings"]) == 64
    assert "did you mean retsnoop-py help recording?" in capsys.readouterr().err
    assert main(["help", "globs", "filters"]) == 64


def test_topics_and_commands_complete() -> None:
    assert complete("re") == ["recording", "replay"]
    assert complete("exp") == ["explain"]


def test_markdown_is_cut_into_its_blocks() -> None:
    page = "# A\none\ntwo\n- x\n  y\n- z\n\n```\n# code\n```\n    more\n\n"
    page += "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |\n"
    assert parse(page) == [
        Block("heading", "A", 1),
        Block("paragraph", "one two"),
        Block("item", "x y"),
        Block("item", "z"),
        Block("code", "# code"),
        Block("code", "more"),
        Block("table", rows=(("a", "b"), ("1|2", "3"))),
    ]


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    blocks = parse("# A\n## B\nb\n### C\nc\n## D\nd\n")
    assert [block.text for block in section(blocks, "B")] == ["b", "C", "c"]
    with pytest.raises(KeyError):
        section(blocks, "E")


def test_a_table_too_wide_for_its_window_is_written_below_each_other() -> None:
    rows = (("a", "b"), ("x" * 30, "y " * 30))
    assert plain([Block("table", rows=rows)], 80)[0].startswith("a" + " " * 31 + "b")
    narrow = plain([Block("table", rows=rows)], 40)
    assert narrow[0] == "x" * 30
    assert narrow[1].startswith("    y y")


def test_roff_obeys_nothing_of_the_text() -> None:
    (_, line) = roff([Block("paragraph", ".SH is `.TH \\n-'`")])
    assert line == r"\&.SH is \fB.TH \en\-\(aq\fR"


@pytest.mark.parametrize("name", PAGES)
def test_a_man_page_is_sound_roff(name: str) -> None:
    lines = PAGES[name].splitlines()
    assert lines[0].startswith(".TH RETSNOOP")
    assert [line for line in lines if line in (".SH NAME", ".SH DESCRIPTION", ".SH SEE ALSO")] == [
        ".SH NAME",
        ".SH DESCRIPTION",
        ".SH SEE ALSO",
    ]
    assert lines.count(".nf") == lines.count(".fi")
    assert lines.count(".RS 4") == lines.count(".RE")
    for line in lines:
        if line.startswith("."):
            assert line.split()[0] in REQUESTS, line
        assert not line.startswith("'"), line
        assert "\\" not in ESCAPES.sub("", line), line
        assert line.count(r"\fB") + line.count(r"\fI") == line.count(r"\fR"), line


def test_every_option_of_every_command_is_in_its_man_page() -> None:
    for name, command in commands().items():
        page = PAGES["retsnoop-py.1" if name == "trace" else f"retsnoop-py-{name}.1"]
        text = page.replace("\\-", "-")
        for option in command.options:
            if not option.hidden:
                assert f".B {', '.join(option.spellings)}" in text, (name, option.spellings)
    for key in KEYS:
        assert f".B {key.name}" in PAGES["retsnoop-py.1"].replace("\\-", "-")
    for option_name in ("--on", "--modules", "--rw", "--memory", "--timeout", "--debug-info"):
        assert f".B {option_name}" in PAGES["retsnoop-py-vm.1"].replace("\\-", "-")


def test_man_pages_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    assert manual.main(["man", str(tmp_path / "man")]) == 0
    assert {path.name for path in (tmp_path / "man").iterdir()} == set(PAGES)
    assert manual.main(["man"]) == 64


def test_the_reference_is_what_the_code_says() -> None:
    """``python -m retsnoop_py.cli.manual reference > docs/reference.md`` makes it anew."""
    assert (ROOT / "docs/reference.md").read_text() == manual.reference()
