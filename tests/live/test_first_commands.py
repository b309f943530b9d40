# SPDX-License-Identifier: BSD-2-Clause
"""The first commands that users try with ``why``: the table of docs/why.md, in two languages."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.live.support import TOOL

from retsnoop_py.vm.machine import Machine

PAGE = Path(__file__).parents[2] / "docs/why.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.M)
ANSWERS = {
    command: re.findall(r"`([^`]+)`", cell)
    for command, cell in ROW.findall(
        PAGE.read_text().partition("## First commands")[2].partition("\n## ")[0]
    )
}
#: Creates the files that the page assumes, and starts a server that runs until the guest ends.
SET_UP = """
set -e
mkdir -p /tmp/first
mountpoint -q /tmp/first && exit
mount -t tmpfs none /tmp/first
cd /tmp/first
umask 022
mkdir d ro
mount -t tmpfs -o ro none ro
echo hidden > secret; chmod 600 secret
touch fixed; chattr +i fixed 2>/dev/null || true  # tmpfs has attributes since Linux 6.6
printf '#!/usr/bin/nosuchinterpreter\\necho hi\\n' > script; chmod +x script
cp "$1" needs
python3 -m http.server 8765 >/dev/null 2>&1 </dev/null &
for try in $(seq 100); do
    python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8765))' 2>/dev/null && exit
    sleep 0.2
done
exit 1
"""


#: The commands that ``make test`` runs.
QUICK = ("ls /nonexistent",)


def needs_a_library(machine: Machine) -> Path:
    """Return a program that needs a library that was removed."""
    library = machine.share / "libfirst.so"
    program = machine.share / "needs"
    if not program.exists():
        source = machine.share / "first.c"
        source.write_text("int first(void) { return 0; }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        source.write_text("int first(void); int main(void) { return first(); }\n")
        folder = f"-L{machine.share}"
        subprocess.run(["gcc", "-o", program, source, folder, "-lfirst"], check=True)
        library.unlink()
    return program


@pytest.fixture
def first(machine: Machine) -> Machine:
    """Return the guest, with the files that the page mentions."""
    program = needs_a_library(machine)
    made = machine.run(["sh", "-c", SET_UP, "sh", str(program)], timeout=120)
    assert made.status == 0, made.err
    return machine


def asked(machine: Machine, command: str, **variables: str) -> str:
    """Return the answer of ``why`` to a command of the page, with wrapped lines joined."""
    words = shlex.split(command)
    if "--" not in words:
        words = ["--", *words]
    setting = [f"{name}={value}" for name, value in variables.items()]
    line = shlex.join(["env", *setting, TOOL, "why", "--reruns", "0", *words])
    result = machine.run(["sh", "-c", f"cd /tmp/first && exec {line}"], timeout=400)
    return " ".join(result.out.split())


def assert_answered(machine: Machine, command: str, **variables: str) -> None:
    answer = asked(machine, command, **variables)
    missing = [one for one in ANSWERS[command] if one not in answer]
    assert not missing, answer


def test_the_page_has_the_commands() -> None:
    assert len(ANSWERS) >= 11
    assert ANSWERS.keys() >= {*QUICK}


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[] if command in QUICK else pytest.mark.slow)
        for command in ANSWERS
    ],
)
def test_the_answers_of_the_page(first: Machine, command: str) -> None:
    assert_answered(first, command, LC_ALL="C.UTF-8")


@pytest.mark.only_on("6.12")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("ls /nonexistent", marks=pytest.mark.slow),
        pytest.param("--user nobody -- cat secret", marks=pytest.mark.slow),
        "mkdir d",
        pytest.param("rm -f fixed", marks=pytest.mark.slow),
    ],
)
def test_the_same_of_commands_that_write_german(first: Machine, command: str) -> None:
    """Their texts for errors are those of libc's translation; the answer is ours, in English."""
    locale = first.share / "locale"
    if not locale.exists():
        locale.mkdir()
        made = locale / "de_DE.UTF-8"
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", made], check=True)
    variables = {"LOCPATH": str(locale), "LC_ALL": "de_DE.UTF-8"}
    said = first.run(["env", *(f"{k}={v}" for k, v in variables.items()), "ls", "/nonexistent"])
    assert "nicht gefunden" in said.err, "the guest has no German"
    assert_answered(first, command, **variables)


@pytest.mark.only_on("5.10")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.slow)
        for command in ("touch ro/x", "python3 -m http.server 8765")
    ],
)
def test_the_same_where_nothing_hooks_all_functions(first: Machine, command: str) -> None:
    assert_answered(first, command, LC_ALL="C.UTF-8")


@pytest.mark.slow
@pytest.mark.only_on("6.12")
def test_a_command_that_does_not_run_at_all(first: Machine) -> None:
    for command, told in (
        ("nosuchcommand", "nosuchcommand is in none of the folders"),
        ("./script", "the interpreter /usr/bin/nosuchinterpreter does not exist"),
    ):
        line = shlex.join([TOOL, "why", "--", command])
        result = first.run(["sh", "-c", f"cd /tmp/first && exec {line}"], timeout=400)
        assert result.status == 127
        assert told in " ".join(result.err.split())
