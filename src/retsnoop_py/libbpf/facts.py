# SPDX-License-Identifier: BSD-2-Clause
"""Typed access to the C helpers of ``src/native/facts.h``: symbol lists and BTF in bulk.

This module passes only bytes and numbers; the calling modules interpret them.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retsnoop_py.errors import DataError
from retsnoop_py.libbpf import unloadable
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py._bpf import FFI, CData, Lib

__all__ = [
    "IteratedSymbols",
    "ListFormat",
    "State",
    "SymbolTable",
    "btf_find",
    "btf_index",
    "btf_returns",
    "btf_signatures",
    "glob_match",
]

#: ``struct rsn_sym``: address, name, module, size, lengths of name and module, type.
_SYM = struct.Struct("=QIIIHHc7x")
#: Index of the size, as a 32-bit word.
_SIZE_WORD = 4
#: ``struct rsn_signature``: parameters, their slots, flags, size of the result in bytes.
_SIGNATURE = struct.Struct("=BBBB")
#: The last kind of BTF types that ``btf.c`` knows: ENUM64.
_LAST_KIND = 19


class ListFormat(IntEnum):
    """``enum rsn_list``."""

    KALLSYMS = 0
    NAMES = 1
    ADDRS = 2
    KSYMS = 3


class State(IntEnum):
    """``enum rsn_state``: how a tracer can use a symbol of kallsyms."""

    NOT_FUNCTION = 0
    UNTRACEABLE = 1
    TRACEABLE = 2
    AMBIGUOUS = 3


class Line(Value):
    """A line of a symbol list, as bytes. ``module`` is empty for vmlinux.

    ``size`` is the distance to the next symbol in bytes, 2**32 - 1 without a next symbol.
    """

    address: int
    name: bytes
    module: bytes
    type: bytes
    size: int


class Functions(Value):
    """The functions of a table: a :class:`State` per symbol, and indexes by state.

    ``listed``: functions in ftrace's list, traceable or ambiguous. ``others``: all other functions.
    """

    states: bytearray
    listed: array[int]
    others: array[int]


class Matches(Value):
    """The matching symbols: indexes, the first matching glob of each, counts per glob."""

    symbols: array[int]
    globs: array[int]
    counts: list[int]


@functools.cache
def _native() -> tuple[FFI, Lib]:
    try:
        module = importlib.import_module("retsnoop_py._bpf")
    except ImportError as err:
        raise unloadable(err) from err
    return module.ffi, module.lib


def _check_memory(result: int) -> int:
    if result < 0:
        raise MemoryError
    return result


def glob_match(glob: str, name: str) -> bool:
    """Return True if ``glob`` matches all of ``name``; ``*`` is any text, ``?`` one character."""
    _, lib = _native()
    pattern, text = glob.encode(errors="surrogateescape"), name.encode(errors="surrogateescape")
    return bool(lib.rsn_glob_match(pattern, len(pattern), text, len(text)))


class SymbolTable:
    """The symbols of a file, read once; of kallsyms only functions, sorted by address.

    Raise OSError if the file cannot be read.
    """

    def __init__(self, path: Path, form: ListFormat) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._read(fd, form, str(path))

    def _read(self, fd: int, form: ListFormat, path: str | None) -> None:
        ffi, lib = _native()
        error = ffi.new("int *")
        try:
            table = lib.rsn_syms_read(fd, int(form), error)
        finally:
            os.close(fd)
        if table == ffi.NULL:
            _check_memory(error[0] if error[0] == -errno.ENOMEM else 0)
            raise OSError(-error[0], os.strerror(-error[0]), path)
        self._table = ffi.gc(table, lib.rsn_syms_free)
        self._count: int = table.cnt
        #: Size of the file in bytes.
        self.bytes: int = table.bytes
        #: Address of the kernel's ``ftrace_pages_start``; 0 if the list lacks it.
        self.trace_points: int = table.trace_points
        self._raw = ffi.buffer(table.syms, self._count * _SYM.size)
        self._text = ffi.buffer(table.text, table.text_len)

    def __len__(self) -> int:
        return self._count

    def line(self, index: int) -> Line:
        """Return the symbol at ``index``."""
        address, name, module, size, name_len, module_len, kind = _SYM.unpack_from(
            self._raw, index * _SYM.size
        )
        text = self._text
        return Line(
            address, text[name : name + name_len], text[module : module + module_len], kind, size
        )

    def columns(self, indexes: array[int]) -> tuple[array[int], array[int], list[str], list[str]]:
        """Return addresses, sizes, names and modules of the symbols at ``indexes``, in bulk."""
        ffi, lib = _native()
        syms = bytearray(len(indexes) * _SYM.size)
        size = 0
        names = b""
        while True:
            buffer = ffi.new("char[]", size)
            need = lib.rsn_syms_gather(
                self._table,
                ffi.from_buffer("uint32_t[]", indexes),
                len(indexes),
                ffi.cast("struct rsn_sym *", ffi.from_buffer(syms)),
                buffer,
                size,
            )
            if need <= size:
                names = ffi.buffer(buffer, need)[:]
                break
            size = need
        texts = names.decode(errors="replace").split("\0")
        longs, words = array("Q", bytes(syms)), array("I", bytes(syms))
        return (
            longs[:: _SYM.size // longs.itemsize],
            words[_SIZE_WORD :: _SYM.size // words.itemsize],
            texts[0:-1:2],
            texts[1::2],
        )

    def address(self, index: int) -> int:
        """Return the address of the symbol at ``index``."""
        value: int = _SYM.unpack_from(self._raw, index * _SYM.size)[0]
        return value

    def above(self, address: int) -> int:
        """Return the index of the first symbol above ``address``; the table must be sorted."""
        _, lib = _native()
        index: int = lib.rsn_syms_upper(self._table, address)
        return index

    def count(self, prefix: str) -> int:
        """Return how many names start with ``prefix``."""
        _, lib = _native()
        count: int = lib.rsn_syms_count(self._table, prefix.encode(errors="surrogateescape"))
        return count

    def find(self, name: str) -> list[int]:
        """Return the indexes of all symbols called ``name``."""
        ffi, lib = _native()
        room = 64
        while True:
            out = ffi.new("uint32_t[]", room)
            found = lib.rsn_syms_find(self._table, name.encode(errors="surrogateescape"), out, room)
            if found <= room:
                return list(out[0:found])
            room = found

    def namesakes(self, names: Sequence[str], module: str | None) -> list[int]:
        """Return how many functions of ``module``, None for vmlinux, have each of ``names``."""
        ffi, lib = _native()
        out = ffi.new("uint32_t[]", max(len(names), 1))
        blob = b"\0".join(name.encode(errors="surrogateescape") for name in names) + b"\0"
        owner = (
            ffi.NULL
            if module is None
            else ffi.new("char[]", module.encode(errors="surrogateescape"))
        )
        _check_memory(lib.rsn_syms_namesakes(self._table, owner, blob, len(names), out))
        return list(out[0 : len(names)])

    def functions(self, traceable: SymbolTable, *, by_address: bool, text_end: int) -> Functions:
        """Return the functions, joined with the list of traceable functions.

        This table is sorted by address. ``by_address``: the list has addresses. ``text_end``: end
        of vmlinux's text.
        """
        _, lib = _native()
        return self._sorted_out(
            lambda out: lib.rsn_syms_states(
                self._table, traceable._table, by_address, text_end, out
            )
        )

    def functions_at(self, points: array[int], *, text_end: int) -> Functions:
        """Return the functions, joined with the addresses of ftrace's trace points."""
        ffi, lib = _native()
        data = ffi.from_buffer("uint64_t[]", points)
        return self._sorted_out(
            lambda out: lib.rsn_syms_states_at(self._table, data, len(points), text_end, out)
        )

    def _sorted_out(self, fill: Callable[[Any], int]) -> Functions:
        ffi, _ = _native()
        states = bytearray(self._count)
        listed = array("I", bytes(4 * self._count))
        others = array("I", bytes(4 * self._count))
        out = ffi.new("struct rsn_functions *")
        out.states = ffi.from_buffer("uint8_t[]", states)
        out.listed = ffi.from_buffer("uint32_t[]", listed)
        out.others = ffi.from_buffer("uint32_t[]", others)
        _check_memory(fill(out))
        return Functions(states, listed[: out.listed_cnt], others[: out.other_cnt])

    def match(self, subset: array[int], globs: Sequence[tuple[str, str | None]]) -> Matches:
        """Match the symbols of ``subset`` against all ``globs``, each (name, module or None)."""
        ffi, lib = _native()
        strings = [
            (
                ffi.new("char[]", name.encode(errors="surrogateescape")),
                module and ffi.new("char[]", module.encode(errors="surrogateescape")),
            )
            for name, module in globs
        ]
        table = ffi.new(
            "struct rsn_glob[]", [(name, module or ffi.NULL) for name, module in strings]
        )
        counts = ffi.new("uint32_t[]", max(len(globs), 1))
        hits = array("I", bytes(8 * len(subset)))
        found = _check_memory(
            lib.rsn_syms_match(
                self._table,
                ffi.from_buffer("uint32_t[]", subset),
                len(subset),
                table,
                len(globs),
                counts,
                ffi.cast("struct rsn_hit *", ffi.from_buffer(hits)),
            )
        )
        return Matches(
            hits[0 : 2 * found : 2], hits[1 : 2 * found : 2], list(counts[0 : len(globs)])
        )


