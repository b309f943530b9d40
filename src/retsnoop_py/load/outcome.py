# SPDX-License-Identifier: BSD-2-Clause
"""Summarize the results of many loads: distinct reasons, expectations, a baseline."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.foreign_json import decode
from retsnoop_py.load.model import Explanation, LoadResult
from retsnoop_py.settings_file import read_list
from retsnoop_py.value import Value

__all__ = [
    "Expectation",
    "Reason",
    "compare",
    "expected",
    "read_baseline",
    "read_expectations",
    "reasons",
    "short_names",
]


class Reason(Value):
    """A distinct failure, and all results with this failure. ``number`` counts from 1."""

    number: int
    explanation: Explanation
    results: tuple[LoadResult, ...]


def _key(result: LoadResult) -> tuple[object, ...]:
    why = result.explanation
    place = why.place if why else None
    where = (place.file, place.line) if place else ("", 0)
    reason = why.reason if why and not place else ""
    return (result.object, result.name, result.kind, result.reason, where, reason)


def reasons(results: Sequence[LoadResult]) -> list[Reason]:
    """Return each failure once, in order; an explanation by the kernel itself is preferred."""
    groups: dict[tuple[object, ...], list[LoadResult]] = {}
    for result in results:
        if result.is_failure:
            groups.setdefault(_key(result), []).append(result)
    found = []
    for number, members in enumerate(groups.values(), 1):
        told = [one.explanation for one in members if one.explanation is not None]
        why = next((one for one in told if one.kernel), told[0] if told else _nothing())
        found.append(Reason(number, why, tuple(members)))
    return found


def _nothing() -> Explanation:
    return Explanation("errno", "Kernel: Refused without a word", "There is nothing to explain it.")


class Expectation(Value):
    """An expected failure: globs for kernel, object and name; a reason or errno."""

    kernel: str
    object: str
    name: str
    reason: str
    line: int

    def covers(self, result: LoadResult) -> bool:
        """Return True if ``result`` was expected."""
        name = result.name or "-"
        return (
            fnmatch.fnmatch(result.kernel, self.kernel)
            and fnmatch.fnmatch(Path(result.object).name, self.object)
            and fnmatch.fnmatch(name, self.name)
            and self.reason in ("*", result.reason, result.errno, result.verdict)
        )


def read_expectations(path: Path) -> tuple[Expectation, ...]:
    """Return the expectations in lines of ``KERNEL OBJECT NAME REASON``; # begins a comment.

    Raise InputError if the file cannot be read, DataError for an invalid line.
    """
    try:
        lines = read_list(path).decode().splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text file") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 4:
            raise DataError(
                f"{path}:{number}: {len(words)} words, and KERNEL OBJECT NAME REASON are four",
                "such as: 5.10 xdp.bpf.o on_open kfunc-missing; * stands for any",
            )
        kernel, name, part, reason = words
        found.append(Expectation(kernel, name, part, reason, number))
    return tuple(found)


def expected(results: Sequence[LoadResult], wanted: Sequence[Expectation], path: Path) -> list[str]:
    """Return the differences from ``wanted``: unexpected failures, and missing ones."""
    failures = [one for one in results if one.is_failure]
    said = [
        f"not expected: {label(result)}"
        for result in failures
        if not any(one.covers(result) for one in wanted)
    ]
    kernels = {one.kernel for one in results}
    for one in wanted:
        seen = any(fnmatch.fnmatch(kernel, one.kernel) for kernel in kernels)
        if seen and not any(one.covers(result) for result in failures):
            words = f"{one.kernel} {one.object} {one.name} {one.reason}"
            said.append(f"expected and not seen: {words} ({path}:{one.line})")
    return said


def short_names(results: Sequence[LoadResult]) -> dict[str, str]:
    """Return a short name for each object: its file name, with folders if not unique."""
    left = {one.object: Path(one.object).parts for one in results}
    tails, found, count = dict(left), {}, 0
    while left:
        count += 1
        uses = Counter(parts[-count:] for parts in tails.values())
        for path, parts in list(left.items()):
            if uses[parts[-count:]] == 1 or count >= len(parts):
                found[path] = "/".join(parts[-count:])
                del left[path]
    return {path: found[path] for path in tails}


def label(result: LoadResult) -> str:
    """Return ``5.10 xdp.bpf.o program on_open: EACCES (kfunc-missing)``."""
    what = f"{result.kind} {result.name}".strip()
    shape = f" [{result.shape}]" if result.shape else ""
    failure = result.errno or result.verdict
    name = Path(result.object).name
    words = (part for part in (result.kernel, name, what + shape) if part)
    return f"{' '.join(words)}: {failure} ({result.reason})"


def read_baseline(path: Path) -> list[LoadResult]:
    """Return the results of an earlier run with ``--format json``.

    Raise InputError if the file cannot be read, DataError if it has other contents.
    """
    try:
        lines = read_list(path).splitlines()
        decoder = msgspec.json.Decoder(LoadResult)
        return [decode(decoder, line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except DataError as error:
        raise DataError(
            f"{path} is no result of 'retsnoop-py load --format json': {error}"
        ) from None


def compare(
    results: Sequence[LoadResult], before: Sequence[LoadResult], percent: float
) -> list[str]:
    """Return programs with over ``percent`` more instructions than in the results ``before``."""
    known = {_program(one): one.instructions for one in before if one.instructions}
    said = []
    for result in results:
        old, new = known.get(_program(result)), result.instructions
        if result.verdict == "ok" and old and new and new > old * (1 + percent / 100):
            grown = 100 * (new - old) / old
            said.append(
                f"{result.kernel} {Path(result.object).name} {result.name}: {new:,} instructions,"
                f" {grown:.0f}% more than {old:,}"
            )
    return said


def _program(result: LoadResult) -> tuple[str, ...]:
    return (result.kernel, Path(result.object).name, result.kind, result.name, result.shape)
