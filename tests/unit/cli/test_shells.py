# SPDX-License-Identifier: BSD-2-Clause
"""TAB in real shells, at a terminal of their own.

Names of files, symbols and kernels are other people's: whatever they are, TAB runs nothing, nor
does Enter behind it, and the program gets the name as it is.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from retsnoop_py.load.object_names import object_symbols

PROGRAM = Path(sys.executable).parent / "retsnoop-py"
OBJECTS = Path(__file__).parents[3] / "src/retsnoop_py/bpf"
#: How each is started without its user's settings, and takes a completion script.
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source {}"),
    "fish": (["fish", "--no-config", "-i"], "source {}"),
}
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>])"
)


def script_for(shell: str) -> str:
    environment = {**os.environ, "_RETSNOOP_PY_COMPLETE": f"source_{shell}"}
    argv = [str(PROGRAM)]
    made = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    return made.stdout


def put_in_front(folder: Path, received: Path) -> None:
    """A ``retsnoop-py`` in ``folder`` that answers TAB, and otherwise keeps its arguments."""
    folder.mkdir()
    program = folder / "retsnoop-py"
    program.write_text(
        "#!/bin/sh\n"
        f'[ -z "$_RETSNOOP_PY_COMPLETE" ] || exec {PROGRAM} "$@"\n'
        f"printf '%s\\0' \"$@\" > {received}\n"
    )
    program.chmod(0o755)


class Shell:
    """An interactive shell at a pseudo terminal."""

    def __init__(self, name: str, folder: Path, text: str | None = None) -> None:
        self.name, self.folder = name, folder
        self.received = folder / "bin/received"
        put_in_front(folder / "bin", self.received)
        script = folder / f"completion.{name}"
        script.write_text(text or script_for(name))
        start, source = START[name]
        environment = {
            "PATH": f"{folder}/bin:{PROGRAM.parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PS1": "$ ",
            # from 4.1 on fish asks the terminal what it is, and waits for an answer
            "fish_features": "no-query-term",
        }
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(start[0], start, environment)
        self.send(source.format(script) + "; echo rea''dy\r")
        self.until("ready")

    def send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def until(self, wanted: str) -> str:
        """What the shell writes up to ``wanted``; fails after half a minute."""
        text, deadline = "", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.2)[0]:
                text += os.read(self.terminal, 4096).decode(errors="replace")
                if wanted in _ESCAPES.sub("", text):
                    return text
        pytest.fail(f"no {wanted!r} in {text!r}")

    def completed(self, typed: str) -> list[str]:
        """The arguments that the program gets of a line with one TAB and Enter behind it."""
        self.received.unlink(missing_ok=True)
        self.send(f"retsnoop-py {typed}\t\r")
        self.send("echo do''ne\r")
        self.until("done")
        found = self.received.read_bytes().decode().split("\0") if self.received.exists() else []
        return found[:-1]

    def enter(self, folder: Path) -> None:
        self.send(f"cd {folder}; echo the''re\r")
        self.until("there")

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=list(START))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "failure.rsn").touch()
    (tmp_path / "prog.bpf.o").symlink_to(next(OBJECTS.rglob("trace.bpf.o")).resolve())
    started = Shell(request.param, tmp_path)
    yield started
    started.end()


def test_tab_completes_what_is_typed(shell: Shell) -> None:
    for typed, rest in (
        ("func", "tions"),
        ("-c per", "f"),
        ("-x EOVERF", "LOW"),
        ("replay fai", "lure.rsn"),
        ("load pro", "g.bpf.o"),
        ("--on 5.10,7.2-f", "ull"),
        ("--entr", "y"),
    ):
        # to the start of the line, and make it one that only says what it is
        shell.send(f"retsnoop-py {typed}\t\x01echo :\r")
        shell.until(f":retsnoop-py {typed}{rest}")


def test_tab_completes_behind_colons(shell: Shell) -> None:
    for typed, rest in (
        ("-J kp", "robe:"),
        ("-J kprobe:vfs_readlin", "k"),
        ("-a vfs_readlin", "k"),
    ):
        shell.send(f"retsnoop-py {typed}\t\x01echo :\r")
        shell.until(f":retsnoop-py {typed}{rest}")


#: Names of files that a shell would run, expand or split.
HOSTILE = (
    "a$(touch PWNED).o",
    "\\$(touch PWNED).o",
    "$(touch PWNED).o",
    "\\`touch PWNED`.o",
    "x;touch PWNED;.o",
    "x>PWNED.o",
    "a'$(touch PWNED)'.o",
    'a"$(touch PWNED)".o',
    "a\\';touch PWNED;'.o",
    "${x:=$(touch PWNED)}.o",
    "a b:c=d\\e.o",
    "~root.o",
    "#a!b^c.o",
    "*[a-z]?{1,2}.o",
    "-e;touch PWNED.o",
    "=ls.o",
    "größe €.o",
    "*(e:touch PWNED:).o",
    "%(?.$(touch PWNED).x)%{a%}.o",
    "!!;touch PWNED;.o",
)
#: What may not be typed for them: the name would no longer be one word of a terminal.
CONTROL = ("a\n$(touch PWNED).o", "b\x1b]0;touch PWNED\x07.o", "c\t;touch PWNED;.o", "d\x15.o")
#: The scripts that older versions installed.
OLD = {
    "bash": """\
