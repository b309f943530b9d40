# SPDX-License-Identifier: BSD-2-Clause
"""Colour, for terminals only, and the signs that text is drawn with."""

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


class Glyphs(Value):
    """One column each, so that a drawing has the same shape in either set; but ``cut``."""

    entry: str = "→"
    exit: str = "←"
    leaf: str = "↔"
    probe: str = "◎"
    #: Records that are missing from a trace.
    gap: str = "‼"
    #: A call stitched from an earlier chain of failures.
    stitched: str = "⌇"
    #: A call that an interrupt made.
    interrupt: str = "↯"
    #: A block that ran.
    block: str = "·"
    argument: str = "›"  # noqa: RUF001 - retsnoop's
    #: The rest of a value that was cut.
    cut: str = "…"

    @classmethod
    def of(cls, out: TextIO | None, *, ascii_only: bool = False) -> Glyphs:
        """Those for a stream: ASCII if asked for, or if it cannot encode the others."""
        glyphs = cls()
        if ascii_only or not _can_encode(out, "".join(getattr(glyphs, n) for n in cls.fields)):
            return ASCII
        return glyphs


ASCII = Glyphs(
    entry=">",
    exit="<",
    leaf="=",
    probe="@",
    gap="!",
    stitched="*",
    interrupt="~",
    block="-",
    argument="|",
    cut="...",
)


def _can_encode(out: TextIO | None, text: str) -> bool:
    try:
        text.encode(getattr(out, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
