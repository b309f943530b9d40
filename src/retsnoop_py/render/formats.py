# SPDX-License-Identifier: BSD-2-Clause
"""Text formats that many views share: results, addresses, kernel messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.kernel.errno import ERRNO_NAMES, MAX_ERRNO, error_name
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.results import error_of, number_of, value_of, width_of
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.text import counted, printable, wrapped

if TYPE_CHECKING:
    from retsnoop_py.model import session as to
    from retsnoop_py.session.model import KernelMessage

UNFINISHED = "[...]"

_PTR = int(FuncFlags.PTR)
_CANT_FAIL = int(FuncFlags.CANT_FAIL)
_BITS_64 = (1 << 64) - 1

# Numbers outside of this range are probably bit patterns and are printed in hex.
_DECIMAL_MIN = -(1 << 30)
_DECIMAL_END = 1 << 20


def format_result(function: Function, register: int) -> str:
    """Return ``[void]``, ``[NULL]``, ``[-EINVAL]``, ``[true]``, ``[CONSTANT]``, a number or hex.

    ``register`` is the raw result register; only the bits of the function's type count.
    """
    width = width_of(function, register)
    if width == 0:
        return "[void]"
    value = value_of(function, register)
    kind = function.result.kind
    is_pointer = bool(int(function.flags) & _PTR) or kind is ResultKind.PTR
    if is_pointer and value == 0:
        return "[NULL]"
    if kind is ResultKind.BOOL and not is_pointer:
        return "[true]" if value else "[false]"
    bits = (1 << width) - 1
    constants = function.result.values
    constant = next((name for name, one in constants if (one ^ value) & bits == 0), None)
    if constant is not None:
        return f"[{printable(constant)}]"
    error = _error_number(function, value, width)
    if error is not None:
        name = ERRNO_NAMES.get(error)
        return f"[-{name or error}]"
    if not is_pointer and _DECIMAL_MIN <= value < _DECIMAL_END:
        return f"[{value}]"
    return f"[{value & ((1 << width) - 1):#x}]"


def _error_number(function: Function, value: int, width: int) -> int | None:
    """Return the error number in a result, even if the result is not a failure, or None.

    An ``unsigned long`` in the last 4,095 values is an error by the kernel's IS_ERR_VALUE().
    Narrower results that cannot fail are only numbers.
    """
    if width < 64 and int(function.flags) & _CANT_FAIL:
        return None
    if value >= 1 << 63:
        value -= 1 << 64
    return -value if -MAX_ERRNO <= value < 0 else None


def encode_result(function: Function, register: int) -> to.Result:
    """Return a result as a JSON object."""
    from retsnoop_py.model import session as to

    error = error_of(function, register)
    return to.Result(
        hex(register & _BITS_64),
        format_result(function, register)[1:-1],
        number_of(function, register),
        None if error is None else error_name(error),
    )


# --- addresses ---

_DIGITS = 16
#: Maximum number of cached texts of addresses.
_MAX_KNOWN = 1 << 15


class AddressText(NamedTuple):
    """The text of an address; ``inlined`` has the symbol and the source of each further row."""

    symbol: str
    source: str
    inlined: tuple[tuple[str, str], ...] = ()


class AddressFormat:
    """Write addresses; each text is made once, because most sessions have the same addresses.

    ``symbolize`` is never ``AUTO``. ``lead`` precedes the printed address; a hidden frame has ``~``
    instead.
    """

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, lead: str = " ") -> None:
        self._settings = stacks
        self._symbolize = symbolize
        self._lead = lead
        #: Blanks with the width of the address before a symbol.
        self.indent = " " * (len(lead) + _DIGITS + 1) if stacks.emit_addrs else ""
        self._known: BoundedCache[tuple[int, bool], tuple[Resolved, AddressText]] = BoundedCache(
            _MAX_KNOWN
        )

    def of(self, frame: Resolved, *, is_hidden: bool = False) -> AddressText:
        """Return the texts of ``frame``."""
        known = self._known.get((id(frame), is_hidden))
        if known is None:
            # The frame is stored as well, so that no other object gets its id.
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
    """Return the mode for programs, which may have source lines even if the kernel has none."""
    mode = settings.symbolize
    if mode is SymbolizeMode.AUTO or (mode is header.symbolize is SymbolizeMode.NONE):
        return SymbolizeMode.INLINES
    return mode


def source_chain(frame: Resolved, symbolize: SymbolizeMode) -> Sequence[SourceFrame]:
    """Return the printed part of DWARF's chain: without inlined functions only the line itself."""
    if symbolize is SymbolizeMode.NONE:
        return ()
    if symbolize is SymbolizeMode.LINES:
        return frame.frames[-1:]
    return frame.frames


def _source(source: SourceFrame, name: str = "") -> str:
    """Return ``(path:line)``, after ``name @ `` if given; unknown parts are omitted."""
    if source.file is None:
        return f"({name})" if name else ""
    line = f":{source.line}" if source.line else ""
    return f"({name}{' @ ' if name else ''}{printable(source.file)}{line})"


# --- messages ---

_LEAD = "the kernel said: "


def message_lines(
    messages: Sequence[KernelMessage] | Sequence[to.KernelMessage], indent: int, columns: int
) -> Iterator[str]:
    """Yield a line for each line of the messages, at most ``columns`` wide; 0: no limit."""
    for message in messages:
        if message.left_out:
            yield f"{' ' * indent}({counted(message.left_out, 'more message')})"
        lead, text = _LEAD, message.text
        if message.instruction is not None:
            text += f" (instruction {message.instruction})"
        for line in text.split("\n"):
            yield from wrapped(lead + printable(line), indent, columns)
            lead = " " * len(_LEAD)
