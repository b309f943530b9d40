# SPDX-License-Identifier: BSD-2-Clause
"""Function signatures for BPF trampolines, and reasons why one cannot call a function."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.libbpf.facts import btf_signatures

__all__ = ["Signature", "SignatureFlags", "Trampolines", "read_signatures"]


class SignatureFlags:
    """``enum rsn_signature_flags``, as plain integers."""

    VARIADIC = 1
    STRUCT_RESULT = 2
    LARGE_PARAM = 4
    ODD_TYPE = 8
    VOID = 16


class Signature(NamedTuple):
    """Parameters, the 8-byte slots they fill, ``flags``, bytes of the result.

    ``namesakes``: the number of functions in its image with the function's name, including itself.
    """

    params: int
    slots: int
    flags: int
    result_size: int
    namesakes: int


def read_signatures(facts: KernelFacts, functions: Sequence[Function]) -> dict[int, Signature]:
    """Return the signatures of ``functions``, by address, as far as BTF has them."""
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


#: ``MAX_BPF_FUNC_ARGS`` of the kernel.
_MOST_PARAMS = 12

_FLAWS = (
    (SignatureFlags.VARIADIC, "takes a variable number of arguments"),
    (SignatureFlags.STRUCT_RESULT, "returns a struct"),
    (SignatureFlags.LARGE_PARAM, "takes a struct of more than 16 bytes by value"),
    (SignatureFlags.ODD_TYPE, "has a parameter or a result whose type is missing in BTF"),
)

#: Kernels without this function free a trampoline while threads sleep in the function that it
#: called, and crash when they return (fixed by e21aa341785c in 5.12 and by stable updates).
_SLEEP_FIX = "__bpf_tramp_exit"
_SLEEPERS = (
    "*_sys_select",
    "*_sys_pselect6*",
    "*_sys_epoll_wait*",
    "*_sys_epoll_pwait*",
    "*_sys_poll*",
    "*_sys_ppoll*",
    "*_sys_nanosleep*",
    "*_sys_clock_nanosleep*",
    "do_nanosleep",
    "hrtimer_nanosleep*",
)


class Trampolines:
    """The facts about ``functions`` in BTF and the symbol list, read once for all functions."""

    def __init__(self, facts: KernelFacts, functions: Sequence[Function]) -> None:
        self._facts = facts
        self._signatures = read_signatures(facts, functions)

    @cached_property
    def _bears_sleepers(self) -> bool:
        return self._facts.kallsyms.address_of(_SLEEP_FIX) is not None

    def flaw(self, function: Function) -> str | None:
        """Return why no trampoline can call ``function``; None if a trampoline can."""
        signature = self._signatures.get(function.address)
        if signature is None:
            return "finds functions by BTF, and BTF does not contain this one"
        return self._flaw_of(signature) or self._danger(function)

    def _flaw_of(self, signature: Signature) -> str | None:
        # From a BTF id the kernel goes to the first symbol of that name, which may be another one.
        if signature.namesakes != 1:
            return f"cannot tell apart the {signature.namesakes} symbols of this name"
        if signature.params > _MOST_PARAMS:
            return f"supports functions of up to {_MOST_PARAMS} arguments"
        for flag, words in _FLAWS:
            if signature.flags & flag:
                return f"cannot call a function that {words}"
        return None

    def _danger(self, function: Function) -> str | None:
        if self._bears_sleepers or not any(fnmatchcase(function.name, g) for g in _SLEEPERS):
            return None
        return "would crash this kernel when a thread that sleeps in this function wakes up"
