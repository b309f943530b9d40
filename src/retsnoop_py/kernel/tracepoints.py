# SPDX-License-Identifier: BSD-2-Clause
"""The tracepoints of the kernel and its modules, from the ``events`` folder of tracefs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.tracefs import TRACEFS

__all__ = ["TraceField", "Tracepoint", "Tracepoints", "parse_format"]


class Tracepoint(NamedTuple):
    """A tracepoint by its category and name."""

    category: str
    name: str


class TraceField(NamedTuple):
    """A field of what a tracepoint records: its type in C, and where it is, in bytes.

    An array has ``is_array``. Of a dynamic one there are 4 bytes: its size above, and below where
    it is, from the start of the record or, with ``is_relative``, from behind these 4 bytes.
    """

    name: str
    type: str
    offset: int
    size: int
    is_signed: bool = False
    is_array: bool = False
    is_dynamic: bool = False
    is_relative: bool = False


_FIELD = re.compile(r"\tfield:(.+);\toffset:(\d+);\tsize:(\d+);(?:\tsigned:(\d);)?")
_DECLARATION = re.compile(
    r"(?:(?P<how>__data_loc|__rel_loc)\s+)?(?P<type>.*?[\w*])??(?P<of>\[\])?\s*"
    r"\b(?P<name>\w+)(?P<array>\[.*\])?"
)
_COMMON = "common_"


def parse_format(text: str) -> tuple[TraceField, ...]:
    """The fields that a ``format`` file describes, without those that all tracepoints have.

    The kernel writes it in ``kernel/trace/trace_events.c``. Lines that are no fields are skipped.
    """
    found = []
    for line in text.splitlines():
        match = _FIELD.fullmatch(line)
        if match and not (field := _field(*match.groups())).name.startswith(_COMMON):
            found.append(field)
    return tuple(found)


def _field(text: str, offset: str, size: str, signed: str | None) -> TraceField:
    match = _DECLARATION.fullmatch(text.strip())
    if match is None:  # a pointer to a function, for one: its name is inside
        return TraceField(text.strip(), "", int(offset), int(size))
    return TraceField(
        name=match["name"],
        type=(match["type"] or "").strip(),
        offset=int(offset),
        size=int(size),
        is_signed=signed == "1",
        is_array=bool(match["array"] or match["of"]),
        is_dynamic=bool(match["how"]),
        is_relative=match["how"] == "__rel_loc",
    )


class Tracepoints:
    """The tracepoints of the kernel whose /sys is below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @cached_property
    def _folder(self) -> Path:
        denied = None
        for folder in (self._root / place / "events" for place in TRACEFS):
            try:
                if next(folder.iterdir(), None):
                    return folder
            except PermissionError:
                denied = folder
            except OSError:
                continue
        if denied:
            raise PrivilegeError(f"cannot read {denied}: permission denied", "run as root")
        tracefs = self._root / TRACEFS[0]
        raise UnavailableError(
            f"{tracefs} has no events, so tracepoints cannot be found",
            f"run `mount -t tracefs tracefs {tracefs}`; the kernel needs CONFIG_EVENT_TRACING",
        )

    def categories(self) -> list[str]:
        """All categories, sorted."""
        return sorted(path.name for path in self._folder.iterdir() if path.is_dir())

    def names(self, category: str) -> list[str]:
        """The tracepoints of ``category``, sorted; none if there is no such category."""
        try:
            paths = list((self._folder / category).iterdir())
        except OSError:
            return []
        # those of "ftrace" have no number to attach by, or nothing that is ever hit
        return sorted(path.name for path in paths if (path / "enable").exists())

    def matching(
        self, category: str, name: str, match: Callable[[str, str], bool]
    ) -> list[Tracepoint]:
        """The tracepoints whose category and name ``match(glob, text)``."""
        found = [one for one in self.categories() if match(category, one)]
        return [
            Tracepoint(one, each) for one in found for each in self.names(one) if match(name, each)
        ]

    def number(self, tracepoint: Tracepoint) -> int:
        """What perf_event_open(2) calls it. Raises :class:`UnavailableError` if it is gone."""
        return int(self._read(tracepoint, "id"))

    def format_of(self, tracepoint: Tracepoint) -> str:
        """The description of its fields. Raises :class:`UnavailableError` if it is gone."""
        return self._read(tracepoint, "format")

    def _read(self, tracepoint: Tracepoint, file: str) -> str:
        path = self._folder / tracepoint.category / tracepoint.name / file
        try:
            return path.read_text()
        except OSError as error:
            raise UnavailableError(
                f"cannot read {path}: {error.strerror}", "was its module unloaded meanwhile?"
            ) from error
