# SPDX-License-Identifier: BSD-2-Clause
"""The command is held until it is let go, and its end is told as a shell tells it.

--user: who that is. What becomes of it is seen in tests/live/test_user.py, as root.
"""

from __future__ import annotations

import errno
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retsnoop_py.capture.command import Command, find_user
from retsnoop_py.errors import CommandNotExecutable, CommandNotFound, InputError, RetsnoopError
from retsnoop_py.listener import Listener, listening


def finish(command: Command) -> int:
    deadline = time.monotonic() + 60
    while not command.ended():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return command.exit_status


def test_nothing_runs_before_release(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with Command(["touch", str(marker)]) as command:
        time.sleep(0.1)
        assert not marker.exists()
        command.release()
        assert finish(command) == 0
    assert marker.exists()


def test_a_command_that_is_never_released_never_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with Command(["touch", str(marker)]) as command:
        pid = command.pid
    assert not marker.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_its_status_is_passed_on() -> None:
    with Command(["sh", "-c", "exit 7"]) as command:
        command.release()
        assert finish(command) == 7


def test_a_signal_becomes_128_and_its_number() -> None:
    with Command(["sh", "-c", "kill -TERM $$"]) as command:
        command.release()
        assert finish(command) == 128 + signal.SIGTERM


#: Tells what a command has from its caller.
SHOW = """
grep -E '^(Sig[BI]|ShdPnd|Groups|Uid|Umask)' /proc/self/status
cat /proc/self/limits /proc/self/oom_score_adj
ls /proc/self/fd; env | sort; pwd; nice
"""
#: Runs the words behind the first held and let go: "first", with a trace's own changes while it is
#: held, or "again", in a second run after them; "library" is that without :func:`remember`.
HOLD = """
import resource, sys
from retsnoop_py.capture import inherited
run, *words = sys.argv[1:]
if run != "library":
    inherited.remember()
from retsnoop_py.capture.command import Command
from retsnoop_py.capture.rights import raise_files, raise_memlock
from retsnoop_py.capture.signals import StopSignals
with StopSignals():
    with Command(["true"] if run != "first" else words) as command:
        raise_memlock()
        raise_files(600)
        command.release()
        command.wait(lambda: False)
    if run != "first":
        with Command(words) as command:
            command.release()
            command.wait(lambda: False)
sys.exit(command.exit_status)
"""


def has_from_its_caller(setup: str, run: str | None) -> str:
    """What a command finds that a shell starts after ``setup``, itself or in a ``run`` of ours."""
    show = ["sh", "-c", SHOW]
    line = [sys.executable, "-c", HOLD, run, *show] if run else show
    script = f'{setup}; "$@" 7</dev/null'
    environment = {"PATH": os.environ["PATH"], "LANG": "C"}
    done = subprocess.run(
        ["sh", "-c", script, "sh", *line],
        env=environment,
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("run", ["first", "again", "library"])
@pytest.mark.parametrize(
    "setup",
    [
        ":",
        "trap '' HUP",  # nohup
        "trap '' INT QUIT",  # a background job of a script
        "trap '' TERM USR1 TSTP",
        "ulimit -n 64; ulimit -c 0; umask 027",
        "ulimit -l 64; echo 200 > /proc/self/oom_score_adj; cd /",
    ],
)
def test_a_command_has_what_its_caller_gave_and_nothing_of_ours(setup: str, run: str) -> None:
    assert has_from_its_caller(setup, run) == has_from_its_caller(setup, None)


#: Gets a signal in the new child, before anything of ours runs there.
AT_FORK = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"ours"))
parent = os.getpid()
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from retsnoop_py.capture.command import Command
with Command(["true"]) as command:
    command.release()
    command.wait(lambda: False)
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
print(command.exit_status, sorted(blocked))
"""


def test_a_signal_in_the_new_child_runs_no_handler_of_ours() -> None:
    words = [sys.executable, "-c", AT_FORK]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{128 + signal.SIGTERM} []\n"


def test_nothing_stays_open_where_no_process_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    before = sorted(Path("/proc/self/fd").iterdir())
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(BlockingIOError):
        Command(["true"])
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_blocked_signals_are_blocked_in_the_command() -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        with Command(["sh", "-c", "kill -USR2 $$; exit 3"]) as command:
            command.release()
            assert finish(command) == 3
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ])
def test_what_python_ignores_for_itself_kills_the_command(number: signal.Signals) -> None:
    assert signal.getsignal(number) is signal.SIG_IGN
    with Command(["sh", "-c", f"kill -{number:d} $$; exit 3"]) as command:
        command.release()
        assert finish(command) == 128 + number


def test_a_missing_command_is_told_before_anything_is_started() -> None:
    with pytest.raises(CommandNotFound) as caught:
        Command(["no-such-command-anywhere"])
    assert caught.value.exit_status == 127


def test_a_file_that_is_no_program_is_told_before_anything_is_started(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo")
    with pytest.raises(CommandNotExecutable) as caught:
        Command([str(script)])
    assert caught.value.exit_status == 126
    assert f"chmod +x {script}" in (caught.value.hint or "")


def test_a_folder_is_not_offered_chmod(tmp_path: Path) -> None:
    with pytest.raises(CommandNotExecutable, match="it is a directory") as caught:
        Command([str(tmp_path)])
    assert "chmod" not in (caught.value.hint or "")


def test_a_missing_interpreter_is_told_by_release(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with Command([str(script)]) as command, pytest.raises(CommandNotFound):
        command.release()


class _Listener(Listener):
    def __init__(self) -> None:
        self.aside: list[str] = []

    def say_aside(self, text: str) -> None:
        self.aside.append(text)


def test_a_signal_sent_to_us_alone_is_passed_on() -> None:
    with Command(["sleep", "60"]) as command:
        command.release()
        command.wait_after(signal.SIGTERM)
        assert command.exit_status == 128 + signal.SIGTERM


def test_one_that_ignores_signals_is_left_alone_when_asked_again(tmp_path: Path) -> None:
    up = tmp_path / "up"
    script = f"trap '' TERM; touch {up}; while :; do sleep 0.1; done"
    with Command(["sh", "-c", script]) as command:
        command.release()
        while not up.exists():
            time.sleep(0.01)
        asked = iter([1] * 120)
        listener = _Listener()
        with listening(listener):
            assert not command.wait_after(signal.SIGTERM, lambda: next(asked, 2))
        told = f"sh (process {command.pid}) does not end by SIGTERM."
        assert listener.aside == [f"{told} One more signal leaves it alone.\n"]
        os.kill(command.pid, signal.SIGKILL)
        assert finish(command) == 128 + signal.SIGKILL


def test_a_command_that_is_traced_no_more_is_waited_for() -> None:
    with Command(["sh", "-c", "sleep 0.1; exit 3"]) as command:
        command.release()
        command.wait(lambda: False)
        assert command.ended()
        assert command.exit_status == 3


def test_waiting_for_a_command_can_be_stopped() -> None:
    with Command(["sleep", "60"]) as command:
        command.release()
        command.wait(lambda: True)
        assert not command.ended()
        command.wait_after(signal.SIGTERM)


def test_its_output_can_be_kept_away_from_ours(capfd: pytest.CaptureFixture[str]) -> None:
    for aside in (False, True):
        with Command(["echo", f"{aside}"], aside=aside) as command:
            command.release()
            command.wait(lambda: False)
    out, err = capfd.readouterr()
    assert (out, err) == ("False\n", "True\n")


def test_a_further_run_reads_and_writes_nothing(tmp_path: Path) -> None:
    """What is typed for the first run, or by who sees no question, is not its input."""
    seen = tmp_path / "seen"
    typed, other = os.pipe()
    os.write(other, b"y\n")
    before = os.dup(0)
    os.dup2(typed, 0)
    try:
        script = f'read answer; echo "[$answer] $(readlink /proc/self/fd/2)" >{seen}'
        for quiet in (True, False):
            with Command(["sh", "-c", script], quiet=quiet) as command:
                command.release()
                command.wait(lambda: False)
            expected = "[] /dev/null\n" if quiet else "[y] "
            assert seen.read_text().startswith(expected)
    finally:
        os.dup2(before, 0)
        for one in (before, typed, other):
            os.close(one)


def test_a_user_is_found_by_name_and_by_number() -> None:
    known = pwd.getpwuid(os.getuid())
    user = find_user(known.pw_name)
    assert user == find_user(str(known.pw_uid))
    assert (user.uid, user.gid) == (known.pw_uid, known.pw_gid)
    assert known.pw_gid in user.groups
    assert user.environment == {
        "HOME": known.pw_dir,
        "SHELL": known.pw_shell,
        "USER": known.pw_name,
        "LOGNAME": known.pw_name,
        "MAIL": f"/var/mail/{known.pw_name}",
    }


def test_another_users_command_gets_no_secrets_of_its_caller() -> None:
    user = find_user(str(os.getuid()))
    harmless = {"PATH": "/bin", "TERM": "xterm", "LANG": "C", "LC_ALL": "C"}
    secret = {"SECRET_TOKEN": "x", "SSH_AUTH_SOCK": "/s", "LD_PRELOAD": "/l", "HOME": "/h"}
    caller = harmless | secret
    found = user.environment_of(caller, keep=False)
    own = {"HOME", "SHELL", "USER", "LOGNAME", "MAIL"}
    assert found.keys() == harmless.keys() | own
    assert found["HOME"] == user.home
    kept = user.environment_of(caller, keep=True)
    assert kept == {**caller, **user.environment}


#: Runs a command as nobody while a file of root is open in descriptors above 2.
AS_NOBODY = """
import os, sys
from retsnoop_py.capture.command import Command, find_user
for fd in (3, 9, 100):
    os.dup2(os.open(sys.argv[1], os.O_RDONLY), fd)
