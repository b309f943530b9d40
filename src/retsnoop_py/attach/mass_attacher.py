# SPDX-License-Identifier: BSD-2-Clause
"""The ladder: each mechanism attaches its planned functions and those the one above could not."""

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
    """A mechanism in use."""

    mechanism: Mechanism
    attachment: Attachment


class Attached(Value):
    """All attachments, and the functions that are not attached."""

    rungs: tuple[Rung, ...]
    refusals: tuple[Refusal, ...]

    @property
    def count(self) -> int:
        """The number of attached functions."""
        return sum(rung.attachment.attached for rung in self.rungs)

    @property
    def by(self) -> str:
        """The mechanisms that attached functions, for people."""
        names = [rung.mechanism.value for rung in self.rungs if rung.attachment.attached]
        return " and ".join(names)

    def misses(self) -> list[Miss]:
        """Return the missed calls."""
        return [miss for rung in self.rungs for miss in rung.attachment.misses()]

    def detach(self, context: AttachContext) -> None:
        """Detach all, newest first. Idempotent."""
        for rung in reversed(self.rungs):
            rung.attachment.detach(context)


def attach(plan: AttachPlan, context: AttachContext) -> Attached:
    """Attach the functions of ``plan``; if this raises, no function stays attached.

    Raises the errors of a forced mechanism; UnavailableError or PrivilegeError if not a single
    function could be attached. Returns early, with fewer functions, when the run is stopping.
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
            # the first, better mechanism's reason has more information than the last resort's
            refusals = {i: refusals.get(i, why) for i, why in attachment.refusals.items()}
        done = Attached(tuple(rungs), (*plan.unfit, *refusals.values()))
        if not done.count and not context.stopping():
            raise _nothing_attached(plan, done.refusals)
    except BaseException:
        Attached(tuple(rungs), ()).detach(context)
        raise
    return done


def since(misses: Sequence[Miss], before: Sequence[Miss]) -> list[Miss]:
    """Return the elements of ``misses`` that were not already counted in ``before``."""
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
