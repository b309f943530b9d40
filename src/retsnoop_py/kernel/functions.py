# SPDX-License-Identifier: BSD-2-Clause
"""A kernel function as used in the whole project: its address and the type of its result."""

from __future__ import annotations

from enum import Enum, IntFlag

from retsnoop_py.value import Value


class ResultKind(Enum):
    """The kind of a function's result."""

    VOID = "void"
    INT = "int"
    BOOL = "bool"
    PTR = "ptr"
    ENUM = "enum"
    #: A struct, union or float: the result register is not informative.
    OTHER = "other"
    #: No BTF: assumed to return int.
    UNKNOWN = "unknown"


class ResultType(Value):
    """The result type: kind, size in bytes (0 for void), signedness and C spelling.

    ``values`` are the constants of an enum.
    """

    kind: ResultKind
    size: int = 4
    signed: bool = True
    name: str = ""
    values: tuple[tuple[str, int], ...] = ()


class FuncFlags(IntFlag):
    """``enum rsn_func_flags`` of ``src/bpf/records.h``; a unit test compares both.

    The bits from :data:`ERROR_SHIFT` on have the errno of an error that is an ordinary result of
    the function, 0 if none.
    """

    ENTRY = 1
    CANT_FAIL = 2
    SIGN32 = 4
    PTR = 8
    NULL_OK = 16
    GUESSED = 32


#: ``RSN_FUNC_ERROR_SHIFT``.
ERROR_SHIFT = 16
#: A plain number, because operations on IntFlag are slow and every function is checked.
_ENTRY = int(FuncFlags.ENTRY)


class Function(Value):
    """A traceable instance of a function.

    ``address`` and ``size`` (bytes) come from kallsyms; ``module`` is None for vmlinux; ``btf_id``
    is None if BTF lacks the function; ``prototype`` is C, for people.
    """

    name: str
    address: int
    size: int
    flags: FuncFlags
    result: ResultType
    module: str | None = None
    btf_id: int | None = None
    prototype: str | None = None

    @property
    def is_entry(self) -> bool:
        """Return True if a call of the function starts a session."""
        return int(self.flags) & _ENTRY != 0

    @property
    def label(self) -> str:
        """Return ``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


#: Suffixes that compilers append to the name of a copy of a function.
_VARIANTS = (".isra.", ".constprop.", ".part.", ".llvm.")


def source_name(name: str) -> str:
    """Return ``name`` as written in the source, without suffixes of the compiler."""
    return name[: min([at for mark in _VARIANTS if (at := name.find(mark)) >= 0], default=None)]
