# SPDX-License-Identifier: BSD-2-Clause
"""A session and a terminal for a command of another user, like sudo's use_pty.

A process can type into its controlling terminal (TIOCSTI; on consoles TIOCLINUX). The caller's
shell would then run that input as root. Therefore a command of another user never gets the caller's
terminal::

    retsnoop-py
      relay      reads and writes the caller's terminal, in its session
      monitor    leads the new session on the new terminal; waits for CMD
        CMD      a process group of its own, in the foreground there

The monitor exists for Ctrl-Z: the kernel does not stop a process group without a parent in its own
session. The relay then stops the job of the caller's shell, and continues CMD together with it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import termios
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from typing import NoReturn

from retsnoop_py.capture.inherited import close_all_but, signals_blocked
from retsnoop_py.errors import UnavailableError
from retsnoop_py.pseudo_terminal import copy_size, write_all

__all__ = ["OwnTerminal", "has_terminal"]

_CHUNK = 65536
#: Maximum number of typed bytes that wait for CMD. Above, the relay stops reading.
_MOST_WAITING = 1 << 16
#: Seconds to wait for CMD's last output after its end.
_LAST_OUTPUT = 0.05
#: Seconds between looks at the caller's terminal if retsnoop-py was killed and CMD goes on.
_HANGUP_S = 1.0
#: A terminal's changes to typed input; the new terminal makes them for CMD.
_INPUT = termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON
_LOCAL = termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6


def has_terminal() -> bool:
    """Return True if standard input, output or error is a terminal."""
    return any(map(os.isatty, range(3)))


class OwnTerminal:
    """A new session on a new terminal, with ``child``, which never returns, as its command.

    ``uid`` owns the terminal. Create it and wait for it in the process that has the caller's
    terminal. Raises UnavailableError if the system has no terminal left.
    """

    def __init__(self, uid: int, child: Callable[[], NoReturn]) -> None:
        #: True if keys typed at the caller's terminal reach the command.
        self.is_typed_into = os.isatty(0) and not _is_pipe(1)
        ends: list[int] = []
        try:
            master, slave = os.openpty()
            ends += [master, slave]
            _prepare(slave, uid)
            self._status_end, status = os.pipe()
            events, event_end = os.pipe()
            alive, self._alive = os.pipe()
        except OSError as error:
            for one in ends:
                os.close(one)
            raise UnavailableError(
                f"CMD cannot have a terminal of its own: {os.strerror(error.errno or 0)}",
                "mount devpts at /dev/pts, or run it with </dev/null 2>&1 | cat",
            ) from None
        with signals_blocked():
            self._monitor = os.fork()
            if not self._monitor:
                for one in (master, self._status_end, events, alive, self._alive):
                    os.close(one)
                _monitor(slave, status, event_end, child, is_typed_into=self.is_typed_into)
            os.close(status)
            os.close(event_end)
            os.close(slave)
            #: The command's process, which leads a process group.
            self.pid = int(os.read(self._status_end, 16) or b"0")
            self._relay = os.fork() if self.pid else 0
            if self.pid and not self._relay:
                _run_relay(master, events, alive, self.pid, is_typed=self.is_typed_into)
        for one in (master, events, alive):
            os.close(one)
        if not self.pid:
            os.waitpid(self._monitor, 0)
            raise UnavailableError("CMD cannot have a session of its own", "use </dev/null")

    def wait(self, *, block: bool) -> int | None:
        """Return the command's status, as waitstatus_to_exitcode() does; None while it runs."""
        if not block and not select.select([self._status_end], [], [], 0)[0]:
            return None
        text = os.read(self._status_end, 16)
        os.close(self._status_end)
        os.waitpid(self._monitor, 0)
        # the relay ends after all output, and has then restored the terminal
        os.waitpid(self._relay, 0)
        os.close(self._alive)
        return int(text) if text else -signal.SIGKILL


def _is_pipe(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _prepare(slave: int, uid: int) -> None:
    """Give the new terminal the settings and the size of the caller's, and its owner."""
    caller = next(fd for fd in range(3) if os.isatty(fd))
    termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(caller))
    copy_size(caller, slave)
    os.fchmod(slave, 0o600)
    os.fchown(slave, uid, -1)


# --- the monitor -------------------------------------------------------------------------------


def _monitor(
    slave: int, status: int, events: int, child: Callable[[], NoReturn], *, is_typed_into: bool
) -> NoReturn:
    """Lead a session on ``slave``; start ``child`` there and report its state."""
    try:
        os.setsid()
        ioctl(slave, termios.TIOCSCTTY, 0)
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            os.close(status)
            os.close(events)
            _take_terminal(slave, is_typed_into=is_typed_into)
            child()
        # all signals but SIGHUP stay blocked here: the terminal's signals are for the command
        close_all_but(slave, status, events)
        with suppress(OSError):  # the child was faster
            os.setpgid(pid, pid)
        os.tcsetpgrp(slave, pid)
        # keep the slave open: the terminal must last as long as the command, even if that closes it
        os.write(status, b"%d" % pid)
        _pass_on_hangup(pid)
        _report(pid, status, events)
    finally:
        os._exit(0)


def _pass_on_hangup(pid: int) -> None:
    """Hang up the command's process group if the terminal hangs up.

    The kernel sends SIGHUP to the leader of the session only, and a shell passes it on as well.
    """

    def pass_on(*_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGHUP)
            os.killpg(pid, signal.SIGCONT)

    signal.signal(signal.SIGHUP, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))


def _take_terminal(slave: int, *, is_typed_into: bool) -> None:
    """In the command's process: replace the caller's terminal by the new one."""
    for fd in range(3):
        if os.isatty(fd):
            os.dup2(slave, fd)
    if not is_typed_into and os.isatty(0):
        # in a pipeline, keys are for the program that displays the output
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)


