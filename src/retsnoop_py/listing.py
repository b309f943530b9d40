# SPDX-License-Identifier: BSD-2-Clause
"""A list of functions, made from a selection, an attach plan and kernel images.

The list is printed in groups on a terminal, in columns to a pipe, or as JSON.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from retsnoop_py import __version__
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.foreign_json import encode
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.render.palette import Palette
from retsnoop_py.selection.explain import near_names
from retsnoop_py.selection.globs import NameGlob, parse
from retsnoop_py.selection.model import Rejection, Role, Selection
from retsnoop_py.selection.ordinary import ordinary_results
from retsnoop_py.symbolize.kernel import SourceFiles
from retsnoop_py.text import counted, did_you_mean

if TYPE_CHECKING:
    from retsnoop_py.terminal import Cell


#: The options with globs that the user wrote.
_OWN = ("-e", "-a")


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A function that would be traced.

    ``address`` is hexadecimal text, because JSON numbers of that size are not exact. ``size`` is
    in bytes. ``no_failure`` lists ordinary results that look like failures: ``NULL``, ``-ENOENT``.
    Fields that may be None: ``module`` for vmlinux, ``mechanism`` if it cannot be tried,
    ``prototype`` and ``btf_id`` if BTF does not describe the function, ``source`` without DWARF.
    """

    name: str
    module: str | None
    entry: bool
    mechanism: str | None
    prototype: str | None
    source: str | None
    btf_id: int | None
    address: str
    size: int
    no_failure: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A function that matches and would not be traced.

    ``reason`` is a keyword for programs, ``text`` the explanation for people.
    """

    name: str
    module: str | None
    reason: str
    text: str

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A glob that missed something, and the names it might have meant.

    ``copies``: the glob matched a function, but not the copies that the compiler made of it.
    """

    glob: str
    names: tuple[str, ...]
    copies: bool


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The whole list. ``notes`` explains which information is missing, and why."""

    functions: tuple[Listed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    near: tuple[Near, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self, release: str, error: RetsnoopError | None = None) -> bytes:
        """Return one JSON document; ``error`` is the reason why nothing can be traced."""
        told = {"message": error.message, "hint": error.hint} if error else None
        document = {
            "version": __version__,
            "kernel": release,
            "error": told,
            "functions": self.functions,
            "left_out": self.left_out,
            "near": self.near,
            "notes": self.notes,
        }
        return msgspec.json.format(encode(document), indent=2)


def build(
    facts: KernelFacts,
    selection: Selection,
    plan: AttachPlan | None,
    files: SourceFiles | None,
    notes: Iterable[str] = (),
) -> Listing:
    """Return the list; without ``plan`` the functions have no ``mechanism``."""
    by: dict[int, str] = {}
    for rung in plan.rungs if plan else ():
        by.update(dict.fromkeys(rung.ids, rung.mechanism.value))
    unfit = {refusal.function.address: refusal for refusal in plan.unfit} if plan else {}
    functions = [
        Listed(
            name=function.name,
            module=function.module,
            entry=function.is_entry,
            mechanism=by.get(number),
            prototype=function.prototype,
            source=files.file_of(function.address, function.module) if files else None,
            btf_id=function.btf_id,
            address=f"{function.address:#x}",
            size=function.size,
            no_failure=ordinary_results(function),
        )
        for number, function in enumerate(selection.functions)
        if function.address not in unfit
    ]
    refused = [
        LeftOut(
            name=refusal.function.name,
            module=refusal.function.module,
            reason="unfit",
            text=refusal.reason,
        )
        for refusal in unfit.values()
    ]
    return Listing(
        functions=tuple(functions),
        left_out=(*refused, *left_out(selection.rejections)),
        near=tuple(_near(facts, selection)),
        notes=tuple(notes),
    )


def left_out(rejections: Sequence[Rejection]) -> tuple[LeftOut, ...]:
    """Return the functions that the selection rejected."""
    return tuple(
        LeftOut(name=r.name, module=r.module, reason=r.reason.name.lower(), text=r.text)
        for r in rejections
    )


def _near(facts: KernelFacts, selection: Selection) -> Iterable[Near]:
    """Yield the user's globs without a match, and exact names that have compiler copies."""
    functions = facts.kallsyms.functions(facts.traceable)
    listed = {function.name for function in selection.functions}
    for count in selection.globs:
        if count.origin not in _OWN or count.role is Role.DENY:
            continue
        glob = parse(count.spec)
        if not isinstance(glob, NameGlob):
            continue
        nothing = not count.matched and not count.untraceable
        if nothing or glob.is_exact:
            names = near_names(facts, glob, functions, only_variants=not nothing)
            others = tuple(name for name in names if name not in listed)
            if others or nothing:
                yield Near(glob=glob.spec, names=others, copies=not nothing)


