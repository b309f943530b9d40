# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py replay FILE``."""

# The options are the parameters, and those that only print are dealt with before.
# ruff: noqa: ARG001, PLR0913

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO, TypeVar

from retsnoop_py.cli import config, options, values, views
from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.errors import UsageError
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.recording.overrides import ReplayOverrides

T = TypeVar("T")

_TEXT = """
Show a recording (-o FILE) again, as it was shown live.

Nothing but FILE is needed: no privileges, no kernel of that version. The options change what \
is shown of what was recorded.

\b
Examples:
  retsnoop-py replay bpf.rsn               exactly what the live run showed
  retsnoop-py replay bpf.rsn -x EINVAL     only the stacks with this error
  retsnoop-py replay bpf.rsn -T            the calls inside, of a run with -T
  retsnoop-py replay bpf.rsn --format json
"""

_USAGE = """Usage: retsnoop-py replay FILE [-T] [-E] [-S[y|n]] [-x ERROR]* [-X ERROR]* [-p PID]* ...

'retsnoop-py replay --help' explains all options."""


class ReplayRequest(Value):
    """A recording to show and what to change about it."""

    path: Path
    overrides: ReplayOverrides


def replay(
    *,
    file: Annotated[str, Argument("FILE", help="A recording made with -o.")],
    call_stack: options.CallStack = False,
    trace: options.Trace = False,
    capture_args: options.CaptureArgs = False,
    lbr: options.Lbr,
    interim_stacks: options.InterimStacks = False,
    user_stack: options.UserStack = False,
    format: options.Format = None,  # noqa: A002
    ascii: options.Ascii = False,  # noqa: A002
    count: options.Count = None,
    pid: options.Pid,
    no_pid: options.NoPid,
    comm: options.Comm,
    no_comm: options.NoComm,
    longer: options.Longer = None,
    success_stacks: options.SuccessStacks,
    allow_errors: options.AllowErrors,
    deny_errors: options.DenyErrors,
    kernel: options.KernelImage = None,
    symbolize: options.Symbolize = None,
    settings: options.Settings,
    config_help: options.ConfigHelp = False,
    debug: options.Debug,
    verbose: options.Verbose = 0,
    version: options.Version = False,
    help_: options.Help = False,
    usage: options.Usage = False,
) -> ReplayRequest:
    """What the command line asks for. Raises :class:`UsageError` or :class:`InputError`."""
    from retsnoop_py.recording.overrides import ReplayOverrides

    fine = config.parse(settings, replay=True)

    def named(key: str, value: T) -> T | None:
        return value if key in fine.named else None

    if kernel == "":
        raise UsageError("-k '': the name of a file is missing")
    overrides = ReplayOverrides(
        pids=values.pids("-p", pid) or None,
        deny_pids=values.pids("-P", no_pid) or None,
        comms=values.comms("-n", comm) or None,
        deny_comms=values.comms("-N", no_comm) or None,
        longer_ns=views.duration_ns("-L", longer, "ms") or None,
        success=values.success(success_stacks, allow_errors),
        allow_errors=_allowed(allow_errors),
        deny_errors=values.denied_errors(deny_errors) or None,
        unfiltered=named("stacks.unfiltered", fine.stacks.unfiltered),
        emit_addrs=named("stacks.emit-addrs", fine.stacks.emit_addrs),
        dec_offs=named("stacks.dec-offs", fine.stacks.dec_offs),
        call_stack=call_stack or None,
        call_trace=trace or None,
        interim=interim_stacks or None,
        lbr=views.lbr(lbr),
        lbr_max=fine.views.lbr_max,
        lbr_full=_full_lbr(debug) or None,
        user_stack=user_stack or None,
        format=views.output_format(format) if format is not None else None,
        ascii=ascii or None,
        self_time=named("fmt.self-time", fine.views.self_time),
        cpu=named("fmt.cpu", fine.views.cpu),
        capture=capture_args or None,
        mode=named("args.fmt-mode", fine.args.mode),
        width=named("args.fmt-max-arg-width", fine.args.width),
        raw_pointers=named("args.capture-raw-ptrs", fine.args.raw_pointers),
        stop_count=views.count(count),
        symbolize=values.symbolize(symbolize) or fine.symbolize,
        kernel_image=None if kernel is None else Path(kernel),
        verbose=verbose,
    )
    return ReplayRequest(Path(file), overrides)


def _full_lbr(features: list[str]) -> bool:
    for feature in views.debug(features) - {"full-lbr"}:
        raise UsageError(
            f"--debug {feature} concerns tracing, and a recording is already traced",
            "a replay takes --debug full-lbr",
        )
    return bool(features)


def _allowed(names: list[str]) -> frozenset[int] | Literal["any"] | None:
    errors = values.allowed_errors(names)
    if errors.any and not errors.numbers:
        return "any"
    return errors.numbers if names else None


def show(path: Path, overrides: ReplayOverrides, out: TextIO, err: TextIO) -> int:
    """Write to ``out`` what the live run wrote, changed by ``overrides``; the exit status.

    ``err`` gets the live run's warnings and what was asked for but not captured. Raises
    InputError and DataError; everything before has been written then.
    """
    from retsnoop_py.recording.replay import Replay, memory_limit
    from retsnoop_py.render.printer import Printer

    with memory_limit(path):
        replayed = Replay(path, overrides)
        for sentence in replayed.missing:
            err.write(f"NOTE: {sentence}\n")
        for _ in replayed.play(lambda facts, settings: Printer(facts, settings, out, err)):
            pass
    return 0


COMMAND = Command(
    function=replay,
    name="retsnoop-py replay",
    synopsis="FILE [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
)