def _report(pid: int, status: int, events: int) -> None:
    """Write each stop of the command to ``events``, and its end to ``status``."""
    while True:
        _, found = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(found):
            os.write(status, b"%d" % os.waitstatus_to_exitcode(found))
            return
        with suppress(OSError):  # the relay was killed
            os.write(events, b"s")


# --- the relay ---------------------------------------------------------------------------------


def _run_relay(master: int, events: int, alive: int, pid: int, *, is_typed: bool) -> NoReturn:
    try:
        relay = _Relay(master, events, alive, pid, is_typed=is_typed)
        close_all_but(0, 1, 2, master, events, alive, *relay.wakes)
        relay.run()
    finally:
        os._exit(0)


class _Relay:
    """Copies between the caller's terminal and the new one until the command has ended."""

    def __init__(self, master: int, events: int, alive: int, pid: int, *, is_typed: bool) -> None:
        self._master, self._events, self._alive, self._pid = master, events, alive, pid
        self._is_typed = is_typed
        self._shown_on = next((fd for fd in (1, 2, 0) if os.isatty(fd)), 2)
        self._settings = termios.tcgetattr(self._shown_on)
        self._is_raw = False
        self._waiting = b""
        self.wakes = os.pipe()
        for end in self.wakes:
            os.set_blocking(end, False)
        os.set_blocking(master, False)

    def run(self) -> None:
        """Copy until the end. Changes of size, and a continued job, arrive as signals."""
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGWINCH, signal.SIGCONT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self.wakes[1], warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._look()
        try:
            while self._copy_once():
                pass
        finally:
            self._restore()

    def _copy_once(self) -> bool:
        """Copy the available data; return False if the command has ended."""
        reads = [self._master, self._events, self._alive, self.wakes[0]]
        if self._is_raw and len(self._waiting) < _MOST_WAITING:
            reads.append(0)
        reads = [fd for fd in reads if fd >= 0]
        waits = _HANGUP_S if self._alive < 0 else None
        ready, room, _ = select.select(reads, [self._master] if self._waiting else [], [], waits)
        if self._alive < 0 and self._is_hung_up():
            # The new terminal hangs up with this process, and CMD gets SIGHUP.
            return False
        if self.wakes[0] in ready:
            os.read(self.wakes[0], _CHUNK)
            self._look()
        if self._master in ready:
            self._show()
        if 0 in ready:
            self._take(os.read(0, _CHUNK))
        if room:
            self._type()
        if self._alive in ready:  # retsnoop-py has ended, and keys are not for CMD any more
            self._alive, self._is_typed = -1, False
            self._restore()
        if self._events in ready:
            if not os.read(self._events, _CHUNK):
                self._drain()
                return False
            self._stop()
        return True

    def _is_hung_up(self) -> bool:
        """Return whether the caller's terminal is gone."""
        poll = select.poll()
        poll.register(self._shown_on, 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    def _look(self) -> None:
        """Copy the size of the caller's terminal, and check if its keys are for this job now."""
        copy_size(self._shown_on, self._master)
        if self._is_typed and not self._is_raw and self._in_foreground():
            self._settings = termios.tcgetattr(0)
            raw = termios.tcgetattr(0)
            raw[_IFLAG] &= ~_INPUT
            raw[_LFLAG] &= ~_LOCAL
            termios.tcsetattr(0, termios.TCSADRAIN, raw)
            self._is_raw = True

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(0) == os.getpgrp()
        except OSError as error:
            # it is not the controlling terminal, so reading it stops no process
            return error.errno == errno.ENOTTY

    def _restore(self) -> None:
        if self._is_raw:
            self._is_raw = False
            if self._in_foreground():
                termios.tcsetattr(0, termios.TCSADRAIN, self._settings)

    def _show(self) -> bool:
        """Write the command's output; return False at its end."""
        try:
            shown = os.read(self._master, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # EIO: all processes that had the terminal open have ended
            return False
        write_all(self._shown_on, self._as_written(shown))
        return True

    def _as_written(self, shown: bytes) -> bytes:
        """Return the output without the line ends that the caller's terminal adds again."""
        changes = termios.tcgetattr(self._master)[_OFLAG] & termios.OPOST
        if self._is_raw:
            ours = termios.tcgetattr(0)
            if (ours[_OFLAG] & termios.OPOST) != changes:
                ours[_OFLAG] ^= termios.OPOST
                termios.tcsetattr(0, termios.TCSADRAIN, ours)
        return shown.replace(b"\r\n", b"\n") if changes else shown

    def _take(self, typed: bytes) -> None:
        """Pass typed input on. Ctrl-C is also for retsnoop-py and for programs in its pipeline."""
        if not typed:
            self._is_typed, self._is_raw = False, False
            return
        self._waiting += typed
        self._type()
        settings = termios.tcgetattr(self._master)
        interrupt = settings[_CC][termios.VINTR]
        if settings[_LFLAG] & termios.ISIG and isinstance(interrupt, bytes) and interrupt in typed:
            os.killpg(0, signal.SIGINT)

    def _type(self) -> None:
        with suppress(BlockingIOError):
            self._waiting = self._waiting[os.write(self._master, self._waiting) :]

    def _stop(self) -> None:
        """Stop like the command; continue the command once the caller's shell continues us."""
        self._restore()
        os.killpg(0, signal.SIGTSTP)
        self._look()
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGCONT)

    def _drain(self) -> None:
        while select.select([self._master], [], [], _LAST_OUTPUT)[0]:
            if not self._show():
                return
