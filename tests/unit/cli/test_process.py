# SPDX-License-Identifier: BSD-2-Clause
"""What only a process of its own shows: pipes, terminals, signals' statuses, start-up."""

from __future__ import annotations

import array
import fcntl
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"
PROGRAM = [sys.executable, "-m", "retsnoop_py"]


def run(*argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*PROGRAM, *argv], text=True, capture_output=True, timeout=60, check=False, **more
    )


def on_terminal(columns: int, *argv: str) -> str:
    """What ``argv`` writes to a terminal of that many columns."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen([*PROGRAM, *argv], stdout=slave, env=environment) as child:
        os.close(slave)
        chunks = []
        try:
            while chunk := os.read(master, 65536):
                chunks.append(chunk)
        except OSError:
            # Linux gives EIO once the last writer has gone.
            pass
    os.close(master)
    assert child.returncode == 0
    return b"".join(chunks).decode()


def test_the_module_runs_as_the_program() -> None:
    done = run("-e", "x", "-p", "abc")
    assert done.returncode == 64
    assert done.stdout == ""
    assert done.stderr.startswith("retsnoop-py: error: -p abc: not a process id\nhint: ")


@pytest.mark.parametrize("columns", [80, 120])
def test_help_on_a_terminal_has_panels_that_fit(columns: int) -> None:
    text = on_terminal(columns, "--help")
    assert "\x1b[" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert any(line.startswith("╭─ Which calls? ─") for line in lines)
    assert {len(line) for line in lines if line.startswith("│")} == {columns}
    assert [line for line in lines if line.startswith("╰")]
    # Prose keeps its lines: none is broken in the middle of an example.
    assert any(line.rstrip().endswith("why does bpf() fail in ./loader?") for line in lines)


def test_a_closed_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "--config-help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_full_disk_behind_stdout_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "--config-help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 74
    assert done.stderr.splitlines()[0] == (
        "retsnoop-py: error: cannot write to standard output: No space left on device"
    )
    assert "Traceback" not in done.stderr


def test_an_error_of_ours_keeps_its_status_when_stdout_is_full() -> None:
    code = (
        "from retsnoop_py.cli import main; from retsnoop_py.errors import OutputError; import sys\n"
        "def run(_):\n"
        "    print('something')\n"
        "    raise OutputError('full')\n"
        "main._run_trace = run\n"
        "sys.exit(main.main(['-e', 'x']))\n"
    )
    buffered = {key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=buffered,
        )
    assert (done.returncode, done.stderr) == (74, "retsnoop-py: error: full\n")


@pytest.mark.parametrize(
    ("redirection", "argv", "status", "shown"),
    [
        (">&-", "--help", 0, ""),
        (">&-", "-V", 0, ""),
        ("2>&-", "-e x -p q", 64, ""),
    ],
)
def test_a_closed_stream_is_no_obstacle(
    redirection: str, argv: str, status: int, shown: str
) -> None:
    line = f"{shlex.join(PROGRAM)} {argv} {redirection}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout + done.stderr == shown


def test_help_in_a_pipe_loads_no_rich() -> None:
    code = (
        "import sys; from retsnoop_py.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        "assert 'rich' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_importing_the_entry_point_loads_nothing_heavy() -> None:
    code = (
        "import sys, retsnoop_py.cli.main\n"
        "heavy = {'typer', 'rich', 'msgspec', 'elftools', 'cffi'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: What a run needs only with -o, for DWARF, for a command, or not at all.
NOT_ON_THE_USUAL_PATH = """
    typer click rich shellingham inspect dataclasses msgspec typing_extensions elftools
    subprocess tempfile shutil traceback difflib json tomllib datetime unicodedata
    http urllib.request ssl email logging threading
    retsnoop_py.recording retsnoop_py.cli.typed retsnoop_py.cli.vm retsnoop_py.vm
    retsnoop_py.cli.doctor retsnoop_py.diagnosis retsnoop_py.cli.functions retsnoop_py.listing
    retsnoop_py._dwarf retsnoop_py.libbpf.dwarf retsnoop_py.symbolize.kernel
