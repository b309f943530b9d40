# SPDX-License-Identifier: BSD-2-Clause
"""Kernels that have a name: which packages of which Debian suites each stands for.

They are data: ``kernels.toml`` beside this file, and a file of the user's own of the same form
(:func:`user_file`), which adds to them or replaces some.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from retsnoop_py.errors import DataError, InputError

__all__ = ["DEFAULT", "KnownKernel", "catalog", "known", "read_catalog", "user_file"]

DEFAULT = "6.12"
_FLAVOURS = (("", "cloud-amd64"), ("-full", "amd64"))
#: Names of kernels and suites become folders of the cache.
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class KnownKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel with a name: where its packages are; ``kernels.toml`` tells what each field means.

    In what :func:`catalog` gives, ``image`` holds no ``{flavour}`` any more.
    """

    suites: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]
    image: str
    also: tuple[str, ...] = ()
    debug: str = "linux-image-{release}-dbg"
    about: str = ""
    name: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    kernel: dict[_Name, KnownKernel]


def user_file() -> Path:
    """``$XDG_CONFIG_HOME/retsnoop-py/kernels.toml`` or that below ``~/.config``; need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "retsnoop-py" / "kernels.toml"


def read_catalog(text: str, source: str) -> dict[str, KnownKernel]:
    """The kernels that ``text`` describes, in its order, each with its flavours.

    Raises DataError, which names ``source``, for what is no TOML or does not make sense.
    """
    try:
        entries = msgspec.convert(tomllib.loads(text), _File).kernel
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{source}: {error}", _hint()) from None
    found: dict[str, KnownKernel] = {}
    for name, entry in entries.items():
        _check(f"{source}: kernel {name}", entry)
        for suffix, flavour in _FLAVOURS if "{flavour}" in entry.image else _FLAVOURS[:1]:
            image = entry.image.replace("{flavour}", flavour)
            found[name + suffix] = msgspec.structs.replace(entry, name=name + suffix, image=image)
    return found


def catalog() -> dict[str, KnownKernel]:
    """All kernels that have a name, the user's own among them.

    Raises DataError if the user's file is unreadable or wrong.
    """
    own = user_file()
    try:
        text = own.read_text()
    except FileNotFoundError:
        return _shipped()
    except OSError as error:
        raise DataError(f"cannot read {own}: {error.strerror}", _hint()) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{own}: not UTF-8 ({error.reason})", _hint()) from None
    return _shipped() | read_catalog(text, str(own))


def known(name: str) -> KnownKernel:
    """The kernel called ``name``. Raises InputError for a name that is not known."""
    table = catalog()
    if name not in table:
        names = ", ".join(each for each in table if not each.endswith("-full"))
        raise InputError(
            f"no kernel called {name}",
            f"known are {names}, most of them also with -full; or give the path of a kernel "
            f"image, or add a kernel in {user_file()}",
        )
    return table[name]


@functools.cache
def _shipped() -> dict[str, KnownKernel]:
    return read_catalog(files(__package__).joinpath("kernels.toml").read_text(), "kernels.toml")


def _check(where: str, entry: KnownKernel) -> None:
    """Raise DataError for what has the right type and yet cannot be used."""
    if entry.name:
        raise DataError(f"{where}: a name is given by the table's title only", _hint())
    try:
        re.compile(entry.image.replace("{flavour}", "cloud-amd64"))
    except re.error as error:
        raise DataError(f"{where}: image is no regular expression: {error}", _hint()) from None
    for package in (*entry.also, entry.debug):
        plain = package.replace("{release}", "")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", plain):
            raise DataError(f"{where}: {package!r} is no name of a package", _hint())


def _hint() -> str:
    return "the form is explained in " + str(files(__package__).joinpath("kernels.toml"))
