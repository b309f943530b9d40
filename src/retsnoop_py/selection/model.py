# SPDX-License-Identifier: BSD-2-Clause
"""The result of a selection: every selected function, traced or with a reason why not.

Annotations are types here, because of the named tuples: see ``kernel/btf.py``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from retsnoop_py.kernel.functions import Function
from retsnoop_py.value import Value

__all__ = ["GlobCount", "Reason", "Rejection", "Role", "Selection", "TypeSource", "UnitSource"]


class Role(Enum):
    """The role of a glob."""

    ENTRY = "entry"
    ALLOW = "allow"
    DENY = "deny"


class Reason(Enum):
    """Why a selected function is not traced; the value is printed."""

    DENIED = "denied by your glob"
    DENIED_BY_PRESET = "denied by the preset"
    DENIED_INTERNALLY = "retsnoop-py never traces it"
    NOT_TRACEABLE = "the kernel has no trace point in it"
    BLACKLISTED = "in the kernel's kprobe blacklist"
    AMBIGUOUS = (
        "several functions have this name; the kernel does not report which one it can trace"
    )


class Rejection(NamedTuple):
    """A function that is not traced. ``detail`` adds to the reason and may be empty.

    ``named``: the user wrote this exact name, so the rejection is a surprise.
    """

    name: str
    module: str | None
    reason: Reason
    detail: str = ""
    named: bool = False

    @property
    def label(self) -> str:
        """Return ``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name

    @property
    def text(self) -> str:
        """Return the reason in words."""
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


class GlobCount(NamedTuple):
    """A glob, its origin, and the number of functions that it matched.

    For entry and allow globs, ``matched`` counts traceable functions and ``untraceable`` other
    functions. For deny globs, ``matched`` counts selected functions.
    """

    spec: str
    role: Role
    origin: str
    matched: int
    untraceable: int = 0
    internal: bool = False


class TypeSource(Value):
    """A BTF that was searched: of ``module``, None for vmlinux; ``found``: it exists."""

    module: str | None
    found: bool


class Selection(Value):
    """The functions to trace. A function's id is its position in ``functions``, sorted by address.

    ``discovered`` counts the traceable functions, ``matched`` the functions that the globs selected
    from these, ``unique`` their different names.
    """

    functions: Sequence[Function]
    rejections: tuple[Rejection, ...]
    globs: tuple[GlobCount, ...]
    discovered: int
    matched: int
    unique: int
    types: tuple[TypeSource, ...]


class UnitSource(Protocol):
    """Maps source files to addresses."""

    def functions_in(self, pattern: str) -> list[tuple[int, int]]:
        """Return runtime address ranges ``(first, beyond)`` of the units with a matching path."""
        ...

    def included_in(self, pattern: str, addresses: Sequence[int]) -> list[int]:
        """Return those of ``addresses``, ascending, whose function is in a matching source file."""
        ...
