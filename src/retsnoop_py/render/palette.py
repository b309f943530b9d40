# SPDX-License-Identifier: BSD-2-Clause
"""Colours and links for terminals, and the glyphs of drawings."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from retsnoop_py.value import Value, replace

_PLACE = re.compile(r"([\w./+-]+\.\w+):\d+")


class Palette(Value):
    """SGR parameters by meaning; empty means plain."""

    error: str = ""
    mark: str = ""
    source: str = ""
    warning: str = ""
    good: str = ""
    name: str = ""
    #: The kernel's source tree for links to files; None: no links.
    tree: Path | None = None

    @classmethod
    def of(cls, out: TextIO) -> Palette:
        """Return the palette for a stream: plain unless it is a terminal with colours.

        A NO_COLOR that is not empty disables colours: https://no-color.org
        """
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not out.isatty():
            return cls()
        return cls(error="31", mark="33", source="2", warning="1;33", good="32", name="1")

    def linking(self, tree: Path | None) -> Palette:
        """Return the palette with links to the files below ``tree``, if it has colours."""
        return replace(self, tree=tree.absolute()) if tree and self != Palette() else self

    def place(self, text: str) -> str:
        """Return source places such as ``fs/namespace.c:2757`` in colour, linked to the files.

        A link is an escape sequence (OSC 8), which terminals without links ignore:
        https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda
        """
        if self.tree is not None:
            text = _PLACE.sub(self._link, text)
        return paint(text, self.source)

    def _link(self, place: re.Match[str]) -> str:
        name = posixpath.normpath(place[1])
        assert self.tree is not None
        if name.startswith(("/", "../")) or not (self.tree / name).is_file():
            return place[0]
        url = f"file://{os.uname().nodename}{quote(str(self.tree / name))}"
        return f"\x1b]8;;{url}\x1b\\{place[0]}\x1b]8;;\x1b\\"


def paint(text: str, code: str) -> str:
    """Return ``text`` in colour; blank text, or an empty code, stays unchanged."""
    if not code or not text or text.isspace():
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


class Glyphs(Value):
    """Glyphs, each one column wide except ``cut``, so that both sets give the same shape."""

    entry: str = "→"
    exit: str = "←"
    leaf: str = "↔"
    probe: str = "◎"
    #: Missing records in a trace.
    gap: str = "‼"
    #: A call stitched from an earlier chain of failures.
    stitched: str = "⌇"
    #: A call in an interrupt.
    interrupt: str = "↯"
    #: An executed block.
    block: str = "·"
    argument: str = "›"  # noqa: RUF001 - retsnoop's
    #: The rest of a value that was cut.
    cut: str = "…"

    @classmethod
    def of(cls, out: TextIO | None, *, ascii_only: bool = False) -> Glyphs:
        """Return the glyphs for a stream: ASCII if requested, or if the stream needs ASCII."""
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
