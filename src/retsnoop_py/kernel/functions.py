# SPDX-License-Identifier: BSD-2-Clause
"""A kernel function as the whole project speaks of it: where it is and how its result reads."""

from __future__ import annotations

from enum import Enum, IntFlag

from retsnoop_py.value import Value


class ResultKind(Enum):
    """What a function returns, as far as reading its result goes."""

    VOID = "void"
    INT = "int"
    BOOL = "bool"
    PTR = "ptr"
    ENUM = "enum"
    #: A struct, union or float: the result register says little.
    OTHER = "other"
    #: No BTF: assumed to return int.
    UNKNOWN = "unknown"


class ResultType(Value):
    """The return type: its kind, its size in bytes (0 for void), signedness and C spelling.

    ``values`` are the constants of an enum.
    """

    kind: ResultKind
    size: int = 4
    signed: bool = True
    name: str = ""
    values: tuple[tuple[str, int], ...] = ()


class FuncFlags(IntFlag):
    """``enum rsn_func_flags`` of ``src/bpf/records.h``; a unit test keeps the two equal.

    From bit :data:`ERROR_SHIFT` on is the number of an error that is an ordinary result of the
    function, 0 for none.
    """

    ENTRY = 1
    CANT_FAIL = 2
    SIGN32 = 4
    PTR = 8
    NULL_OK = 16
    GUESSED = 32


#: ``RSN_FUNC_ERROR_SHIFT``.
ERROR_SHIFT = 16
#: A plain number: flags are slow to calculate with, and this is asked of every function.
_ENTRY = int(FuncFlags.ENTRY)


class Function(Value):
    """One traceable instance of a function.

    ``address`` and ``size`` (bytes) are those of kallsyms; ``module`` is None for vmlinux;
    ``btf_id`` is None where BTF does not know it; ``prototype`` is C, for people.
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
        """Whether a call of it starts a session."""
        return int(self.flags) & _ENTRY != 0

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


#: What compilers append to the name of a copy of a function.
_VARIANTS = (".isra.", ".constprop.", ".part.", ".llvm.")


def source_name(name: str) -> str:
    """``name`` as the source has it: without what a compiler has appended to it."""
    return name[: min([at for mark in _VARIANTS if (at := name.find(mark)) >= 0], default=None)]
