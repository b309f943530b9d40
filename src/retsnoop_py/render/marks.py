# SPDX-License-Identifier: BSD-2-Clause
"""The signs that text is drawn with."""

from __future__ import annotations

from typing import TextIO

from retsnoop_py.value import Value


class Marks(Value):
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
    def of(cls, out: TextIO | None, *, ascii_only: bool = False) -> Marks:
        """The marks for a stream: ASCII if asked for, or if it cannot encode the others."""
        marks = cls()
        if ascii_only or not _can_encode(out, "".join(getattr(marks, n) for n in cls.fields)):
            return ASCII
        return marks


ASCII = Marks(
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
