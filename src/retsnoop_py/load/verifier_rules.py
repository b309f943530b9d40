# SPDX-License-Identifier: BSD-2-Clause
"""What the verifier says when it refuses a program, in the words of all kernels, and what it means.

Categories and titles are those of Linux 7.3, which explains a part of its messages itself. The
order is that in which messages are looked for: the particular before the general.
"""

from __future__ import annotations

from retsnoop_py.load.access_rules import ACCESS_RULES
from retsnoop_py.load.program_rules import PROGRAM_RULES
from retsnoop_py.load.verifier_rule import Rule, define

__all__ = ["NO_CONTEXT_TYPE", "RULES", "Rule", "rule"]

RULES: tuple[Rule, ...] = (*PROGRAM_RULES, *ACCESS_RULES)
#: What "global-argument" means where the kernel says before it that it knows no context.
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
    """The rule of this id; KeyError where there is none."""
    for one in RULES:
        if one.id == id_:
            return one
    raise KeyError(id_)
