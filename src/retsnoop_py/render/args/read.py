# SPDX-License-Identifier: BSD-2-Clause
"""Captured values by name, for text and JSON.

The conversions of a format define the number and the types of the arguments after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from retsnoop_py.kernel.arguments.model import (
    Argument,
    ArgumentFacts,
    CallArguments,
    DataKind,
    Role,
)
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.render.args import kernel_types
from retsnoop_py.render.args.decode import Decoder
from retsnoop_py.render.args.node import (
    CUT,
    Group,
    Leaf,
    Node,
    Plain,
    inline,
    number,
    plain_of,
    plain_text,
    pointer,
    quoted,
)
from retsnoop_py.session.events import NO_ROOM
from retsnoop_py.session.model import Captured, CapturedValue, EventKind, Session

_CONVERSION = re.compile(
    r"%(?P<percent>%)|%[-+ #0]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|-?\d*))?"
    r"(?P<length>hh|h|ll|l|z|t|j|L|q)?(?P<type>p[A-Za-z0-9]*|[a-zA-Z])"
)
_BITS = {"hh": 8, "h": 16, "": 32}
_STAR = "d"


def conversions(text: str) -> list[str]:
    """Return the length and type of each conversion in a format, such as ``ld``.

    There is an entry for each argument. A width or precision of ``*`` takes its own argument.
    """
    return [one for match in _CONVERSION.finditer(text) for one in _takes(match)]


def _takes(match: re.Match[str]) -> Iterator[str]:
    if match["percent"]:
        return
    for given in (match["width"], match["precision"]):
        if given == "*":
            yield _STAR
    kind = match["type"]
    yield (match["length"] or "") + ("p" if kind.startswith("p") else kind)


def vararg(value: CapturedValue, conversion: str) -> Node:
    """Return an argument of a format; for an empty ``conversion`` the whole register."""
    raw = int.from_bytes(value.value, "little")
    kind, length = conversion[-1:], conversion[:-1]
    if kind == "s" or (not kind and value.data):
        return text_of(value.data, raw)
    bits = _BITS.get(length, 64) if kind else 64
    cut = raw & ((1 << bits) - 1)
    if kind == "p":
        return Leaf(pointer(raw), f"{raw:#x}" if raw else None)
    if kind in ("d", "i") and cut >> (bits - 1):
        cut -= 1 << bits
    if kind in ("x", "X"):
        return Leaf(f"{cut:#x}", cut)
    if kind == "c" and chr(cut & 0x7F).isprintable() and cut == cut & 0x7F:
        return Leaf(quoted(bytes([cut])), cut)
    return Leaf(number(cut, bits), cut)


def text_of(data: bytes, address: int) -> Node:
    """Return captured text, marked as cut without its NUL; without data its address."""
    if not data:
        return Leaf(pointer(address), f"{address:#x}" if address else None)
    is_cut = not data.endswith(b"\0")
    text = data if is_cut else data[:-1]
    return Leaf(quoted(text, is_cut=is_cut), plain_text(text, is_cut=is_cut))


def known_conversions(previous: Sequence[CapturedValue]) -> list[str] | None:
    """Return the conversions of the format before the arguments; None if it was not captured."""
    if not previous or not previous[-1].data:
        return None
    return conversions(previous[-1].data.rstrip(b"\0").decode("latin-1"))


#: Size of a cache: calls with equal arguments often follow each other.
_MAX_KEPT = 1 << 12
_UNKNOWN = CallArguments()
#: The kernel's copy of a file name that a program passed, with the original address (``uptr``).
_COPIED_NAME = "struct filename *"


class Shown(NamedTuple):
    """An argument by name, and its type in C; a remark has neither."""

    name: str
    node: Node
    type: str = ""


class ArgumentReader:
    """Reads captured arguments by the ``facts`` of their stream.

    ``raw_pointers``: the value of a pointer is shown before its target.
    """

    def __init__(self, facts: ArgumentFacts, *, raw_pointers: bool = False) -> None:
        self._facts = facts
        self._decoder = Decoder(facts.types, facts.tags)
        self._raw_pointers = raw_pointers
        self._kept = lru_cache(_MAX_KEPT)(self._read)

    def read(self, session: Session, captured: Captured) -> tuple[Shown, ...]:
        """Return the values ``captured`` at an event of ``session``, by name.

        Text that was not in memory at the start of the call is taken from the copy that the kernel
        made in the same session.
        """
        shown = self._kept(captured)
        if not any(map(_is_unread_text, shown)):
            return shown
        copies = self._copies(session)
        return tuple(
            one._replace(node=copies.get(_unread_at(one.node), one.node))
            if _is_unread_text(one)
            else one
            for one in shown
        )

    def _copies(self, session: Session) -> dict[str, Leaf]:
        """Return the file names that the kernel copied from a program, by their address there."""
        found: dict[str, Leaf] = {}
        for captured in session.args.values():
            for _, node, spelled in self._kept(captured):
                if spelled == _COPIED_NAME and isinstance(node, Group) and node.label:
                    at = inline(dict(node.members).get("uptr", Leaf("", None)))
                    before = f"({at})" if self._raw_pointers else ""
                    name = node.prefix.rpartition(" ")[0]
                    found[at] = Leaf(before + name, node.label)
        return found

    def arguments(self, session: Session, seq: int) -> list[tuple[str, str, Plain, str]] | None:
        """Return name, text, plain value and C type of each argument of event ``seq``.

        None if nothing was captured there.
        """
        captured = session.args.get(seq)
        if captured is None:
            return None
        return [
            (name, inline(node), plain_of(node), spelled)
            for name, node, spelled in self.read(session, captured)
        ]

    def expects(self, function: int) -> bool:
        """Return True if the arguments of that function are captured."""
        functions = self._facts.functions
        return function < len(functions) and bool(functions[function].arguments)

    def expects_of_probe(self, probe: int) -> bool:
        """Return True if values are captured at that injected probe."""
        probes = self._facts.probes
        return probe < len(probes) and bool(probes[probe].arguments)

    def _read(self, captured: Captured) -> tuple[Shown, ...]:
        is_probe = captured.kind == EventKind.PROBE_ARGS
        table = self._facts.probes if is_probe else self._facts.functions
        told = table[captured.id] if captured.id < len(table) else _UNKNOWN
        return tuple(self._shown(told, captured.values))

    def _shown(self, told: CallArguments, values: Sequence[CapturedValue]) -> Iterator[Shown]:
        if told.note:
            yield Shown("", Leaf(f"({told.note})", told.note))
        takes: list[str] | None = None
        first_vararg = 0
        for index, (argument, value) in enumerate(zip(told.arguments, values, strict=False)):
            if argument.role == Role.NAME:
                continue
            if argument.role != Role.VARARG:
                node = self._named(told, values, index)
                yield Shown(argument.name, node, argument.spelled)
                continue
            if not first_vararg:
                first_vararg, takes = index, known_conversions(values[:index])
            position = index - first_vararg
            if takes is None:
                yield Shown(argument.name, vararg(value, ""))
            elif position < len(takes):
                yield Shown(argument.name, vararg(value, takes[position]))
        if told.is_cut or (takes is not None and first_vararg + len(takes) > len(values)):
            yield Shown("", Leaf(CUT, CUT))

    def _named(self, told: CallArguments, values: Sequence[CapturedValue], index: int) -> Node:
        """Return an argument, with the name of its target if that was captured."""
        argument = told.arguments[index]
        node = self._argument(
            argument, self._given(told, values, index), self._variant(told, values, index)
        )
        following = told.arguments[index + 1 : index + 2]
        if not following or following[0].role != Role.NAME or index + 1 >= len(values):
            return node
        named = values[index + 1]
        if not named.data or not isinstance(node, Group):
            return node
        name = text_of(named.data, 0)
        assert isinstance(name, Leaf)
        return node._replace(prefix=f"{name.text} {node.prefix}", label=str(name.plain))

    def _given(
        self, told: CallArguments, values: Sequence[CapturedValue], index: int
    ) -> CapturedValue:
        """Return a captured value, with zeros after the size that the caller passed."""
        value = values[index]
        kind = self._decoder.type(told.arguments[index].target)
        if kind is None or not value.data:
            return value
        if kind.name in kernel_types.OWN_SIZES:
            offset, least = kernel_types.OWN_SIZES[kind.name]
            told_size = int.from_bytes(value.data[offset : offset + 4], "little")
            return _only(value, told_size or least, kind.size)
        if kernel_types.is_socket_address(kind):
            names = kernel_types.ADDRESS_SIZES
        elif kind.name in kernel_types.EXTENSIBLE:
            names = kernel_types.SIZES
        else:
            return value
        for position, argument in enumerate(told.arguments[index:], index):
            end = self._number(told, values, position) if argument.name in names else None
            if end is not None:
                return _only(value, end, kind.size)
        return value

    def _number(
        self, told: CallArguments, values: Sequence[CapturedValue], index: int
    ) -> int | None:
        """Return the number in an argument; None if it is not a number or was not captured."""
        if not 0 <= index < min(len(values), len(told.arguments)):
            return None
        kind = self._decoder.type(told.arguments[index].type)
        if kind is None or kind.kind not in (DataKind.INT, DataKind.ENUM):
            return None
        raw = values[index].value[: kind.size]
        return int.from_bytes(raw, "little") if len(raw) == kind.size else None

    def _variant(
        self, told: CallArguments, values: Sequence[CapturedValue], index: int
    ) -> int | None:
        """Return the selected variant of an argument's target, if known."""
        argument = told.arguments[index]
        if argument.tag < 0:
            return argument.variant
        return self._number(told, values, argument.tag)

    def _argument(
        self, argument: Argument, value: CapturedValue, variant: int | None = None
    ) -> Node:
        if argument.role == Role.ELSEWHERE:
            return Leaf("(in a vector register)", None)
        if not value.value:
            return _missing("", value.error)
        raw = int.from_bytes(value.value, "little")
        match argument.role:
            case Role.REGISTER:
                return Leaf(number(raw), raw)
            case Role.VALUE:
                node = self._decoder.node(argument.type, value.value, argument.name)
                return _unfollowed(node, argument.note) if argument.note and raw else node
            case Role.WHOLE:
                return self._whole(argument, value)
            case Role.LOCATED:
                size = raw >> 16 & 0xFFFF
                if value.error:
                    return _missing("", value.error)
                return self._decoder.array(argument.target, value.data, size, argument.name)
        return self._target(argument, value, raw, variant)

    def _whole(self, argument: Argument, value: CapturedValue) -> Node:
        if value.error:
            return _missing("", value.error)
        data = value.data or value.value
        return self._decoder.node(argument.target, data, argument.name)

    def _target(
        self, argument: Argument, value: CapturedValue, raw: int, variant: int | None
    ) -> Node:
        """Return a pointer and its target."""
        if value.error:
            return _missing(pointer(raw), value.error)
        if not value.data:
            return Leaf(pointer(raw), f"{raw:#x}" if raw else None)
        before = f"({raw:#x})" if self._raw_pointers else ""
        if argument.role == Role.STRING:
            text = text_of(value.data, raw)
            assert isinstance(text, Leaf)
            return Leaf(before + text.text, text.plain)
        node = self._decoder.node(argument.target, value.data, argument.name, variant)
        if isinstance(node, Group):
            return node._replace(prefix=f"{before}&")
        return Leaf(f"{before}&{node.text}", node.plain)


