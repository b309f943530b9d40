# SPDX-License-Identifier: BSD-2-Clause
"""How an address is written: symbol, source line, and what is inlined there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.text import printable

_DIGITS = 16
#: Texts of so many addresses are kept.
_MAX_KNOWN = 1 << 15


class AddressText(NamedTuple):
    """The texts of one address; ``inlined`` has a symbol and a source for each further row."""

    symbol: str
    source: str
    inlined: tuple[tuple[str, str], ...] = ()


class AddressFormat:
    """Writes addresses, each one once: the same come back in most sessions.

    ``symbolize`` is never ``AUTO``. ``lead`` stands in front of the address itself, where that is
    shown; a hidden frame has ``~`` there.
    """

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, lead: str = " ") -> None:
        self._settings = stacks
        self._symbolize = symbolize
        self._lead = lead
        #: As wide as the address before a symbol.
        self.indent = " " * (len(lead) + _DIGITS + 1) if stacks.emit_addrs else ""
        self._known: BoundedCache[tuple[int, bool], tuple[Resolved, AddressText]] = BoundedCache(
            _MAX_KNOWN
        )

    def of(self, frame: Resolved, *, is_hidden: bool = False) -> AddressText:
        """The texts of ``frame``."""
        known = self._known.get((id(frame), is_hidden))
        if known is None:
            # The frame is kept, so that its id stays its own.
            known = self._known.keep((id(frame), is_hidden), (frame, self._text(frame, is_hidden)))
        return known[1]

    def _text(self, frame: Resolved, is_hidden: bool) -> AddressText:
        chain = () if is_hidden else source_chain(frame, self._symbolize)
        source = ""
        if chain:
            name = chain[0].function
            source = _source(chain[0], "" if name == frame.name else printable(name))
        inlined = tuple(
            (f"{self.indent}. {printable(level.function)}", _source(level)) for level in chain[1:]
        )
        return AddressText(self._symbol(frame, is_hidden), source, inlined)

    def _symbol(self, frame: Resolved, is_hidden: bool) -> str:
        if frame.name is None:
            text = f"{frame.address:#x}"
        elif self._settings.dec_offs:
            text = f"{printable(frame.name)}+{frame.offset}"
        else:
            text = f"{printable(frame.name)}+{frame.offset:#x}"
        if not self._settings.emit_addrs:
            return text
        return f"{'~' if is_hidden else self._lead}{frame.address:0{_DIGITS}x} {text}"


def user_mode(header: StreamHeader, settings: Settings) -> SymbolizeMode:
    """Programs may have source lines where the kernel has none, and the run could do no other."""
    mode = settings.symbolize
    if mode is SymbolizeMode.AUTO or (mode is header.symbolize is SymbolizeMode.NONE):
        return SymbolizeMode.INLINES
    return mode


def source_chain(frame: Resolved, symbolize: SymbolizeMode) -> Sequence[SourceFrame]:
    """What to show of DWARF's chain: without inlined functions only the line itself."""
    if symbolize is SymbolizeMode.NONE:
        return ()
    if symbolize is SymbolizeMode.LINES:
        return frame.frames[-1:]
    return frame.frames


def _source(source: SourceFrame, name: str = "") -> str:
    """``(path:line)``, after ``name @ `` if one is given; as much of it as is known."""
    if source.file is None:
        return f"({name})" if name else ""
    line = f":{source.line}" if source.line else ""
    return f"({name}{' @ ' if name else ''}{printable(source.file)}{line})"