_retsnoop_py_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   _RETSNOOP_PY_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _retsnoop_py_completion retsnoop-py
""",
    "zsh": """\
#compdef retsnoop-py

_retsnoop_py_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _RETSNOOP_PY_COMPLETE=complete_zsh \
    retsnoop-py)
}

compdef _retsnoop_py_completion retsnoop-py
""",
}


def folders_of(names: tuple[str, ...], home: Path) -> list[tuple[Path, str]]:
    """A folder for each name, with a file that is called so."""
    found = []
    for number, name in enumerate(names):
        folder = home / f"folder{number}"
        folder.mkdir()
        (folder / name).touch()
        found.append((folder, name))
    return found


def ran(home: Path) -> list[Path]:
    """What a name would have made if a shell had run it."""
    return [
        path
        for path in home.rglob("*PWNED*")
        if "touch" not in path.name and path.name != "x>PWNED.o"
    ]


def test_tab_and_enter_run_nothing_of_a_files_name(shell: Shell) -> None:
    for folder, name in folders_of(HOSTILE, shell.folder):
        shell.enter(folder)
        expected = f"./{name}" if name.startswith("-") else name
        # fish shows no ./NAME before ./ is typed
        typed = "load ./" if shell.name == "fish" and name.startswith("-") else "load "
        assert shell.completed(typed) == ["load", expected], name
        assert ran(shell.folder) == [], name


def test_a_files_name_behind_an_open_quote_is_that_name(shell: Shell) -> None:
    shell.enter(shell.folder)
    for folder, name in folders_of(HOSTILE[:1] + HOSTILE[5:10], shell.folder):
        for quote in "'\"":
            assert shell.completed(f"load {quote}{folder.name}/") == [
                "load",
                f"{folder.name}/{name}",
            ], (quote, name)
            assert ran(shell.folder) == [], name


@pytest.mark.parametrize("name", ["!;touch PWNED;#.o", "'a;touch PWNED;#.o", "!a'b!.o"])
@pytest.mark.parametrize("quote", "'\"")
def test_a_name_that_begins_behind_an_open_quote_is_that_name(
    name: str, quote: str, shell: Shell
) -> None:
    """readline drops the first quote of a completed word if the same quote was typed before it."""
    (shell.folder / "F").mkdir()
    (shell.folder / "F" / name).touch()
    shell.enter(shell.folder / "F")
    assert shell.completed(f"load {quote}") == ["load", name]
    assert ran(shell.folder) == []


def test_tab_runs_nothing_where_many_names_are_shown(shell: Shell) -> None:
    for name in (*HOSTILE, *CONTROL):
        (shell.folder / name).touch()
    for typed in ("load ", "load a", "load ./", "load 'a"):
        shell.send(f"retsnoop-py {typed}\t\t\t\x01\x0b")
        shell.send("echo do''ne\r")
        shell.until("done")
        assert ran(shell.folder) == [], typed


def test_a_name_with_control_characters_is_no_candidate(tmp_path: Path) -> None:
    for name in CONTROL:
        (tmp_path / name).touch()
    (tmp_path / "e.o").touch()
    for shell in START:
        environment = {
            **os.environ,
            "_RETSNOOP_PY_COMPLETE": f"candidates_{shell}",
            "_TYPER_COMPLETE_ARGS": "retsnoop-py load ",
        }
        argv = [str(PROGRAM), *([""] if shell == "bash" else []), "load", ""]
        made = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, check=True)
        assert set(made.stdout.split()) == {b"e.o"}, shell


def test_tab_and_enter_run_nothing_of_a_symbol(shell: Shell) -> None:
    content = (shell.folder / "prog.bpf.o").read_bytes()
    old = max(object_symbols([str(shell.folder / "prog.bpf.o")]), key=len)
    for number, hostile in enumerate(
        ("q$(touch PWNED)", "q\\$(touch PWNED)", "q;touch PWNED;", "q`touch PWNED`'")
    ):
        name = hostile.ljust(len(old), "_")
        folder = shell.folder / f"symbol{number}"
        folder.mkdir()
        (folder / "s.o").write_bytes(
            content.replace(b"\0" + old.encode() + b"\0", b"\0" + name.encode() + b"\0")
        )
        assert name in object_symbols([str(folder / "s.o")])
        shell.enter(folder)
        assert shell.completed("load s.o --prog q") == ["load", "s.o", "--prog", name]
        assert ran(shell.folder) == []


def test_tab_and_enter_run_nothing_of_a_kernels_name(shell: Shell) -> None:
    known = shell.folder / "config/retsnoop-py/kernels.toml"
    known.parent.mkdir(parents=True)
    for hostile in (
        "9.9$(touch PWNED)",
        "9.9;touch PWNED;",
        "9.9`touch PWNED`",
        "9.9\\\\$(touch PWNED)",
    ):
        known.write_text(f'[kernel."{hostile}"]\nsuites = ["sid"]\nimage = "linux-image-9"\n')
        for typed in ("--on 9.", "vm run --on 9.", "load x.o --on 9."):
            shell.completed(typed)
            assert ran(shell.folder) == [], (hostile, typed)


@pytest.mark.parametrize("name", list(OLD))
def test_the_script_of_an_older_version_runs_nothing_either(name: str, tmp_path: Path) -> None:
    shell = Shell(name, tmp_path, OLD[name])
    try:
        for folder, hostile in folders_of(HOSTILE, tmp_path):
            shell.enter(folder)
            shell.send("retsnoop-py load \t\t\x01\x0becho do''ne\r")
            shell.until("done")
            assert ran(tmp_path) == [], hostile
        shell.enter(tmp_path)
        assert shell.completed("-c per") == ["-c", "perf"]
        assert shell.completed("--entr") == ["--entry"]
    finally:
        shell.end()


def test_tab_completes_options_and_commands_of_vm(shell: Shell) -> None:
    assert shell.completed("vm ru") == ["vm", "run"]
    assert shell.completed("vm run --time") == ["vm", "run", "--timeout"]
    assert shell.completed("vm fetch 7.2-fu") == ["vm", "fetch", "7.2-full"]


def in_fish(command: str, home: Path) -> str:
    """What ``command`` prints when fish starts it, by way of a program that is no shell."""
    environment = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(home)}
    argv = ["fish", "--no-config", "-c", f"env {command}; true"]
    made = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    return made.stdout


def test_the_script_of_fish_starts_us_once_however_it_is_handed_out(tmp_path: Path) -> None:
    environment = {**os.environ, "_RETSNOOP_PY_COMPLETE": "source_fish"}
    asked = subprocess.run(
        [str(PROGRAM)], env=environment, capture_output=True, text=True, check=True
    )
    said = in_fish("retsnoop-py --install-completion --yes", tmp_path)
    script = tmp_path / ".config/fish/completions/retsnoop-py.fish"
    assert f"fish completion installed in {script}" in said
    assert script.read_text().count("complete_fish") == 1
    assert in_fish("retsnoop-py --show-completion", tmp_path) == asked.stdout
    assert asked.stdout.strip() == script.read_text().strip()