with Command(["ls", "/proc/self/fd"], user=find_user("nobody")) as command:
    command.release()
    command.wait(lambda: False)
sys.exit(command.exit_status)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_users_command_gets_no_open_files_of_its_caller(tmp_path: Path) -> None:
    """A shell of root may have its terminal or a secret open there; sudo closes these, too."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(secret)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


#: Prints the keys that a command of nobody sees; this process has one in its session keyring.
KEYS_AS_NOBODY = """
import ctypes, platform, sys
from retsnoop_py.capture.command import Command, find_user
libc = ctypes.CDLL(None, use_errno=True)
keyctl, add_key = {"x86_64": (250, 248), "aarch64": (219, 217)}[platform.machine()]
assert libc.syscall(keyctl, 1, None) > 0, "a session keyring"
assert libc.syscall(add_key, b"user", b"rsn-secret", b"x", 1, -3) > 0, "a key"
print(open("/proc/keys").read(), end="")
print("--", flush=True)
with Command(["cat", "/proc/keys"], user=find_user("nobody")) as command:
    command.release()
    command.wait(lambda: False)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_users_command_gets_no_keys_of_its_caller() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEYS_AS_NOBODY],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours, _, theirs = done.stdout.partition("--\n")
    assert "rsn-secret" in ours
    assert "rsn-secret" not in theirs
    assert "_ses" in theirs


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_can_neither_stop_nor_start_a_command_that_is_held() -> None:
    with Command(["true"], user=find_user("nobody")) as command:
        attack = f"import os, signal; os.setresuid(*3 * [{find_user('nobody').uid}])\n"
        for name in ("SIGSTOP", "SIGCONT", "SIGKILL"):
            attack += f"try: os.kill({command.pid}, signal.{name})\n"
            attack += "except PermissionError: print('denied')\n"
        said = subprocess.check_output([sys.executable, "-S", "-c", attack], text=True)
        assert said.split() == ["denied"] * 3
        assert Path(f"/proc/{command.pid}/exe").readlink() == Path(sys.executable).resolve()
        command.release()
        command.wait(lambda: False)
        assert command.exit_status == 0


