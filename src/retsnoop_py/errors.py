# SPDX-License-Identifier: BSD-2-Clause
"""Every error a user can meet, and the exit status each one ends the program with.

The statuses follow sysexits(3) so that a script can tell them apart::

    RetsnoopError                1   an unforeseen error
    ├── UsageError              64   the command line is wrong
    ├── DataError               65   a file is there but cannot be used (damaged, wrong build id)
    ├── InputError              66   a named thing does not exist (no match, no such file)
    ├── UnavailableError        69   the kernel lacks a required feature
    │   └── BpfError            69   a bpf() or libbpf call failed; has errno and verifier log
    ├── OutputError             74   output could not be written (disk full, unwritable path)
    ├── PrivilegeError          77   more privileges are needed
    ├── CommandNotFound        127   the command to run does not exist
    ├── CommandNotExecutable   126   the command to run cannot be executed
    └── Interrupted            130   Ctrl-C before anything was traced

``retsnoop-py vm run`` adds errors of its own, see :mod:`retsnoop_py.vm.errors`. Two statuses are
results, not errors:

* 2: for ``load`` and ``--on``, at least one kernel rejected an object or failed a command
* 3: for these and for a trace, the result is not the expected one; for ``diff``, the recordings
  differ
"""

from __future__ import annotations

import errno as _errno


class RetsnoopError(Exception):
    """An error with a message for the user and, where there is one, the next step.

    ``message`` names the failed operation, its object and the reason. ``hint`` is the next step.
    """

    exit_status = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RetsnoopError):
    """The command line is wrong."""

    exit_status = 64


class DataError(RetsnoopError):
    """A file exists but its contents cannot be used."""

    exit_status = 65


class InputError(RetsnoopError):
    """Something the user named does not exist."""

    exit_status = 66


class UnavailableError(RetsnoopError):
    """The kernel or its configuration lacks a required feature."""

    exit_status = 69


def no_proc(what: str) -> UnavailableError:
    """Return the error for a missing /proc, which ``what`` requires."""
    return UnavailableError(f"{what}: nothing is mounted on /proc", "mount -t proc proc /proc")


class BpfError(UnavailableError):
    """A bpf() or libbpf call failed.

    ``call`` is the function that failed and ``errno`` its positive error number (0 if unknown).
    ``log`` is the log of the verifier or libbpf, possibly empty. EPERM means a missing privilege
    and has the exit status of PrivilegeError.
    """

    def __init__(self, call: str, errno: int, log: str = "", hint: str | None = None) -> None:
        name = _errno.errorcode.get(errno, str(errno))
        super().__init__(f"{call}: {name}", hint)
        if errno == _errno.EPERM:
            self.exit_status = PrivilegeError.exit_status
        self.call = call
        self.errno = errno
        self.log = log


class OutputError(RetsnoopError):
    """Output could not be written."""

    exit_status = 74


class PrivilegeError(RetsnoopError):
    """The user may not do this."""

    exit_status = 77


class CommandNotExecutable(RetsnoopError):
    """The command to run is not executable."""

    exit_status = 126


class CommandNotFound(RetsnoopError):
    """The command to run does not exist."""

    exit_status = 127


class Interrupted(RetsnoopError):
    """Ctrl-C arrived before anything was traced."""

    exit_status = 130
