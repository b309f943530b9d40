# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py help [TOPIC]``: pages of docs/ in the terminal, and the help of commands."""

from __future__ import annotations

import sys
from pathlib import Path

from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.declare import Argument, Command, command_of
from retsnoop_py.cli.markdown import Block, parse, plain, section
from retsnoop_py.errors import UsageError
from retsnoop_py.options.table import OPTIONS, Words
from retsnoop_py.package import read
from retsnoop_py.text import did_you_mean, near_names
from retsnoop_py.value import Value

__all__ = ["COMMAND", "TOPICS", "Topic", "commands", "complete", "run", "topic_blocks"]

_PACKAGE = Path(__file__).parents[1]
#: Maximum number of columns on a terminal, and number of columns in a pipe.
_WIDEST = 100
_PIPE = 80

_TEXT = """
Print a page about a topic, or the help of a command. Without TOPIC, list them.

\b
Examples:
  retsnoop-py help
  retsnoop-py help globs
  retsnoop-py help exit-status | less
"""

_USAGE = """Usage: retsnoop-py help [TOPIC]

'retsnoop-py help' lists the topics."""


class Topic(Value):
    """A page: its name, its subject, its file below docs/; ``sections``: only these, or all."""

    name: str
    about: str
    page: str
    sections: tuple[str, ...] = ()


TOPICS: tuple[Topic, ...] = (
    Topic("globs", "how functions are named", "topics/globs.md"),
    Topic("sessions", "which calls are followed, and what is printed", "topics/sessions.md"),
    Topic("filters", "which sessions are printed", "topics/filters.md"),
    Topic("args", "the arguments of calls (-A)", "arguments.md"),
    Topic("why", "why a command failed: the call, the functions, the condition", "why.md"),
    Topic("path", "from the function to the line (--path)", "line.md"),
    Topic("lbr", "the last branches before the error (-B)", "topics/lbr.md"),
    Topic("recording", "recording and replaying", "topics/recording.md"),
    Topic("ci", "in a pipeline: GitHub, GitLab, make", "ci.md"),
    Topic("diff", "good kernel, bad kernel: two recordings compared", "diff.md"),
    Topic(
        "load",
        "on which kernels a BPF object loads",
        "load.md",
        ("load", "Which Linux has what", "How it is tested"),
    ),
    Topic("explain", "why a BPF program was refused", "load.md", ("explain", "Reasons")),
    Topic("exit-status", "exit statuses and signals", "exit-status.md"),
    Topic("architectures", "guests of another architecture (vm, --on)", "howto/architectures.md"),
    Topic("api", "the Python interface", "api.md"),
)


def commands() -> dict[str, Command]:
    """Return the commands by name, including trace; without vm, which is a typer app."""
    names = ("trace", *(name for name in SUB_COMMANDS if name not in ("vm", "help")))
    return {name: command_of(name) for name in (*names, "help")}


def topic_blocks(topic: Topic) -> list[Block]:
    """Return the contents of the page of ``topic``."""
    blocks = parse(_page(topic.page))
    if not topic.sections:
        return blocks
    title = f"{topic.name}: {topic.about}"
    chosen = [Block("heading", title[0].upper() + title[1:], 1)]
    for number, name in enumerate(topic.sections):
        chosen += [Block("heading", name, 2)] if number else []
        chosen += section(blocks, name)
    return chosen


def _page(name: str) -> str:
    """Return a page: beside the modules in an installed package, in docs/ in a checkout."""
    try:
        return read(_PACKAGE / "docs" / name).decode()
    except FileNotFoundError:
        return (_PACKAGE.parents[1] / "docs" / name).read_text(encoding="utf-8")


def request(_: Words, topics: list[str]) -> str | None:
    """Return the topic or command of the command line. Raise :class:`UsageError`."""
    if len(topics) > 1:
        raise UsageError(f"one topic at a time, not {len(topics)}", "retsnoop-py help TOPIC")
    known = [*(topic.name for topic in TOPICS), *SUB_COMMANDS]
    if topics and topics[0] not in known:
        near = [f"retsnoop-py help {name}" for name in near_names(topics[0], known)]
        hint = did_you_mean(near) or "'retsnoop-py help' lists the topics"
        raise UsageError(f"no help on '{topics[0]}'", hint)
    return topics[0] if topics else None


def run(name: str | None) -> int:
    """Print the page, the help or the list of topics."""
    from retsnoop_py.terminal import has_colour, terminal_width

    topic = next((topic for topic in TOPICS if topic.name == name), None)
    if topic is None and name is not None:
        return _command_help(name)
    width = min(terminal_width(sys.stdout) or _PIPE, _WIDEST)
    blocks = _contents() if topic is None else topic_blocks(topic)
    for line in plain(blocks, width, bold=has_colour(sys.stdout)):
        print(line)
    if topic and topic.name in SUB_COMMANDS:
        print(f"\nIts options: retsnoop-py {topic.name} --help")
    return 0


def _contents() -> list[Block]:
    topics = tuple((f"`{topic.name}`", topic.about) for topic in TOPICS)
    return [
        Block("paragraph", "`retsnoop-py help TOPIC`, for these topics:"),
        Block("table", rows=(("", ""), *topics)),
        Block(
            "paragraph",
            "`retsnoop-py --help` has the options of tracing, `retsnoop-py COMMAND --help` those "
            f"of the commands {', '.join(SUB_COMMANDS)}.",
        ),
    ]


def _command_help(name: str) -> int:
    if name == "vm":
        from typer.main import get_command

        from retsnoop_py.cli import typed, vm

        return int(typed.call(get_command(vm.app), ["--help"], "retsnoop-py vm") or 0)
    from retsnoop_py.cli.plain_help import show_help

    show_help(commands()[name])
    return 0


def complete(incomplete: str) -> list[str]:
    """Return topics and commands, for the shell."""
    known = dict.fromkeys([*(topic.name for topic in TOPICS), *SUB_COMMANDS])
    return [name for name in known if name.startswith(incomplete)]


COMMAND = Command(
    request=request,
    options=tuple(option for option in OPTIONS if option.name in ("short-help", "help", "usage")),
    argument=Argument("[TOPIC]", help="A topic or a command.", many=True, complete=complete),
    name="retsnoop-py help",
    synopsis="[TOPIC]",
    text=_TEXT,
    usage=_USAGE,
)
