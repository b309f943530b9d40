# SPDX-License-Identifier: BSD-2-Clause
"""Where arguments are, by the examples of the two calling conventions."""

from __future__ import annotations

import pytest

from retsnoop_py.kernel.arguments.calling_convention import STACK_SLOT, Location, Passed, locations

WORD = Passed(8)
INT = Passed(4, 4)
PAIR = Passed(16, 8)
LARGE = Passed(24, 8)
WIDE = Passed(16, 16)
PACKED = Passed(12, 1, is_packed=True)


def on_stack(offset: int, words: int = 1, *, by_reference: bool = False) -> Location:
    return Location(STACK_SLOT, words, offset, by_reference)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([INT, PAIR, INT], [Location(0, 1), Location(1, 2), Location(3, 1)]),
        # a pair that does not fit goes to the stack, the next word still has a register
        (
            [WORD] * 5 + [PAIR, WORD, WORD],
            [*(Location(i, 1) for i in range(5)), on_stack(8, 2), Location(5, 1), on_stack(24)],
        ),
        ([LARGE, WORD], [on_stack(8, 3), Location(0, 1)]),
        ([PACKED, WORD], [on_stack(8, 2), Location(0, 1)]),
        (
            [WORD] * 7 + [WIDE],
            [*(Location(i, 1) for i in range(6)), on_stack(8), on_stack(24, 2)],
        ),
        ([Passed(0), WORD], [Location(0, 0), Location(0, 1)]),
    ],
)
def test_x86(parameters: list[Passed], expected: list[Location]) -> None:
    assert locations("x86_64", parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([INT, PAIR, INT], [Location(0, 1), Location(1, 2), Location(3, 1)]),
        # once on the stack, everything is
        (
            [WORD] * 7 + [PAIR, WORD],
            [*(Location(i, 1) for i in range(7)), on_stack(0, 2), on_stack(16)],
        ),
        ([LARGE, WORD], [Location(0, 1, by_reference=True), Location(1, 1)]),
        ([WORD, WIDE, WORD], [Location(0, 1), Location(2, 2), Location(4, 1)]),
        ([WORD] * 8 + [INT, INT], [*(Location(i, 1) for i in range(8)), on_stack(0), on_stack(8)]),
        (
            [WORD] * 8 + [LARGE],
            [*(Location(i, 1) for i in range(8)), on_stack(0, by_reference=True)],
        ),
        ([WORD] * 9 + [WIDE], [*(Location(i, 1) for i in range(8)), on_stack(0), on_stack(16, 2)]),
    ],
)
def test_arm64(parameters: list[Passed], expected: list[Location]) -> None:
    assert locations("aarch64", parameters) == expected


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_trampoline_has_all_words_in_the_order_of_the_parameters(machine: str) -> None:
    found = locations(machine, [WORD] * 5 + [PAIR, WORD, WORD], trampoline=True)
    assert found == [
        *(Location(i, 1) for i in range(5)),
        Location(5, 2),
        Location(7, 1),
        Location(8, 1),
    ]