class IteratedSymbols(SymbolTable):
    """The kernel's symbols from a BPF iterator, in half the time of reading kallsyms.

    ``function``: the id of ``bpf_iter_ksym`` in the kernel's BTF. ``offsets``: the offsets in bytes
    of value, type, name, module_name, exported and show_value in ``struct kallsym_iter``. Raise
    OSError if the kernel rejects the iterator.
    """

    def __init__(self, function: int, offsets: Sequence[int]) -> None:
        ffi, lib = _native()
        fd = lib.rsn_ksyms_open(ffi.new("struct rsn_ksym_layout *", [function, *offsets]))
        if fd < 0:
            raise OSError(-fd, os.strerror(-fd))
        self._read(fd, ListFormat.KSYMS, None)


def btf_index(types: memoryview, layout: bytes) -> array[int]:
    """Return the word offset of each type of a BTF type section, given as bytes.

    ``layout``: the layout section, may be empty. Raise :class:`DataError` if the types are invalid,
    or if neither this module nor ``layout`` has the kind of a type.
    """
    ffi, lib = _native()
    words = ffi.from_buffer("uint32_t[]", types)
    told = ffi.from_buffer("struct rsn_btf_layout[]", layout)
    count = lib.rsn_btf_index(words, len(words), told, len(told), ffi.NULL, 0)
    if count < 0:
        at = -(count + 1)
        kind = words[at + 1] >> 24 & 0x7F if at + 1 < len(words) else 0
        if kind > _LAST_KIND:
            raise DataError(
                f"BTF has a type of kind {kind}, at byte {4 * at} of its types, which is newer "
                "than this retsnoop-py, and has no length"
            )
        raise DataError(f"BTF is damaged at byte {4 * at} of its types")
    offsets = array("I", bytes(4 * count))
    numbers = ffi.from_buffer("uint32_t[]", offsets)
    lib.rsn_btf_index(words, len(words), told, len(told), numbers, count)
    return offsets


