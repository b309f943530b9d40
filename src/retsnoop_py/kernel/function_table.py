# SPDX-License-Identifier: BSD-2-Clause
"""Many functions as columns; an object for a function is made when it is read.

``why`` traces 24,000 functions and prints ten. Making an object for each function took two seconds
in an emulated guest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from retsnoop_py.kernel.functions import FuncFlags, Function, ResultType

__all__ = ["FunctionTable"]

#: Returns a function's size in bytes: from its address, the distance to the next symbol, its
#: module.
SizeOf = Callable[[int, int, str | None], int]


class _Made(dict[int, Function]):
    """Functions by id, made at their first use; later reads are as fast as in a dict."""

    def __init__(self, make: Callable[[int], Function]) -> None:
        self._make = make

    def __missing__(self, number: int) -> Function:
        made = self[number] = self._make(number)
        return made


class FunctionTable(Sequence[Function]):
    """Functions by id, with the columns that attaching needs.

    All columns have the same length. ``extents`` and ``size_of`` give the sizes in bytes;
    ``prototypes`` may be empty.
    """

    def __init__(  # noqa: PLR0913 - one for each column
        self,
        names: Sequence[str],
        modules: Sequence[str | None],
        addresses: Sequence[int],
        flags: Sequence[int],
        results: Sequence[ResultType],
        btf_ids: Sequence[int | None],
        extents: Sequence[int],
        size_of: SizeOf,
        prototypes: Sequence[str | None] = (),
    ) -> None:
        self.names = names
        self.modules = modules
        self.addresses = addresses
        #: :class:`FuncFlags` as plain numbers.
        self.flags = flags
        self._results = results
        self._btf_ids = btf_ids
        self._extents = extents
        self._size_of = size_of
        self._prototypes = prototypes
        #: The functions by id, for code that reads a function for each call.
        self.by_id: Mapping[int, Function] = _Made(self._make)

    @classmethod
    def of(cls, functions: Sequence[Function]) -> FunctionTable:
        """Return the table of ``functions``, which may already be a table."""
        if isinstance(functions, FunctionTable):
            return functions
        return cls(
            [one.name for one in functions],
            [one.module for one in functions],
            [one.address for one in functions],
            [int(one.flags) for one in functions],
            [one.result for one in functions],
            [one.btf_id for one in functions],
            [one.size for one in functions],
            lambda _address, extent, _module: extent,
            [one.prototype for one in functions],
        )

    def with_flags(self, changed: Mapping[int, int]) -> FunctionTable:
        """Return the same functions with other flags, by id."""
        if not changed:
            return self
        flags = list(self.flags)
        for number, value in changed.items():
            flags[number] = value
        return FunctionTable(
            self.names,
            self.modules,
            self.addresses,
            flags,
            self._results,
            self._btf_ids,
            self._extents,
            self._size_of,
            self._prototypes,
        )

    def having(self, flags: FuncFlags) -> list[int]:
        """Return the ids of the functions with all of ``flags``."""
        wanted = int(flags)
        return [number for number, one in enumerate(self.flags) if one & wanted == wanted]

    def _make(self, number: int) -> Function:
        address, module = self.addresses[number], self.modules[number]
        return Function(
            self.names[number],
            address,
            self._size_of(address, self._extents[number], module),
            FuncFlags(self.flags[number]),
            self._results[number],
            module,
            self._btf_ids[number],
            self._prototypes[number] if self._prototypes else None,
        )

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, number: int) -> Function: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Function, ...]: ...
    def __getitem__(self, number: int | slice) -> Function | tuple[Function, ...]:
        if isinstance(number, slice):
            return tuple([self.by_id[one] for one in range(len(self))[number]])
        return self.by_id[range(len(self))[number]]

    def __iter__(self) -> Iterator[Function]:
        return map(self.by_id.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (FunctionTable, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(_is_same, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"FunctionTable({', '.join(self.names)})"


def _is_same(one: object, other: object) -> bool:
    return one == other
