# SPDX-License-Identifier: BSD-2-Clause
"""Which functions a mechanism cannot take, known before the kernel refuses them."""

from __future__ import annotations

from retsnoop_py.kernel.functions import Function
from retsnoop_py.settings import Mechanism

#: Mechanisms that find functions by their BTF.
BY_BTF = frozenset({Mechanism.FSESSION_MULTI, Mechanism.FENTRY})


class KernelFitness:
    """What BTF and the deny lists say about functions."""

    def unfit(self, mechanism: Mechanism, function: Function) -> str | None:
        """Why ``mechanism`` cannot take ``function``; None if nothing speaks against it."""
        if mechanism not in BY_BTF:
            return None
        if function.btf_id is None:
            return f"{mechanism.value} finds functions by BTF, which does not know this one"
        if function.module and mechanism is Mechanism.FSESSION_MULTI:
            return f"{mechanism.value} takes functions of one BTF: the kernel's, not a module's"
        return None
