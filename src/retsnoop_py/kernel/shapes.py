# SPDX-License-Identifier: BSD-2-Clause
"""What BPF trampolines have to know of functions: parameters by BTF, and if names are unique."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function

__all__ = ["Shape", "ShapeFlags", "read_shapes"]

_SHAPE = struct.Struct("=BBBB")


class ShapeFlags:
    """``enum rsn_shape_flags``, as plain integers."""

    VARIADIC = 1
    STRUCT_RESULT = 2
    LARGE_PARAM = 4
    ODD_TYPE = 8
    VOID = 16


class Shape(NamedTuple):
    """Parameters, the 8-byte slots they fill, ``flags``, bytes of the result.

    ``namesakes``: how many functions of its image have the function's name, itself included.
    """

    params: int
    slots: int
    flags: int
    result_size: int
    namesakes: int


def read_shapes(facts: KernelFacts, functions: Sequence[Function]) -> dict[int, Shape]:
    """The shapes of those ``functions`` that BTF knows, by address."""
    by_module: dict[str | None, list[Function]] = {}
    for function in functions:
        if function.btf_id is not None:
            by_module.setdefault(function.module, []).append(function)
    shapes: dict[int, Shape] = {}
    for module, group in by_module.items():
        btf = facts.btf if module is None else facts.module_btf(module)
        if btf is None:
            continue
        counts = facts.kallsyms.table.namesakes([function.name for function in group], module)
        for function, shape, count in zip(group, _shapes(btf, group), counts, strict=True):
            shapes[function.address] = Shape(*shape, count)
    return shapes


def _shapes(btf: Btf, functions: Sequence[Function]) -> Iterable[tuple[int, int, int, int]]:
    from retsnoop_py._bpf import ffi, lib

    # the buffers must outlive the call
    keep = [
        (ffi.from_buffer("uint32_t[]", blob.types), ffi.from_buffer("uint32_t[]", blob.offsets))
        for blob in btf.blobs
    ]
    parts = ffi.new(
        "struct rsn_btf_types[]",
        [(*arrays, blob.start, blob.end) for arrays, blob in zip(keep, btf.blobs, strict=True)],
    )
    ids = array("I", [function.btf_id or 0 for function in functions])
    out = bytearray(_SHAPE.size * len(ids))
    lib.rsn_btf_shapes(
        parts,
        len(keep),
        ffi.from_buffer("uint32_t[]", ids),
        len(ids),
        ffi.cast("struct rsn_shape *", ffi.from_buffer(out)),
    )
    return _SHAPE.iter_unpack(out)
