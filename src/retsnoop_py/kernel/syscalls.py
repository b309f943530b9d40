# SPDX-License-Identifier: BSD-2-Clause
"""System calls by number, with the arguments that are texts, socket addresses or descriptors."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from retsnoop_py.package import read
from retsnoop_py.value import Value

__all__ = ["Syscall", "system_calls"]

#: The columns of ``syscalls.txt`` after the name.
_MACHINES = ("x86_64", "aarch64")


class Syscall(Value):
    """A system call, by its name in ``asm/unistd.h``.

    ``texts``: the string arguments, from 0 on. ``address``: the argument with a socket address, or
    None; the next argument is its length. ``descriptors``: the arguments with file descriptors.
    """

    name: str
    texts: tuple[int, ...] = ()
    address: int | None = None
    descriptors: tuple[int, ...] = ()


@lru_cache(2)
def system_calls(machine: str) -> dict[int, Syscall]:
    """Return the system calls of ``machine`` ("x86_64", "aarch64") by number, or an empty dict."""
    if machine not in _MACHINES:
        return {}
    column = 1 + _MACHINES.index(machine)
    found = {}
    for line in read(Path(__file__).with_name("syscalls.txt")).decode().splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        if words[column] == "-":
            continue
        rest = words[3:]
        texts = tuple(int(word) for word in rest if word.isdecimal())
        address = next((int(word[1:]) for word in rest if word.startswith("@")), None)
        descriptors = tuple(int(word[1:]) for word in rest if word.startswith("%"))
        found[int(words[column])] = Syscall(words[0], texts, address, descriptors)
    return found
