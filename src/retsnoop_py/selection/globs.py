# SPDX-License-Identifier: BSD-2-Clause
"""The user's syntax for naming functions.

``NAME``, ``NAME[MOD]`` or ``NAME [MOD]`` match whole names of functions and modules. ``*`` is any
text and ``?`` any character. Without ``[MOD]`` functions of vmlinux and of every module match, with
``[MOD]`` only functions of matching modules. ``:PATH`` matches source files, ``@FILE`` stands for
the globs in a file, separated by white space.

Presets are ready-made sets of globs, each in a file in ``presets/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.settings_file import read_list
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_WITH_MODULE = r"(?P<name>[^\[\s]+)\s*\[(?P<module>[^\]]+)\]"
_QUOTE = "quote it, or the shell replaces it by file names"


class NameGlob(Value):
    """Functions by name and, unless ``module`` is None, by module."""

    name: str
    module: str | None = None

    @property
    def spec(self) -> str:
        """Return ``name`` or ``name [module]``."""
        return self.name if self.module is None else f"{self.name} [{self.module}]"

    @property
    def is_exact(self) -> bool:
        """Return True if the glob has no wildcards and so names one function."""
        return not set("*?") & set(self.name)


class PathGlob(Value):
    """Functions by the path of the source file they were compiled from."""

    pattern: str

    @property
    def spec(self) -> str:
        """Return the glob in the user's syntax."""
        return f":{self.pattern}"


def parse(spec: str) -> NameGlob | PathGlob:
    """Return the glob for ``spec``. Raise :class:`UsageError` if it is not valid."""
    if spec.startswith(":"):
        if spec == ":":
            raise UsageError("empty source path ':'", "write ':kernel/bpf/*.c', for example")
        return PathGlob(spec[1:])
    if not spec:
        raise UsageError("empty glob", "name a function, '*sys_bpf' for example")
    match = re.fullmatch(_WITH_MODULE, spec) if "[" in spec else None
    glob = NameGlob(match["name"], match["module"]) if match else NameGlob(spec)
    if "**" in (glob.name, glob.module):
        raise UsageError(f"unsupported glob '{spec}'", "use '*' for any name")
    return glob


def expand(specs: Iterable[str]) -> tuple[str, ...]:
    """Return ``specs`` with each ``@FILE`` replaced by the globs in FILE.

    Raise :class:`InputError` if a file cannot be read. Raise :class:`UsageError` if a file contains
    source paths or further files, which belong on the command line.
    """
    expanded: list[str] = []
    for spec in specs:
        if spec.startswith("@"):
            expanded.extend(_read_globs(Path(spec[1:])))
        else:
            expanded.append(spec)
    return tuple(expanded)


def _read_globs(path: Path) -> list[str]:
    try:
        tokens = read_list(path).decode().split()
    except OSError as err:
        raise InputError(
            f"cannot read the globs in '{path}': {err.strerror}",
            "@FILE is a file of globs separated by white space",
        ) from err
    except UnicodeDecodeError as err:
        raise InputError(f"cannot read the globs in '{path}': it is not text") from err
    for token in tokens:
        if token[0] in "@:":
            raise UsageError(
                f"'{token}' in '{path}' is not a function glob",
                "pass source paths and further files on the command line",
            )
    return tokens


def _presets() -> Traversable:
    from importlib.resources import files

    return files(__package__).joinpath("presets")


class Preset(Value):
    """A set of globs for a part of the kernel.

    ``entry_otherwise`` is for kernels that cannot trace any function that ``entry`` matches.
    ``errors``: names of the errors that this preset is about; empty: all.
    """

    name: str
    about: str
    entry: tuple[str, ...]
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    entry_otherwise: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    return sorted(one.name.removesuffix(".toml") for one in _presets().iterdir())


def load_preset(name: str) -> Preset:
    """Return the preset called ``name``; raise :class:`UsageError` if it does not exist."""
    if name not in preset_names():
        raise UsageError(f"unknown preset '{name}'", f"there are: {', '.join(preset_names())}")
    import tomllib

    data = tomllib.loads(_presets().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    lists = ("entry", "allow", "deny", "entry_otherwise", "errors")
    return Preset(name, data["about"], *(tuple(data.get(key, ())) for key in lists))
