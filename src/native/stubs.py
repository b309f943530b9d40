# SPDX-License-Identifier: BSD-2-Clause
"""Writes ``_bpf.pyi`` and ``_dwarf.pyi``, the types of the extensions' functions, for mypy.

What the extensions hold is declared once, in C, between ``/* cdef begin */`` and ``cdef end``, and
cffi knows the types. Run this after a change there, with the extensions built::

    make build && .venv/bin/python src/native/stubs.py

A unit test fails where the stubs are not what this writes.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent / "retsnoop_py"
EXTENSIONS = ("_bpf", "_dwarf")

HEAD = '''\
# SPDX-License-Identifier: BSD-2-Clause
# Written by src/native/stubs.py from the C declarations; see there.
from collections.abc import Callable, Iterator, Sequence
from typing import Any

class CData:
    """A C value: a pointer, an array or a struct, whose members are its attributes."""

    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __add__(self, count: int) -> CData: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...

class Buffer:
    """The memory of a C value, readable and writable."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __getitem__(self, index: slice) -> bytes: ...
    def __setitem__(self, index: slice, value: bytes) -> None: ...
    def __len__(self) -> int: ...

class FFI:
    NULL: CData
    errno: int
    def new(self, kind: str, value: object = ...) -> CData: ...
    def cast(self, kind: str, value: object) -> CData: ...
    def sizeof(self, kind: str | CData) -> int: ...
    def string(self, value: CData, size: int = ...) -> bytes: ...
    def buffer(self, value: CData, size: int = ...) -> Buffer: ...
    def gc(self, value: CData, free: Callable[[CData], None]) -> CData: ...
    def from_buffer(self, kind: object, value: object = ...) -> CData: ...

'''
INTEGERS = ("int", "char", "long", "short", "size_t", "ptrdiff_t", "__u")


def parameter(kind: Any) -> str:
    """What Python may give for a parameter of a C type."""
    if kind.kind == "primitive":
        return "bool" if kind.cname in ("bool", "_Bool") else "int"
    if kind.kind == "enum":
        return "int"
    item = kind.item if kind.kind == "pointer" else None
    if item is None:
        return "CData"
    if item.cname == "void" or (item.kind == "primitive" and item.cname == "char"):
        return "CData | bytes"
    return "CData | Sequence[int]" if item.kind == "primitive" else "CData"


def result(kind: Any) -> str:
    """What Python gets for a result of a C type."""
    if kind.kind == "void":
        return "None"
    return parameter(kind) if kind.kind in ("primitive", "enum") else "CData"


def stub(extension: str) -> str:
    """The text of an extension's stub."""
    module = import_module(f"retsnoop_py.{extension}")
    lines = [HEAD, "class Lib:\n"]
    for name in sorted(dir(module.lib)):
        value = getattr(module.lib, name)
        if isinstance(value, int):
            lines.append(f"    {name}: int\n")
            continue
        kind = module.ffi.typeof(value)
        names = (f"_{number}: {parameter(one)}" for number, one in enumerate(kind.args))
        more = ["/"] if kind.args else []
        arguments = ", ".join(["self", *names, *more])
        lines.append(f"    def {name}({arguments}) -> {result(kind.result)}: ...\n")
    lines.append("\nffi: FFI\nlib: Lib\n")
    return "".join(lines)


if __name__ == "__main__":
    for extension in EXTENSIONS:
        (PACKAGE / f"{extension}.pyi").write_text(stub(extension))
