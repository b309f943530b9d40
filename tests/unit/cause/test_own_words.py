# SPDX-License-Identifier: BSD-2-Clause
"""Failures without a failing call: words of programs, exceptions of Python, exit statuses."""

from __future__ import annotations

import pytest
from tests.unit.cause.test_everyday import written

from retsnoop_py.cause.events import Ended, Witnessed
from retsnoop_py.cause.own_words import meaning_of_status, own_decision, statuses


@pytest.mark.parametrize(
    ("line", "words", "advice"),
    [
        ("ls: unrecognized option '--foo'", "has no option --foo", "--help"),
        ("sort: invalid option -- 'y'", "has no option y", "--help"),
        ("bash: --foo: invalid option", "has no option --foo", "--help"),
        (
            "gcc: error: unrecognized command-line option \u2018-foo\u2019",
            "no option -foo",
            "--help",
        ),
        ("head: option requires an argument -- 'n'", "option n needs a value", "--help"),
        ("a.py: error: argument -n: expected one argument", "option -n needs a value", "--help"),
        ("a.py: error: unrecognized arguments: --x", "no option or operand --x", "--help"),
        (
            "a.py: error: the following arguments are required: file",
            "lacks these operands: file",
            "--help",
        ),
        ("a.py: error: argument m: invalid choice: 'x' (choose from a)", "value x", "lists"),
        ("cp: missing destination file operand after 'f'", "too few files", "--help"),
        ("mktemp: extra operand \u2018b\u2019", "The operand b is one too many", "quote"),
        ("chmod: invalid mode: \u201899x\u2019", "99x is not a mode", "chmod 644"),
        ("date: invalid date \u2018tomorow\u2019", "tomorow is not a date", "YYYY-MM-DD"),
        ("head: invalid number of lines: \u2018x\u2019", "does not accept the number x", "suffix"),
        ("fatal: No configured push destination.", "remote repository", "git remote add"),
        (
            "fatal: The current branch new has no upstream branch.",
            "remote repository",
            "git push -u origin",
        ),
        ("error: src refspec main does not match any", "no branch main", "git branch"),
        ("fatal: a branch named 'new' already exists", "a branch new already", "git switch"),
        ("fatal: Not possible to fast-forward, aborting.", "both have commits", "--rebase"),
        ("error: patch failed: src/a.c:7", "content of src/a.c", "git apply -3"),
        ("Can't locate No/Such.pm in @INC (you may need)", "file No/Such.pm", "perl -I"),
        ("ruby: cannot load such file -- rack", "library rack", "gem install"),
        ("go: go.mod file not found in current directory", "file go.mod", "go mod init"),
        ("error: could not find `Cargo.toml` in `/tmp`", "file Cargo.toml", "cargo init"),
        (
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "not valid JSON: 'Expecting value",
            "json.tool",
        ),
        (
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid",
            "encoding utf-8: the byte 0xff",
            "iconv",
        ),
        (
            "x.c:3:5: error: expected \u2018;\u2019 before \u2018}\u2019 token",
            "rejects x.c:3",
            "this line",
        ),
        ("ld: b.o: multiple definition of `f'; a.o: first defined here", "define f", "extern"),
        (
            'CMake Error: The source directory "/tmp/x" does not appear to contain CMakeLists.txt.',
            "/tmp/x has no CMakeLists.txt",
            "cmake -S SOURCE",
        ),
        ("No package 'libfoo' found", "the library libfoo", "PKG_CONFIG_PATH"),
        ("Package libfoo was not found in the pkg-config search path.", "library libfoo", "-dev"),
        ("configure: error: libfoo is required", "stopped: 'libfoo is required'", "config.log"),
        ("bash: line 1: /tmp/f: cannot overwrite existing file", "noclobber", ">|"),
        ("a.sh: line 3: HOME2: unbound variable", "variable HOME2 is not set", "default"),
        ("a.sh: 3: Bad substitution", "sh has fewer than bash", "#!/bin/bash"),
        ("bash: line 34: kill: 99: invalid signal specification", "no signal 99", "kill -l"),
        ("useradd: UID 0 is not unique", "the number 0 already", "getent"),
        ("usermod: user bob is currently used by process 7", "process 7 runs as", "pgrep -u"),
        ("runuser: may not be used by non-root users", "Only root", "sudo -u"),
        (
            "Job for shop.service failed because the control process exited with error code.",
            "the service shop.service",
            "journalctl",
        ),
        ("Failed to start x: Unit shop.service is masked.", "is masked", "unmask"),
        ("Error response from daemon: No such container: web", "no container web", "docker ps"),
        (
            'Error: Conflict. The container name "/web" is already in use by container "1".',
            "a container /web already",
            "docker rm",
        ),
        ("curl: (22) The requested URL returned error: 404", "status 404", "address"),
        ("urllib.error.HTTPError: HTTP Error 403: Forbidden", "status 403", "login"),
        ("curl: (52) Empty reply from server", "without an answer", "port"),
        ("tar: f: Not found in archive", "no member f", "tar tf"),
        ("xz: a.tar.xz: File format not recognized", "a.tar.xz is not compressed", "file FILE"),
        ("Error: in prepare, no such column: b", "no column b", ".schema"),
        ("mkfs.ext4: Filesystem too small for a journal", "too small", "lsblk"),
        ("event syntax error: 'nosuch:event'", "the event nosuch:event", "perf list"),
        ("error: pathspec 'x' did not match any file(s) known to git", "no branch, tag", "fetch"),
        (
            "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)",
            "not valid JSON",
            "comma",
        ),
        ("objdump: f: file format not recognized", "f is no object file", "file NAME"),
        ("readelf: Error: f: Failed to read file's magic number", "format ELF", "file NAME"),
        ("readelf: Error: Not an ELF file - it has the wrong magic bytes", "format ELF", "file"),
        ("patch: **** malformed patch at line 7: x", "not a whole patch", "diff -u"),
        ("base64: invalid input", "the encoding of base64", "base64 -di"),
        ("curl: (28) Connection timed out after 5001 milliseconds", "did not answer", "curl -v"),
    ],
)
def test_what_programs_for_developers_and_admins_find(line: str, words: str, advice: str) -> None:
    found = own_decision(written(line))
    assert found is not None
    assert words in found.text
    assert advice in " ".join(found.advice)


