# SPDX-License-Identifier: BSD-2-Clause
"""The request to ``why``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Self, TypedDict

from retsnoop_py.value import Value

__all__ = ["RERUNS", "WhyOptions", "WhyRequest"]

#: The default number of further runs of a command.
RERUNS = 2


class WhyOptions(TypedDict, total=False):
    """Keywords of :func:`retsnoop_py.why`.

    * ``pid``: wait for the next failure of the given processes, instead of a command
    * ``user``: run the command as this user; ``keep_env``: with all environment variables
    * ``syscall``, ``error``: select among the failing calls, by name
    * ``reruns``: maximum number of further runs (2); their output is discarded; without it, a
      command that exits with 0 is not run again
    * ``kernel``: a vmlinux with DWARF; ``source``: the kernel's source tree
    * ``duration``: end the command after this many seconds, and report its waits
    """

    pid: int | Iterable[int]
    user: str
    keep_env: bool
    syscall: str | Iterable[str]
    error: str | Iterable[str]
    reruns: int
    kernel: str | PathLike[str]
    source: str | PathLike[str]
    duration: float


class WhyRequest(Value):
    """A request: about ``command``, run as ``user``, or about the processes ``pids``.

    ``syscalls`` and ``errors`` select among the failing calls, by name. The command is run again at
    most ``reruns`` times; None: RERUNS times if it fails. ``kernel`` is a vmlinux with DWARF,
    ``source`` the kernel's source tree. ``keep_env``: ``user`` gets the whole environment. The
    first run ends after ``limit_ns``; 0: no limit. ``aside``: the command's standard output goes to
    standard error.
    """

    command: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    user: str | None = None
    syscalls: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    reruns: int | None = None
    kernel: Path | None = None
    source: Path | None = None
    keep_env: bool = False
    limit_ns: int = 0
    aside: bool = False

    @classmethod
    def of(cls, command: Sequence[str], options: WhyOptions) -> Self:
        """Return the request for these keywords. Raises UsageError for an unknown keyword."""
        unknown = options.keys() - WhyOptions.__optional_keys__
        if unknown:
            from retsnoop_py.api.keywords import no_such_keyword

            raise no_such_keyword(min(unknown), WhyOptions.__optional_keys__)
        pids = options.get("pid", ())
        kernel, source = options.get("kernel"), options.get("source")
        return cls(
            tuple(command),
            (pids,) if isinstance(pids, int) else tuple(pids),
            options.get("user"),
            _names(options.get("syscall", ())),
            _names(options.get("error", ())),
            options.get("reruns"),
            None if kernel is None else Path(kernel),
            None if source is None else Path(source),
            options.get("keep_env", False),
            round(options.get("duration", 0) * 1e9),
        )

    def reruns_after(self, exit_status: int | None) -> int:
        """Return the number of allowed reruns after the first run; None: before that run."""
        if self.reruns is not None:
            return self.reruns
        return 0 if self.command and exit_status == 0 else RERUNS


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
