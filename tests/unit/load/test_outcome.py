# SPDX-License-Identifier: BSD-2-Clause
"""Results of loads, looked at together and written for people and pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from retsnoop_py.errors import DataError, InputError, UsageError
from retsnoop_py.load.model import (
    VERSION,
    Condition,
    Evidence,
    Explanation,
    LoadResult,
    Place,
)
from retsnoop_py.load.outcome import (
    compare,
    expected,
    read_baseline,
    read_expectations,
    reasons,
    short_names,
)
from retsnoop_py.load.shape import Shape, parse_shapes
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.load_results import (
    junit,
    matrix_lines,
    matrix_rows,
    reason_lines,
)
from retsnoop_py.render.palette import Palette

PLACE = Place("return *p;", "a,b.bpf.c", 42, 9, "on_open")
WHY = Explanation(
    "pointer-or-null", "Register Type Safety: Pointer", "It may be NULL.", place=PLACE
)
KERNELS = ("5.10", "7.3")


def result(kernel: str, name: str = "on_open", **fields: Any) -> LoadResult:
    given = {"kind": "program", "verdict": "ok"} | fields
    return LoadResult(VERSION, kernel, "/x/a.bpf.o", name=name, **given)  # type: ignore[arg-type]


def refused(kernel: str, name: str = "on_open", why: Explanation = WHY) -> LoadResult:
    return result(
        kernel,
        name,
        verdict="refused",
        errno="EACCES",
        reason=why.id,
        explanation=why,
        source=PLACE,
    )


RESULTS = [
    result("5.10", "events", kind="map"),
    result("7.3", "events", kind="map"),
    refused("5.10"),
    refused("7.3", why=msgspec.structs.replace(WHY, kernel=("Verification failed: x", "Reason:"))),
    result("5.10", "main", instructions=1234),
    result("7.3", "main", instructions=15),
    result("7.3", "main", kind="attach", verdict="unattached"),
]


def test_the_matrix_has_a_row_per_part_and_a_cell_per_kernel() -> None:
    why = reasons(RESULTS)
    lines = list(matrix_lines(matrix_rows(RESULTS, KERNELS, why), KERNELS, Palette()))
    assert lines == [
        "                          5.10        7.3",
        "a.bpf.o  map events       ok          ok",
        "         program on_open  EACCES [1]  EACCES [1]",
        "         program main     ok 1.2k     ok 15",
        "         attach main      -           no target",
        "(ok N: it loads, and the verifier processed N instructions)",
    ]


def test_a_failure_of_two_kernels_is_told_once_in_the_kernels_own_words() -> None:
    (why,) = reasons(RESULTS)
    lines = list(reason_lines(why, Palette()))
    assert lines[0] == "[1] program 'on_open' of a.bpf.o on 5.10, 7.3: EACCES"
    assert lines[1:] == ["Verification failed: x", "Reason:"]


def test_a_kernel_that_went_down_is_a_cell() -> None:
    down = Explanation("kernel-crashed", "Kernel: crashed", "Linux 7.3 went down")
    lost = result("7.3", "", kind="kernel", verdict="crashed", explanation=down, reason=down.id)
    seen = [RESULTS[0], RESULTS[2], lost]
    rows = matrix_rows(seen, KERNELS, reasons(seen))
    assert [cells for _, _, cells in rows] == [("ok", "crashed [2]"), ("EACCES [1]", "crashed [2]")]


def test_expectations_are_held_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text("# known\n5.10 a.bpf.o on_open EACCES\n7.3 * main *\n4.19 a.bpf.o x y\n")
    said = expected(RESULTS, read_expectations(path), path)
    assert said == [
        "not expected: 7.3 a.bpf.o program on_open: EACCES (pointer-or-null)",
        f"expected and not seen: 7.3 * main * ({path}:3)",
    ]
    path.write_text("5.10 a.bpf.o\n")
    with pytest.raises(DataError, match="2 words"):
        read_expectations(path)
    with pytest.raises(InputError):
        read_expectations(tmp_path / "missing")


def test_growth_beyond_a_percentage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(b"\n".join(msgspec.json.encode(one) for one in RESULTS))
    grown = [msgspec.structs.replace(RESULTS[4], instructions=1400), RESULTS[5]]
    assert compare(grown, read_baseline(path), 10) == [
        "5.10 a.bpf.o main: 1,400 instructions, 13% more than 1,234"
    ]
    assert compare(grown, read_baseline(path), 20) == []
    path.write_text("{}")
    with pytest.raises(DataError):
        compare(grown, read_baseline(path), 10)


def test_junit_has_a_suite_per_kernel_and_a_failure_per_refusal() -> None:
    nasty = msgspec.structs.replace(WHY, reason="a < b & \x00 ]]>")
    root = ET.fromstring(junit([refused("5.10", why=nasty), RESULTS[5]]))
    assert [(one.get("name"), one.get("failures")) for one in root] == [
        ("load on 5.10", "1"),
        ("load on 7.3", "0"),
    ]
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("type") == "pointer-or-null"
    assert "a < b &" in (failure.text or "")


def test_shapes_share_values_without_a_name() -> None:
    assert parse_shapes([]) == (Shape("", ()),)
    assert parse_shapes(["a=1", "b=true"]) == (Shape("", (("a", 1), ("b", 1))),)
    assert parse_shapes(["a=0x10", "old:b=0", "new:b=-1"]) == (
        Shape("old", (("a", 16), ("b", 0))),
        Shape("new", (("a", 16), ("b", -1))),
    )
    for word in ("a", "a=", "=1", "a=x", "a b=1"):
        with pytest.raises(UsageError):
            parse_shapes([word])


def test_objects_of_one_name_are_told_apart_by_their_folders() -> None:
    paths = ("/a/x.bpf.o", "/b/c/x.bpf.o", "/d/c/x.bpf.o", "/b/y.bpf.o")
    results = [msgspec.structs.replace(RESULTS[0], object=path) for path in paths]
    names = ["a/x.bpf.o", "b/c/x.bpf.o", "d/c/x.bpf.o", "y.bpf.o"]
    assert list(short_names(results).values()) == names


def test_text_of_an_object_cannot_forge_a_line() -> None:
    text = "x\n::error::FORGED\r\x1b[2J\u202e"
    place = Place(text, f"a{text}", 42, 9, f"f{text}", ((41, text), (42, text)))
    step = Evidence("made", text, 3, place=place)
    why = Explanation(
        "x",
        f"T {text}",
        text,
        text,
        (text,),
        place=place,
        instruction=text,
        chain=(text,),
        evidence=(step,),
        notes=(text,),
        said=(text,),
        conditions=(Condition("f", lines=(text,)),),
    )
    for shown in (why, msgspec.structs.replace(why, kernel=(text,))):
        lines = list(explanation_lines(shown, Palette()))
        assert all(line.isprintable() for line in lines), lines
        assert not any(line.startswith("::error") for line in lines)


def test_short_names_of_many_objects() -> None:
    """A guest chooses the names; each name was compared with all others."""
    results = [
        msgspec.structs.replace(RESULTS[0], object=f"/x/{number}/same.o")
        for number in range(20_000)
    ]
    names = short_names(results)
    assert names["/x/7/same.o"] == "7/same.o"
    assert len(set(names.values())) == len(results)
