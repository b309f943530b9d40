# SPDX-License-Identifier: BSD-2-Clause
"""A live run from settings to exit status: select, attach, release the command, read, detach.

A generator: it yields between steps, so that a caller's loop can process the shown sessions. All
attachments are removed at any end, including a close of the generator.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.fitness import KernelFitness
from retsnoop_py.attach.guard import sweep
from retsnoop_py.attach.mass_attacher import attach
from retsnoop_py.attach.plan import AttachContext, AttachPlan, make_plan, slow_attach
from retsnoop_py.capture import messages
from retsnoop_py.capture.command import Command, find_user
from retsnoop_py.capture.load import load
from retsnoop_py.capture.process_ids import require_processes
from retsnoop_py.capture.receive import Hooks, Reception
from retsnoop_py.capture.rights import (
    raise_files,
    raise_memlock,
    require_rights,
    reserved_files,
)
from retsnoop_py.capture.signals import StopSignals
from retsnoop_py.capture.target import Target, choose_target
from retsnoop_py.errors import Interrupted, UsageError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.switches import KPROBES
from retsnoop_py.libbpf.links import PROG_KPROBE
from retsnoop_py.libbpf.object import start_log
from retsnoop_py.listener import current
from retsnoop_py.settings import OutputFormat, Settings
from retsnoop_py.symbolize.paths import SourceTree
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from pathlib import Path

    from retsnoop_py.attach.injected import InjectedProbes
    from retsnoop_py.capture.paths import PathProbes
    from retsnoop_py.capture.stream import Stream
    from retsnoop_py.capture.witness import Witness
    from retsnoop_py.probes.spec import Probe
    from retsnoop_py.recording.writer import RecordingWriter
    from retsnoop_py.session.pipeline import SinkMaker

#: Every mechanism can attach this many functions quickly.
_QUICK_BY_ANY = 200
_PATIENCE = "Detaching what was attached so far. One more signal ends retsnoop-py at once.\n"


class _Run(Value):
    """The common data of a run's steps."""

    settings: Settings
    signals: StopSignals
    command: Command | None
    target: Target
    recorder: RecordingWriter | None
    make_sink: SinkMaker
    #: Warnings to print once tracing has begun, and at every replay.
    warnings: tuple[str, ...] = ()
    witness: Witness | None = None


class Ended(Value):
    """The end of a run.

    ``status``: 74 if the recording could not be written, else 0. ``command``: the command's exit
    status, 128+N if signal N ended it or could not, 124 if its time was over; None without a
    command. ``detach``: the duration of detaching, in seconds.
    """

    status: int
    command: int | None = None
    detach: float = 0.0

    @property
    def exit_status(self) -> int:
        """The default exit status of retsnoop-py."""
        return self.status or self.command or 0


def run(
    settings: Settings,
    make_sink: SinkMaker,
    signals: StopSignals,
    witness: Witness | None = None,
    facts: KernelFacts | None = None,
) -> Generator[None, None, Ended]:
    """Trace according to ``settings`` until a limit, the command's end or a stop request.

    Yield when tracing has begun and whenever the sink got data. Return how the run ended. A command
    that outlives the tracing (``--count``, ``--for``) is waited for; if the generator is closed,
    the command is ended. ``signals`` may be entered already; a caller that handles signals itself
    leaves it alone. ``witness`` watches the processes. ``facts`` describe this kernel, if the
    caller has read some already. Raises the errors of :mod:`retsnoop_py.errors`. All attachments
    are removed on every way out.
    """
    require_rights()
    with ExitStack() as stack:
        recorder = stack.enter_context(_open_recording(settings.output))
        command = _held(settings, stack)
        with signals.giving_up("choosing functions"):
            target = choose(settings, facts or KernelFacts(loading=True))
        try:
            traced = yield from _trace(
                _Run(settings, signals, command, target, recorder, make_sink, (), witness)
            )
        except GeneratorExit:
            if command is not None and command.is_released:
                command.wait_after(signal.SIGTERM, lambda: 2)
            raise
        if command is None:
            return traced
        if settings.ends_command and not (signals.requested or command.ended()):
            from retsnoop_py.capture.hang import TIMED_OUT, end_late

            end_late(command)
            return replace(traced, command=TIMED_OUT)
        if not (signals.requested or command.ended()):
            messages.lifecycle("The command goes on, untraced.")
            command.wait(lambda: bool(signals.requested))
        if signals.requested and not command.wait_after(signals.requested, lambda: signals.count):
            messages.left_alone(command.pid)
            return replace(traced, command=128 + signals.requested)
        return replace(traced, command=command.exit_status)


