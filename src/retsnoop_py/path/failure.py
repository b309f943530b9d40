# SPDX-License-Identifier: BSD-2-Clause
"""The number that a call failed with, and which other numbers are failures of the same kind.

A function that returned an error may return other errors. A function that returned any other value,
such as false, NULL or a count, fails only with that number.
"""

from __future__ import annotations

from retsnoop_py.path.insn import INT
from retsnoop_py.value import Value

__all__ = ["LARGEST_ERROR", "MASK32", "Failure", "is_error", "is_result"]

MASK32 = 0xFFFFFFFF
#: Errors are the numbers from -1 to this number's negative.
LARGEST_ERROR = 4095


class Failure(Value):
    """``result`` is the result register (64 bits).

    ``size`` is the minimum size of the result in bytes: 1 for a bool.
    """

    result: int
    size: int = INT

    @property
    def is_error(self) -> bool:
        """Return True if the result is an error number or an error pointer."""
        low, high = self.result & MASK32, self.result >> 32 & MASK32
        return self.size >= INT and high in (0, MASK32) and is_error(low - (MASK32 + 1))

    def is_it(self, value: int) -> bool:
        """Return True if a number in the code is the result."""
        return is_result(value, self.result)

    def is_alike(self, value: int) -> bool:
        """Return True if returning a number from the code is the same kind of failure."""
        return is_error(value) if self.is_error else self.is_it(value)


def is_error(value: int) -> bool:
    """Return True if a signed number is an error number."""
    return -LARGEST_ERROR <= value < 0


def is_result(value: int, result: int) -> bool:
    """Return True if ``value`` equals the returned result; ints have 32 bits."""
    return value & MASK32 == result & MASK32 and (
        -(1 << 31) <= value < 1 << 32 or value & (1 << 64) - 1 == result & (1 << 64) - 1
    )