def _is_unread_text(shown: Shown) -> bool:
    """Return True for a program's text on a page that was not in memory."""
    return bool(_unread_at(shown.node)) and shown.type in ("const char *", "char *")


def _unread_at(node: Node) -> str:
    """Return the address of unreadable text, or nothing."""
    plain = node.plain if isinstance(node, Leaf) else None
    if not isinstance(plain, dict) or plain.get("error") != "-EFAULT":
        return ""
    return str(plain.get("pointer", ""))


def _only(value: CapturedValue, end: int, size: int) -> CapturedValue:
    """Return the value with zeros from byte ``end`` on, if all bytes before were captured."""
    if end > len(value.data):
        return value
    whole = max(size, len(value.data))
    return value._replace(data=value.data[:end].ljust(whole, b"\0"))


def _unfollowed(node: Node, note: str) -> Leaf:
    """Return an address with ``note``, the reason why it is not followed."""
    shown = inline(node)
    return Leaf(f"{shown} ({note})", {"pointer": shown, "note": note})


def _missing(shown: str, error: int) -> Leaf:
    """Return the reason why a value was not captured."""
    why = "no room" if error == NO_ROOM else f"-{errno_name(error)}"
    return Leaf(f"{shown} ({why})".lstrip(), {"pointer": shown, "error": why})
