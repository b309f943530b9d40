# SPDX-License-Identifier: BSD-2-Clause
"""What decided: functions built by the compiler here, run, and followed step by step."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.decide import Decision, Made, decide
from retsnoop_py.path.follow import follow
from retsnoop_py.path.text import FunctionCode, Part
from retsnoop_py.path.x86 import decode

SOURCE = Path(__file__).with_name("cases.c")
#: As the kernel is built: no vectors, and (-pg) no knowledge of what a callee leaves alone.
FLAGS = (
    "-O2",
    "-g",
    "-mno-sse",
    "-mno-mmx",
    "-fno-pie",
    "-no-pie",
    "-fcf-protection=none",
    "-fno-ipa-ra",
)


@dataclass(frozen=True, slots=True)
class Ran:
    """One function and its run: the addresses of its instructions as they ran."""

    graph: Graph
    result: int
    addresses: tuple[int, ...]
    names: dict[int, str]

    def decide(
        self, *, kept: int | None = None, unprobed: frozenset[int] = frozenset()
    ) -> Decision:
        """What decided; ``kept``: of so many last blocks it is known that they ran."""
        starts = {block.start: block.index for block in self.graph.blocks}
        hits = [starts[at] for at in self.addresses if at in starts]
        hits = [hit for hit in hits if hit not in unprobed]
        is_cut = kept is not None and kept < len(hits)
        if kept is not None:
            hits = hits[-kept:]
        probed = frozenset(starts.values()) - unprobed
        way = follow(self.graph, hits, probed, is_cut=is_cut)
        return decide(self.graph, way, self.result, self.names.get)


class Built:
    """The compiled cases."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        with binary.open("rb") as file:
            symbols = ELFFile(file).get_section_by_name(".symtab")
            self.symbols = {
                symbol.name: (symbol["st_value"], symbol["st_size"])
                for symbol in symbols.iter_symbols()
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
            }
            text = ELFFile(file).get_section_by_name(".text")
            self.text, self.base = text.data(), text["sh_addr"]
        ran = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
        self.runs = {line.split()[0]: line.split()[1:] for line in ran.splitlines()}

    def part(self, name: str) -> Part:
        start, size = self.symbols[name]
        return Part(start, self.text[start - self.base : start - self.base + size])

    def ran(self, name: str) -> Ran:
        names = {start: symbol for symbol, (start, _) in self.symbols.items()}
        parts = [self.part(name)]
        if f"{name}.cold" in self.symbols:
            parts.append(self.part(f"{name}.cold"))
        graph = cut(FunctionCode(name, None, tuple(parts)), decode, names.get)
        start, result, *steps = self.runs[name]
        assert int(start, 16) == graph.code.address
        own = [int(step, 16) for step in steps]
        inside = tuple(at for at in own if graph.code.contains(at))
        return Ran(graph, int(result), inside, names)


@pytest.fixture(scope="module", params=["-fno-jump-tables", "-fno-if-conversion", "-O1", "-Os"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    binary = tmp_path_factory.mktemp("path") / "cases"
    argv = ["gcc", *FLAGS, request.param, "-Wall", "-Werror", "-o", str(binary), str(SOURCE)]
    subprocess.run(argv, check=True)
    return Built(binary)


def marked(name: str) -> int:
    """The line that decides the case ``name``."""
    lines = SOURCE.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"decides: {name} " in line)


def line_of(built: Built, address: int) -> int:
    with DwarfImage(built.binary) as image:
        found = image.lookup(address)
    assert found is not None
    return found.frames[0].line


MADE = {
    "merged": {Made.CONSTANT},
    "stored_at_top": {Made.CONSTANT},
    "cleans_up": {Made.CONSTANT},
    "passes_on": {Made.CALLEE},
    "tail_call": {Made.CALLEE},
    "error_pointer": {Made.CONSTANT},
    # the end of the list, or a NULL in its place
    "null_pointer": {Made.CONSTANT, Made.MEMORY},
    "from_memory": {Made.MEMORY},
    "switched": {Made.CONSTANT},
    "inlined": {Made.CONSTANT},
    "looped": {Made.CONSTANT},
    "settled": {Made.CONSTANT},
    "tried_again": {Made.CONSTANT},
    "kept": {Made.CONSTANT},
}


@pytest.mark.parametrize("name", MADE)
def test_the_condition_that_decided_is_found(built: Built, name: str) -> None:
    decision = built.ran(name).decide()
    assert decision.returned is not None, decision
    assert decision.returned.made in MADE[name], decision
    assert decision.decided is not None, decision
    assert line_of(built, decision.decided.address) == marked(name), decision


@pytest.mark.parametrize("name", ["by_cmov", "by_sign", "by_setcc"])
def test_a_result_that_is_computed_without_a_jump_has_its_comparison(
    built: Built, name: str
) -> None:
    decision = built.ran(name).decide()
    assert decision.returned is not None
    assert decision.returned.made in (Made.COMPUTED, Made.CONSTANT), decision
    assert decision.decided is not None, decision
    assert decision.decided.flags is not None
    assert line_of(built, decision.decided.address) == marked(name)


def test_who_made_an_error_that_is_passed_on_is_named(built: Built) -> None:
    for name in ("passes_on", "tail_call", "retries"):
        decision = built.ran(name).decide()
        assert decision.returned is not None
        assert decision.returned.callee == "helper", (name, decision)


def test_a_function_that_always_fails_says_so(built: Built) -> None:
    decision = built.ran("always").decide()
    assert decision.returned is not None
    assert decision.returned.made is Made.CONSTANT
    assert decision.decided is None
    assert "always returns this" in (decision.unknown or "")


def test_an_error_kept_in_a_local_variable_is_followed(built: Built) -> None:
    decision = built.ran("spilled").decide()
    assert decision.returned is not None
    assert decision.returned.made is Made.CONSTANT
    assert decision.decided is not None, decision
    assert line_of(built, decision.decided.address) == marked("spilled")


def test_of_a_long_way_the_end_is_enough(built: Built) -> None:
    decision = built.ran("looped").decide(kept=4)
    assert decision.decided is not None, decision
    assert line_of(built, decision.decided.address) == marked("looped")


def test_blocks_without_a_probe_are_put_in_where_only_they_can_have_run(built: Built) -> None:
    ran = built.ran("merged")
    whole = ran.decide()
    for block in ran.graph.blocks:
        decision = ran.decide(unprobed=frozenset({block.index}))
        if decision.decided is None:  # two ways are left: nothing is said rather than guessed
            assert decision.unknown
        elif block.index != ran.graph.entry:
            assert whole.decided is not None


def test_the_marks_are_all_used() -> None:
    names = re.findall(r"decides: (\w+) ", SOURCE.read_text())
    assert len(names) == len(set(names)) == 18