def btf_find(
    sections: tuple[memoryview, bytes, bytes],
    offsets: array[int],
    kinds: int,
    names: Sequence[str],
) -> array[int]:
    """Return for each name 1 + the index of the first type whose kind is a bit of ``kinds``.

    0 if no type has the name. ``sections``: types, strings, and the strings of the base BTF.
    """
    ffi, lib = _native()
    types, strings, base = (ffi.from_buffer(part) for part in sections)
    btf = ffi.new(
        "struct rsn_btf *",
        (ffi.cast("uint32_t *", types), len(types) // 4, strings, len(strings), base, len(base)),
    )
    found = array("I", bytes(4 * len(names)))
    out = ffi.from_buffer("uint32_t[]", found)
    offs = ffi.from_buffer("uint32_t[]", offsets)
    blob = "\0".join(names).encode(errors="surrogateescape") + b"\0"
    _check_memory(lib.rsn_btf_find(btf, offs, len(offsets), kinds, blob, len(names), out))
    return found


#: Types, their word offsets by id, and the first id, of a BTF blob or its base.
Part = tuple[memoryview, "array[int]", int]


def _parts(blobs: Sequence[Part]) -> tuple[CData, object]:
    """Return ``struct rsn_btf_part`` of each blob, and objects that must live as long."""
    ffi, _ = _native()
    keep = [
        (ffi.from_buffer("uint32_t[]", types), ffi.from_buffer("uint32_t[]", offsets), first)
        for types, offsets, first in blobs
    ]
    rows = [(types, offsets, len(offsets), first) for types, offsets, first in keep]
    return ffi.new("struct rsn_btf_part[]", rows), keep


def btf_returns(blobs: Sequence[Part], functions: array[int]) -> array[int]:
    """Return the ids of the types that ``functions`` (ids) return.

    Raise :class:`DataError` for an id that is not a function prototype.
    """
    ffi, lib = _native()
    table, _keep = _parts(blobs)
    found = array("I", bytes(4 * len(functions)))
    out = ffi.from_buffer("uint32_t[]", found)
    ids = ffi.from_buffer("uint32_t[]", functions)
    done = lib.rsn_btf_returns(table, len(table), ids, len(functions), out)
    if done < len(functions):
        raise DataError(f"BTF is damaged: type {functions[done]} is not a function prototype")
    return found


def btf_signatures(
    blobs: Sequence[Part], functions: Sequence[int]
) -> Iterable[tuple[int, int, int, int]]:
    """Return for each of ``functions`` (ids) the fields of its signature.

    They are the number of parameters, the slots that they fill, ``enum rsn_signature_flags`` and
    the size of the result in bytes.
    """
    ffi, lib = _native()
    table, _keep = _parts(blobs)
    ids = ffi.new("uint32_t[]", functions)
    out = bytearray(_SIGNATURE.size * len(functions))
    found = ffi.cast("struct rsn_signature *", ffi.from_buffer(out))
    lib.rsn_btf_signatures(table, len(table), ids, len(functions), found)
    return _SIGNATURE.iter_unpack(out)
