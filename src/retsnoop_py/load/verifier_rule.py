# SPDX-License-Identifier: BSD-2-Clause
"""A rule for verifier messages, and the categories of Linux 7.3."""

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
    """A rule. ``pattern`` finds the message; its named groups fill ``reason`` and ``suggestion``.

    Group ``r`` is the number of the rejected register. The texts may also contain ``state`` (the
    verifier's state of that register), ``made`` (the origin of its value) and the facts that
    :mod:`retsnoop_py.load.diagnose` adds for this rule.
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
    """Return a rule, for the tables."""
    return Rule(id_, category, title, re.compile(pattern), reason, suggestion)


#: A pointer as 5.18 and later call it, or ``inv`` of a scalar before that.
SCALAR = r"(?:scalar|inv|unknown|imm)"