_TRACEBACK = """Traceback (most recent call last):
  File "/srv/app.py", line 3, in <module>
    raise ValueError("no such column: b")
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
"""


def test_an_exception_names_the_line_of_own_code() -> None:
    found = own_decision(written(f"ls: invalid option -- 'y'\n{_TRACEBACK}KeyError: 'HOME2'"))
    assert found is not None
    assert found.text == "The Python code raised KeyError in line 3 of /srv/app.py: 'HOME2'."
    assert found.advice == ()


def test_a_missing_key_of_the_environment_is_a_variable() -> None:
    inside = '  File "<frozen os>", line 679, in __getitem__\n'
    found = own_decision(written(f"{_TRACEBACK}{inside}KeyError: 'HOME2'"))
    assert found is not None
    assert found.text.startswith("The environment variable HOME2 is not set. Line 3 of /srv/app.py")
    assert found.advice == ("set it first: NAME=VALUE COMMAND",)


def test_an_exception_with_a_rule_names_the_line_too() -> None:
    found = own_decision(written(f"{_TRACEBACK}json.decoder.JSONDecodeError: Extra data: line 1"))
    assert found is not None
    assert found.text.startswith("The input is not valid JSON: 'Extra data: line 1'.")
    assert found.text.endswith("The exception came from line 3 of /srv/app.py.")


def test_of_errors_of_a_compiler_the_first_one_counts() -> None:
    found = own_decision(written("x.c:3:5: error: no ';'\nx.c:9:1: error: no '}'"))
    assert found is not None
    assert "rejects x.c:3" in found.text


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((("grep", 1),), "No line matches the pattern"),
        ((("grep", 1), ("sh", 1)), "No line matches the pattern"),
        ((("sleep", 0), ("timeout", 124)), "the time was over"),
    ],
)
def test_the_meaning_of_an_exit_status(ends: tuple[tuple[str, int], ...], words: str) -> None:
    made = tuple(Ended(at, at + 7, name, status, 0) for at, (name, status) in enumerate(ends))
    found = meaning_of_status(Witnessed(ends=made), ends[-1][1])
    assert found is not None
    assert words in found.text
    assert found.is_inferred


@pytest.mark.parametrize(
    "ends",
    [
        (),
        (("grep", 2),),
        (("tool", 1),),
        (("grep", 1), ("sh", 3)),
        (("grep", 1), ("a", 1), ("b", 1)),
    ],
)
def test_an_exit_status_without_a_known_meaning(ends: tuple[tuple[str, int], ...]) -> None:
    made = tuple(Ended(at, at + 7, name, status, 0) for at, (name, status) in enumerate(ends))
    assert meaning_of_status(Witnessed(ends=made), ends[-1][1] if ends else 1) is None


def test_each_row_of_statuses_is_reached() -> None:
    keys = [(program, row.status) for row in statuses() for program in row.programs]
    assert len(keys) == len({*keys})
    assert all(len(program) <= 15 for program, _ in keys), "the kernel keeps 15 characters"
