# SPDX-License-Identifier: BSD-2-Clause
"""What the shell asks for on TAB.

The scripts that ``--install-completion`` writes are typer's, but for fish's, which would start us
twice: to ask whether there is anything, and for what. So is the form of the answers.
What the answers are is read from the options' rows, without typer, whose import takes longer than
all the rest. ``vm``, and shells other than bash, zsh and fish, are left to typer.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.declare import Command, command_of
from retsnoop_py.errors import OutputError, UnavailableError, UsageError
from retsnoop_py.options.table import Option, Takes
from retsnoop_py.package import home
from retsnoop_py.value import Value

__all__ = ["Candidate", "candidates", "hand_out", "run"]

_INSTRUCTION = "_RETSNOOP_PY_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


#: What is found decides whether fish offers files, and is kept until fish asks for it.
_FISH_SCRIPT = """\
function __retsnoop_py_find
    set -g __retsnoop_py_found (env _RETSNOOP_PY_COMPLETE=complete_fish \\
        _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) retsnoop-py)
    test (count $__retsnoop_py_found) -gt 0
end
complete --command retsnoop-py --no-files --condition __retsnoop_py_find \\
    --arguments '(string join \\n -- $__retsnoop_py_found)'
"""
#: A shell that is none of ours may have started us from fish.
_OTHER_SHELLS = ("sh", "dash", "ksh", "csh", "tcsh", "pwsh", "xonsh", "elvish", "nu")


class Candidate(Value):
    """A word that may stand there, and what it does."""

    text: str
    help: str = ""


def run() -> int:
    """Answer the request in the environment; the exit status."""
    action, _, shell = os.environ[_INSTRUCTION].partition("_")
    if (action, shell) == ("source", "fish"):
        print(_FISH_SCRIPT)
        return 0
    if action != "complete" or shell not in _SHELLS:
        return _by_typer()
    args, incomplete = _asked(shell)
    asked = _of_vm(args, incomplete) if args[:1] == ["vm"] else candidates(args, incomplete)
    if asked is None:
        return _by_typer()
    found = list(asked)
    if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if found else 1  # a script that an older version installed
    if shell == "bash":
        found = _behind_colon(found, incomplete)
    text = _FORMS[shell](found)
    if text:
        print(text)
    return 0


def candidates(args: Sequence[str], incomplete: str) -> Iterator[Candidate]:
    """What ``incomplete`` may become behind the words ``args``; nothing leaves it to files."""
    name = args[0] if args and args[0] in SUB_COMMANDS else "trace"
    rest = args[1:] if args[:1] == [name] else args
    if "--" in rest:
        return
    command = command_of(name)
    waiting, start, begun = _waiting(command, rest, incomplete)
    if waiting is not None:
        yield from (Candidate(start + value) for value in _values(waiting, begun, rest))
    elif incomplete.startswith("-"):
        yield from _options(command, incomplete)
    else:
        if not args:
            names = (one for one in SUB_COMMANDS if one.startswith(incomplete))
            yield from (Candidate(one, _about(one)) for one in names)
        argument = command.argument
        if argument is not None and argument.complete is not None:
            yield from map(Candidate, argument.complete(incomplete))


def _values(option: Option, begun: str, words: Sequence[str]) -> Sequence[str]:
    if option.complete_among is not None:
        return option.complete_among(begun, words)
    return option.complete(begun) if option.complete is not None else ()


def _of_vm(args: Sequence[str], incomplete: str) -> Iterator[Candidate] | None:
    """Kernels, which are what is asked for most; None: typer knows."""
    if args[-1] in ("--on", "--kernel") or (
        args[1:2] == ["fetch"] and not incomplete.startswith("-")
    ):
        from retsnoop_py.options.table import HOST, complete_kernels

        return (Candidate(one) for one in complete_kernels(incomplete) if one != HOST)
    return None


def _about(name: str) -> str:
    """The first sentence of a command's help."""
    if name == "vm":  # typer's
        return "Run commands on other kernels, in virtual machines."
    return command_of(name).text.strip().partition("\n")[0]


