# SPDX-License-Identifier: BSD-2-Clause
"""Kernels that have a name: which packages of which Debian suites each stands for.

They are data: ``kernels.toml`` beside this file, and a file of the user's own of the same form
(:func:`user_file`), which adds to them or replaces some.
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from retsnoop_py import package
from retsnoop_py.errors import DataError, InputError
from retsnoop_py.vm.architecture import ARCHITECTURES, Architecture, host, qualified, split

__all__ = ["DEFAULT", "KnownKernel", "all_known", "catalog", "known", "read_catalog", "user_file"]

DEFAULT = "6.12"
#: What {flavour} stands for, by the end of a kernel's name; Debian's architecture goes behind.
_FLAVOURS = (("", "cloud-"), ("-full", ""))
#: Names of kernels and suites become folders of the cache.
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class KnownKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel with a name: where its packages are; ``kernels.toml`` tells what each field means.

    In what :func:`catalog` gives, ``image`` holds no ``{flavour}`` any more, and ``name`` begins
    with the architecture (``arch``) where that is not the host's.
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
    """``$XDG_CONFIG_HOME/retsnoop-py/kernels.toml`` or that below ``~/.config``; need not exist."""
    return package.user_file("kernels.toml")


def read_catalog(text: str, source: str, arch: Architecture) -> dict[str, KnownKernel]:
    """The kernels of ``arch`` that ``text`` describes, in its order, each with its flavours.

    Raises DataError, which names ``source``, for what is no TOML or does not make sense.
    """
    try:
        entries = msgspec.convert(tomllib.loads(text), _File).kernel
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{source}: {error}", _hint()) from None
    found: dict[str, KnownKernel] = {}
    for name, entry in entries.items():
        if name in ARCHITECTURES:
            raise DataError(f"{source}: kernel {name}: this is an architecture's name", _hint())
        _check(f"{source}: kernel {name}", entry)
        for suffix, flavour in _FLAVOURS if "{flavour}" in entry.image else _FLAVOURS[:1]:
            image = entry.image.replace("{flavour}", flavour + arch.debian)
            full = qualified(arch, name + suffix)
            found[full] = msgspec.structs.replace(entry, name=full, image=image, arch=arch.name)
    return found


def catalog(arch: Architecture | None = None) -> dict[str, KnownKernel]:
    """All kernels of ``arch`` that have a name, the user's own among them; the host's by default.

    Raises DataError if the user's file is unreadable or wrong.
    """
    arch = arch or host()
    own = user_file()
    try:
        text = own.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _shipped(arch)
    except OSError as error:
        raise DataError(f"cannot read {own}: {error.strerror}", _hint()) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{own}: not UTF-8 ({error.reason})", _hint()) from None
    return _shipped(arch) | read_catalog(text, str(own), arch)


def all_known() -> dict[str, KnownKernel]:
    """The kernels of all architectures, the host's first; see :func:`catalog`."""
    mine = host()
    others = [each for each in ARCHITECTURES.values() if each is not mine]
    return {name: one for arch in (mine, *others) for name, one in catalog(arch).items()}


def known(name: str) -> KnownKernel:
    """The kernel called ``name``, with or without its architecture before a slash.

    Raises InputError for a name that is not known.
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
    return read_catalog(text, "kernels.toml", arch)


def _check(where: str, entry: KnownKernel) -> None:
    """Raise DataError for what has the right type and yet cannot be used."""
    if entry.name or entry.arch:
        raise DataError(f"{where}: the table's title is the name; remove the key 'name'", _hint())
    try:
        re.compile(entry.image.replace("{flavour}", "cloud-amd64"))
    except re.error as error:
        raise DataError(f"{where}: image is not a regular expression: {error}", _hint()) from None
    for name in (*entry.also, entry.debug):
        plain = name.replace("{release}", "")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", plain):
            raise DataError(f"{where}: {name!r} is not a package name", _hint())


def _hint() -> str:
    return "the form is explained in " + str(files(__package__).joinpath("kernels.toml"))
