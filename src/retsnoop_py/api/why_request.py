# SPDX-License-Identifier: BSD-2-Clause
"""The request to ``why``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Self, TypedDict

from retsnoop_py.options import values
from retsnoop_py.settings import OutputFormat, Settings
from retsnoop_py.value import Value, replace

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
        """Return the request for these keywords.

        Raises UsageError for an unknown keyword or an invalid value, InputError for a ``source``
        that is not a kernel's source tree.
        """
        unknown = options.keys() - WhyOptions.__optional_keys__
        if unknown:
            from retsnoop_py.api.keywords import no_such_keyword

            raise no_such_keyword(min(unknown), WhyOptions.__optional_keys__)
        pids = options.get("pid", ())
        kernel, source = options.get("kernel"), options.get("source")
        user = values.user(options.get("user"), command)
        pids = (pids,) if isinstance(pids, int) else tuple(pids)
        return cls(
            tuple(command),
            values.pids("pid", [str(one) for one in pids]),
            user,
            _names(options.get("syscall", ())),
            _names(options.get("error", ())),
            options.get("reruns"),
            None if kernel is None else Path(kernel),
            values.source_tree(None if source is None else fspath(source)),
            values.keep_env(options.get("keep_env", False), user),
            round(options.get("duration", 0) * 1e9),
        )

    def placed_in(self, settings: Settings) -> Settings:
        """Return ``settings`` for a run of the command, or of the processes."""
        is_command = bool(self.command)
        views, filters = settings.views, settings.filters
        return replace(
            settings,
            command=self.command,
            user=self.user if is_command else None,
            keep_env=self.keep_env and is_command,
            filters=filters if is_command else replace(filters, pids=self.pids),
            kernel_image=self.kernel,
            source=self.source,
            views=replace(views, format=OutputFormat.JSON) if self.aside else views,
        )

    def reruns_after(self, exit_status: int | None) -> int:
        """Return the number of allowed reruns after the first run; None: before that run."""
        if self.reruns is not None:
            return self.reruns
        return 0 if self.command and exit_status == 0 else RERUNS


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
