# SPDX-License-Identifier: BSD-2-Clause
"""From the words of options to settings: the command line and the Python interface come here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from retsnoop_py.errors import UsageError
from retsnoop_py.options import config, values, views
from retsnoop_py.settings import FilterSettings, SelectionSettings, Settings, SymbolizeMode
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.recording.overrides import ReplayOverrides

__all__ = [
    "Words",
    "file_path",
    "listing_settings",
    "replay_overrides",
    "selection_settings",
    "trace_settings",
    "words_of",
]

T = TypeVar("T")


class Words(Value):
    """What was said, by the options' long names, each value as it is typed."""

    preset: Sequence[str] = ()
    entry: Sequence[str] = ()
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    command: Sequence[str] = ()
    output: str | None = None
    dry_run: bool = False
    attach: str | None = None
    fentries: bool = False
    kprobes_multi: bool = False
    kprobes: bool = False
    max_functions: str | None = None
    no_system_changes: bool = False
    call_stack: bool = False
    trace: bool = False
    capture_args: bool = False
    inject_probe: Sequence[str] = ()
    path: Sequence[str] = ()
    max_blocks: str | None = None
    lbr: Sequence[str] = ()
    interim_stacks: bool = False
    user_stack: bool = False
    format: str | None = None
    ascii: bool = False
    count: str | None = None
    for_: str | None = None
    user: str | None = None
    pid: Sequence[str] = ()
    no_pid: Sequence[str] = ()
    comm: Sequence[str] = ()
    no_comm: Sequence[str] = ()
    longer: str | None = None
    success_stacks: Sequence[str] = ()
    allow_errors: Sequence[str] = ()
    deny_errors: Sequence[str] = ()
    kernel: str | None = None
    symbolize: str | None = None
    settings: Sequence[str] = ()
    debug: Sequence[str] = ()
    verbose: int = 0


def words_of(given: Mapping[str, Any]) -> Words:
    """The words among what a command was called with."""
    return Words(**{name: given[name] for name in Words.fields if name in given})


def trace_settings(words: Words) -> Settings:
    """What a live run is to do. Raises :class:`UsageError` or :class:`InputError`."""
    fine = config.parse(words.settings)
    if words.pid and words.command:
        raise UsageError(
            f"-p {words.pid[0]} with a command: of a command only its own processes are traced",
            "leave out -p; or leave out -- CMD, and run CMD elsewhere",
        )
    features = views.debug(words.debug)
    return Settings(
        selection=selection_settings(words),
        filters=_filters(words),
        stacks=fine.stacks,
        views=replace(
            fine.views,
            call_stack=words.call_stack or not words.trace,
            call_trace=words.trace,
            interim=words.interim_stacks,
            lbr=views.lbr(words.lbr),
            lbr_full="full-lbr" in features,
            user_stack=words.user_stack,
            format=views.output_format(words.format),
            ascii=words.ascii,
        ),
        args=replace(fine.args, capture=words.capture_args),
        bpf=fine.bpf,
        results=fine.results,
        probes=views.probes(words.inject_probe),
        paths=values.globs(words.path),
        max_blocks=values.max_blocks(words.max_blocks),
        stop_count=views.count(words.count),
        stop_after_ns=views.duration_ns("--for", words.for_, "s"),
        debug_bpf="bpf" in features,
        debug_multi_kprobe="multi-kprobe" in features,
        mechanism=values.mechanism(
            words.attach, fentry=words.fentries, multi=words.kprobes_multi, single=words.kprobes
        ),
        max_functions=values.max_functions(words.max_functions),
        system_changes=not words.no_system_changes,
        symbolize=values.symbolize(words.symbolize) or fine.symbolize or SymbolizeMode.AUTO,
        kernel_image=file_path("-k", words.kernel),
        command=tuple(words.command),
        user=values.user(words.user, words.command),
        output=file_path("-o", words.output),
        dry_run=words.dry_run,
        verbose=words.verbose,
    )


def _filters(words: Words) -> FilterSettings:
    # a trace without -E is of all calls, stacks are of failures
    success = values.success(words.success_stacks, words.allow_errors)
    if success is None:
        success = words.trace and not words.call_stack and not words.allow_errors
    return FilterSettings(
        pids=values.pids("-p", words.pid),
        deny_pids=values.pids("-P", words.no_pid),
        comms=values.comms("-n", words.comm),
        deny_comms=values.comms("-N", words.no_comm),
        longer_ns=views.duration_ns("-L", words.longer, "ms"),
        success=success,
        allow_errors=values.allowed_errors(words.allow_errors).numbers or None,
        deny_errors=values.denied_errors(words.deny_errors),
    )