def test_a_command_that_is_stopped_before_it_starts_stops_only_itself() -> None:
    with Command(["true"]) as command:
        os.kill(command.pid, signal.SIGSTOP)
        command.release()
        assert not command.ended()
        os.kill(command.pid, signal.SIGCONT)
        command.wait(lambda: False)
        assert command.exit_status == 0


def test_a_command_that_is_stopped_and_never_released_is_ended() -> None:
    with Command(["true"]) as command:
        os.kill(command.pid, signal.SIGSTOP)
    with pytest.raises(ProcessLookupError):
        os.kill(command.pid, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_search_that_its_user_stops_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    monkeypatch.setattr("retsnoop_py.capture.command.resolve", stopped)
    with pytest.raises(RetsnoopError, match="the search was killed"):
        Command(["true"], user=find_user("nobody"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_search_that_its_user_kills_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("retsnoop_py.capture.command.resolve", killed)
    with pytest.raises(RetsnoopError, match="the search was killed"):
        Command(["true"], user=find_user("nobody"))


@pytest.mark.parametrize("name", ["no-such-user", "-1", "4294967294", "99999999999999999999", "٣"])
def test_one_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"--user {name}: no such user") as caught:
        find_user(name)
    assert caught.value.exit_status == 66


#: What a child does that may not read the package and the standard library.
UNREADABLE = """
import os, sys
import retsnoop_py
import shutil
from retsnoop_py.cause.reasons import load_tables
load_tables()
from retsnoop_py.capture.command import resolve
roots = (os.path.dirname(retsnoop_py.__file__), os.path.dirname(os.__file__))

def forbid(event, arguments):
    if event == "open" and str(arguments[0]).startswith(roots):
        raise PermissionError(13, "not readable", arguments[0])

sys.addaudithook(forbid)
for path in sys.argv[1:]:
    try:
        resolve([path])
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_user_who_cannot_read_this_package_gets_the_reason(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    argv = [sys.executable, "-c", UNREADABLE]
    argv += [f"{tmp_path}/plain", f"{tmp_path}/nosuch", "/dev/nosuch", "nosuchprogram"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["CommandNotExecutable", *["CommandNotFound"] * 3], done.stderr
