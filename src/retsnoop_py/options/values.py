# SPDX-License-Identifier: BSD-2-Clause
"""Read the values of options: process ids, names, errors, durations, ``@FILE``, views."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.settings import OutputFormat, Settings, SymbolizeMode, VerdictSettings
from retsnoop_py.settings_file import read_list
from retsnoop_py.value import Value

#: The kernel's own limit, PID_MAX_LIMIT of include/linux/threads.h.
_PID_MAX = 4 * 1024 * 1024
#: TASK_COMM_LEN of the kernel without its NUL, in bytes.
_COMM_BYTES = 15
#: Default time limit for all work on one kernel.
_TIMEOUT_S = 600.0


def globs(specs: Sequence[str]) -> tuple[str, ...]:
    """Return the globs of ``-e``, ``-a`` or ``-d``, with ``@FILE`` replaced by FILE's globs.

    Raise :class:`UsageError` for an invalid glob, :class:`InputError` for an unreadable file.
    """
    from retsnoop_py.selection.globs import expand, parse

    found = expand(specs)
    for spec in found:
        parse(spec)
    return found


def pids(option: str, values: Sequence[str]) -> tuple[int, ...]:
    """Return process ids. Raise :class:`UsageError`."""
    for value in values:
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) > _PID_MAX:
            several = re.fullmatch(r"[0-9]+([, ]+[0-9]+)+", value)
            raise UsageError(
                f"{option} {value}: not a process id",
                f"repeat the option for several: {option} "
                + f" {option} ".join(re.findall(r"[0-9]+", value))
                if several
                else f"a process id is a number from 0 to {_PID_MAX}; a name goes to -n",
            )
    return tuple(int(value) for value in values)


def user(name: str | None, command: Sequence[str]) -> str | None:
    """Return the value of ``--user``. Raise :class:`UsageError`."""
    if name == "":
        raise UsageError(
            "--user '': the name of a user is missing",
            "$SUDO_USER is set only in what sudo has started; in a shell of your own it is $USER",
        )
    if name is not None and not command:
        raise UsageError(
            f"--user {name} needs a command to run as this user",
            "retsnoop-py ... -- CMD ARG...",
        )
    return name


def keep_env(wanted: bool, user: str | None) -> bool:
    """Return the value of ``--keep-env``. Raise :class:`UsageError`."""
    if wanted and user is None:
        raise UsageError(
            "--keep-env: without --user, CMD has all environment variables already",
            "leave out --keep-env, or add --user NAME",
        )
    return wanted


def comms(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return thread names, cut to the kernel's 15 bytes; ``@FILE`` lists several.

    Raise :class:`UsageError` for an empty name, :class:`InputError` for an unreadable file.
    """
    found: list[str] = []
    for value in values:
        found += _names_in(option, value[1:]) if value.startswith("@") else [value]
    if "" in found:
        raise UsageError(f"{option} '': a thread's name is not empty")
    return tuple(os.fsdecode(os.fsencode(name)[:_COMM_BYTES]) for name in found)


def _names_in(option: str, path: str) -> list[str]:
    try:
        return os.fsdecode(read_list(Path(path))).split()
    except OSError as error:
        raise InputError(
            f"{option} @{path}: cannot read the names in '{path}': {error.strerror}",
            "@FILE names a file of thread names separated by white space",
        ) from None


def mechanism(name: str | None, *, fentry: bool, multi: bool, single: bool) -> Mechanism:
    """Return the mechanism of ``--attach``, ``-F``, ``-M`` or ``-K``; AUTO without them.

    Raise :class:`UsageError` for an unknown name, and for two different mechanisms.
    """
    asked = {
        "-F": Mechanism.FENTRY if fentry else None,
        "-M": Mechanism.KPROBE_MULTI if multi else None,
        "-K": Mechanism.KPROBE if single else None,
        f"--attach={name}": None if name is None else _mechanism(name),
    }
    given = {option: one for option, one in asked.items() if one is not None}
    if len(set(given.values())) > 1:
        raise UsageError(
            f"{' and '.join(given)} exclude each other",
            "give one, or none for the best there is",
        )
    return next(iter(given.values()), Mechanism.AUTO)


def _mechanism(name: str) -> Mechanism:
    try:
        return Mechanism.named(name)
    except ValueError:
        known = ", ".join(one.value for one in Mechanism)
        raise UsageError(f"--attach={name}: no such mechanism", f"there are {known}") from None


def max_functions(value: str | None) -> int:
    """Return the value of ``--max-functions``. Raise :class:`UsageError`."""
    if value is None:
        return Settings().max_functions
    if not re.fullmatch(r"[0-9]{1,9}", value) or not int(value):
        raise UsageError(f"--max-functions {value}: not a number of functions, 1 or more")
    return int(value)


