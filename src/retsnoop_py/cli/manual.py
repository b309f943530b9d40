# SPDX-License-Identifier: BSD-2-Clause
"""Generate the man pages, docs/reference.md and docs/json-schema.json from the code.

``python -m retsnoop_py.cli.manual man DIR`` writes the man pages. ``reference`` instead of ``man
DIR`` prints the Markdown, ``json-schema`` the schema.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from retsnoop_py import __version__, errors
from retsnoop_py.cli.declare import Command
from retsnoop_py.cli.help import TOPICS, Topic, commands, topic_blocks
from retsnoop_py.cli.markdown import roff, roff_code, roff_text
from retsnoop_py.options.config import KEYS
from retsnoop_py.value import Value

__all__ = [
    "Entry",
    "command_page",
    "error_classes",
    "json_schema",
    "man_pages",
    "option_entries",
    "reference",
    "topic_page",
]

_BRIEF = "\b\n"


class Entry(Value):
    """An option as shown on a page: ``-e, --entry GLOB``, its heading and its help."""

    label: str
    panel: str
    help: str


def option_entries(command: Command) -> list[Entry]:
    """Return the options of ``command`` that are not hidden, in the order of its help."""
    found = []
    for option in command.options:
        if option.hidden:
            continue
        label = ", ".join(option.spellings)
        if option.metavar:
            label += option.metavar if option.metavar.startswith("[=") else f" {option.metavar}"
        found.append(Entry(label, option.panel, option.help))
    return found


# --- man pages -----------------------------------------------------------------------------------


def man_pages() -> dict[str, str]:
    """Return each page by file name: commands in section 1, topics in section 7."""
    pages = {}
    for name, command in commands().items():
        title = "retsnoop-py" if name == "trace" else f"retsnoop-py-{name}"
        pages[f"{title}.1"] = command_page(title, command)
    pages["retsnoop-py-vm.1"] = _vm_page()
    for topic in TOPICS:
        pages[f"retsnoop-py-{topic.name}.7"] = topic_page(topic)
    return pages


def command_page(title: str, command: Command) -> str:
    """Return the page of ``command``."""
    text = _paragraphs(command.text)
    lines = _head(title, 1, text[0].partition("\n")[0])
    lines += [".SH SYNOPSIS", f".B {command.name}", roff_code(command.synopsis)]
    lines += [".SH DESCRIPTION", *_described(text)]
    lines += [".SH OPTIONS", *_options(option_entries(command))]
    if any(option.name == "config" for option in command.options):
        lines += [".SH SETTINGS", roff_text("With `-C GROUP.KEY=VALUE`, which may be repeated:")]
        for key in KEYS:
            lines += [".TP", f".B {roff_code(key.name)}", roff_code(" ".join(key.help.split()))]
    lines += [".SH EXIT STATUS", ".BR retsnoop\\-py\\-exit\\-status (7)", "has them all."]
    return _page([*lines, *_see_also(title)])


def topic_page(topic: Topic) -> str:
    """Return the page of ``topic``."""
    title = f"retsnoop-py-{topic.name}"
    body = [block for block in topic_blocks(topic) if (block.kind, block.level) != ("heading", 1)]
    lines = _head(title, 7, topic.about)
    return _page([*lines, ".SH DESCRIPTION", *roff(body), *_see_also(title)])


def _vm_page() -> str:
    group = _vm_group()
    lines = _head("retsnoop-py-vm", 1, "run commands on other kernels, in virtual machines")
    lines += [".SH SYNOPSIS", r".B retsnoop\-py vm", f"{'|'.join(group.commands)} ..."]
    lines += [".SH DESCRIPTION", *_described(_paragraphs(group.help))]
    for name, command in group.commands.items():
        lines += [f'.SH "{name.upper()}"', *_described(_paragraphs(command.help))]
        lines += _options(_vm_entries(command))
    return _page([*lines, *_see_also("retsnoop-py-vm")])


def _vm_group() -> Any:
    from typer.main import get_command

    from retsnoop_py.cli import vm

    return get_command(vm.app)


def _vm_entries(command: Any) -> list[Entry]:
    """Return the options of a command of vm, which come from typer."""
    found = []
    for param in command.params:
        if param.param_type_name == "option":
            metavar = "" if param.is_flag else f" {param.metavar or 'N'}"
            told = param.help or ""
            if param.default and not param.is_flag and not callable(param.default):
                told = f"{told} ({param.default})".strip()
            found.append(Entry(", ".join(param.opts) + metavar, "", told))
    return found


def _head(title: str, number: int, about: str) -> list[str]:
    about = about.rstrip(".")
    about = about if about[:2].isupper() else about[0].lower() + about[1:]
    return [
        f'.TH {roff_code(title.upper())} {number} "" "retsnoop\\-py {__version__}" "retsnoop\\-py"',
        ".SH NAME",
        f"{roff_code(title)} \\- {roff_code(about)}",
    ]


def _see_also(title: str) -> list[str]:
    """Return references to the other pages."""
    known = [name for name in commands() if name != "trace"]
    pages = ["retsnoop-py(1)", *(f"retsnoop-py-{name}(1)" for name in [*known, "vm"])]
    pages += [f"retsnoop-py-{topic.name}(7)" for topic in TOPICS]
    others = [page for page in pages if page.partition("(")[0] != title]
    return [".SH SEE ALSO", ",\n".join(map(_reference_to, others))]


def _reference_to(page: str) -> str:
    name, _, rest = page.partition("(")
    return f".BR {roff_code(name)} ({rest}".replace(")", ")", 1)


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text; a paragraph with a backspace keeps its lines."""
    return [part.strip("\n") for part in inspect.cleandoc(text).split("\n\n") if part.strip()]