def selection_settings(words: Words) -> SelectionSettings:
    """Which functions. Raises :class:`UsageError`, or :class:`InputError` for ``@FILE``."""
    for name in words.preset:
        _check_preset(name)
    # who names nothing else wants to see the calls of these very functions
    entry = words.entry if words.entry or words.preset else words.path
    chosen = SelectionSettings(
        entry=values.globs(entry),
        allow=values.globs([*words.allow, *words.path]),
        deny=values.globs(words.deny),
        presets=tuple(dict.fromkeys(words.preset)),
    )
    if not (chosen.entry or chosen.presets):
        raise UsageError(
            "no entry functions: nothing says which calls to follow",
            "give -e GLOB (-e '*sys_bpf') or a preset (-c bpf); 'retsnoop-py --help' has examples",
        )
    return chosen


def listing_settings(words: Words) -> Settings:
    """What a list of functions is of: nothing is traced."""
    return Settings(
        selection=selection_settings(words),
        mechanism=values.mechanism(
            words.attach, fentry=words.fentries, multi=words.kprobes_multi, single=words.kprobes
        ),
        kernel_image=file_path("-k", words.kernel),
        dry_run=True,
        verbose=words.verbose,
    )


def replay_overrides(words: Words) -> ReplayOverrides:
    """What a replay is to change. Raises :class:`UsageError` or :class:`InputError`."""
    from retsnoop_py.recording.overrides import ReplayOverrides

    fine = config.parse(words.settings, replay=True)

    def named(key: str, value: T) -> T | None:
        return value if key in fine.named else None

    return ReplayOverrides(
        pids=values.pids("-p", words.pid) or None,
        deny_pids=values.pids("-P", words.no_pid) or None,
        comms=values.comms("-n", words.comm) or None,
        deny_comms=values.comms("-N", words.no_comm) or None,
        longer_ns=views.duration_ns("-L", words.longer, "ms") or None,
        success=values.success(words.success_stacks, words.allow_errors),
        allow_errors=_allowed_again(words.allow_errors),
        deny_errors=values.denied_errors(words.deny_errors) or None,
        unfiltered=named("stacks.unfiltered", fine.stacks.unfiltered),
        emit_addrs=named("stacks.emit-addrs", fine.stacks.emit_addrs),
        dec_offs=named("stacks.dec-offs", fine.stacks.dec_offs),
        call_stack=words.call_stack or None,
        call_trace=words.trace or None,
        interim=words.interim_stacks or None,
        lbr=views.lbr(words.lbr),
        lbr_max=fine.views.lbr_max,
        lbr_full=_full_lbr(words.debug) or None,
        user_stack=words.user_stack or None,
        format=views.output_format(words.format) if words.format is not None else None,
        ascii=words.ascii or None,
        self_time=named("fmt.self-time", fine.views.self_time),
        cpu=named("fmt.cpu", fine.views.cpu),
        capture=words.capture_args or None,
        mode=named("args.fmt-mode", fine.args.mode),
        width=named("args.fmt-max-arg-width", fine.args.width),
        raw_pointers=named("args.capture-raw-ptrs", fine.args.raw_pointers),
        stop_count=views.count(words.count),
        symbolize=values.symbolize(words.symbolize) or fine.symbolize,
        kernel_image=file_path("-k", words.kernel),
        verbose=words.verbose,
    )


def file_path(option: str, value: str | None) -> Path | None:
    """The file ``option`` names, None without it. Raises :class:`UsageError` for no name."""
    if value == "":
        raise UsageError(f"{option} '': the name of a file is missing")
    return None if value is None else Path(value)


def _check_preset(name: str) -> None:
    from retsnoop_py.selection import presets

    if name not in presets.names():
        raise UsageError(f"-c {name}: no such preset", f"there are {', '.join(presets.names())}")


def _full_lbr(features: Sequence[str]) -> bool:
    for feature in views.debug(features) - {"full-lbr"}:
        raise UsageError(
            f"--debug {feature} concerns tracing, and a recording is already traced",
            "a replay takes --debug full-lbr",
        )
    return bool(features)


def _allowed_again(names: Sequence[str]) -> frozenset[int] | Literal["any"] | None:
    errors = values.allowed_errors(names)
    if errors.any and not errors.numbers:
        return "any"
    return errors.numbers if names else None
