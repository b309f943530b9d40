# SPDX-License-Identifier: BSD-2-Clause
"""What BPF trampolines have to know of functions: parameters by BTF, and if names are unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.libbpf.facts import btf_signatures

__all__ = ["Signature", "SignatureFlags", "read_signatures"]


class SignatureFlags:
    """``enum rsn_signature_flags``, as plain integers."""

    VARIADIC = 1
    STRUCT_RESULT = 2
    LARGE_PARAM = 4
    ODD_TYPE = 8
    VOID = 16


class Signature(NamedTuple):
    """Parameters, the 8-byte slots they fill, ``flags``, bytes of the result.

    ``namesakes``: how many functions of its image have the function's name, itself included.
    """

    params: int
    slots: int
    flags: int
    result_size: int
    namesakes: int


def read_signatures(facts: KernelFacts, functions: Sequence[Function]) -> dict[int, Signature]:
    """The signatures of those ``functions`` that BTF knows, by address."""
    by_module: dict[str | None, list[Function]] = {}
    for function in functions:
        if function.btf_id is not None:
            by_module.setdefault(function.module, []).append(function)
    signatures: dict[int, Signature] = {}
    for module, group in by_module.items():
        btf = facts.btf if module is None else facts.module_btf(module)
        if btf is None:
            continue
        blobs = [(blob.types, blob.offsets, blob.start) for blob in btf.blobs]
        found = btf_signatures(blobs, [function.btf_id or 0 for function in group])
        counts = facts.kallsyms.table.namesakes([function.name for function in group], module)
        for function, one, count in zip(group, found, counts, strict=True):
            signatures[function.address] = Signature(*one, count)
    return signatures
