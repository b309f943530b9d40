# SPDX-License-Identifier: BSD-2-Clause
"""Colour, for terminals only: without it the bytes are those of a pipe."""

from __future__ import annotations

import os
from typing import TextIO

from retsnoop_py.value import Value


class Palette(Value):
    """SGR parameters by meaning; empty means plain."""

    error: str = ""
    mark: str = ""
    source: str = ""
    warning: str = ""
    good: str = ""
    name: str = ""

    @classmethod
    def of(cls, out: TextIO) -> Palette:
        """The palette for a stream: plain unless it is a terminal that may be coloured.

        https://no-color.org: a NO_COLOR that is not empty switches colour off.
        """
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not out.isatty():
            return cls()
        return cls(error="31", mark="33", source="2", warning="1;33", good="32", name="1")


def paint(text: str, code: str) -> str:
    """``text`` in colour; blank text and an empty code leave it as it is."""
    if not code or not text or text.isspace():
        return text
    return f"\x1b[{code}m{text}\x1b[0m"
