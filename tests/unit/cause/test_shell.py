# SPDX-License-Identifier: BSD-2-Clause
"""Commands in advice are safe to paste, whatever a file is called."""

from __future__ import annotations

import errno
import os
import re
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
    "caf\u00e9",
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


def test_no_command_of_an_advice_has_a_name_as_it_is() -> None:
    """A known command with a field that is no quoted name, no table's capability or letter."""
    commands = (
        "chattr|chmod|docker run --device|fuser|ln|modprobe|mkdir|quota -u|repquota|rm|sed|umount"
    )
    plain = re.compile(
        rf"[\"' ](?:{commands}|mount -) [^\"\n]*(?:-\w+| )\s*\{{(?!shell_|quoted|who|letter|name)"
        r"|echo \w+ > \{(?!shell_)"
    )
    folder = Path(cause.__file__).parent
    found = [plain.search(path.read_text()) for path in folder.rglob("*.py")]
    assert [one[0] for one in found if one] == []