@contextmanager
def _open_recording(path: Path | None) -> Iterator[RecordingWriter | None]:
    """Open the recording before tracing, if the settings request it."""
    if path is None:
        yield None
        return
    from retsnoop_py.recording.writer import RecordingWriter

    with RecordingWriter(path) as writer:
        yield writer


def _held(settings: Settings, stack: ExitStack) -> Command | None:
    if not settings.command:
        return None
    return stack.enter_context(_command(settings, quiet=settings.quiet_command))


def _command(settings: Settings, *, quiet: bool) -> Command:
    """Return the command, to be entered; ``quiet``: its output is discarded."""
    # a program that reads JSON cannot separate the command's output from ours
    aside = settings.views.format is OutputFormat.JSON
    user = None
    if settings.user is not None:
        user = find_user(settings.user)
    return Command(
        settings.command, aside=aside, quiet=quiet, user=user, keep_env=settings.keep_env
    )


def choose(settings: Settings, facts: KernelFacts | None = None) -> Target:
    """Return the target of a run, and print messages about the choice."""
    require_processes(settings.filters)
    target = choose_target(settings, facts)
    messages.images(settings, target.image_report)
    messages.selection(settings, target.selection)
    messages.ordinary(settings, target.ordinary)
    messages.probes(settings, target.probes)
    if settings.source is not None:
        messages.warn(SourceTree(settings.source).notice(target.facts.release))
    return target


def _trace(run: _Run) -> Generator[None, None, Ended]:
    """Trace; return the end without the command's status."""
    settings, facts = run.settings, run.target.facts
    functions = run.target.selection.functions
    _check_number(settings, len(functions))
    raise_memlock()
    start_log(2 if settings.verbose >= 3 else 0)
    with run.signals.giving_up("choosing mechanisms"):
        features = Features(facts.require_btf().find("vfs_read", Kind.FUNC))
        plan = make_plan(functions, settings.mechanism, features, KernelFitness(facts, functions))
    facts.drop_lists()
    messages.planned(settings, plan)
    if len(functions) > _QUICK_BY_ANY:
        messages.warn(slow_attach(plan))
    with ExitStack() as stack:
        return (yield from _trace_plan(_with_branches(run, features, stack), plan, features))


def _trace_plan(run: _Run, plan: AttachPlan, features: Features) -> Generator[None, None, Ended]:
    settings, command, signals = run.settings, run.command, run.signals
    started = time.monotonic()
    signals.patience = _PATIENCE
    hooks = _attach(run, plan, features)
    signals.patience = ""
    reception = Reception(
        settings,
        signals,
        hooks,
        command,
        lambda: _open_stream(run, hooks),
        lambda: _command(settings, quiet=True),
    )
    try:
        messages.attached(settings, hooks.attached, plan, time.monotonic() - started)
        if hooks.injected:
            messages.injected(settings, hooks.injected)
        if signals.stopping():
            raise Interrupted("interrupted while attaching; nothing was traced")
        # not earlier: a warning about another subject must not precede an error
        messages.warn(run.target.notice)
        status = yield from reception.run()
        return Ended(status, detach=reception.seconds)
    finally:
        hooks.close()
        if reception.seconds:
            messages.lifecycle(f"DONE in {reception.seconds * 1000:.0f} ms.")


