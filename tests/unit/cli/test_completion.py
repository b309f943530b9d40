# SPDX-License-Identifier: BSD-2-Clause
"""What TAB offers, and that it does so without what is slow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retsnoop_py.cli import completion
from retsnoop_py.cli.completion import Candidate, candidates
from retsnoop_py.errors import UnavailableError
from retsnoop_py.options import live
from retsnoop_py.options.live import functions_starting
from retsnoop_py.package import user_file
from retsnoop_py.selection.globs import preset_names

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


def test_functions_are_kept_for_this_boot_with_these_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    write(tmp_path, "proc/sys/kernel/random/boot_id", "one\n")
    write(tmp_path, "proc/modules", "nf_tables 1 0 - Live 0x0\n")
    assert functions_starting("nft", tmp_path) == ["nft_do_chain[nf_tables]"]
    write(tmp_path, "proc/kallsyms", KALLSYMS.replace("nft_do", "nft_undo"))
    assert functions_starting("nft", tmp_path) == ["nft_do_chain[nf_tables]"], "kept"
    assert functions_starting("zzz", tmp_path) == []
    write(tmp_path, "proc/modules", "nf_tables 1 0 - Live 0x0\nxfs 1 0 - Live 0x0\n")
    assert functions_starting("nft", tmp_path) == ["nft_undo_chain[nf_tables]"], "a module came"
    assert len(list((tmp_path / "cache/retsnoop-py/names").iterdir())) == 1
    kept = next((tmp_path / "cache/retsnoop-py/names").iterdir())
    kept.write_text("\nnft_half")
    assert functions_starting("nft", tmp_path) == ["nft_undo_chain[nf_tables]"], "damaged"


def test_a_cache_that_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    write(tmp_path, "proc/sys/kernel/random/boot_id", "one\n")
    write(tmp_path, "proc/modules", "")
    assert functions_starting("nft", tmp_path) == ["nft_do_chain[nf_tables]"]


def test_source_files_are_kept_for_this_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(live, "_build", lambda root: "abc")
    listed = [["kernel/fork.c", "kernel/bpf/core.c", "mm/mmap.c"], []]
    monkeypatch.setattr(live, "_source_files", lambda root: listed.pop(0))
    assert texts("-a :kernel/b") == [":kernel/bpf/core.c"]
    assert texts("-a :") == [":kernel/bpf/core.c", ":kernel/fork.c", ":mm/mmap.c"]
    assert texts("-J kprobe:kernel/f") == ["kprobe:kernel/fork.c:"]
    assert texts("-a :zzz") == []


def test_kernels_are_kept_while_the_files_that_name_them_are_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert texts("--on 5.10,7.2-f") == ["5.10,7.2-full"]
    (kept,) = (tmp_path / "cache").rglob("kernels-*")
    assert texts("--on 9.") == []
    own = user_file("kernels.toml")
    own.parent.mkdir()
    own.write_text('[kernel."9.9"]\nsuites = ["sid"]\nimage = "linux-image-9"\n')
    assert texts("--on 9.") == ["9.9"]
    assert not kept.exists()
    own.write_text("no TOML")
    assert texts("--on ") == ["host"]


def test_tracepoints_are_those_of_tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = "sched:sched_switch\nsched:sched_wakeup\nnfs:nfs_open\n"
    write(tmp_path, "sys/kernel/tracing/available_events", events)
    found = live.tracepoints_starting
    monkeypatch.setattr(live, "tracepoints_starting", lambda begun: found(begun, tmp_path))
    assert texts("-J tp:sched:sched_w") == ["tp:sched:sched_wakeup"]
    assert texts("-J rawtp:nfs") == ["rawtp:nfs_open"]
    # a shell goes as far as the two have in common, and stops behind the colon
    assert texts("-J tp") == ["tp:CATEGORY:NAME", "tp:CATEGORY:GLOB"]


def test_programs_and_maps_are_those_of_the_objects_on_the_line(tmp_path: Path) -> None:
    objects = Path(live.__file__).parents[1] / "bpf"
    # the words of a line are parted at its spaces here, which a checkout's path may have
    path = Path(shutil.copy(next(objects.rglob("trace.bpf.o")), tmp_path))
    assert path.name in " ".join(texts(f"load {path.parent}/"))
    programs = texts(f"load {path} --prog ")
    assert len(programs) > 10
    assert all(name.isidentifier() for name in programs)
    maps = texts(f"load {path} --map ")
    assert maps
    assert not set(maps) & set(programs)
    assert texts("load /nonexistent --prog ") == []


@pytest.mark.parametrize("begun", ["", "b", "bpf*", ":kernel", "@file"])
def test_what_is_no_beginning_of_a_name_has_no_functions(begun: str, tmp_path: Path) -> None:
    write(tmp_path, "proc/kallsyms", KALLSYMS)
    assert functions_starting(begun, tmp_path) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-c ", preset_names()),
        ("--case ", preset_names()),
        ("--case = m", ["module", "mount"]),
        ("--case =", preset_names()),
        ("--case=pe", ["--case=perf"]),
        ("-vTc ", preset_names()),
        ("-cpe", ["-cperf"]),
        ("-Bind", ["-Bind_call", "-Bind_jump"]),
        ("-x ENOMEM", ["ENOMEM"]),
        ("--attach kprobe.", ["kprobe.session", "kprobe.multi"]),
        ("replay f --form", ["--format"]),
        ("replay f --format ", ["text", "json"]),
        ("load x --on 5.10,hos", ["5.10,host"]),
        ("load x --on 7.3", ["7.3", "7.3-full"]),
        ("help glo", ["globs"]),
        ("-C fmt.c", ["fmt.cpu="]),
        ("l", ["list", "load"]),
        ("list t", ["tracepoints"]),
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
    assert found["replay"] == "Print a recording (-o FILE) again, as the live run did."
    assert all(found.values())


def test_recordings_are_offered_by_their_suffix(tmp_path: Path) -> None:
    for name in ("one.rsn", "other.rsn", "one.txt"):
        (tmp_path / name).touch()
    assert texts(f"replay {tmp_path}/o") == [f"{tmp_path}/one.rsn", f"{tmp_path}/other.rsn"]
    assert texts(f"replay {tmp_path}/x") == []


#: A line without a word.
NOTHING = completion._Line([], "")


def test_each_shell_gets_its_form() -> None:
    found = [Candidate("--path", "It's: a `way`."), Candidate("bpf")]
    assert completion._form("bash", found, NOTHING) == "--path\nbpf"
    assert completion._form("fish", found, NOTHING) == "--path\tIt's: a `way`.\nbpf"
    assert completion._form("zsh", found, NOTHING) == "--path\t--path  -- It's: a `way`.\nbpf\tbpf"
    assert completion._form("zsh", [], NOTHING) == ""


@pytest.mark.parametrize(
    ("quote", "expected"),
    [("", "a\\ \\'\\$b\\!/ü.o"), ("'", "a '\\''$b!/ü.o"), ('"', 'a \'\\$b"\\!"/ü.o')],
)
def test_bash_gets_its_candidates_quoted(quote: str, expected: str) -> None:
    line = completion._Line([], "", quote=quote)
    assert completion._form("bash", [Candidate("a '$b!/ü.o")], line) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["load", '"'], '""\\!"a'),
        (["load", '"!'], '""\\!"a'),
        (["load", 'x"'], '""\\!"a'),
        (["load", "'"], "!a"),
        (["load", ""], "\\!a"),
    ],
)
def test_a_first_quote_is_doubled_where_readline_drops_it(
    words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = words[-1].rpartition('"')[2].rpartition("'")[2]
    monkeypatch.setattr(sys, "argv", ["retsnoop-py", replaced, *words])
    assert completion._form("bash", [Candidate("!a")], completion._typed("bash")) == expected


@pytest.mark.parametrize(
    ("replaced", "words", "expected"),
    [
        ("bpf", ["-e", "'bpf"], (["-e"], "bpf", 0, "'")),
        ("sw", ["-J", "tp", ":", "sched", ":", "sw"], (["-J"], "tp:sched:sw", 9, "")),
        ("", ["-J", "tp", ":"], (["-J"], "tp:", 3, "")),
        ("kernel/b", ["-a", ":", "kernel/b"], (["-a"], ":kernel/b", 1, "")),
        ("", ["-a", ":"], (["-a"], ":", 1, "")),
        ("a:b", ["load", '"a:b'], (["load"], "a:b", 0, '"')),
        (r"a\$b\:", ["load", r"a\$b\:"], (["load"], "a$b:", 0, "")),
        (r"a\$b\x", ["load", r'"a\$b\x'], (["load"], r"a$b\x", 0, '"')),
        ("b", ["load", "a'b"], (["load"], "ab", 1, "'")),
        ("", ["load", ""], (["load"], "", 0, "")),
    ],
)
def test_bash_says_which_part_of_a_word_it_replaces(
    replaced: str, words: list[str], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["retsnoop-py", replaced, *words])
    line = completion._typed("bash")
    assert (line.before, line.incomplete, line.kept, line.quote) == expected


def test_fish_and_older_scripts_pass_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, expected in (
        ("retsnoop-py -c ", (["-c"], "")),
        ("retsnoop-py load 'a b", (["load"], "a b")),
        ("retsnoop-py load a\\ ", (["load"], "a ")),
    ):
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
        line = completion._typed("fish")
        assert (line.before, line.incomplete) == expected
    monkeypatch.setenv("COMP_WORDS", "retsnoop-py\n-J\ntp\n:\nsched\n:\nsw")
    monkeypatch.setenv("COMP_CWORD", "6")
    line = completion._typed_for_typer("bash")
    assert (line.before, line.incomplete, line.kept) == (["-J"], "tp:sched:sw", 9)


def test_a_script_of_an_older_version_gets_words_that_need_no_quotes() -> None:
    found = [Candidate(text) for text in ("--path", "$(id).o", "a b.o", "=ls", "~r", "perf")]
    assert completion._form_for_typer("bash", found) == "--path\nperf"
    assert completion._form_for_typer("zsh", found) == "compadd -- --path perf"
    assert completion._form_for_typer("zsh", found[1:3]) == "_files"


@pytest.mark.parametrize(
    "words",
    ["-e bpf_che", "load x --on 7", "vm run --on 7"],
)
def test_nothing_slow_is_imported_for_it(words: str) -> None:
    environment = {**os.environ, "_RETSNOOP_PY_COMPLETE": "candidates_bash"}
    typed = words.split()
    argv = [sys.executable, "-X", "importtime", "-m", "retsnoop_py", typed[-1], *typed]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "retsnoop_py.cli.completion" in imported
    assert not imported & {"typer", "rich", "capstone", "retsnoop_py.cli.main"}


def test_a_shell_that_nothing_tells_of_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_shell", lambda: None)
    with pytest.raises(UnavailableError, match="/proc names no shell that started this"):
        completion.hand_out("install-completion", agreed=True)


def test_what_is_installed_replaces_the_script_of_an_older_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for shell, script, settings in (
        ("bash", ".bash_completions/retsnoop-py.sh", ".bashrc"),
        ("zsh", ".zfunc/_retsnoop-py", ".zshrc"),
    ):
        write(tmp_path, script, "eval $(retsnoop-py)\n")
        write(tmp_path, settings, "alias ll=ls\n")
        monkeypatch.setattr(completion, "_shell", lambda shell=shell: shell)
        for _ in range(2):
            assert completion.hand_out("install-completion", agreed=True) == 0
        assert (tmp_path / script).read_text() == completion._SCRIPTS[shell]
        lines = (tmp_path / settings).read_text().splitlines()
        assert lines[0] == "alias ll=ls"
        assert len([line for line in lines if line]) == 2
