# SPDX-License-Identifier: BSD-2-Clause
"""What ``why`` is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Self, TypedDict

from retsnoop_py.value import Value

__all__ = ["RERUNS", "Asked", "WhyOptions"]

#: Further runs of a command, where nothing is said.
RERUNS = 2


class WhyOptions(TypedDict, total=False):
    """Keywords of :func:`retsnoop_py.why`.

    * ``pid``: the next failure of these processes, instead of a command
    * ``user``: run the command as this user; ``keep_env``: with all environment variables
    * ``syscall``, ``error``: choose among the calls that fail, by name
    * ``reruns``: run the command again so often at most (2), its output unseen; without it, a
      command that exits with 0 is not run again
    * ``kernel``: a vmlinux with DWARF; ``source``: the kernel's source tree
    * ``duration``: end the command after so many seconds, and report what it waits for
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


class Asked(Value):
    """What is asked: of ``command``, run as ``user``, or of the processes ``pids``.

    ``syscalls`` and ``errors``, by name, choose among what fails. The command is run again at most
    ``reruns`` times; None: RERUNS times if it fails. ``kernel`` is a vmlinux with DWARF, ``source``
    the kernel's source tree. ``keep_env`` gives ``user`` our whole environment. After
    ``limit_ns`` the first run is over; 0: no limit. ``aside``: what the command writes to standard
    output goes to standard error.
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
        """What keywords ask. Raises UsageError for one there is not."""
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
        """How often the command may run again after its first run; None: before that run."""
        if self.reruns is not None:
            return self.reruns
        return 0 if self.command and exit_status == 0 else RERUNS


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
