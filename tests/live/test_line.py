# SPDX-License-Identifier: BSD-2-Clause
"""Which line returned the error: failing system calls against a table read in the source.

``failures.toml`` says for each case of ``programs/failures.c`` which condition decides. All run in
one guest, with the blocks of all functions attached at once.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.live.support import TOOL, compiled, series

from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

TABLE = tomllib.loads(Path(__file__).with_name("failures.toml").read_text())
CASES: dict[str, dict[str, Any]] = TABLE["cases"]
#: Cases with the same functions on every kernel, and with a unique value of an operand.
EVERYWHERE = tuple(name for name, case in CASES.items() if case.get("everywhere"))
#: The required shares of right lines, right values, and conditions in C.
RIGHT, VALUES, SAID = 0.95, 0.9, 0.9
#: Names from DWARF only: local variables in registers and on the stack, including pointers.
BY_LOCALS = {
    "futex_value": "uval != val",
    "oom_value": "oom_score_adj < -1000 || oom_score_adj > 1000",
    "fault_api": "uffdio_api.api != 170",
    "clone_signal": "args.exit_signal > 64",
    "sleep_time": "tu.tv_nsec > 999999999",
    "sysctl_value": "param->min != NULL && *lvalp < *param->min",
    "perf_sample": "attr->sample_type > 0x1ffffff",
    "unshare_flags": "(unshare_flags & ~0x7e070f80) != 0",
}
#: Seconds that all cases may take: much more than they do, for the machine may be busy.
TIME_LIMIT = 900.0

#: Pointers above are errors.
ERRORS = (1 << 64) - 4096

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The tool's answer to a case: the executed path, None if its function was not seen to fail."""

    name: str
    told: Told | None

    @property
    def case(self) -> dict[str, Any]:
        return CASES[self.name]

    @property
    def decided(self) -> Told:
        return (self.told or {}).get("decided") or {}

    @property
    def lines(self) -> set[str]:
        """The deciding place, and where that is inlined."""
        inline = self.decided.get("place", {}).get("inline", [])
        return {f"{one['file']}:{one['line']}" for one in inline}

    @property
    def values(self) -> set[int]:
        values = [one.get("value") for one in self.decided.get("operands", [])]
        return {value & 0xFFFFFFFF for value in values if value is not None}

    @property
    def has_its_value(self) -> bool:
        return self.case["value"] & 0xFFFFFFFF in self.values

    @property
    def is_right(self) -> bool:
        if self.told is None:
            return False
        if "gives" in self.case:
            return bool(self.told["made"] == "callee" and self.told["callee"] == self.case["gives"])
        if not self.case["at"]:
            return not self.decided and "always returns this" in self.told["unknown"]
        return not self.lines.isdisjoint(self.case["at"])

    def __str__(self) -> str:
        places = sorted(self.lines) or self.told
        operands = self.decided.get("operands")
        return f"{self.name}: {self.case['at']}, told: {places} {operands}"


def path_of(name: str, machine: Machine) -> str:
    """The function of a case; those of system calls are called after the machine."""
    path: str = CASES[name]["path"]
    if machine.arch.name == "x86_64":
        return path
    other: str = CASES[name].get("path_on_arm64", path.replace("__x64_", "__arm64_"))
    return other


def follow(machine: Machine, names: tuple[str, ...], *options: str) -> Result:
    """Run the cases ``names`` with their functions followed."""
    paths = sorted({path_of(name, machine) for name in names})
    program = compiled(machine, "failures")
    words = [word for path in paths for word in ("--path", path)]
    argv = [TOOL, *words, *options, "--format", "json", "--", str(program), *names]
    result = machine.run(argv, timeout=TIME_LIMIT)
    # the program's own status: all failed as they should
    assert result.status == 1, result.err
    return result


def answers(machine: Machine, result: Result, names: tuple[str, ...]) -> Iterator[Answer]:
    """The answer to each case, from the sessions of the thread that is called like it."""
    ways: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for line in result.out.splitlines():
        told = json.loads(line)
        for way in told.get("paths", ()):
            ways[told["thread"], way["function"]["name"]].append(way)
    for name in names:
        found = ways[name, path_of(name, machine)]
        yield Answer(name, next(filter(_has_failed, reversed(found)), None))


def _has_failed(way: Told) -> bool:
    """Return whether the result is an error, NULL, or an unsigned error number (do_mmap)."""
    value = int(way["result"]["raw"], 16)
    return bool(way["result"].get("error") or not value or value > ERRORS)


@pytest.mark.one_kernel
def test_every_case_of_the_program_is_in_the_table(machine: Machine) -> None:
    listed = machine.run([str(compiled(machine, "failures")), "--list"])
    names = [line.split()[0] for line in listed.out.splitlines()]
    assert sorted(names) == sorted(CASES)
    # the calls that fail are of many kinds
    assert len({line.split()[1] for line in listed.out.splitlines()}) > 70


@pytest.mark.slow
@pytest.mark.one_kernel
def test_the_line_that_decided_is_that_of_the_source(machine: Machine) -> None:
    if series(machine) == (6, 12) and machine.arch.name == "x86_64":
        hold_to_the_table(machine)
        return
    # another kernel was chosen, and the table is of this one
    with Machine("6.12") as guest:
        hold_to_the_table(guest)


def hold_to_the_table(machine: Machine) -> None:
    vmlinux = ensure("6.12", debug=True).vmlinux
    assert vmlinux is not None
    names = tuple(CASES)
    told = list(answers(machine, follow(machine, names, "-k", str(vmlinux)), names))
    wrong = [one for one in told if not one.is_right]
    if not machine.release.startswith(f"{TABLE['release']}+"):
        # lines have moved in another release: files have not
        wrong = [one for one in wrong if one.lines and not _files(one) & _files_of(one.case)]
    # The known misses are in docs/line.md.
    missed = {one.name for one in wrong if "missed" in one.case}
    assert missed == {one.name for one in wrong}, "\n".join(map(str, wrong))
    lined = [one for one in told if "gives" not in one.case]
    assert len(wrong) <= len(lined) * (1 - RIGHT)
    valued = [one for one in lined if "value" in one.case]
    without = [one for one in valued if not one.has_its_value]
    assert len(without) <= len(valued) * (1 - VALUES), "\n".join(map(str, without))
    unsaid = [one for one in lined if one.decided and not one.decided.get("condition")]
    assert len(unsaid) <= len(lined) * (1 - SAID), "\n".join(map(str, unsaid))
    assert {one.name: one.decided.get("condition") for one in told if one.name in BY_LOCALS} == (
        BY_LOCALS
    )


def _files(answer: Answer) -> set[str]:
    return {line.partition(":")[0] for line in answer.lines}


def _files_of(case: dict[str, Any]) -> set[str]:
    return {line.partition(":")[0] for line in case["at"]}


def test_without_debug_information_the_block_and_its_operands_are_told(machine: Machine) -> None:
    told = list(answers(machine, follow(machine, EVERYWHERE), EVERYWHERE))
    unseen = [one for one in told if one.told is None]
    assert not unseen, [str(one) for one in unseen]
    wrong = [one for one in told if not one.has_its_value or not one.decided["place"]["offset"]]
    assert not wrong, (series(machine), "\n".join(map(str, wrong)))
