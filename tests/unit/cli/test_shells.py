# SPDX-License-Identifier: BSD-2-Clause
"""TAB in real shells, at a terminal of their own."""

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


class Shell:
    """An interactive shell at a pseudo terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        environment = {**os.environ, "_RETSNOOP_PY_COMPLETE": f"source_{name}"}
        argv = [str(PROGRAM)]
        made = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
        script = folder / f"completion.{name}"
        script.write_text(made.stdout)
        start, source = START[name]
        environment = {
            "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
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
        text, deadline = "", time.monotonic() + 30
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.2)[0]:
                text += os.read(self.terminal, 4096).decode(errors="replace")
                if wanted in _ESCAPES.sub("", text):
                    return text
        pytest.fail(f"no {wanted!r} in {text!r}")

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=list(START))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "failure.rsn").touch()
    (tmp_path / "prog.bpf.o").symlink_to(next(OBJECTS.rglob("*.bpf.o")).resolve())
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
