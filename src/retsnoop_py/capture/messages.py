# SPDX-License-Identifier: BSD-2-Clause
"""Messages of a run about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retsnoop_py.attach.mass_attacher import Attached
from retsnoop_py.attach.plan import AttachPlan, Miss
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import FuncFlags
from retsnoop_py.listener import current
from retsnoop_py.selection.explain import report, warnings
from retsnoop_py.selection.model import Selection
from retsnoop_py.settings import Settings
from retsnoop_py.text import counted, named

if TYPE_CHECKING:
    from retsnoop_py.attach.injected import InjectedProbes
    from retsnoop_py.libbpf.reader import ReaderStats
    from retsnoop_py.probes.spec import Probe

#: Flags of an entry function with a return type that has no failure.
_WITHOUT_FAILURE = FuncFlags.ENTRY | FuncFlags.CANT_FAIL

_LOG_HINT = (
    "BPF-side logging is enabled. Use `sudo cat /sys/kernel/tracing/trace_pipe` to see logs."
)
#: Maximum number of named functions with missed calls.
_MISSES_SHOWN = 5


def say(text: str) -> None:
    """Print a message at once."""
    current().say(text)


def images(settings: Settings, lines: Sequence[str]) -> None:
    """Print where debug information was searched."""
    for line in lines:
        note(settings, line)


def lifecycle(text: str) -> None:
    """Print ``Receiving data...`` and the like where retsnoop's users expect them."""
    say(text)


def receiving(settings: Settings) -> None:
    """Report that tracing has begun."""
    if settings.debug_bpf:
        lifecycle(_LOG_HINT)
    lifecycle("Receiving data...")


def left_alone(pid: int) -> None:
    """Warn that the command does not end by signals, and that retsnoop-py ends."""
    warn(f"the command (process {pid}) still runs after the signals; to end it: kill -9 {pid}")


def warn(text: str | None) -> None:
    """Print a warning, if there is one."""
    if text:
        current().warn(text)


def note(settings: Settings, text: str) -> None:
    """Print a message only with -v."""
    if settings.verbose:
        say(text)


def selection(settings: Settings, chosen: Selection) -> None:
    """Report found and skipped functions, and entry functions that cannot fail."""
    for line in report(chosen, settings.verbose):
        say(line)
    for line in warnings(chosen):
        warn(line)
    if not settings.filters.success:
        table = FunctionTable.of(chosen.functions)
        text = _cannot_fail([table[number].label for number in table.having(_WITHOUT_FAILURE)])
        if settings.selection.entry:
            warn(text)
        elif text:  # the user cannot change the globs of a preset
            note(settings, text)


def _cannot_fail(names: Sequence[str]) -> str:
    if not names:
        return ""
    if len(names) == 1:
        return (
            f"entry function '{names[0]}' cannot fail by its return type: it reports "
            "only what fails inside it; -S shows its successes"
        )
    return (
        f"{len(names):,} entry functions cannot fail by their return types: {named(names)}. They "
        "report only what fails inside them; -S shows their successes"
    )


def not_followed(settings: Settings, option: str, texts: Sequence[str]) -> None:
    """Print one warning about all functions of ``option`` that cannot be followed.

    ``texts`` are the functions and the reasons; ``-v`` prints all.
    """
    if len(texts) == 1:
        warn(f"{option}: {texts[0]}")
    elif texts:
        each = "" if settings.verbose else "; -v lists all"
        warn(f"{option}: {len(texts):,} functions are not followed, the first: {texts[0]}{each}")
        for text in texts:
            note(settings, f"{option}: {text}")


def ordinary(settings: Settings, reasons: Mapping[str, str]) -> None:
    """Print the results that look like failures but are not, and the reasons."""
    for result, reason in reasons.items():
        note(settings, f"{result}: {reason}.")


def probes(settings: Settings, chosen: Sequence[Probe]) -> None:
    """Print the number of probes; warn if no output would show them."""
    if not chosen:
        return
    note(settings, f"Found {counted(len(chosen), 'probe')} to inject.")
    if not (settings.views.call_trace or settings.views.interim):
        warn(
            "only call traces (-T) and interim stacks (-I) show injected probes (-J), and both "
            "are off"
        )


def planned(settings: Settings, plan: AttachPlan) -> None:
    """Print the mechanisms in use and the mechanisms that cannot be used."""
    for mechanism, reason in plan.passed_over:
        note(settings, f"{mechanism.value} cannot be used: {reason}")
    ways = ", and the rest by ".join(mechanism.value for mechanism in plan.mechanisms)
    note(settings, f"Attaching {len(plan.functions)} functions by {ways}...")


def attached(settings: Settings, done: Attached, plan: AttachPlan, seconds: float) -> None:
    """Print the result of attaching: each rejection with -v, else their number."""
    if settings.verbose:
        left_out = {refusal.function.address for refusal in done.refusals}
        for number, function in enumerate(plan.functions, 1):
            if function.address not in left_out:
                say(f"Attached to function #{number} '{function.label}'.")
    if settings.debug_multi_kprobe:
        for rung in done.rungs:
            for refusal in rung.attachment.refusals.values():
                by = rung.mechanism.value
                say(f"Function '{refusal.function.label}' refused by {by}: {refusal.reason}")
    name_each = settings.verbose or settings.debug_multi_kprobe
    for refusal in done.refusals if name_each else ():
        say(f"Function '{refusal.function.label}' left out: {refusal.reason}")
    if done.refusals and not name_each:
        what = counted(len(done.refusals), "function")
        warn(f"{what} could not be attached; -v lists them with the reason")
    for rung in done.rungs:
        count = rung.attachment.attached
        if count and len(done.rungs) > 1:
            note(settings, f"Attached {count} functions by {rung.mechanism.value}.")
    note(
        settings,
        f"Total {done.count} kernel functions attached by {done.by} in {seconds * 1000:.0f} ms.",
    )


def injected(settings: Settings, done: InjectedProbes) -> None:
    """Print which probes were injected, and which probes the kernel rejected."""
    for number, probe in enumerate(done.attached, 1):
        note(settings, f"Injected probe #{number} '{probe.label}'.")
    for probe, reason in done.refusals:
        note(settings, f"Probe '{probe.label}' left out: {reason}")
    if done.refusals and not settings.verbose:
        warn(
            f"{counted(len(done.refusals), 'probe')} could not be injected;"
            " -v lists them with the reason"
        )


def missed(misses: Sequence[Miss]) -> Iterator[str]:
    """Yield lines about calls that no program saw, largest numbers first."""
    ordered = sorted(misses, key=lambda miss: -miss.count)
    for miss in ordered[:_MISSES_SHOWN]:
        whose = f" of '{miss.function.label}'" if miss.function else ""
        calls = counted(miss.count, "call")
        unknown = "" if miss.told else "; it is unknown whether they belong to traced threads"
        yield f"{calls}{whose} not seen: {miss.what}{unknown}"
    rest = ordered[_MISSES_SHOWN:]
    if rest:
        total = sum(miss.count for miss in rest)
        yield f"{total} calls of {len(rest)} more functions not seen, for the same reasons"


def waited(settings: Settings, stats: ReaderStats) -> None:
    """Print how far the output lagged behind the kernel."""
    note(
        settings,
        f"{stats.records} records of {stats.bytes} bytes came; at most {stats.peak_bytes} bytes "
        f"waited at a time, {stats.spooled_bytes} bytes went through a file.",
    )