@contextmanager
def _open_stream(run: _Run, hooks: Hooks) -> Iterator[Stream]:
    """Open the destination of the records."""
    from retsnoop_py.capture.stream import WholeRecorder, open_stream

    by = hooks.attached.by
    recorder = WholeRecorder(run.recorder, run.signals.held) if run.recorder else None
    settings = replace(run.settings, filters=hooks.loaded.filters)
    with open_stream(
        settings,
        run.target,
        by,
        hooks.loaded,
        recorder,
        run.make_sink,
        hooks.paths,
        hooks.pinpoint.see if hooks.pinpoint else None,
    ) as stream:
        for text in run.warnings:
            stream.warn(text)
        yield stream


def _with_branches(run: _Run, features: Features, stack: ExitStack) -> _Run:
    """Return the run with the CPUs' branch records enabled, if requested and available."""
    views = run.settings.views
    if views.lbr is None:
        return run
    from retsnoop_py.attach.lbr import BranchEvents

    events = stack.enter_context(BranchEvents(views.lbr, features, run.target.facts.root))
    warnings = (*run.warnings, events.problem) if events.problem else run.warnings
    if not events.works:
        views = replace(views, lbr=None)
    return replace(run, settings=replace(run.settings, views=views), warnings=warnings)


def _check_number(settings: Settings, count: int) -> None:
    if count > settings.max_functions:
        raise UsageError(
            f"{count} functions match; the limit is {settings.max_functions}",
            f"select fewer with -a, -e or -d, or use --max-functions {count}",
        )


def _attach(run: _Run, plan: AttachPlan, features: Features) -> Hooks:
    settings = run.settings
    for text in sweep(run.target.facts.root, system_changes=settings.system_changes):
        messages.note(settings, text)
    probes = run.target.probes
    warning = raise_files(plan.files + 2 * len(probes))
    with current().progress("Attaching") as progress, reserved_files():
        captures = run.target.captures
        with run.signals.giving_up("loading"):
            loaded = load(plan, settings, features, run.target.facts, probes, captures)
        messages.warn(warning)  # not earlier: too few descriptors for the load are a separate error
        context = AttachContext(
            obj=loaded.obj,
            features=features,
            facts=run.target.facts,
            progress=progress.update,
            stopping=run.signals.stopping,
            system_changes=settings.system_changes,
            argument_counts=captures.counts if captures is not None else (),
            probe_counts=captures.probe_counts if captures is not None else (),
        )
        injected = paths = None
        try:
            # before the functions are hooked: the kernel's own verifier would call hooked functions
            if run.witness is not None:
                run.witness.open()
            paths = _read_paths(run, plan) if settings.follows else None
            injected = _inject(probes, context) if probes else None
            attached = attach(plan, context)
            if paths:
                paths.attach(context)
                _tell(settings, paths)
            pinpoint = None
            if paths and settings.pinpoint:
                from retsnoop_py.capture.pinpoint import Pinpoint

                pinpoint = Pinpoint(
                    plan.functions,
                    paths,
                    context,
                    settings.max_blocks,
                    every=settings.every_condition,
                )
            return Hooks(
                *(loaded, attached, context, injected, plan.functions, paths, pinpoint),
                witness=run.witness,
            )
        except BaseException:
            if run.witness is not None:
                run.witness.close()
            if paths:
                paths.close()
            if injected:
                injected.detach()
            loaded.close()
            raise


def _read_paths(run: _Run, plan: AttachPlan) -> PathProbes:
    """Read the code of the followed functions, before probes change it."""
    from retsnoop_py.capture.paths import PathProbes

    settings = run.settings
    paths = PathProbes(run.target.facts, plan.functions, run.target.images)
    try:
        paths.read(paths.matching(settings.paths), settings.max_blocks)
    except BaseException:
        paths.close()
        raise
    _tell(settings, paths)
    return paths


def _tell(settings: Settings, paths: PathProbes) -> None:
    """Print the functions that cannot be followed."""
    messages.not_followed(settings, "--path", paths.said)
    paths.said.clear()


def _inject(probes: Sequence[Probe], context: AttachContext) -> InjectedProbes:
    from retsnoop_py.attach.injected import WAYS, InjectedProbes

    if any(WAYS[probe.kind].prog_type == PROG_KPROBE for probe in probes):
        KPROBES.require(context.facts.root, "-J cannot inject kprobes")
    injected = InjectedProbes(probes, context)
    injected.attach()
    return injected
