# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import BtfWriter
from tests.unit.kernel.tree import Tree

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.trace_points import read_trace_points
from retsnoop_py.libbpf.facts import State

START, FIRST, SECOND = 0xFFFFFFFF82000000, 0xFFFF888000001000, 0xFFFF888000002000
RECORDS, MORE = 0xFFFF888000003000, 0xFFFF888000004000


class Memory:
    """What is at some addresses, and nowhere else."""

    def __init__(self, blocks: Mapping[int, bytes]) -> None:
        self._blocks = blocks

    def read(self, address: int, size: int) -> bytes:
        return self._blocks.get(address, b"")[:size]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def types(record_size: int = 16, *, records: str = "records") -> Btf:
    writer = BtfWriter()
    word, number = writer.int("unsigned long", 8), writer.int("int", 4)
    writer.struct("dyn_ftrace", record_size, [("ip", word, 0), ("flags", word, 64)])
    members = [("next", word, 0), (records, word, 64), ("index", number, 128)]
    writer.struct("ftrace_page", 24, [*members, ("order", number, 160)])
    return Btf(writer.bytes())


def page(following: int, records: int, count: int) -> bytes:
    return struct.pack("=QQii", following, records, count, 3)


def block(*addresses: int, size: int = 16) -> bytes:
    return b"".join(struct.pack("=QQ", one, 1 << 63).ljust(size, b"\xee") for one in addresses)


def chain() -> dict[int, bytes]:
    return {
        START: struct.pack("=Q", FIRST),
        FIRST: page(SECOND, RECORDS, 2),
        RECORDS: block(0x10, 0x24, 0xBAD),
        SECOND: page(0, MORE, 1),
        MORE: block(0x50),
    }


def test_all_records_of_all_pages_are_read() -> None:
    assert read_trace_points(Memory(chain()), START, types()) == array("Q", [0x10, 0x24, 0x50])


def test_records_are_as_large_as_the_kernel_s_types_say() -> None:
    blocks = chain() | {RECORDS: block(0x10, 0x24, size=24), MORE: block(0x50, size=24)}

    found = read_trace_points(Memory(blocks), START, types(24))

    assert found == array("Q", [0x10, 0x24, 0x50])


@pytest.mark.parametrize(
    "change",
    [
        {START: b""},
        {FIRST: b""},
        {FIRST: page(SECOND, RECORDS, -1)},
        {FIRST: page(SECOND, RECORDS, 4)},
        {SECOND: page(FIRST, MORE, 1)},
    ],
    ids=["no start", "no page", "no count", "too few records", "a circle"],
)
def test_what_does_not_read_as_records_is_none(change: dict[int, bytes]) -> None:
    assert read_trace_points(Memory(chain() | change), START, types()) is None


def test_types_that_are_not_known_are_none() -> None:
    assert read_trace_points(Memory(chain()), START, types(20)) is None
    assert read_trace_points(Memory(chain()), START, types(records="groups")) is None
    assert read_trace_points(Memory(chain()), START, Btf(BtfWriter().bytes())) is None


def test_a_trace_point_is_of_the_first_function_at_its_address(tree: Tree) -> None:
    tree.kallsyms(
        "ffffffff81000000 T _stext",
        "ffffffff81000000 T alias",
        "ffffffff81000010 t behind_endbr",
        "ffffffff81000030 t leftover_behind",
        "ffffffff81000080 T _etext",
        "ffffffff81000090 T gone_after_boot",
        "ffffffffc0000000 t in_module\t[mod]",
    )
    kallsyms = tree.facts.kallsyms
    points = [0xFFFFFFFF81000000 + at for at in (0, 0x14, 0x50, 0x90)] + [0xFFFFFFFFC0000004, 1]

    functions = kallsyms.functions_at(array("Q", points))

    names = {kallsyms.name(i)[0] for i in functions.listed}
    assert names == {"_stext", "behind_endbr", "in_module"}
    assert {kallsyms.name(i)[0] for i in functions.others} >= {"alias", "leftover_behind"}
    assert all(functions.states[i] == State.TRACEABLE for i in functions.listed)
