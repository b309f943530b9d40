# SPDX-License-Identifier: BSD-2-Clause
"""The verifier's messages about rejected programs, in the words of all kernels, with explanations.

Categories and titles are those of Linux 7.3, which explains some of its messages itself. Rules are
matched in this order: specific rules before general rules.
"""

from __future__ import annotations

from retsnoop_py.load.access_rules import ACCESS_RULES
from retsnoop_py.load.program_rules import PROGRAM_RULES
from retsnoop_py.load.verifier_rule import Rule, define

__all__ = ["NO_CONTEXT_TYPE", "RULES", "Rule", "rule"]

RULES: tuple[Rule, ...] = (*PROGRAM_RULES, *ACCESS_RULES)
#: The meaning of "global-argument" if an earlier message reports an unknown context type.
NO_CONTEXT_TYPE = define(
    "kernel-btf",
    "Environment",
    "Kernel without BTF",
    r"Arg#\d+ type \w+ in \S+ is not supported yet",
    "A function that is verified by itself (a global function, or a program below libxdp's"
    " dispatcher) has the context as argument. The kernel looks up its type in its own BTF, which"
    " is missing here or cannot be read.",
    "Use a kernel with CONFIG_DEBUG_INFO_BTF=y and a matching pahole (ls -l"
    " /sys/kernel/btf/vmlinux; dmesg names the part that it could not read)."
    " LIBXDP_SKIP_DISPATCHER=1 makes libxdp skip the dispatcher. Static functions are not"
    " affected.",
)


def rule(id_: str) -> Rule:
    """Return the rule with this id; raise KeyError if it does not exist."""
    for one in RULES:
        if one.id == id_:
            return one
    raise KeyError(id_)
