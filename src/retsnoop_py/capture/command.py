# SPDX-License-Identifier: BSD-2-Clause
"""The command to trace: started early, held until all probes are attached, then released.

The child is forked before any kernel fact is read, so it is small. It waits in read(2) on a pipe.
retsnoop-py puts its process id into the tree filter and attaches all probes; only then the child
calls exec. Therefore no action of the command is missed, and no action of retsnoop-py is taken for
the command's. In every run, the command inherits the state that retsnoop-py got from its own caller
(:mod:`retsnoop_py.capture.inherited`). With ``--user``, the child gives up its rights before it
waits, and gets its own session, terminal (:mod:`retsnoop_py.capture.own_session`) and environment.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from retsnoop_py import caller_environment
from retsnoop_py.capture.inherited import (
    Inherited,
    close_all_but,
    environment,
    hand_down_limits,
    inherited,
    signals_blocked,
)
from retsnoop_py.errors import (
    CommandNotExecutable,
    CommandNotFound,
    InputError,
    PrivilegeError,
    RetsnoopError,
)
from retsnoop_py.libbpf.process import new_session_keyring
from retsnoop_py.listener import current
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.capture.own_session import OwnTerminal
    from retsnoop_py.cause.reason import Reason


#: Variables of the caller that another user's command gets; others may hold secrets.
_KEPT = re.compile(r"PATH|TERM|LANG|LANGUAGE|LC_\w+")


class User(Value):
    """A user from the passwd and group databases; ``groups`` are all the user's groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    def become(self) -> None:
        """Take the user's ids and groups, irrevocably. Raises OSError if not permitted."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that identify the user."""
        return {
            "HOME": self.home,
            "SHELL": self.shell,
            "USER": self.name,
            "LOGNAME": self.name,
            "MAIL": f"/var/mail/{self.name}",
        }

    def environment_of(self, caller: dict[str, str], *, keep: bool) -> dict[str, str]:
        """Return the environment of this user's command, like sudo's env_reset.

        ``keep``: include all variables of the caller.
        """
        kept = {key: text for key, text in caller.items() if keep or _KEPT.fullmatch(key)}
        return {**kept, **self.environment}


def find_user(name: str) -> User:
    """Return the user with this name or number. Raises InputError for an unknown user."""
    try:
        known = pwd.getpwnam(name)
    except KeyError:
        known = _by_number(name)
    return User(
        name=known.pw_name,
        uid=known.pw_uid,
        gid=known.pw_gid,
        groups=tuple(os.getgrouplist(known.pw_name, known.pw_gid)),
        home=known.pw_dir,
        shell=known.pw_shell or "/bin/sh",
    )