def _waiting(
    command: Command, args: Sequence[str], incomplete: str
) -> tuple[Option | None, str, str]:
    """The option that ``incomplete`` is a value of, what is before that, what it begins with.

    bash makes three words of ``--name=value``.
    """
    if incomplete == "=" and args:
        return _long(command, args[-1]), "", ""
    if args[-1:] == ["="]:
        return _long(command, args[-2] if len(args) > 1 else ""), "", incomplete
    name, equals, begun = incomplete.partition("=")
    if equals and name.startswith("--"):
        return _long(command, name), f"{name}=", begun
    if re.match(r"-[^-].", incomplete):
        option = _short(command, incomplete[1])
        takes_text = option is not None and option.takes not in (Takes.FLAG, Takes.COUNT)
        return (option if takes_text else None), incomplete[:2], incomplete[2:]
    return _behind(command, args[-1] if args else ""), "", incomplete


def _behind(command: Command, word: str) -> Option | None:
    """The option that ``word`` ends with, if the next word is its value."""
    if word.startswith("--"):
        option = _long(command, word)
    elif re.match(r"-[^-]", word):
        option = None
        for at, letter in enumerate(word[1:], 1):
            option = _short(command, letter)
            if option is None or option.takes not in (Takes.FLAG, Takes.COUNT):
                option = option if at == len(word) - 1 else None
                break
    else:
        return None
    if option is None or option.implied is not None:
        return None
    return None if option.takes in (Takes.FLAG, Takes.COUNT) else option


def _long(command: Command, word: str) -> Option | None:
    return next((option for option in command.options if word == f"--{option.name}"), None)


def _short(command: Command, letter: str) -> Option | None:
    return next((option for option in command.options if option.short == letter), None)


def _options(command: Command, incomplete: str) -> Iterator[Candidate]:
    for option in command.options:
        if not option.hidden:
            for spelling in option.spellings:
                if spelling.startswith(incomplete):
                    yield Candidate(spelling, option.help)


# --- the shells ------------------------------------------------------------------------------


def _asked(shell: str) -> tuple[list[str], str]:
    """The words behind the program's name, and the one to complete."""
    if shell == "bash":
        words = _split(os.environ.get("COMP_WORDS", ""))
        at = int(os.environ.get("COMP_CWORD", "0"))
        *before, incomplete = _rejoined([*words[1:at], words[at] if at < len(words) else ""])
        return before, incomplete
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if words and not line.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _rejoined(words: Sequence[str]) -> list[str]:
    """The words as they were typed: bash makes three of ``tp:sched``, and two of ``:kernel``."""
    found: list[str] = []
    is_open = False
    for word in words:
        if word == ":" and found and not found[-1].startswith("-"):
            found[-1] += word
            is_open = True
        elif is_open or (word and found and found[-1] == ":"):
            found[-1] += word
            is_open = False
        else:
            found.append(word)
    return found


def _behind_colon(found: Sequence[Candidate], incomplete: str) -> list[Candidate]:
    """What bash replaces is what stands behind the last colon."""
    known = incomplete.rpartition(":")
    start = len(known[0] + known[1])
    return [Candidate(one.text[start:], one.help) for one in found]


def _split(line: str) -> list[str]:
    """The words of a line whose last quotes may be open."""
    import shlex

    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _bash(found: Sequence[Candidate]) -> str:
    return "\n".join(one.text for one in found)


def _zsh(found: Sequence[Candidate]) -> str:
    if not found:
        return "_files"
    rows = []
    for one in found:
        told = f':"{_zsh_text(one.help)}"' if one.help else ""
        rows.append(f'"{_zsh_text(one.text)}"{told}')
    return "_arguments '*: :((" + "\n".join(rows) + "))'"


