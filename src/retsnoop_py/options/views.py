# SPDX-License-Identifier: BSD-2-Clause
"""What the options say about views: which ones, of what, and when to stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.settings import OutputFormat

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
#: Flags are below ``PERF_SAMPLE_BRANCH_MAX``.
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
    """A duration in ns, 0 for None; a bare number counts in ``unit``. Raises UsageError."""
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
    """``--count``, 0 without it. Raises :class:`UsageError`."""
    if value is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", value) or not int(value):
        raise UsageError(f"--count {value}: not a number of sessions, 1 or more")
    return int(value)


def output_format(value: str | None) -> OutputFormat:
    """``--format``. Raises :class:`UsageError`."""
    try:
        return OutputFormat(value or "text")
    except ValueError:
        known = " and ".join(one.value for one in OutputFormat)
        raise UsageError(f"--format {value}: no such format", f"there are {known}") from None


def lbr(values: Sequence[str]) -> int | None:
    """The branch flags of all ``-B`` together, None without any. Raises UsageError."""
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
    """The features of all ``--debug``. Raises :class:`UsageError`."""
    for value in values:
        if value not in DEBUG_FEATURES:
            raise UsageError(
                f"--debug {value}: no such feature", f"there are {', '.join(DEBUG_FEATURES)}"
            )
    return frozenset(values)


def probes(values: Sequence[str]) -> tuple[str, ...]:
    """The probes of ``-J`` as written, ``@FILE`` replaced by what FILE lists.

    Raises :class:`InputError` for a file that cannot be read.
    """
    found: list[str] = []
    for value in values:
        found += _listed(Path(value[1:])) if value.startswith("@") else [value]
    return tuple(found)


def _listed(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(
            f"cannot read the probes in '{path}': {why}",
            "@FILE names a file of probes separated by white space",
        ) from error
