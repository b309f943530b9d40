# SPDX-License-Identifier: BSD-2-Clause
"""Commands in advice are safe to paste, whatever a file is called."""

from __future__ import annotations

import ast
import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import call, reason

from retsnoop_py import cause
from retsnoop_py.cause.shell import shell_path, shell_word

NAMES = [
    "-rf",
    "--help",
    "-",
    "$(touch PWNED)",
    "`touch PWNED`",
    "a; touch PWNED",
    "a'b\"c",
    "a\nb; touch PWNED\n",
    "'\x1b[2J",
    "\u202egpj.exe",
    "back\\slash\t'",
    os.fsdecode(b"\xff\xfe"),
    "=ls",
    "a\n'; touch PWNED; '",
    "caf\u00e9",
    "a\\'\";touch PWNED;#",
    "x\\",
    "%self",
    "",
]


def run(line: str, folder: Path) -> bytes:
    argv = ["bash", "--norc", "-c", line]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=True)
    return done.stdout


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("name", NAMES)
def test_bash_reads_a_name_as_one_word(name: str, tmp_path: Path) -> None:
    assert shell_word(name).isprintable()
    assert run(f"printf '%s\\0' {shell_word(name)}", tmp_path) == os.fsencode(name) + b"\0"
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_fish_runs_nothing_of_a_name(name: str, tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    line = f"printf '%s\\0' {shell_word(name)}"
    argv = ["fish", "--no-config", "-c", line]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)
    if name.isprintable() and "\\" not in name:
        assert done.stdout == os.fsencode(name) + b"\0"
    else:
        assert done.stdout == b""
    assert names(tmp_path) == []


@pytest.mark.parametrize("shell", ["dash", "zsh"])
@pytest.mark.parametrize("name", NAMES)
def test_other_shells_read_one_word_too(shell: str, name: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    line = f"printf '%s\\0' {shell_word(name)}"
    done = subprocess.run([shell, "-c", line], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.count(b"\0") == 1
    if shell == "zsh" or (name.isprintable() and "\\" not in name):
        assert done.stdout == os.fsencode(name) + b"\0"
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("", "-")])
def test_no_program_reads_a_path_as_an_option(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).touch()
    run(f"cd folder && rm {shell_path(name)}", tmp_path)
    assert names(tmp_path / "folder") == []


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_the_advice_to_a_hostile_name_makes_that_folder_and_nothing_else(
    name: str, tmp_path: Path
) -> None:
    found = reason(call("mkdir", errno.ENOENT, (0, f"{tmp_path}/{name}/b/c")))
    command = found.advice[0].removeprefix("create it: ")
    run(command, tmp_path)
    assert names(tmp_path) == [name]
    assert names(tmp_path / name) == ["b"]


def test_only_one_place_quotes_names_of_commands() -> None:
    folder = Path(cause.__file__).parent
    texts = {path.name: path.read_text() for path in folder.rglob("*.py")}
    assert [name for name, text in texts.items() if "shlex" in text] == ["shell.py"]


#: Commands of advice that take a name which somebody else may have chosen.
COMMANDS = re.compile(
    r"(?:^|[;:(] ?|or )(?:chattr|chmod|chown|cp|dmsetup|docker run|findmnt|fuser|ln|losetup|mdadm"
    r"|mkdir|modprobe|mount -|mv|nft|quota -u|repquota|rm|rmdir|sed|setfacl|swapoff|umount)[^;:]*$"
    r"|echo \S+ ?>+$"
)
#: Fields of such commands that are no names of others, with the reason.
HARMLESS = {
    "letter": "r, w or x",
    "short": "the name of a capability",
    "bind": "an option",
    "device.name": "a device of /sys/block",
    "quoted": "made by shell_path() in the caller",
    "entry": "who and a letter",
    "f'mask::{letter}' if found.entry.is_masked else entry": "a letter, or who and a letter",
    "user": "of passwd, or a number",
    "name": "a file system of /proc/filesystems, or a device of /sys/block",
    "one.handle": "a number",
    "_match(one)": "an address and a port",
    "who": "of passwd, or a number",
    "module": "of a table, or its beginning",
    "name if known else 'NAME'": "letters and digits",
}


def unquoted(path: Path) -> list[str]:
    """The fields of the commands in a module that shell_path() or shell_word() did not make."""
    tree = ast.parse(path.read_text())
    made = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "shell_" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        text = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            field = ast.unparse(part.value)
            is_safe = "shell_" in field or field in made or field in HARMLESS
            if COMMANDS.search(text) and not is_safe:
                found.append(f"{path.name}:{part.lineno}: {text}{{{field}}}")
            text += "X"
    return found


def test_no_command_of_an_advice_has_a_name_as_it_is() -> None:
    folder = Path(cause.__file__).parent
    assert [each for path in folder.rglob("*.py") for each in unquoted(path)] == []
