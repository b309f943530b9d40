# SPDX-License-Identifier: BSD-2-Clause
"""From a selection, an attach plan and images to a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.listing.model import LeftOut, Listed, Listing, Near
from retsnoop_py.selection.explain import near_names
from retsnoop_py.selection.globs import NameGlob, parse
from retsnoop_py.selection.model import Rejection, Role, Selection
from retsnoop_py.selection.ordinary import ordinary_results
from retsnoop_py.symbolize.files import SourceFiles

__all__ = ["build", "left_out"]

#: Where a glob comes from that the user wrote.
_OWN = ("-e", "-a")


def build(
    facts: KernelFacts,
    selection: Selection,
    plan: AttachPlan | None,
    files: SourceFiles | None,
    notes: Iterable[str] = (),
) -> Listing:
    """The list; without ``plan`` nobody knows by what functions would be traced."""
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
    """What the selection refused."""
    return tuple(
        LeftOut(name=r.name, module=r.module, reason=r.reason.name.lower(), text=r.text)
        for r in rejections
    )


def _near(facts: KernelFacts, selection: Selection) -> Iterable[Near]:
    """For globs of the user that match nothing, and for exact names with copies beside them."""
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
