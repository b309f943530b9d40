# SPDX-License-Identifier: BSD-2-Clause
"""Convert the words of options to settings, for the command line and for Python.

Each value goes to the place in its row of :mod:`retsnoop_py.options.table`. Settings that depend on
several options are computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from retsnoop_py.errors import UsageError
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.options import config, values
from retsnoop_py.options.table import Words, options_of
from retsnoop_py.settings import SelectionSettings, Settings, VerdictSettings
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.recording.overrides import ReplayOverrides

__all__ = ["diff_overrides", "listing_settings", "replay_overrides", "trace_settings"]


def trace_settings(words: Words) -> Settings:
    """Return the settings of a live run. Raise :class:`UsageError` or :class:`InputError`."""
    pids = words.texts("pid")
    errors = words.texts("allow-errors") or _preset_errors(words)
    fine = config.parse(words.texts("config"))
    if pids and words.command:
        raise UsageError(
            f"-p {pids[0]} with a command: retsnoop-py traces only the processes of the command",
            "leave out -p; or leave out -- CMD, and run CMD elsewhere",
        )
    if words.text("reruns") is not None and not words.has("pinpoint"):
        raise UsageError(
            "--reruns limits how often CMD runs again, and without --pinpoint CMD runs once",
            "add --pinpoint",
        )
    if words.has("explain") and not (pids or words.command):
        raise UsageError(
            "--explain follows the system calls of a command, or of chosen processes",
            "add -- CMD, or -p PID",
        )
    features = values.debug(words.texts("debug"))
    trace, call_stack = words.has("trace"), words.has("call-stack")
    # Without -E, a trace shows all calls, and stacks only show failures.
    success = values.success(words.texts("success-stacks"), errors)
    if success is None:
        success = trace and not call_stack and not errors
    return _put_all(
        {
            **fine.given,
            **_placed("trace", words),
            "selection": _selection(words),
            "filters.success": success,
            "filters.allow_errors": values.allowed_errors(errors).numbers or None,
            "views.call_stack": call_stack or not trace,
            "views.lbr_full": "full-lbr" in features,
            "debug_bpf": "bpf" in features,
            "debug_multi_kprobe": "multi-kprobe" in features,
            "mechanism": _mechanism(words),
            "messages": not words.has("no-messages"),
            "counts": not words.has("no-counts"),
            "system_changes": not words.has("no-system-changes"),
            "command": tuple(words.command),
            "user": values.user(words.text("user"), words.command),
            "keep_env": values.keep_env(words.has("keep-env"), words.text("user")),
            "verdict": _verdict(words),
        }
    )


def listing_settings(words: Words) -> Settings:
    """Return the settings for a list of functions, which traces nothing."""
    return _put_all(
        {
            **_placed("functions", words),
            "selection": _selection(words),
            "mechanism": _mechanism(words),
            "dry_run": True,
        }
    )


def replay_overrides(words: Words) -> ReplayOverrides:
    """Return the changes of a replay. Raise :class:`UsageError` or :class:`InputError`."""
    from retsnoop_py.recording.overrides import ReplayOverrides

    errors = words.texts("allow-errors")
    fine = config.parse(words.texts("config"), replay=True)
    placed = {
        **fine.given,
        **_placed("replay", words),
        "filters.success": values.success(words.texts("success-stacks"), errors),
        "filters.allow_errors": _allowed_again(errors),
        "views.lbr_full": _full_lbr(words.texts("debug")) or None,
        "verdict": _verdict(words),
        "counts": not words.has("no-counts"),
    }
    return ReplayOverrides(**{place.rpartition(".")[2]: value for place, value in placed.items()})


def diff_overrides(words: Words) -> ReplayOverrides:
    """Return the filters for comparing two recordings. Raise :class:`UsageError`.

    Call trees are included, reports of unfinished calls are not.
    """
    from retsnoop_py.recording.overrides import ReplayOverrides

    placed = {place.rpartition(".")[2]: v for place, v in _placed("diff", words).items()}
    placed.pop("format", None)
    placed.pop("ascii", None)
    allowed = _allowed_again(words.texts("allow-errors"))
    return replace(
        # a failure is compared with successful sessions, even if one error is selected
        ReplayOverrides(call_trace=True, interim=False, success=True),
        allow_errors=allowed,
        **placed,
    )


def _placed(command: str, words: Words) -> dict[str, Any]:
    """Return the values that ``words`` have for options of ``command``, by their places."""
    found = {}
    for option in options_of(command):
        if option.place and option.name in words.said:
            said = words.said[option.name]
            found[option.place] = option.read(said) if option.read is not None else said
    return found


def _put_all(placed: dict[str, Any]) -> Settings:
    settings = Settings()
    for place, value in placed.items():
        settings = config.put(settings, place, value)
    return settings


def _selection(words: Words) -> SelectionSettings:
    """Return the selection of functions.

    Raise :class:`UsageError`, or :class:`InputError` for ``@FILE``.
    """
    entry, globs, paths = (words.texts(name) for name in ("entry", "case", "path"))
    for name in globs:
        _check_preset(name)
    chosen = SelectionSettings(
        # without other names, calls of these functions are shown
        entry=values.globs(entry if entry or globs else paths),
        allow=values.globs([*words.texts("allow"), *paths]),
        deny=values.globs(words.texts("deny")),
        presets=tuple(dict.fromkeys(globs)),
    )
    if not (chosen.entry or chosen.presets):
        raise UsageError(
            "no entry functions: no option selects the calls to follow",
            "give -e GLOB (-e '*sys_bpf') or a preset (-c bpf); 'retsnoop-py --help' has examples",
        )
    return chosen


def _check_preset(name: str) -> None:
    from retsnoop_py.selection import globs

    if name not in globs.preset_names():
        raise UsageError(
            f"-c {name}: no such preset", f"there are {', '.join(globs.preset_names())}"
        )


def _preset_errors(words: Words) -> Sequence[str]:
    """Return the errors of the presets if each preset has some; empty with ``-S``."""
    from retsnoop_py.selection import globs

    names = words.texts("case")
    if not names or "y" in words.texts("success-stacks"):
        return ()
    for name in names:
        _check_preset(name)
    found = [globs.load_preset(name).errors for name in names]
    return list(dict.fromkeys(error for errors in found for error in errors)) if all(found) else ()


def _mechanism(words: Words) -> Mechanism:
    fentry, multi, single = map(words.has, ("fentries", "kprobes-multi", "kprobes"))
    return values.mechanism(words.text("attach"), fentry=fentry, multi=multi, single=single)


def _verdict(words: Words) -> VerdictSettings:
    """Return the settings that map failures to the exit status."""
    return values.verdict(
        words.texts("fail-on"), words.texts("expect"), none=words.has("expect-none")
    )


def _full_lbr(features: Sequence[str]) -> bool:
    for feature in values.debug(features) - {"full-lbr"}:
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