def _by_number(text: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(int(text) if text.isascii() and text.isdecimal() else -1)
    except (KeyError, OverflowError):
        raise InputError(
            f"--user {text}: no such user", "`getent passwd` lists the users"
        ) from None


#: Seconds that a child may take to end after Ctrl-C before the signal is passed on.
_GRACE = 0.5
#: Seconds between checks for the end of a command.
_POLL = 0.05


def resolve(command: Sequence[str]) -> str:
    """Return the path of the program; raises CommandNotFound or CommandNotExecutable.

    execvp(3) is not used for the search: its failed attempts along PATH would appear as errors of
    the traced command.
    """
    import shutil

    program = command[0]
    path = shutil.which(program, path=caller_environment.path_of_caller())
    if path:
        return path
    if os.sep in program and _out_of_reach(program):
        raise CommandNotExecutable(
            f"cannot run {program}: this user has no permission to enter one of its folders",
            "allow it (chmod +x FOLDER), or move the program",
        )
    if os.sep in program and Path(program).is_dir():
        raise CommandNotExecutable(
            f"cannot run {program}: it is a directory", "give the path of the program itself"
        )
    from retsnoop_py.cause.not_found import not_in_folders
    from retsnoop_py.cause.reasons import reason_of_start
    from retsnoop_py.cause.shell import shell_path

    if os.sep in program and Path(program).exists():
        found = reason_of_start(program, errno.EACCES, os.geteuid(), os.getegid())
        hint = (
            _advice(found)
            if found
            else (f"chmod +x {shell_path(program)}, or name its interpreter",)
        )
        raise CommandNotExecutable(f"cannot run {program}: Permission denied", *hint)
    if os.sep in program:
        found = reason_of_start(program, errno.ENOENT, os.geteuid(), os.getegid())
    else:
        found = not_in_folders(program, os.get_exec_path())
    raise CommandNotFound(f"cannot run {program}: no such command", *_advice(found))


def _advice(found: Reason | None) -> tuple[str]:
    """Return the hint of an error: the finding, and what to change."""
    if found is None:
        return ("check the spelling, or give its path after --",)
    change = f" To change: {'; '.join(found.advice)}" if found.advice else ""
    return (found.text + change,)


def _out_of_reach(path: str) -> bool:
    try:
        Path(path).stat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _resolve_as(user: User, command: Sequence[str]) -> str:
    """Return the path from :func:`resolve` with another user's rights, in a child process.

    Raises the errors of :func:`resolve`, and PrivilegeError if this process may not become the
    user.
    """
    # import now: the user may be unable to read retsnoop-py's modules and tables
    import shutil  # noqa: F401

    from retsnoop_py.cause.reasons import load_tables

    load_tables()
    given = inherited()
    with ExitStack() as stack:
        reader, writer = _pipe(stack)
        with signals_blocked():
            pid = os.fork()
            if pid == 0:
                _search_as(user, command, given, writer)
        stack.pop_all()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not _answers(reader, pid):
            os.kill(pid, signal.SIGKILL)
        said = os.fsdecode(pipe.read())
    os.waitpid(pid, 0)
    kind, text, hint = said.split("\0") if said else ("", "the search was killed", "")
    if kind == "found":
        return text
    known = (CommandNotFound, CommandNotExecutable, PrivilegeError)
    raise next((one for one in known if one.__name__ == kind), RetsnoopError)(text, hint or None)


def _search_as(user: User, command: Sequence[str], given: Inherited, writer: int) -> NoReturn:
    """In the child: write the result or the error of :func:`resolve`."""
    answer: tuple[str, ...] = ("", "the search failed", "")
    try:
        given.hand_down()
        user.become()
        answer = ("found", resolve(command), "")
    except RetsnoopError as error:
        answer = (type(error).__name__, error.message, error.hint or "")
    except OSError as error:
        why = f"cannot run {command[0]} as {user.name}: {os.strerror(error.errno or 0)}"
        answer = ("PrivilegeError", why, "run as root, or without --user")
    finally:
        os.write(writer, os.fsencode("\0".join(answer)))
        os._exit(0)


def _pipe(stack: ExitStack) -> tuple[int, int]:
    """Return a pipe that ``stack`` closes, for example if fork(2) fails."""
    ends = os.pipe()
    for one in ends:
        stack.callback(os.close, one)
    return ends


class Command:
    """A child process that is held at its start.

    ``aside``: its standard output goes to standard error, so that standard output contains only the
    output of retsnoop-py. ``quiet``: a further run, which reads and writes /dev/null. ``user``: run
    with this user's rights, by default with those of retsnoop-py; ``keep_env``: keep the whole
    environment. ``program`` is the path of the program's file with symbolic links resolved. A
    context manager: at its end, no held child remains.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        aside: bool = False,
        quiet: bool = False,
        user: User | None = None,
        keep_env: bool = False,
    ) -> None:
        self._argv = list(command)
        self._aside = aside
        self._quiet = quiet
        self._user = user
        self._keep_env = keep_env
        self._terminal: OwnTerminal | None = None
        path = _resolve_as(user, command) if user else resolve(command)
        self._path = path
        self.program = os.path.realpath(path)
        given = inherited()
        with ExitStack() as stack:
            go_read, self._go = _pipe(stack)
            self._failure, failure_write = _pipe(stack)

            def child() -> NoReturn:
                os.close(self._go)
                self._child(path, given, go_read, failure_write)

            self.pid = self._fork(child)
            stack.pop_all()
        os.close(go_read)
        os.close(failure_write)
        #: True once the command was released.
        self.is_released = False
        self._status: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_released:
            os.close(self._go)
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # it may be stopped
            self._reap(0)
        os.close(self._failure)

    def _fork(self, child: Callable[[], NoReturn]) -> int:
        """Start ``child`` in a process; another user's process never gets the caller's terminal."""
        user = self._user
        if user is not None and not self._quiet:
            from retsnoop_py.capture import own_session

            if own_session.has_terminal():
                self._terminal = own_session.OwnTerminal(user.uid, child)
                return self._terminal.pid
        with signals_blocked():
            pid = os.fork()
            if pid == 0:
                if user is not None:
                    os.setsid()
                child()
        return pid

    def _child(self, path: str, given: Inherited, go: int, failure: int) -> NoReturn:
        """In the child: wait for the release, then become the command."""
        try:
            given.hand_down()
            variables = environment()
            if self._aside:
                os.dup2(2, 1)
            if self._quiet:
                # the first run has read the input, and a question would not be shown
                nowhere = os.open(os.devnull, os.O_RDWR)
                for number in range(3):
                    os.dup2(nowhere, number)
                if nowhere > 2:
                    os.close(nowhere)
            if self._user:
                # like sudo: root's shell may have its terminal, or a secret, open there
                close_all_but(0, 1, 2, go, failure)
                new_session_keyring(self._user.uid, self._user.gid)
                variables = self._user.environment_of(variables, keep=self._keep_env)
            if not os.read(go, 1):
                os._exit(0)
            if self._user:
                # not earlier: another process of the user could stop this one, and with it us
                self._user.become()
            hand_down_limits()
            os.execve(path, self._argv, variables)
        except OSError as error:
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(127)

    def release(self) -> None:
        """Let the command run; raises CommandNotExecutable if the kernel rejects its execution."""
        self.is_released = True
        try:
            os.write(self._go, b"!")
        except BrokenPipeError:
            return
        finally:
            os.close(self._go)
        failed = self._failed_start()
        if failed:
            self._reap(0)
            code = int(failed)
            message = f"cannot run {self._argv[0]}: {os.strerror(code)}"
            from retsnoop_py.cause.reasons import reason_of_start

            who = self._user
            uid, gid = (who.uid, who.gid) if who else (os.geteuid(), os.getegid())
            found = reason_of_start(self._path, code, uid, gid)
            if code == errno.ENOENT:
                hint = _advice(found) if found else ("its interpreter (#! line) may be missing",)
                raise CommandNotFound(message, *hint)
            hint = _advice(found) if found else ("check that it is a program for this machine",)
            raise CommandNotExecutable(message, *hint)

    def _failed_start(self) -> bytes:
        """Return the errno of the failed execve(2) as text; empty after a successful one.

        It is also empty if another process of the user stops the command before its start: waiting
        for such a command would stop retsnoop-py, too.
        """
        return os.read(self._failure, 16) if _answers(self._failure, self.pid) else b""

    def _reap(self, options: int) -> bool:
        if self._status is None and self._terminal is not None:
            self._status = self._terminal.wait(block=not options & os.WNOHANG)
        elif self._status is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None

    def ended(self) -> bool:
        """Return True if the command itself (not its descendants) has ended."""
        return self._reap(os.WNOHANG)

    @property
    def exit_status(self) -> int:
        """The command's exit status, 128+N if signal N killed it; valid after :meth:`ended`."""
        if self._status is None:
            raise RetsnoopError("the command is still running")
        return self._status if self._status >= 0 else 128 - self._status

    def wait(self, stopping: Callable[[], bool]) -> None:
        """Wait for the end of a command after tracing, or until ``stopping()``."""
        while not self.ended() and not stopping():
            time.sleep(_POLL)

    def wait_after(self, number: int, asked: Callable[[], int] = lambda: 1) -> bool:
        """Wait for the end after signal ``number`` stopped the trace; False: it still runs.

        A Ctrl-C on the terminal also reached the child; a signal to retsnoop-py alone did not. If
        the child still runs after a moment, it gets the signal, too. If the child does not end
        then, retsnoop-py prints a message and waits for the second request: ``asked()`` returns the
        number of requests.
        """
        deadline = time.monotonic() + _GRACE
        passed_on = said = False
        while not self.ended():
            if time.monotonic() > deadline:
                if passed_on and asked() > 1:
                    return False
                if not passed_on:
                    passed_on, deadline = True, deadline + _GRACE
                    self._pass_on(number)
                elif not said:
                    said = True
                    name = signal.Signals(number).name
                    current().say_aside(
                        f"{self._argv[0]} (process {self.pid}) does not end by {name}. "
                        "One more signal leaves it alone.\n"
                    )
            time.sleep(0.01)
        return True

    def _pass_on(self, number: int) -> None:
        """Pass a signal on to the command, unless the command got it as well."""
        if number != signal.SIGINT:
            os.kill(self.pid, number)
        elif self._user is not None and not (self._terminal and self._terminal.is_typed_into):
            # Ctrl-C is for all the command's processes, and they have their own session
            os.killpg(self.pid, number)
        elif not _in_foreground():
            os.kill(self.pid, number)


def _answers(pipe: int, pid: int) -> bool:
    """Wait for data or the end of ``pipe``; return False if a signal stopped ``pid`` before."""
    while not select.select([pipe], [], [], _POLL)[0]:
        if _is_stopped(pid):
            return False
    return True


def _is_stopped(pid: int) -> bool:
    """Return True if a signal stopped the process; False if /proc is not mounted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(") ")[2][:1] == "T"


def _in_foreground() -> bool:
    """Return True if this process group gets the terminal's Ctrl-C as a whole."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
