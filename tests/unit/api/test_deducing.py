# SPDX-License-Identifier: BSD-2-Clause
"""What is known of the registers that a system call was given its arguments in."""

from __future__ import annotations

import pytest

from retsnoop_py.api.deducing import register_of
from retsnoop_py.model.session import Argument as Given
from retsnoop_py.path.deduce import Argument


@pytest.mark.parametrize(
    ("text", "value", "type_", "register"),
    [
        ("5", 5, "int", Argument(5, 4)),
        ("5", 5, "unsigned long", Argument(5, 8)),
        ("BPF_PROG_LOAD", "BPF_PROG_LOAD", "enum bpf_cmd", None),
        ("NULL", None, "const char *", Argument(0, 8)),
        ("0x7f0010", "0x7f0010", "void *", Argument(0x7F0010, 8)),
        # followed: what is there is known, and not where it is
        ("&0", 0, "int *", None),
        ('"0"', "0", "const char *", None),
        ('"0x10"', "0x10", "const char *", None),
        ("0x7f0010 (-EFAULT)", {"pointer": "0x7f0010", "error": "-EFAULT"}, "int *", None),
        ("(in a vector register)", None, "double", None),
    ],
)
def test_only_a_number_that_was_in_the_register_is_taken(
    text: str, value: object, type_: str, register: Argument | None
) -> None:
    assert register_of(Given("one", text, value, type_)) == register
