# SPDX-License-Identifier: BSD-2-Clause
"""The ladder: each mechanism takes what the plan gives it and what the one above could not."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence

from retsnoop_py.attach.features import attachment_of
from retsnoop_py.attach.plan import AttachContext, Attachment, AttachPlan, Miss, Refusal
from retsnoop_py.errors import PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.functions import Function
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.value import Value, replace


class Rung(Value):
    """One mechanism at work."""

    mechanism: Mechanism
    attachment: Attachment


class Attached(Value):
    """Everything that is attached, and the functions that are not."""

    rungs: tuple[Rung, ...]
    refusals: tuple[Refusal, ...]

    @property
    def count(self) -> int:
        """How many functions are attached."""
        return sum(rung.attachment.attached for rung in self.rungs)

    @property
    def by(self) -> str:
        """The mechanisms that took functions, for people."""
        names = [rung.mechanism.value for rung in self.rungs if rung.attachment.attached]
        return " and ".join(names)

    def misses(self) -> list[Miss]:
        """Calls that were not seen."""
        return [miss for rung in self.rungs for miss in rung.attachment.misses()]

    def detach(self, context: AttachContext) -> None:
        """Detach everything, newest first. Idempotent."""
        for rung in reversed(self.rungs):
            rung.attachment.detach(context)


def attach(plan: AttachPlan, context: AttachContext) -> Attached:
    """Attach what ``plan`` says; nothing stays attached if this raises.

    Raises what a forced mechanism raises; UnavailableError or PrivilegeError where not one
    function could be attached. Returns early, with less attached, when the run is stopping.
    """
    rungs: list[Rung] = []
    refusals: dict[int, Refusal] = {}
    try:
        for rung_plan in plan.rungs:
            ids = sorted({*rung_plan.ids, *refusals})
            if not ids or context.stopping():
                continue
            attachment: Attachment = attachment_of(rung_plan.mechanism)(plan, ids, context)
            rungs.append(Rung(rung_plan.mechanism, attachment))
            attachment.attach()
            # the reason of the first, better mechanism says more than that of the last resort
            refusals = {i: refusals.get(i, why) for i, why in attachment.refusals.items()}
        done = Attached(tuple(rungs), (*plan.unfit, *refusals.values()))
        if not done.count and not context.stopping():
            raise _nothing_attached(plan, done.refusals)
    except BaseException:
        Attached(tuple(rungs), ()).detach(context)
        raise
    return done


def since(misses: Sequence[Miss], before: Sequence[Miss]) -> list[Miss]:
    """Of ``misses`` those that were not counted ``before`` already."""
    old: Counter[tuple[Function | None, str]] = Counter()
    for miss in before:
        old[miss.function, miss.what] += miss.count
    new = []
    for miss in misses:
        known = min(old[miss.function, miss.what], miss.count)
        old[miss.function, miss.what] -= known
        if miss.count > known:
            new.append(replace(miss, count=miss.count - known))
    return new


def _nothing_attached(plan: AttachPlan, refusals: tuple[Refusal, ...]) -> RetsnoopError:
    first = refusals[0]
    by = " or ".join(mechanism.value for mechanism in plan.mechanisms)
    message = f"no function could be attached by {by}; '{first.function.label}': {first.reason}"
    if first.errno in (errno.EPERM, errno.EACCES):
        return PrivilegeError(
            message, "run as root, or after `sysctl kernel.perf_event_paranoid=2`"
        )
    if first.errno in (errno.EMFILE, errno.ENFILE):
        return UnavailableError(message, "allow more open files: `ulimit -n`")
    return UnavailableError(message, "choose other functions")
