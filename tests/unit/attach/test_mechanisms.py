# SPDX-License-Identifier: BSD-2-Clause
"""Every row of the mechanisms is complete: its class, its programs, its numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from retsnoop_py.attach.features import attachment_of
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.mechanism import LADDER, Mechanism

MECHANISMS = [one for one in Mechanism if one is not Mechanism.AUTO]


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """The sections of the object's programs."""
    with BpfObject(OBJECTS / "trace.bpf.o") as obj:
        return {program.name: program.section for program in obj.programs()}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_row_names_a_class_and_programs_that_are_there(
    mechanism: Mechanism, programs: dict[str, str]
) -> None:
    row = mechanism.row
    attachment = attachment_of(mechanism)
    assert all(callable(getattr(attachment, name)) for name in ("trial", "attach", "detach"))
    assert {*row.programs, *filter(None, [row.counted])} <= programs.keys()
    assert row.takes
    assert row.quick >= row.quick_with_ibt


def test_names_and_rungs_are_told_apart() -> None:
    assert {Mechanism.named(one.value) for one in Mechanism} == set(Mechanism)
    assert all(one.row.rung < next_.row.rung for one, next_ in pairwise(LADDER))
    with pytest.raises(ValueError, match="nothing"):
        Mechanism.named("nothing")


@pytest.mark.parametrize(
    ("mechanism", "functions", "files"),
    [
        (Mechanism.KPROBE_SESSION, 5000, 0),
        (Mechanism.KPROBE, 10, 40),
        (Mechanism.KPROBE_EVENTS, 129, 8),
        (Mechanism.FENTRY, 1, 4),
    ],
)
def test_descriptors_are_counted_as_they_are_shared(
    mechanism: Mechanism, functions: int, files: int
) -> None:
    assert mechanism.row.files(functions) == files