def max_blocks(value: str | None) -> int:
    """Return the value of ``--max-blocks``. Raise :class:`UsageError`."""
    if value is None:
        return Settings().max_blocks
    if not re.fullmatch(r"[0-9]{1,5}", value) or not int(value):
        raise UsageError(f"--max-blocks {value}: not a number of blocks, 1 to 99999")
    return int(value)


def source_tree(value: str | None) -> Path | None:
    """Return the value of ``--source``; raise InputError if it is not a kernel source tree."""
    if value is None:
        return None
    root = Path(value)
    if not value or not (root / "Makefile").is_file() or not (root / "kernel").is_dir():
        raise InputError(
            f"--source {value}: there is no source tree of Linux",
            "give the folder that has kernel/, fs/ and Makefile in it",
        )
    return root


def source_folder(value: str | None) -> Path | None:
    """Return ``--source`` of BPF objects as an absolute path; raise InputError if no folder."""
    if value is None:
        return None
    if not value or not Path(value).is_dir():
        raise InputError(
            f"--source {value}: there is no such folder",
            "give the folder that contains the source files of the BPF object",
        )
    return Path(value).absolute()


def reruns(value: str) -> int:
    """Return the value of ``--reruns``. Raise :class:`UsageError`."""
    if not re.fullmatch(r"[0-9]{1,2}", value):
        raise UsageError(f"--reruns {value}: not a number of runs, 0 to 99")
    return int(value)


def success(values: Sequence[str], errors: Sequence[str]) -> bool | None:
    """Return whether ``-S`` selects successes, None without it; ``errors``: the values of ``-x``.

    Raise :class:`UsageError` if they contradict each other.
    """
    for value in values:
        if value not in ("y", "n"):
            raise UsageError(
                f"-S{value}: only -S, -Sy and -Sn exist",
                "options bundled with -S stand before it: -vS" if value.isalpha() else None,
            )
    wanted = set(values)
    if len(wanted) == 2:
        raise UsageError("-Sy and -Sn contradict each other", "give one of them")
    if "y" in wanted and errors:
        raise UsageError(
            f"-S asks for successes and -x {errors[0]} for failures only",
            "give one of them; -X can be combined with -S",
        )
    return "y" in wanted if wanted else None


class ErrorNames(Value):
    """The errors of all ``-x``. ``any``: the last ``any`` was not followed by an error."""

    numbers: frozenset[int] = frozenset()
    any: bool = False


def allowed_errors(values: Sequence[str], option: str = "-x") -> ErrorNames:
    """Return the errors of ``-x``, or of ``option``, in order. Raise :class:`UsageError`."""
    found = ErrorNames()
    for value in values:
        if value.lower() == "any":
            found = ErrorNames(any=True)
        else:
            found = ErrorNames(found.numbers | {_error(option, value)})
    return found


def denied_errors(values: Sequence[str]) -> frozenset[int]:
    """Return the errors of ``-X``. Raise :class:`UsageError`."""
    return frozenset(_error("-X", value) for value in values)


def kernels(said: Sequence[str]) -> tuple[str, ...]:
    """Return the kernels of all ``--on``, each once. Raise :class:`UsageError` if empty."""
    found = tuple(dict.fromkeys(name for word in said for name in word.split(",") if name))
    if said and not found:
        raise UsageError("--on: the name of a kernel is missing", "'retsnoop-py vm list' has them")
    return found


def jobs(value: str | None) -> int:
    """Return ``--jobs``, by default the number of usable cores. Raise :class:`UsageError`."""
    return max(1, int(positive("--jobs", value, len(os.sched_getaffinity(0)))))


def timeout(value: str | None) -> float:
    """Return ``--timeout`` in seconds; a plain number counts in s. Raise :class:`UsageError`."""
    return duration_ns("--timeout", value, "s") / _UNITS["s"] or _TIMEOUT_S


def positive(option: str, value: str | None, default: float) -> float:
    """Return a number above 0. Raise :class:`UsageError`."""
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"{option} {value}: not a number") from None
    if not 0 < number < 1e9:
        raise UsageError(f"{option} {value}: must be more than 0")
    return number


def verdict(fail_on: Sequence[str], expect: Sequence[str], *, none: bool) -> VerdictSettings:
    """Return ``--fail-on``, ``--expect`` and ``--expect-none``. Raise :class:`UsageError`."""
    if none and expect:
        raise UsageError(
            f"--expect {expect[0]} and --expect-none contradict each other",
            "give one of them; '--expect EINVAL --fail-on any' is EINVAL and nothing else",
        )
    any_fails = any(one.lower() == "any" for one in fail_on)
    return VerdictSettings(
        frozenset(_error("--fail-on", one) for one in fail_on if one.lower() != "any"),
        any_fails,
        frozenset(_error("--expect", one) for one in expect),
        none,
    )