def _described(paragraphs: Iterable[str]) -> Iterator[str]:
    for text in paragraphs:
        yield ".PP"
        if not text.startswith(_BRIEF):
            yield roff_code(" ".join(text.split()))
            continue
        yield ".nf"
        yield from map(roff_code, text.removeprefix(_BRIEF).split("\n"))
        yield ".fi"


def _options(entries: Iterable[Entry]) -> Iterator[str]:
    panel = ""
    for entry in entries:
        if entry.panel != panel:
            panel = entry.panel
            yield f'.SS "{panel.capitalize()}"'
        yield from (".TP", f".B {roff_code(entry.label)}", roff_code(entry.help) or r"\ ")


# --- the reference -------------------------------------------------------------------------------


def reference() -> str:
    """Return the text of docs/reference.md."""
    return "\n".join(_reference()) + "\n"


def _reference() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Made of the code by `python -m retsnoop_py.cli.manual reference > docs/reference.md`:"
    yield "not to be edited."
    for name, command in commands().items():
        yield from ("", f"## {command.name if name != 'trace' else 'Tracing'}", "")
        yield from _option_table(option_entries(command))
    for name, command in _vm_group().commands.items():
        yield from ("", f"## retsnoop-py vm {name}", "")
        yield from _option_table(_vm_entries(command))
    yield from ("", "## Settings of -C", "", "| setting | |", "| --- | --- |")
    for key in KEYS:
        yield f"| `{key.name}` | {_cell(' '.join(key.help.split()))} |"
    yield from ("", "## Presets of -c", "", "| preset | what it is for | entry functions |")
    yield "| --- | --- | --- |"
    yield from _preset_rows()
    yield from (
        "",
        "## Exit statuses of errors",
        "",
        "[exit-status.md](exit-status.md) has all.",
        "",
    )
    yield from ("| status | class | |", "| --- | --- | --- |")
    for error in sorted(error_classes(), key=lambda one: one.exit_status):
        told = (error.__doc__ or "").partition("\n")[0]
        yield f"| {error.exit_status} | `{error.__name__}` | {_cell(told)} |"
    yield from ("", "## The recording file", "", *_recording_file())


def _recording_file() -> Iterator[str]:
    """Yield the description of the format from the module that writes it."""
    from retsnoop_py.recording import format as recording

    about, _, drawn, told = (inspect.getdoc(recording) or "").split("\n\n")
    yield from (about, "", "```text", inspect.cleandoc(drawn), "```", "")
    yield from (" ".join(told.split()), "", f"This is version {recording.VERSION}.", "")
    yield from ("| kind | frame | payload |", "| --- | --- | --- |")
    said = re.findall(r"#: (.*)\n +(\w+) = ", inspect.getsource(recording.FrameKind))
    names = {name: text for text, name in said}
    for kind in recording.FrameKind:
        text = re.sub(r":\w+:`(\w+)`", r"`\1`", names[kind.name])
        yield f"| {kind.value} | {kind.name} | {_cell(text)} |"


def _option_table(entries: list[Entry]) -> Iterator[str]:
    yield "| option | |"
    yield "| --- | --- |"
    for entry in entries:
        yield f"| `{_cell(entry.label)}` | {_cell(entry.help)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*") if "`" not in text else text


def _preset_rows() -> Iterator[str]:
    from retsnoop_py.selection import globs

    for name in globs.preset_names():
        preset = globs.load_preset(name)
        entry = ", ".join(f"`{glob}`" for glob in preset.entry)
        yield f"| `{name}` | {_cell(preset.about)} | {entry} |"


def error_classes() -> list[type[errors.RetsnoopError]]:
    """Return every error that a command can end with, including errors of vm."""
    from retsnoop_py.vm import errors as vm_errors

    found = {}
    for module in (errors, vm_errors):
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, errors.RetsnoopError):
                found[one.__name__] = one
    return list(found.values())


# --- the schema ----------------------------------------------------------------------------------


def json_schema() -> str:
    """Return ``docs/json-schema.json``: the schema of a line of ``--format json``."""
    import msgspec

    from retsnoop_py.load.model import Explained, LoadResult
    from retsnoop_py.model.difference import Difference
    from retsnoop_py.model.session import VERSION, RunResult, Session, Summary
    from retsnoop_py.model.why import Why

    (found,), parts = msgspec.json.schema_components(
        [Session | Summary | RunResult | Explained | LoadResult | Difference | Why],
        ref_template="#/$defs/{name}",
    )
    for part in parts.values():
        part["description"] = inspect.cleandoc(part["description"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of `retsnoop-py --format json`",
        "version": VERSION,
    }
    return json.dumps({**head, **found, "$defs": dict(sorted(parts.items()))}, indent=1) + "\n"


_PRINTED = {"reference": reference, "json-schema": json_schema}


def main(argv: list[str]) -> int:
    """Write the output for ``argv``: ``man DIR``, ``reference`` or ``json-schema``."""
    if len(argv) == 1 and argv[0] in _PRINTED:
        print(_PRINTED[argv[0]](), end="")
        return 0
    if argv[:1] == ["man"] and len(argv) == 2:
        folder = Path(argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in man_pages().items():
            (folder / name).write_text(text, encoding="utf-8")
        return 0
    print("python -m retsnoop_py.cli.manual man DIR | reference | json-schema", file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
