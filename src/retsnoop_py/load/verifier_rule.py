# SPDX-License-Identifier: BSD-2-Clause
"""One reason of the verifier's, and the categories that Linux 7.3 has for them."""

from __future__ import annotations

import re

from retsnoop_py.value import Value

__all__ = [
    "CALL",
    "LIMIT",
    "MEMORY",
    "POLICY",
    "REGISTER",
    "RESOURCE",
    "SCALAR",
    "STRUCTURE",
    "SUPPORT",
    "Rule",
    "define",
]


class Rule(Value):
    """One reason. ``pattern`` finds it, its named groups stand in ``reason`` and ``suggestion``.

    Group ``r`` is the register that is refused, as a number. Behind the groups the texts may
    name ``state`` (what the verifier knows of that register), ``made`` (where its value comes
    from) and what :mod:`retsnoop_py.load.diagnose` adds for this rule.
    """

    id: str
    category: str
    title: str
    pattern: re.Pattern[str]
    reason: str
    suggestion: str


MEMORY = "Memory Safety"
REGISTER = "Register Type Safety"
CALL = "Call Type Safety"
STRUCTURE = "Program Structure"
POLICY = "Policy"
RESOURCE = "Resource Lifetime Safety"
LIMIT = "Verifier Limit"
SUPPORT = "Kernel Support"


def define(id_: str, category: str, title: str, pattern: str, reason: str, suggestion: str) -> Rule:
    """A rule, as the tables write it."""
    return Rule(id_, category, title, re.compile(pattern), reason, suggestion)


#: A pointer as 5.18 and later call it, or ``inv`` of a scalar before that.
SCALAR = r"(?:scalar|inv|unknown|imm)"
