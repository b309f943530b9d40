# SPDX-License-Identifier: BSD-2-Clause
"""Completion: the candidates for TAB in bash, zsh and fish.

File names, symbols of BPF objects and names from ``kernels.toml`` are candidates, and other people
choose them. So no shell evaluates a candidate: each script reads plain lines and passes them to the
shell's own completion, which quotes the inserted text. A candidate with a control character, such
as a newline, is omitted.

The candidates come from the options' rows instead of typer, because importing typer takes most of
the time. Only the options of ``vm`` come from typer.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.declare import Command, command_of
from retsnoop_py.errors import OutputError, UnavailableError, UsageError
from retsnoop_py.options.table import HOST, Option, Takes, complete_kernels
from retsnoop_py.own_file import SHARED, append, is_own_place, write
from retsnoop_py.package import home
from retsnoop_py.value import Value

__all__ = ["Candidate", "candidates", "hand_out", "run"]

_INSTRUCTION = "_RETSNOOP_PY_COMPLETE"

_SCRIPTS = {
    "bash": """\
_retsnoop_py_completion() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(_RETSNOOP_PY_COMPLETE=candidates_bash \\
        retsnoop-py "$2" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _retsnoop_py_completion retsnoop-py
""",
    "zsh": """\
#compdef retsnoop-py

_retsnoop_py_completion() {
    local line
    local -a texts shown
    for line in "${(@f)$(_RETSNOOP_PY_COMPLETE=candidates_zsh \\
        retsnoop-py "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        texts+=("${line%%$'\t'*}")
        shown+=("${line#*$'\t'}")
    done
    if (( $#texts )); then
        compadd -l -d shown -a texts
    else
        _files
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _retsnoop_py_completion "$@"
else
    compdef _retsnoop_py_completion retsnoop-py
fi
""",
    # The result selects whether fish offers files; it is kept until fish reads it.
    "fish": """\
function __retsnoop_py_find
    set -g __retsnoop_py_found (env _RETSNOOP_PY_COMPLETE=complete_fish \\
        _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) retsnoop-py)
    test (count $__retsnoop_py_found) -gt 0
end
complete --command retsnoop-py --no-files --condition __retsnoop_py_find \\
    --arguments '(string join \\n -- $__retsnoop_py_found)'
""",
}
#: Shells without completion that may run between retsnoop-py and another shell.
_OTHER_SHELLS = ("sh", "dash", "ksh", "csh", "tcsh", "pwsh", "xonsh", "elvish", "nu")
#: A word that no shell changes, expands or splits.
_PLAIN_WORD = re.compile(r"[\w./:-][\w@%+=:,./-]*", re.ASCII)


class Candidate(Value):
    """A possible word, and its help."""

    text: str
    help: str = ""


def run() -> int:
    """Answer the request in the environment; return the exit status."""
    action, _, shell = os.environ[_INSTRUCTION].partition("_")
    if shell not in _SCRIPTS:
        return 1
    if action == "source":
        print(_SCRIPTS[shell], end="")
        return 0
    is_old = action == "complete" and shell != "fish"
    line = _typed_for_typer(shell) if is_old else _typed(shell)
    args, incomplete = line.before, line.incomplete
    asked = _of_vm(args, incomplete) if args[:1] == ["vm"] else candidates(args, incomplete)
    found = [Candidate(one.text[line.kept :], one.help) for one in asked if one.text.isprintable()]
    if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if found else 1  # for the script of an older version
    text = _form_for_typer(shell, found) if is_old else _form(shell, found, line)
    if text:
        print(text)
    return 0


def candidates(args: Sequence[str], incomplete: str) -> Iterator[Candidate]:
    """Yield completions of ``incomplete`` after the words ``args``; if none, files are offered."""
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


def _of_vm(args: Sequence[str], incomplete: str) -> Iterator[Candidate]:
    """Yield kernels, the most frequent request, or the options and commands of typer's app."""
    is_option = incomplete.startswith("-")
    if args[-1] in ("--on", "--kernel") or (args[1:2] == ["fetch"] and not is_option):
        yield from (Candidate(one) for one in complete_kernels(incomplete) if one != HOST)
        return
    if "--" in args:
        return
    from typer.core import TyperGroup
    from typer.main import get_command

    from retsnoop_py.cli import vm

    group = get_command(vm.app)
    assert isinstance(group, TyperGroup)
    command = group.commands.get(args[1]) if len(args) > 1 else None
    if command is None and not is_option:
        for name, one in group.commands.items():
            if name.startswith(incomplete):
                yield Candidate(name, one.get_short_help_str(limit=100))
        return
    context = (command or group).make_context("vm", [], resilient_parsing=True)
    for parameter in (command or group).params:
        if is_option:
            about = str(getattr(parameter, "help", None) or "")
            names = (one for one in parameter.opts if one.startswith(incomplete))
            yield from (Candidate(one, about) for one in names if one.startswith("-"))
        elif args[-1] in parameter.opts:
            yield from (
                Candidate(one.value) for one in parameter.shell_complete(context, incomplete)
            )


def _about(name: str) -> str:
    """Return the first sentence of a command's help."""
    if name == "vm":  # vm is a typer app
        return "Run commands on other kernels, in virtual machines."
    return command_of(name).text.strip().partition("\n")[0]


def _waiting(
    command: Command, args: Sequence[str], incomplete: str
) -> tuple[Option | None, str, str]:
    """Return the option for which ``incomplete`` is a value, the text before, and the begun value.

    bash splits ``--name=value`` into three words.
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
    """Return the option at the end of ``word`` if the next word is its value, or None."""
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


class _Line(Value):
    """The words after the program's name, up to the cursor.

    ``kept``: number of characters of the incomplete word that the shell does not replace.
    ``quote``: the quote that is open at the cursor. ``begins``: the shell replaces all text after
    that quote.
    """

    before: list[str]
    incomplete: str
    kept: int = 0
    quote: str = ""
    begins: bool = False


def _typed(shell: str) -> _Line:
    """Return the typed line: bash and zsh pass each word with its quotes, fish passes the line."""
    if shell == "fish":
        return _of_whole_line()
    if shell == "zsh":
        *before, incomplete = _without_quotes(sys.argv[1:]) or [""]
        return _Line(before, incomplete)
    # The first argument is the text that bash replaces: the text after a colon or an open quote.
    replaced, *words = sys.argv[1:]
    *before, incomplete = _rejoined(_without_quotes(words)) or [""]
    last = words[-1] if words else ""
    quote = _words(last)[1]
    piece = "".join(_words(quote + replaced)[0])
    begins = bool(quote) and last.endswith(quote + replaced)
    return _Line(before, incomplete, max(len(incomplete) - len(piece), 0), quote, begins)


def _of_whole_line() -> _Line:
    # With an additional character, the last word is the word to complete even if it is empty.
    words, _ = _words(os.environ.get("_TYPER_COMPLETE_ARGS", "") + "x")
    return _Line(words[1:-1], words[-1][:-1] if len(words) > 1 else "")


def _without_quotes(words: Sequence[str]) -> list[str]:
    return ["".join(_words(one)[0]) for one in words]


def _rejoined(words: Sequence[str]) -> list[str]:
    """Return the words as typed: bash splits ``tp:sched`` into three and ``:kernel`` into two."""
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


def _words(line: str) -> tuple[list[str], str]:
    """Return the words of a line as a shell reads them, and the quote that is open at its end."""
    words: list[str] = []
    quote, in_word = "", False
    letters = iter(line)
    for letter in letters:
        if not quote and letter.isspace():
            in_word = False
            continue
        if not in_word:
            words.append("")
            in_word = True
        if letter == "\\" and quote != "'":
            escaped = next(letters, "")
            kept = "\\" if quote and escaped not in '$`"\\' else ""
            words[-1] += kept + escaped
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        else:
            words[-1] += letter
    return words, quote


def _form(shell: str, found: Sequence[Candidate], line: _Line) -> str:
    """Return a line for each candidate; after a tab the help or, for zsh, the displayed text.

    zsh and fish quote the text that they insert, bash does not.
    """
    if shell == "bash":
        return "\n".join(_for_bash(one.text, line) for one in found)
    if shell == "fish":
        return "\n".join(f"{one.text}\t{one.help}" if one.help else one.text for one in found)
    width = max((len(one.text) for one in found if one.help), default=0)
    rows = (f"{one.text:{width}}  -- {one.help}" if one.help else one.text for one in found)
    return "\n".join(f"{one.text}\t{row}" for one, row in zip(found, rows, strict=True))


def _for_bash(text: str, line: _Line) -> str:
    """Return ``text`` quoted for bash, after the open quote of ``line`` or none."""
    if not line.quote:
        return re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)
    if line.quote == "'":
        quoted = text.replace("'", "'\\''")
    else:
        # In double quotes, bash keeps a backslash before !.
        quoted = re.sub(r'([\\"$`])', r"\\\1", text).replace("!", '"\\!"')
    # readline drops a quote at the beginning of a word that follows the same typed quote
    return line.quote + quoted if line.begins and quoted.startswith(line.quote) else quoted


def _typed_for_typer(shell: str) -> _Line:
    """Return the result of :func:`_typed` for typer's scripts, which older versions installed."""
    if shell == "zsh":
        return _of_whole_line()
    words, _ = _words(os.environ.get("COMP_WORDS", ""))
    at = int(os.environ.get("COMP_CWORD", "0"))
    last = words[at] if at < len(words) else ""
    *before, incomplete = _rejoined([*words[1:at], last])
    # bash replaces the text after the last colon.
    return _Line(before, incomplete, len(incomplete) - len(incomplete.rpartition(":")[2]))


def _form_for_typer(shell: str, found: Sequence[Candidate]) -> str:
    """Return the answer for typer's scripts, which zsh evaluates and bash expands.

    It contains only words without special characters.
    """
    words = [one.text for one in found if _PLAIN_WORD.fullmatch(one.text)]
    if shell == "bash":
        return "\n".join(words)
    return f"compadd -- {' '.join(words)}" if words else "_files"


# --- the scripts -----------------------------------------------------------------------------


#: The files that an installation changes, for each shell.
_CHANGED = {
    "bash": "~/.bashrc and ~/.bash_completions/retsnoop-py.sh",
    "zsh": "~/.zshrc and ~/.zfunc/_retsnoop-py",
    "fish": "~/.config/fish/completions/retsnoop-py.fish",
}


def hand_out(wanted: str, *, agreed: bool) -> int:
    """Run ``install-completion`` or ``show-completion``; ``agreed``: without a question.

    Raise OutputError, and UsageError if there is no terminal for the question.
    """
    shell = _shell()
    if wanted == "install-completion":
        _check_home()
    if wanted == "install-completion" and not agreed and not _may_install(shell):
        print("Nothing was changed.")
        return 0
    if shell not in _SCRIPTS:
        found = f"this is {shell}" if shell else "/proc names no shell that started this"
        raise UnavailableError(
            f"completion is for bash, zsh and fish, and {found}", "run it in the shell it is for"
        )
    if wanted == "show-completion":
        print(_SCRIPTS[shell], end="")
    else:
        _install(shell)
    return 0


def _check_home() -> None:
    """Raise OutputError if root would create its own files in another user's home."""
    for folder in (home(), Path(os.environ.get("XDG_CONFIG_HOME") or home())):
        if not is_own_place(folder):
            raise OutputError(
                f"cannot install completion in {folder} as root: another user can change it",
                "run 'retsnoop-py --install-completion' as that user, without sudo",
            )


def _may_install(shell: str | None) -> bool:
    """Ask whether to change the files of ``shell``; return the answer."""
    if shell not in _CHANGED:
        return True  # the error about this shell follows
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            f"--install-completion changes {_CHANGED[shell]}, and there is no terminal to ask on",
            "add --yes, or use --show-completion",
        )
    print(f"This changes {_CHANGED[shell]}. Continue? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _install(shell: str) -> None:
    """Write the script, and the line by which bash or zsh reads it. Raise OutputError."""
    try:
        base = Path.home()
    except RuntimeError:
        raise OutputError("this user has no home to install it in", "set HOME") from None
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or base / ".config")
        script, settings, line = config / "fish/completions/retsnoop-py.fish", None, ""
    elif shell == "bash":
        script, settings = base / ".bash_completions/retsnoop-py.sh", base / ".bashrc"
        line = f"source {_quoted(str(script))}"
    else:
        script, settings = base / ".zfunc/_retsnoop-py", base / ".zshrc"
        line = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        text = ""
        if settings is not None and settings.exists():
            text = settings.read_text()
    except OSError as error:
        raise OutputError(
            f"cannot write {script}: {error.strerror}",
            "--show-completion prints what would be installed",
        ) from None
    write(script, _SCRIPTS[shell], SHARED)
    if settings is not None and line not in text:
        append(settings, f"\n{line}\n", SHARED)
    print(f"{shell} completion installed in {script}")
    print("Completion will take effect once you restart the terminal")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _shell() -> str | None:
    """Return the nearest shell among the ancestors of this process, or None."""
    process = os.getppid()
    while process > 1:
        try:
            told = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            break
        name, _, rest = told.partition("(")[2].rpartition(")")
        if name in (*_SCRIPTS, *_OTHER_SHELLS):
            return name
        process = int(rest.split()[1])
    return None
