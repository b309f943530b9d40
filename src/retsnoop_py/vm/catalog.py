# SPDX-License-Identifier: BSD-2-Clause
"""The catalog of named kernels: the Debian suites and packages of each name.

``kernels.toml`` in this folder describes the kernels. The user's file of the same format
(:func:`user_file`) can add or replace kernels.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import msgspec

from retsnoop_py import package
from retsnoop_py.errors import DataError, InputError
from retsnoop_py.settings_file import read_user_file
from retsnoop_py.text import printable
from retsnoop_py.unprivileged import settings
from retsnoop_py.vm.architecture import ARCHITECTURES, Architecture, host, qualified, split

__all__ = ["DEFAULT", "KnownKernel", "all_known", "catalog", "known", "read_catalog", "user_file"]

DEFAULT = "6.12"
#: The text for {flavour}, by the suffix of a kernel's name; Debian's architecture follows it.
_FLAVOURS = (("", "cloud-"), ("-full", ""))
#: Names of kernels and suites become folders of the cache.
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\Z")]

#: The longest regular expression. Compiling one takes this process, matching another one.
_LONGEST_PATTERN = 500


class KnownKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named kernel and the location of its packages; ``kernels.toml`` explains the fields.

    In the results of :func:`catalog`, ``image`` contains no ``{flavour}``. ``name`` begins with the
    architecture (``arch``) if the host has another architecture.
    """

    suites: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]
    image: str
    also: tuple[str, ...] = ()
    debug: str = "linux-image-{release}-dbg"
    about: str = ""
    name: str = ""
    arch: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    kernel: dict[_Name, KnownKernel]


def user_file() -> Path:
    """Return ``$XDG_CONFIG_HOME/retsnoop-py/kernels.toml``, or the path below ``~/.config``.

    The file need not exist.
    """
    return package.user_file("kernels.toml")


def read_catalog(
    text: str, source: str, arch: Architecture, toml: Callable[[str, str], Any] = settings.toml
) -> dict[str, KnownKernel]:
    """Return the kernels of ``arch`` in ``text``, in the same order, each with its flavours.

    ``toml`` parses the text; the default is for a user's file.

    Raises DataError, which names ``source``, for invalid TOML or invalid values.
    """
    try:
        entries = msgspec.convert(toml(text, source), _File).kernel
    except DataError as error:
        raise DataError(error.message, _hint()) from None
    except msgspec.ValidationError as error:
        raise DataError(f"{source}: {error}", _hint()) from None
    found: dict[str, KnownKernel] = {}
    for name, entry in entries.items():
        if name in ARCHITECTURES:
            raise DataError(f"{source}: kernel {name}: this is an architecture's name", _hint())
        _check(f"{source}: kernel {name}", entry)
        for suffix, flavour in _FLAVOURS if "{flavour}" in entry.image else _FLAVOURS[:1]:
            image = entry.image.replace("{flavour}", flavour + arch.debian)
            full = qualified(arch, name + suffix)
            found[full] = msgspec.structs.replace(
                entry, name=full, image=image, arch=arch.name, about=printable(entry.about)
            )
    return found


def catalog(arch: Architecture | None = None) -> dict[str, KnownKernel]:
    """Return all named kernels of ``arch`` (default: the host's), including the user's kernels.

    Raises DataError if the user's file is unreadable or invalid.
    """
    arch = arch or host()
    own = user_file()
    try:
        data = read_user_file(own.name)
        if data is None:
            return _shipped(arch)
        text = data.decode()
    except OSError as error:
        raise DataError(f"cannot read {own}: {error.strerror}", _hint()) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{own}: not UTF-8 ({error.reason})", _hint()) from None
    return _shipped(arch) | read_catalog(text, str(own), arch)


def all_known() -> dict[str, KnownKernel]:
    """Return the kernels of all architectures, the host's first; see :func:`catalog`."""
    mine = host()
    others = [each for each in ARCHITECTURES.values() if each is not mine]
    return {name: one for arch in (mine, *others) for name, one in catalog(arch).items()}


def known(name: str) -> KnownKernel:
    """Return the kernel ``name``, which may start with its architecture and a slash.

    Raises InputError for an unknown name.
    """
    arch, plain = split(name)
    table = catalog(arch)
    name = qualified(arch, plain)
    if name not in table:
        names = ", ".join(each for each in table if not each.endswith("-full"))
        raise InputError(
            f"no kernel called {name}",
            f"choose {names} (most also exist with -full), give the path of a kernel image, or "
            f"add a kernel in {user_file()}",
        )
    return table[name]


def _shipped(arch: Architecture) -> dict[str, KnownKernel]:
    text = files(__package__).joinpath("kernels.toml").read_text()
    return read_catalog(text, "kernels.toml", arch, lambda text, _: tomllib.loads(text))


def _check(where: str, entry: KnownKernel) -> None:
    """Raise DataError for values of the right type that cannot be used."""
    if entry.name or entry.arch:
        raise DataError(f"{where}: the table's title is the name; remove the key 'name'", _hint())
    if len(entry.image) > _LONGEST_PATTERN:
        raise DataError(f"{where}: image has more than {_LONGEST_PATTERN} characters", _hint())
    try:
        re.compile(entry.image.replace("{flavour}", "cloud-amd64"))
    except (re.error, RecursionError, OverflowError) as error:
        raise DataError(f"{where}: image is not a regular expression: {error}", _hint()) from None
    for name in (*entry.also, entry.debug):
        plain = name.replace("{release}", "")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", plain):
            raise DataError(f"{where}: {name!r} is not a package name", _hint())


def _hint() -> str:
    return "the form is explained in " + str(files(__package__).joinpath("kernels.toml"))
