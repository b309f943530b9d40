# SPDX-License-Identifier: BSD-2-Clause
"""The fuzzed inputs: how to make an example, and which effects are forbidden."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Target(NamedTuple):
    """Makes examples with a random generator, and checks each for forbidden effects."""

    make: Callable[[random.Random], bytes]
    damage: Callable[[Path], str | None]


def _recordings() -> Target:
    from tests.fuzz import recordings

    from retsnoop_py.session import pipeline, repeats

    # a small recording must also reach the C writer, which normally starts at the 256th session
    pipeline._MANY, repeats._PAUSE = 1, 0
    mutator = recordings.Mutator(0, modern=True)
    views = list(recordings.VIEWS.values())

    def damage(path: Path) -> str | None:
        view = views[zlib.crc32(path.read_bytes()) % len(views)]
        return recordings.complaint(recordings.shown(path, view))

    return Target(mutator.make, damage)


def _objects() -> Target:
    from tests.fuzz import objects

    return Target(objects.Objects().make, objects.damage)


def _extensions() -> Target:
    from tests.fuzz import objects

    return Target(objects.Objects().make_ext, objects.damage)


def _logs() -> Target:
    from tests.fuzz import logs

    return Target(logs.Logs().make, logs.damage)


def _dwarf() -> Target:
    from tests.fuzz import dwarf

    return Target(dwarf.make, dwarf.damage)


_MAKERS = {
    "recordings": _recordings,
    "objects": _objects,
    "btf-ext": _extensions,
    "logs": _logs,
    "dwarf": _dwarf,
}
#: Suffixes of example files, by target.
SUFFIXES = {
    "recordings": ".rsn",
    "objects": ".o",
    "btf-ext": ".o",
    "logs": ".log",
    "dwarf": ".debug",
}


@functools.cache
def target(name: str) -> Target:
    """Return the target called ``name``, one of :data:`SUFFIXES`."""
    return _MAKERS[name]()
