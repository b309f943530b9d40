# SPDX-License-Identifier: BSD-2-Clause
"""Functions that are never traced, from ``deny.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

__all__ = ["Deny", "load"]

_FILE = Path(__file__).with_name("deny.toml")


class Deny(NamedTuple):
    """One glob of the list; ``group`` is a kind of reason, see the head of the file."""

    glob: str
    reason: str
    group: str


def load() -> tuple[Deny, ...]:
    """The whole list, in the order of the file."""
    entries = tomllib.loads(_FILE.read_text())["deny"]
    return tuple(
        Deny(glob, entry["reason"], entry["group"]) for entry in entries for glob in entry["globs"]
    )
