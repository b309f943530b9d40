# SPDX-License-Identifier: BSD-2-Clause
"""The way of a call, where its result was made and what decided, as objects of JSON."""

from __future__ import annotations

from retsnoop_py.render import json_types as to
from retsnoop_py.render.places import source_chain
from retsnoop_py.session.paths import Place, operand_value
from retsnoop_py.session.report import PathView
from retsnoop_py.settings import SymbolizeMode

__all__ = ["encode_origin"]


def encode_origin(
    view: PathView, function: to.Func, result: to.Result, mode: SymbolizeMode
) -> to.Origin:
    """What is known of one call of ``function``; ``mode`` decides how much of DWARF is told."""
    origin = view.origin
    return to.Origin(
        function,
        view.path.seq,
        result,
        origin.made,
        origin.callee,
        None if origin.returned is None else _place(view, origin.returned, mode),
        _decision(view, mode),
        tuple([_place(view, Place(address, ""), mode) for address in origin.blocks]),
        view.path.earlier,
        origin.unknown,
    )


def _decision(view: PathView, mode: SymbolizeMode) -> to.Decision | None:
    decided, condition = view.origin.decided, view.origin.condition
    if decided is None:
        return None
    if condition is None:
        return to.Decision(_place(view, decided, mode))
    operands = tuple(
        [to.ConditionOperand(one.name, operand_value(one, view.path)) for one in condition.operands]
    )
    return to.Decision(
        _place(view, decided, mode),
        condition.text or None,
        condition.taken,
        operands,
        decided.note == "check",
    )


def _place(view: PathView, place: Place, mode: SymbolizeMode) -> to.CodePlace:
    resolved = view.resolve(place.address)
    chain = tuple([to.Source(*level) for level in reversed(source_chain(resolved, mode))])
    inner = chain[0] if chain else None
    return to.CodePlace(
        hex(place.address),
        resolved.offset,
        place.insn,
        inner.file if inner else None,
        inner.line if inner else 0,
        inner.column if inner else 0,
        chain,
        place.note == "shared",
    )