#: The minimum width of a terminal that shows source files beside the functions.
_BESIDE = 100


def columns(listing: Listing) -> Iterator[str]:
    """Yield a line per function, tab-separated: status, name, module, mechanism, source, text.

    The status is ``entry``, ``traced`` or ``left-out``. The text is the prototype, or the reason
    why a function is skipped. ``-`` marks an empty column.
    """
    for function in listing.functions:
        status = "entry" if function.entry else "traced"
        fields = (function.module, function.mechanism, function.source, function.prototype)
        yield "\t".join((status, function.name, *(field or "-" for field in fields)))
    for refused in listing.left_out:
        yield "\t".join(("left-out", refused.name, refused.module or "-", "-", "-", refused.text))


def groups(listing: Listing, width: int, palette: Palette) -> Iterator[str]:
    """Yield lines for people: functions by mechanism, then skipped functions by reason.

    The lines are at most ``width`` columns wide.
    """
    by_mechanism: dict[str | None, list[Listed]] = {}
    for function in listing.functions:
        by_mechanism.setdefault(function.mechanism, []).append(function)
    for mechanism, functions in by_mechanism.items():
        how = f"by {mechanism}" if mechanism else "(the mechanism is not known here)"
        yield f"{counted(len(functions), 'function')} traced {how}:"
        yield from _table(functions, width, palette)
        yield ""
    by_reason: dict[str, list[LeftOut]] = {}
    for refused in listing.left_out:
        by_reason.setdefault(refused.text, []).append(refused)
    for reason, left in by_reason.items():
        yield from _wrap(f"{counted(len(left), 'function')} left out: {reason}", width, "", "  ")
        names = ", ".join(refused.label.replace(" ", "\0") for refused in left)
        yield from (line.replace("\0", " ") for line in _wrap(names, width, "  ", "  "))
        yield ""


def advice(listing: Listing, width: int = 0) -> Iterator[str]:
    """Yield suggestions for the globs, then the notes; in ``width`` columns unless 0."""
    for line in _advice(listing):
        yield from _wrap(line, width, "", "  ") if width else (line,)


def _advice(listing: Listing) -> Iterator[str]:
    for near in listing.near:
        if near.copies:
            names = ", ".join(near.names)
            yield f"'{near.glob}' has copies made by the compiler that are not traced: {names}"
        else:
            meant = did_you_mean(near.names)
            yield f"'{near.glob}' matches no kernel function{f'; {meant}' if meant else ''}"
    yield from listing.notes


def _table(functions: list[Listed], width: int, palette: Palette) -> Iterator[str]:
    """Yield prototypes as in a header, entry functions first; the file is beside or below."""
    from retsnoop_py.terminal import Column, table_lines

    functions = sorted(functions, key=lambda function: not function.entry)
    is_beside = width >= _BESIDE and any(function.source for function in functions)
    rows: list[tuple[Cell, ...]] = []
    for function in functions:
        told = function.prototype or f"{function.name} (no prototype in BTF)"
        if function.module:
            told += f" [{function.module}]"
        source = function.source or ""
        beside: tuple[Cell, ...] = (told, (source, "dim"))
        mark = ("entry" if function.entry else "",) if functions[0].entry else ()
        rows.append((*mark, *(beside if is_beside else (f"{told}\n{source}".rstrip(),))))
    marked = [Column()] if functions[0].entry else []
    columns = [*marked, Column(ratio=2), *([Column(ratio=1)] if is_beside else [])]
    names = {function.name for function in functions}
    colour = bool(palette.name)
    lines = table_lines(columns, rows, max(width - 2, 40), colour=colour, bold=names)
    yield from (f"  {line}" for line in lines)


def _wrap(text: str, width: int, first: str, other: str) -> Iterable[str]:
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
