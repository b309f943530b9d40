# SPDX-License-Identifier: BSD-2-Clause
"""The outcome of a selection: every function asked for, traced or with the reason why not.

Annotations are types here, for the sake of the named tuples: see ``kernel/btf.py``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from retsnoop_py.kernel.functions import Function
from retsnoop_py.value import Value

__all__ = ["GlobCount", "Reason", "Rejection", "Role", "Selection", "TypeSource", "UnitSource"]


class Role(Enum):
    """What a glob is for."""

    ENTRY = "entry"
    ALLOW = "allow"
    DENY = "deny"


class Reason(Enum):
    """Why a function that was asked for is not traced; the value is what people read."""

    DENIED = "denied by your glob"
    DENIED_BY_PRESET = "denied by the preset"
    DENIED_INTERNALLY = "retsnoop-py never traces it"
    NOT_TRACEABLE = "the kernel has no trace point in it"
    BLACKLISTED = "in the kernel's kprobe blacklist"
    AMBIGUOUS = (
        "several functions have this name; the kernel does not report which one it can trace"
    )


class Rejection(NamedTuple):
    """A function that is not traced. ``detail`` is more about the reason, possibly empty.

    ``named``: the user wrote its very name, so the refusal will come as a surprise.
    """

    name: str
    module: str | None
    reason: Reason
    detail: str = ""
    named: bool = False

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name

    @property
    def text(self) -> str:
        """The reason in words."""
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


class GlobCount(NamedTuple):
    """A glob, where it came from, and how many functions it matched.

    For entry and allow globs ``matched`` counts functions the kernel can trace and
    ``untraceable`` others, for deny globs ``matched`` counts what those had chosen.
    """

    spec: str
    role: Role
    origin: str
    matched: int
    untraceable: int = 0
    internal: bool = False


class TypeSource(Value):
    """A BTF that was looked at: of ``module``, None for vmlinux; ``found`` tells if it is there."""

    module: str | None
    found: bool


class Selection(Value):
    """What to trace. A function's id is its position in ``functions``, ordered by address.

    ``discovered`` counts the functions the kernel can trace, ``matched`` those the globs chose
    among them, ``unique`` the different names of these.
    """

    functions: Sequence[Function]
    rejections: tuple[Rejection, ...]
    globs: tuple[GlobCount, ...]
    discovered: int
    matched: int
    unique: int
    types: tuple[TypeSource, ...]


class UnitSource(Protocol):
    """Knows which addresses come from which source files."""

    def functions_in(self, pattern: str) -> list[tuple[int, int]]:
        """Run-time address ranges ``(first, beyond)`` of the units whose path matches."""
        ...

    def included_in(self, pattern: str, addresses: Sequence[int]) -> list[int]:
        """Those of the functions at ``addresses``, ascending, whose line is in such a file."""
        ...