def _zsh_text(text: str) -> str:
    """As it may stand in double quotes within single ones, in a specification of _arguments."""
    marks = {'"': '""', "'": "''", "$": r"\$", "`": r"\`", ":": r"\\:"}
    return "".join(marks.get(char, char) for char in text)


def _fish(found: Sequence[Candidate]) -> str:
    return "\n".join(f"{one.text}\t{one.help}" if one.help else one.text for one in found)


_FORMS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _by_typer() -> int:
    """Let typer answer, for all commands as one group; ends the program by :class:`SystemExit`."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from retsnoop_py.cli import typed, vm

    class Commands(TyperGroup):
        """The sub-commands, made when they are asked for."""

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
            return get_command(vm.app) if cmd_name == "vm" else typed.build(command_of(cmd_name))

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
            return list(SUB_COMMANDS)

    # Building any app with completion is what makes typer know the shells.
    typed.build(command_of("trace"), completion=True)
    Commands(name="retsnoop-py", add_help_option=False).main(prog_name="retsnoop-py")
    return 0


# --- the scripts -----------------------------------------------------------------------------


#: The files that an installation changes, by shell.
_CHANGED = {
    "bash": "~/.bashrc and ~/.bash_completions/retsnoop-py.sh",
    "zsh": "~/.zshrc and ~/.zfunc/_retsnoop-py",
    "fish": "~/.config/fish/completions/retsnoop-py.fish",
}


def hand_out(wanted: str, *, agreed: bool) -> int:
    """Do what ``install-completion`` or ``show-completion`` says; ``agreed``: do not ask before.

    Raises OutputError, and UsageError where nobody can be asked.
    """
    shell = _shell()
    if wanted == "install-completion" and not agreed and not _may_install(shell):
        print("Nothing was changed.")
        return 0
    if shell == "fish":
        if wanted == "show-completion":
            print(_FISH_SCRIPT)
        else:
            _install_for_fish()
        return 0
    if shell not in _SHELLS and Path("/proc/self/stat").exists():
        found = "no shell has started this" if shell is None else f"this is {shell}"
        raise UnavailableError(
            f"completion is for bash, zsh and fish, and {found}", "run it in the shell it is for"
        )
    from retsnoop_py.cli import trace, typed

    try:
        typed.call(typed.build(trace.COMMAND, completion=True), [f"--{wanted}"], "retsnoop-py")
    except OSError as error:
        if error.errno is None:  # which shell this is was asked of ps
            raise UnavailableError(
                f"the shell cannot be told: {error}", "mount /proc, or install ps (procps)"
            ) from None
        if error.filename is None:  # standard output
            raise
        raise _unwritable(Path(error.filename), error) from None
    except RuntimeError:  # of who has no home
        raise OutputError("this user has no home to install it in", "set HOME") from None
    return 0


def _may_install(shell: str | None) -> bool:
    """Ask whether to change the files of ``shell``."""
    if shell not in _CHANGED:
        return True  # the error about this shell comes next
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            f"--install-completion changes {_CHANGED[shell]}, and there is no terminal to ask on",
            "add --yes, or use --show-completion",
        )
    print(f"This changes {_CHANGED[shell]}. Continue? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _unwritable(script: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {script}: {error.strerror}",
        "--show-completion prints what would be installed",
    )


def _install_for_fish() -> None:
    base = Path(os.environ.get("XDG_CONFIG_HOME") or home() / ".config")
    script = base / "fish/completions/retsnoop-py.fish"
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_FISH_SCRIPT)
    except OSError as error:
        raise _unwritable(script, error) from None
    print(f"fish completion installed in {script}")
    print("Completion will take effect once you restart the terminal")


def _shell() -> str | None:
    """The nearest shell of what started us; None where there is none, or no /proc."""
    process = os.getppid()
    while process > 1:
        try:
            told = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            break
        name, _, rest = told.partition("(")[2].rpartition(")")
        if name in (*_SHELLS, *_OTHER_SHELLS):
            return name
        process = int(rest.split()[1])
    return None
