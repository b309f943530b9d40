# SPDX-License-Identifier: BSD-2-Clause
"""What a run says about itself: on stderr, so that stdout holds the reports and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from retsnoop_py.attach.mass_attacher import Rung
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.capture.load import LoadedObject
from retsnoop_py.kernel.functions import FuncFlags
from retsnoop_py.select.model import Selection
from retsnoop_py.select.report import report, warnings
from retsnoop_py.settings import Settings


def say(text: str) -> None:
    """One message, at once."""
    print(text, file=sys.stderr, flush=True)


def images(settings: Settings, lines: Sequence[str]) -> None:
    """Where debug information was looked for."""
    for line in lines:
        note(settings, line)


def lifecycle(text: str) -> None:
    """``Receiving data...`` and the like, where retsnoop's users look for them."""
    say(text)


def warn(text: str | None) -> None:
    """A warning, if there is one."""
    if text:
        say(f"WARNING: {text}")


def note(settings: Settings, text: str) -> None:
    """Said only with -v."""
    if settings.verbose:
        say(text)


def selection(settings: Settings, chosen: Selection) -> None:
    """What was found, what was left out; entry functions that cannot fail."""
    for line in report(chosen, settings.verbose):
        say(line)
    for line in warnings(chosen):
        warn(line)
    for function in chosen.functions:
        cannot_fail = function.is_entry and function.flags & FuncFlags.CANT_FAIL
        if cannot_fail and not settings.filters.success:
            warn(
                f"entry function '{function.label}' cannot fail by its return type: it reports "
                "only what fails inside it; -S shows its successes"
            )


def dry_run(plan: AttachPlan) -> None:
    """What would be attached; on stdout, since it is the result asked for."""
    for number, function in enumerate(plan.functions, 1):
        print(f"Attached (dry run) to function #{number} '{function.label}'.")
    ladder = ", else ".join(mechanism.value for mechanism in plan.mechanisms)
    print(f"Total {len(plan.functions)} kernel functions attached (dry run) by {ladder}.")
    print("Dry run successful, nothing was loaded or attached.")


def attached(
    settings: Settings, rung: Rung[LoadedObject], plan: AttachPlan, seconds: float
) -> None:
    """How attaching went: each refusal with -v, else their number."""
    for mechanism, reason in rung.passed_over:
        note(settings, f"{mechanism.value} cannot be used: {reason}")
    refusals = rung.attachment.refusals
    refused = {refusal.function.address for refusal in refusals}
    for number, function in enumerate(plan.functions, 1):
        if settings.verbose and function.address not in refused:
            say(f"Attached to function #{number} '{function.label}'.")
    for refusal in refusals:
        note(settings, f"Function '{refusal.function.label}' left out: {refusal.reason}")
    if refusals and not settings.verbose:
        what = "1 function" if len(refusals) == 1 else f"{len(refusals)} functions"
        warn(f"{what} could not be attached, -v tells which and why")
    note(
        settings,
        f"Total {rung.attachment.attached} kernel functions attached by "
        f"{rung.mechanism.value} in {seconds * 1000:.0f} ms.",
    )
