# SPDX-License-Identifier: BSD-2-Clause
"""``--debug bpf``: the programs log every traced call and return to the kernel's trace_pipe."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct, constants
from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.libbpf.object import BpfObject

__all__ = ["configure_log", "fill_log"]

#: How each kind of result is written, by ``enum debug_result``; others are DEBUG_INT or DEBUG_LONG.
_RESULTS = {
    ResultKind.VOID: "DEBUG_VOID",
    ResultKind.BOOL: "DEBUG_BOOL",
    ResultKind.PTR: "DEBUG_PTR",
}


def configure_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """Before load: make the programs log, and room for what ``functions`` are called."""
    obj.set_global(".rodata", "debug_log", 1)
    obj.map("debug_funcs").set_max_entries(max(len(functions), 1))


def fill_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """After load: what each function is called and returns, by its id."""
    btf = Btf(obj.btf())
    row, numbers = BtfStruct(btf, "debug_func"), constants(btf, "debug_result")
    pack, room = row.packer("name", "result"), row.lengths["name"] - 1  # its NUL
    obj.map("debug_funcs").update_many(
        [
            (
                struct.pack("=I", number),
                pack(function.name.encode()[:room], numbers[_result_of(function)]),
            )
            for number, function in enumerate(functions)
        ]
    )


def _result_of(function: Function) -> str:
    result = function.result
    return _RESULTS.get(result.kind, "DEBUG_LONG" if result.size > 4 else "DEBUG_INT")
