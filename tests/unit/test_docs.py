# SPDX-License-Identifier: BSD-2-Clause
"""README and docs name nothing that is not there: commands, options, settings, files, links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from retsnoop_py.api.keywords import TraceOptions
from retsnoop_py.cli import declare, main, manual, vm
from retsnoop_py.cli.help import commands
from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.load.verifier_rules import RULES
from retsnoop_py.options.config import KEYS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = [ROOT / name for name in ("src", "tests", "docs", "vmlinux", "release")]
PROGRAM = "retsnoop-py"
COMMANDS = list(commands().values())
#: Long options of docker, pip and apt, of bpfsnoop, and of the benchmarks' and soak's programs.
FOREIGN = {
    *("--cap-add", "--privileged"),
    *("--no-build-isolation", "--no-index", "--no-deps", "--no-install-recommends"),
    *("--filter-arg", "--icount", "--write-docs", "--scale"),
}
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4,}).*\n)+", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A command up to a pipe or redirection that no quotes hold.
_PART = re.compile(r"""(?:'[^']*'|"[^"]*"|[^'"|;&>#])*""")
_FILE = re.compile(r"(?:src|tests|docs|vmlinux)/[\w./-]*[\w/]")
_FILE_NAME = re.compile(r"\w[\w/.-]*\w\.(?:py|[ch]|toml|txt|md|json)")
#: Files of the kernel, of the user and of container runtimes.
ELSEWHERE = {
    "kernel/events/core.c",
    "kernel/bpf/arraymap.c",
    "config.json",
    "kernels.toml",
    "arguments.toml",
}


class Said(NamedTuple):
    """A command line, and where it stands; ``is_span``: within a sentence, so it may be partial."""

    page: str
    text: str
    is_span: bool


def _without_blocks(text: str) -> str:
    return _FENCE.sub("", text)


def _spans(text: str) -> list[str]:
    return [" ".join(one.split()) for one in _SPAN.findall(_without_blocks(text))]


def _block_lines(text: str) -> Iterator[str]:
    blocks = _FENCE.findall(text) + _INDENTED.findall(_without_blocks(text))
    for block in blocks:
        yield from re.sub(r"\\\n", " ", block).splitlines()


def _commands(name: str, text: str) -> Iterator[Said]:
    for line in _block_lines(text):
        words = line.strip().removeprefix("$ ")
        # A pipe leads to a separate command.
        for part in re.split(r" \| ", words):
            if re.match(rf"(?:sudo )?(?:\.venv/bin/)?{PROGRAM}(?: |$)", part):
                yield Said(name, part, False)
    for span in _spans(text):
        if re.match(rf"(?:sudo )?(?:\.venv/bin/)?{PROGRAM} \S", span):
            yield Said(name, span, True)


def _said() -> list[Said]:
    return [one for page in PAGES for one in _commands(page.name, page.read_text())]


def _words(text: str) -> list[str]:
    """Return the words after the program's name, without placeholders (``...``, ``[X]``)."""
    match = _PART.match(text.replace(r"\|", "|"))
    assert match
    words = shlex.split(match[0])
    while words and not words[0].endswith(PROGRAM):
        del words[0]
    return [word for word in words[1:] if word != "..." and not word.startswith("[")]


def _parse(said: Said) -> None:
    words = _words(said.text)
    if said.is_span and not {"-e", "-c", "--entry", "--help", "-V", "--config-help"} & set(words):
        at = words.index("--") if "--" in words else len(words)
        first = words[0] if words else ""
        if first.startswith("-") or not first:
            words[at:at] = ["-e", "GLOB"]
        elif not [word for word in words[1:] if not word.startswith("-") and word != "json"]:
            # the word that a sentence leaves out
            words += {
                "replay": ["X"],
                "functions": ["X"],
                "why": ["X"],
                "explain": ["X"],
                "load": ["X"],
                "diff": ["X", "Y"],
            }.get(first, [])
    _understand(words)


def _understand(words: Sequence[str]) -> None:
    if words[:1] == ["vm"]:
        _understand_vm(list(words[1:]))
        return
    try:
        main._job(list(words))
    except InputError:
        pass  # a file that stands for the reader's own
    command = list(words[words.index("--") + 1 :]) if "--" in words else []
    _inner(command)


def _understand_vm(words: list[str]) -> None:
    group: Any = get_command(vm.app)
    if not words:
        return
    try:
        context = group.make_context("vm", [])
        name, found, rest = group.resolve_command(context, words)
        if "--help" in rest:
            return
        needed = {"run": ["CMD"], "fetch": ["KERNEL"]}.get(name, [])
        parsed = found.make_context(name, rest or needed, parent=context)
    except Exception as error:
        # An exception of click, or of typer's copy of click, identified by this method.
        told = getattr(error, "format_message", None)
        if told is None:
            raise
        raise UsageError(told()) from None
    _inner(list(parsed.params.get("command") or []))


def _inner(command: list[str]) -> None:
    """A command that is run may be ours again."""
    if command and command[0].endswith(PROGRAM):
        _understand(command[1:])