def _error(option: str, text: str) -> int:
    """Return the positive number of an error's name, 0 for NULL. Raise :class:`UsageError`."""
    from retsnoop_py.kernel.errno import ERRNO_NAMES, by_name

    try:
        return by_name(text)
    except UsageError as error:
        number = text.removeprefix("-")
        hint = error.hint
        if number.isdecimal() and int(number) in ERRNO_NAMES:
            hint = f"errors are given by name: {option} {ERRNO_NAMES[int(number)]}"
        elif text.lower() == "any":
            hint = "-x and --fail-on take any"
        raise UsageError(f"{option}: {error.message}", hint) from None


def symbolize(value: str | None) -> SymbolizeMode | None:
    """Return the mode of ``-s``, None without it. Raise :class:`UsageError`."""
    if value is None:
        return None
    if value in _MODES:
        return _MODES[value]
    raise UsageError(f"-s{value}: only -s, -ss (inlined functions) and -sn (none) exist")


_MODES = {
    "linenum": SymbolizeMode.LINES,
    "s": SymbolizeMode.INLINES,
    "inlines": SymbolizeMode.INLINES,
    "n": SymbolizeMode.NONE,
    "none": SymbolizeMode.NONE,
}


#: ``PERF_SAMPLE_BRANCH_*`` of ``include/uapi/linux/perf_event.h``.
LBR_FLAGS = {
    "any": 1 << 3,
    "any_call": 1 << 4,
    "any_return": 1 << 5,
    "ind_call": 1 << 6,
    "abort_tx": 1 << 7,
    "in_tx": 1 << 8,
    "no_tx": 1 << 9,
    "cond": 1 << 10,
    "call_stack": 1 << 11,
    "ind_jump": 1 << 12,
    "call": 1 << 13,
}
_LBR_KERNEL = 1 << 1
#: Flags must be below ``PERF_SAMPLE_BRANCH_MAX``.
_LBR_LIMIT = 1 << 20
#: Nanoseconds in each unit.
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LONGEST_NS = 2**63 - 1
DEBUG_FEATURES = ("bpf", "multi-kprobe", "full-lbr")


def duration_ns(option: str, value: str | None, unit: str) -> int:
    """Return a duration in ns, 0 for None; a plain number has the unit ``unit``.

    Raise :class:`UsageError`.
    """
    if value is None:
        return 0
    found = re.fullmatch(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?(ns|us|ms|s|min|h)?", value)
    if found:
        whole, part, given = found.groups()
        factor = _UNITS[given or unit]
        total = int(whole) * factor + (int(part) * factor // 10 ** len(part) if part else 0)
        if 1 <= total <= _LONGEST_NS:
            return total
    raise UsageError(
        f"{option} {value}: not a duration",
        f"a number above 0 with a unit, {', '.join(_UNITS)}: {option} 500ms; "
        f"a bare one counts in {unit}",
    )


def count(value: str | None) -> int:
    """Return the value of ``--count``, 0 without it. Raise :class:`UsageError`."""
    if value is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", value) or not int(value):
        raise UsageError(f"--count {value}: not a number of sessions, 1 or more")
    return int(value)


def output_format(value: str | None) -> OutputFormat:
    """Return the value of ``--format``. Raise :class:`UsageError`."""
    try:
        return OutputFormat(value or "text")
    except ValueError:
        known = " and ".join(one.value for one in OutputFormat)
        raise UsageError(f"--format {value}: no such format", f"there are {known}") from None


def lbr(values: Sequence[str]) -> int | None:
    """Return the combined branch flags of all ``-B``, None without any. Raise UsageError."""
    if not values:
        return None
    flags = _LBR_KERNEL
    for value in values:
        flags |= _lbr_flag(value)
    return flags


def _lbr_flag(value: str) -> int:
    if value in LBR_FLAGS:
        return LBR_FLAGS[value]
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}|0[0-7]{0,10}|[1-9][0-9]{0,9}", value):
        number = int(value, 8 if re.fullmatch(r"0[0-7]+", value) else 0)
        if number < _LBR_LIMIT:
            return number
    raise UsageError(
        f"-B{value}: no such kind of branch",
        f"there are {', '.join(LBR_FLAGS)}, or a number of PERF_SAMPLE_BRANCH_* flags",
    )


def debug(values: Sequence[str]) -> frozenset[str]:
    """Return the features of all ``--debug``. Raise :class:`UsageError`."""
    for value in values:
        if value not in DEBUG_FEATURES:
            raise UsageError(
                f"--debug {value}: no such feature", f"there are {', '.join(DEBUG_FEATURES)}"
            )
    return frozenset(values)


def probes(values: Sequence[str]) -> tuple[str, ...]:
    """Return the probes of ``-J`` as written, with ``@FILE`` replaced by FILE's probes.

    Raise :class:`InputError` for a file that cannot be read.
    """
    found: list[str] = []
    for value in values:
        found += _listed(Path(value[1:])) if value.startswith("@") else [value]
    return tuple(found)


def _listed(path: Path) -> list[str]:
    try:
        return read_list(path).decode().split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(
            f"cannot read the probes in '{path}': {why}",
            "@FILE names a file of probes separated by white space",
        ) from error
