# SPDX-License-Identifier: BSD-2-Clause
"""Ready-made sets of globs, each a file in ``presets/``."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.errors import UsageError
from retsnoop_py.value import Value

__all__ = ["Preset", "load", "names"]

_FOLDER = Path(__file__).with_name("presets")


class Preset(Value):
    """A set of globs for a part of the kernel.

    ``entry_otherwise`` is for kernels that can trace nothing that ``entry`` matches.
    """

    name: str
    about: str
    entry: tuple[str, ...]
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    entry_otherwise: tuple[str, ...] = ()


def names() -> list[str]:
    """The presets there are."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(name: str) -> Preset:
    """The preset called ``name``; raises :class:`UsageError` if there is none."""
    if name not in names():
        raise UsageError(f"unknown preset '{name}'", f"there are: {', '.join(names())}")
    import tomllib

    data = tomllib.loads((_FOLDER / f"{name}.toml").read_text())
    lists = ("entry", "allow", "deny", "entry_otherwise")
    return Preset(name, data["about"], *(tuple(data.get(key, ())) for key in lists))
