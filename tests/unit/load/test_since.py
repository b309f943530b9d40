# SPDX-License-Identifier: BSD-2-Clause
"""The numbers of ``since.toml`` are those of the kernel's header."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from retsnoop_py.load import since

HEADER = Path(__file__).parents[3] / "build/libbpf/include/linux/bpf.h"


@pytest.fixture(scope="module")
def header() -> str:
    return HEADER.read_text()


def test_helpers_have_the_numbers_of_the_header(header: str) -> None:
    declared = dict(re.findall(r"FN\((\w+), (\d+), ##ctx\)", header))
    del declared["unspec"]
    assert {row.name: str(row.number) for row in since.table("helpers")} == declared


@pytest.mark.parametrize(
    ("kind", "prefix", "first"),
    [
        ("map_types", "BPF_MAP_TYPE_", "BPF_MAP_TYPE_UNSPEC"),
        ("program_types", "BPF_PROG_TYPE_", "BPF_PROG_TYPE_UNSPEC"),
    ],
)
def test_types_have_the_numbers_of_the_header(
    kind: str, prefix: str, first: str, header: str
) -> None:
    body = header[header.index(f"\t{first}") :]
    body = re.sub(r"/\*.*?\*/", "", body[: body.index("};")], flags=re.DOTALL)
    declared: dict[str, int] = {}
    for name, value in re.findall(rf"{prefix}(\w+)(?:\s*=\s*(\w+))?", body):
        if value.startswith("BPF_"):
            continue  # another name of the same
        declared.setdefault(name.removesuffix("_DEPRECATED"), len(declared))
    wanted = {name: n for name, n in declared.items() if n and not name.startswith("__")}
    own = {row.name: row.number for row in since.table(kind)}
    assert {name: own.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("kind", ["helpers", "map_types", "program_types", "attach_types"])
def test_releases_are_in_their_order(kind: str) -> None:
    releases = [row.release for row in since.table(kind)]
    assert all(before <= after for before, after in pairwise(releases))


def test_names_are_found_with_and_without_their_prefix() -> None:
    known = since.by_number("helpers", 182)
    assert known is not None
    assert (known.name, known.since) == ("strncmp", "5.17")
    assert since.by_name("helpers", "bpf_strncmp") == known
    assert since.by_number("helpers", 100_000) is None
