# SPDX-License-Identifier: BSD-2-Clause
"""Where the code of a source line is, by DWARF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retsnoop_py.errors import UnavailableError

if TYPE_CHECKING:
    from retsnoop_py.symbolize.sources import KernelImages


class SourceLines:
    """The source lines of the kernel whose ``images`` have DWARF; None where nobody needs them."""

    def __init__(self, images: KernelImages | None) -> None:
        self._images = images

    def places(self, path: str, line: int) -> list[tuple[int, str]]:
        """The addresses at which code of a line begins, and the line's path in the sources."""
        raise UnavailableError(f"{path}:{line}")