"""


def test_a_plain_run_loads_nothing_that_only_others_need() -> None:
    code = (
        "import sys\n"
        "from retsnoop_py.cli import main\n"
        "job = main._job(['-e', '*_sys_bpf', '-a', '*bpf*'])\n"
        "import retsnoop_py.capture.run\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    assert not set(NOT_ON_THE_USUAL_PATH.split()) & set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("retsnoop-py --ent", {"--entry"}),
        ("retsnoop-py re", {"replay"}),
        ("retsnoop-py -e foo --kp", {"--kprobes", "--kprobes-multi"}),
        ("retsnoop-py replay f --sym", {"--symbolize"}),
        ("retsnoop-py fu", {"functions"}),
        ("retsnoop-py functions x --att", {"--attach"}),
        ("retsnoop-py functions -c pe", {"perf"}),
        ("retsnoop-py do", {"doctor"}),
        ("retsnoop-py doctor --js", {"--json"}),
        ("retsnoop-py -x ENOME", {"ENOMEDIUM", "ENOMEM"}),
        ("retsnoop-py -C stacks.d", {"stacks.dec-offs="}),
        ("retsnoop-py -c p", {"perf"}),
        ("retsnoop-py vm f", {"fetch"}),
    ],
)
def test_the_shell_completes(words: str, expected: set[str]) -> None:
    environment = {
        **os.environ,
        "_RETSNOOP_PY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    assert set(run(env=environment).stdout.split()) == expected


def test_an_interrupt_ends_what_a_script_started_in_the_background() -> None:
    """A shell ignores SIGINT there. Here nobody reads the output, either."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    script = '"$@" & echo $! >&2; wait $!; echo $? >&2'
    command = ["sh", "-c", script, "sh", *PROGRAM, "replay", str(GOLDEN / "6.12.rsn")]
    shell = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert shell.stderr is not None
    pid = int(shell.stderr.readline())
    written = array.array("i", [0])
    while not written[0] or " S " not in Path(f"/proc/{pid}/stat").read_text():
        fcntl.ioctl(reader, termios.FIONREAD, written)
        assert shell.poll() is None
    os.kill(pid, signal.SIGINT)
    _, err = shell.communicate(timeout=60)
    os.close(reader)
    assert err == "retsnoop-py: interrupted\n130\n"


def test_files_are_utf_8_where_the_locale_is_not(tmp_path: Path) -> None:
    """Kernels of one's own, lists of globs and what is expected are the same files everywhere."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "retsnoop-py").mkdir()
    entry = '[kernel."9.9"]\nsuites = ["sid"]\nimage = "x"\nabout = "größer"\n'
    (tmp_path / "retsnoop-py/kernels.toml").write_text(entry, encoding="utf-8")
    environment = os.environ | ascii_only | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = run("vm", "list", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"gr\xf6\xdfer" in done.stdout
    (tmp_path / "known").write_text("* größe.o * verifier\n", encoding="utf-8")
    done = run("load", "none.o", "--known-failures", str(tmp_path / "known"), env=environment)
    assert done.returncode == 66
    assert "none.o" in done.stderr


def in_shell(shell: str, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What ``words`` do where ``shell`` starts them, and stays."""
    argv = [shell, "-c", '"$@"; exit $?', shell, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)


def test_completion_that_cannot_be_installed_is_told() -> None:
    tool, environment = (sys.executable, "-m", "retsnoop_py"), os.environ | {"HOME": "/dev/null"}
    done = in_shell("bash", *tool, "--install-completion", "--yes", env=environment)
    assert done.returncode == 74
    assert "cannot write /dev/null" in done.stderr
    assert "--show-completion" in done.stderr.partition("hint: ")[2]
    done = in_shell("dash", *tool, "--install-completion", env=environment)
    assert done.returncode == 69
    assert "for bash, zsh and fish, and this is dash" in done.stderr


#: A user whom no list of users has, as containers have them, with nothing said of a home.
_NOBODY = """
import os, pwd, runpy, sys

def unknown(key):
    raise KeyError(key)

os.environ.pop("HOME", None)
pwd.getpwuid = pwd.getpwnam = unknown
sys.argv[:1] = ["retsnoop-py"]
runpy.run_module("retsnoop_py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("vm", "list"), 0),
        (("list", "presets"), 0),
        (("replay", str(GOLDEN / "6.12-args.rsn")), 0),
        (("vm", "run", "--on", "~nobody/bzImage", "--", "true"), 66),
        (("--install-completion", "--yes"), 74),
    ],
)
def test_a_user_without_a_home_is_served(words: tuple[str, ...], status: int) -> None:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("XDG")}
    done = in_shell("bash", sys.executable, "-c", _NOBODY, *words, env=environment)
    assert done.returncode == status, done.stderr
    assert "bug" not in done.stderr
