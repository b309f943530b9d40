# SPDX-License-Identifier: BSD-2-Clause
"""Every error a user can meet, and the exit status each one ends the program with.

The statuses follow sysexits(3) so that a script can tell them apart::

    RetsnoopError                1   something we did not foresee
    ├── UsageError              64   the command line is wrong
    ├── DataError               65   a file is there but cannot be used (damaged, wrong build id)
    ├── InputError              66   what was asked for does not exist (no match, no such file)
    ├── UnavailableError        69   the kernel lacks what is needed
    │   └── BpfError            69   a bpf() or libbpf call failed; has errno and verifier log
    ├── OutputError             74   output could not be written (disk full, unwritable path)
    ├── PrivilegeError          77   more privileges are needed
    ├── CommandNotFound        127   the command to run does not exist
    ├── CommandNotExecutable   126   the command to run cannot be executed
    └── Interrupted            130   Ctrl-C before anything was traced

``retsnoop-py vm run`` adds its own, see :mod:`retsnoop_py.vm.errors`; ``load`` and ``--on`` end
with 2 where something was refused or failed somewhere, these and a trace with 3 where it is not as
expected, ``diff`` with 3 where there is a difference: these are results, no errors.
"""

from __future__ import annotations

import errno as _errno


class RetsnoopError(Exception):
    """An error with a message for the user and, where there is one, the next step.

    ``message`` says what failed, on what and why; ``hint`` says what to do next.
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
    """The error that says that ``what`` takes a /proc, and there is none."""
    return UnavailableError(f"{what}: nothing is mounted on /proc", "mount -t proc proc /proc")


class BpfError(UnavailableError):
    """A bpf() or libbpf call failed.

    ``call`` is the function that failed, ``errno`` its positive error number (0 if unknown),
    ``log`` the verifier's or libbpf's own words, possibly empty. EPERM is a missing right and
    ends with the status of one.
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
