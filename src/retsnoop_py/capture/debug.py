# SPDX-License-Identifier: BSD-2-Clause
"""``--debug bpf``: the programs log every traced call and return to the kernel's trace_pipe."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.libbpf.object import BpfObject

__all__ = ["configure_log", "fill_log"]

#: ``struct debug_func`` of ``src/bpf/debug.bpf.h``: the name with its NUL, ``enum debug_result``.
_FUNC = struct.Struct("=40sI")
_NAME_BYTES = 39
_VOID, _BOOL, _PTR, _INT, _LONG = range(5)


def configure_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """Before load: make the programs log, and room for what ``functions`` are called."""
    obj.set_global(".rodata", "debug_log", 1)
    obj.map("debug_funcs").set_max_entries(max(len(functions), 1))


def fill_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """After load: what each function is called and returns, by its id."""
    obj.map("debug_funcs").update_many(
        [
            (
                struct.pack("=I", number),
                _FUNC.pack(function.name.encode()[:_NAME_BYTES], _result_of(function)),
            )
            for number, function in enumerate(functions)
        ]
    )


def _result_of(function: Function) -> int:
    kind, size = function.result.kind, function.result.size
    known = {ResultKind.VOID: _VOID, ResultKind.BOOL: _BOOL, ResultKind.PTR: _PTR}
    return known.get(kind, _LONG if size > 4 else _INT)
