# SPDX-License-Identifier: BSD-2-Clause
"""What TAB offers, and that it does so without what is slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retsnoop_py.cli import completion
from retsnoop_py.cli.completion import Candidate, candidates
from retsnoop_py.kernel.symbol_names import functions_starting

KALLSYMS = """\
0000000000000000 T bpf_check
0000000000000000 t bpf_check.cold
0000000000000000 t bpf_check_uarg_tail_zero
0000000000000000 d bpf_check_data
0000000000000000 T __pfx_bpf_check
0000000000000000 t nft_do_chain\t[nf_tables]
0000000000000000 t bpf_check_mine\t[bpf]
"""
TRACEABLE = "bpf_check\nrun_bpf_check\nnft_do_chain [nf_tables]\n"


def texts(line: str) -> list[str]:
    *args, incomplete = line.split(" ")
    return [one.text for one in candidates(args, incomplete)]


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_functions_are_those_of_kallsyms_with_their_modules(tmp_path: Path) -> None:
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    assert functions_starting("bpf_ch", tmp_path) == ["bpf_check", "bpf_check_uarg_tail_zero"]
    assert functions_starting("nft", tmp_path) == ["nft_do_chain[nf_tables]"]
    assert functions_starting("__p", tmp_path) == []


def test_functions_are_those_that_can_be_traced_where_that_may_be_read(tmp_path: Path) -> None:
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    write(tmp_path, "sys/kernel/tracing/available_filter_functions", TRACEABLE)
    assert functions_starting("bpf_ch", tmp_path) == ["bpf_check"]
    assert functions_starting("nft_", tmp_path) == ["nft_do_chain[nf_tables]"]


@pytest.mark.parametrize("begun", ["", "b", "bpf*", ":kernel", "@file"])
def test_what_is_no_beginning_of_a_name_has_no_functions(begun: str, tmp_path: Path) -> None:
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    assert functions_starting(begun, tmp_path) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-c ", ["bpf", "perf"]),
        ("--case ", ["bpf", "perf"]),
        ("--case = b", ["bpf"]),
        ("--case =", ["bpf", "perf"]),
        ("--case=b", ["--case=bpf"]),
        ("-vTc ", ["bpf", "perf"]),
        ("-cb", ["-cbpf"]),
        ("-Bind", ["-Bind_call", "-Bind_jump"]),
        ("-x ENOMEM", ["ENOMEM"]),
        ("--attach kprobe.", ["kprobe.session", "kprobe.multi"]),
        ("replay f --form", ["--format"]),
        ("replay f --format ", ["text", "json"]),
        ("load x --on 5.10,hos", ["5.10,host"]),
        ("load x --on 7.3", ["7.3", "7.3-full"]),
        ("help glo", ["globs"]),
        ("-C fmt.c", ["fmt.cpu="]),
        ("l", ["load"]),
        ("-e x l", []),
        ("-c bpf -- re", []),
        ("-o ", []),
        ("-B ", []),
        ("--user root -", None),
    ],
)
def test_what_may_stand_there_is_offered(line: str, expected: list[str] | None) -> None:
    found = texts(line)
    if expected is None:
        assert {"-e", "--entry", "--path", "--install-completion"} <= set(found)
        assert "--usage" not in found
    else:
        assert found == expected


def test_commands_are_offered_with_what_they_do() -> None:
    found = {one.text: one.help for one in candidates([], "")}
    assert found["replay"] == "Show a recording (-o FILE) again, as it was shown live."
    assert all(found.values())


def test_recordings_are_offered_by_their_suffix(tmp_path: Path) -> None:
    for name in ("one.rsn", "other.rsn", "one.txt"):
        (tmp_path / name).touch()
    assert texts(f"replay {tmp_path}/o") == [f"{tmp_path}/one.rsn", f"{tmp_path}/other.rsn"]
    assert texts(f"replay {tmp_path}/x") == []


def test_each_shell_gets_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Candidate("--path", "It's: a `way`."), Candidate("bpf")]
    assert completion._bash(found) == "--path\nbpf"
    assert completion._fish(found) == "--path\tIt's: a `way`.\nbpf"
    assert completion._zsh([]) == "_files"
    told = '"--path":"It\'\'s\\\\: a \\`way\\`."'
    assert completion._zsh(found) == f"_arguments '*: :(({told}\n\"bpf\"))'"
    monkeypatch.setenv("COMP_WORDS", "retsnoop-py -e 'bpf")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert completion._asked("bash") == (["-e"], "bpf")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "retsnoop-py -c ")
    assert completion._asked("zsh") == (["-c"], "")


@pytest.mark.parametrize("words", ["retsnoop-py -e bpf_che", "retsnoop-py load x --on 7"])
def test_nothing_slow_is_imported_for_it(words: str) -> None:
    environment = {
        **os.environ,
        "_RETSNOOP_PY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    argv = [sys.executable, "-X", "importtime", "-m", "retsnoop_py"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "retsnoop_py.cli.completion" in imported
    assert not imported & {"typer", "rich", "capstone"}