SAID = _said()


@pytest.mark.parametrize("said", SAID, ids=[f"{one.page}: {one.text[:60]}" for one in SAID])
def test_a_command_of_a_page_is_understood(said: Said) -> None:
    try:
        _parse(said)
    except UsageError as error:
        pytest.fail(f"{said.page}: {said.text}: {error.message}; {error.hint}")


def test_commands_are_found_in_blocks_and_sentences() -> None:
    text = "Say `retsnoop-py doctor`:\n\n```\n$ sudo retsnoop-py -c bpf |\n    jq\n```\n"
    assert [(one.text, one.is_span) for one in _commands("x", text)] == [
        ("sudo retsnoop-py -c bpf |", False),
        ("retsnoop-py doctor", True),
    ]
    assert len(SAID) > 30


@pytest.mark.parametrize(
    "text",
    [
        "retsnoop-py -c bpf --nonsense",
        "retsnoop-py -e x -C fmt.nothing=y",
        "retsnoop-py functoins GLOB",
        "retsnoop-py vm run --onn 6.12 -- true",
        "retsnoop-py vm run -- retsnoop-py --nonsense",
        "retsnoop-py -c bpf -x EFOO -- ./loader",
    ],
)
def test_what_is_not_understood_fails(text: str) -> None:
    with pytest.raises(UsageError):
        _parse(Said("x", text, False))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_without_blocks(page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    """Those that Markdown makes of headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_a_page_names_exist(page: Path) -> None:
    for span in _spans(page.read_text()):
        for name in _FILE.findall(span):
            if span.startswith(name) or f" {name}" in span:
                assert (ROOT / name).exists(), f"{page.name}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_a_page_names_exist(page: Path) -> None:
    there = {f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in folder.rglob("*.*")}
    there |= {f"/{path.name}" for path in ROOT.glob("*.*")}
    for span in _spans(page.read_text()):
        if _FILE_NAME.fullmatch(span) and span not in ELSEWHERE:
            assert any(name.endswith(f"/{span}") for name in there), span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_a_page_names_exist(page: Path) -> None:
    groups = sorted({key.name.split(".")[0] for key in KEYS})
    names = {key.name for key in KEYS}
    text = page.read_text()
    for found in re.findall(rf"-C ((?:{'|'.join(groups)})\.[a-z-]+)(?![\w*-])", text):
        assert found in names, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_long_options_a_page_names_exist(page: Path) -> None:
    known = {f"--{spec.long}" for command in COMMANDS for spec in _specs(command)}
    known |= {f"--{name}" for name in declare.trace_table().long}
    group: Any = get_command(vm.app)
    known |= {name for each in group.commands.values() for one in each.params for name in one.opts}
    for span in _spans(page.read_text()):
        if re.match(r"--\w", span):
            option = re.split(r"[ ,=\[]", span)[0]
            assert option in known | FOREIGN, f"{page.name}: {span}"


def _specs(command: Any) -> Any:
    return declare.command_table(command).specs


def test_errors_a_page_names_are_errors() -> None:
    for page in PAGES:
        for name in re.findall(r"-[xX] (E(?!RROR)[A-Z]+)", page.read_text()):
            assert name in ERRNO_NAMES.values() or name == "EFOO", (page.name, name)


def test_make_targets_a_page_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text()
        named = [one for one in _spans(text) + list(_block_lines(text)) if one.startswith("make ")]
        for line in named:
            assert line.split()[1] in targets, (page.name, line)


def test_the_keywords_of_the_python_interface_are_those_of_its_page() -> None:
    page = (ROOT / "docs/api.md").read_text()
    table = page[page.index("| for | keywords |") :].partition("\n\n")[0]
    listed = set(re.findall(r"`(\w+)`", table)) - {"replay", "diff"}
    for_a_caller = {"on_message", "handle_signals"}
    assert listed - for_a_caller - set(TraceOptions.__annotations__) == set()
    assert set(TraceOptions.__annotations__) - listed == set()


def test_every_exit_status_of_an_error_is_in_its_page() -> None:
    page = (ROOT / "docs/exit-status.md").read_text()
    told = set(map(int, re.findall(r"^\| (\d+) \|", page, re.MULTILINE)))
    assert {error.exit_status for error in manual.error_classes()} <= told


def test_every_reason_of_the_verifier_is_in_its_page() -> None:
    page = (ROOT / "docs/load.md").read_text()
    for rule in RULES:
        assert f"| `{rule.id}` | {rule.category}: {rule.title} |" in page, rule.id
    code = "".join(path.read_text() for path in (ROOT / "src/retsnoop_py/load").glob("*.py"))
    table = page[page.index("## Reasons") : page.index("## Which Linux")]
    for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", row):
            assert f'"{name}"' in code, name


def test_each_test_that_a_page_names_exists() -> None:
    named = {
        one for page in PAGES for one in _spans(page.read_text()) if re.fullmatch(r"test_\w+", one)
    }
    tests = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert len(named) > 100
    assert not named - tests
