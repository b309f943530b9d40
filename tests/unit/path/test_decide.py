# SPDX-License-Identifier: BSD-2-Clause
"""Deciding conditions of functions that are compiled here for each machine, and emulated."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM64, UC_ARCH_X86, UC_HOOK_CODE, UC_MODE_64, UC_MODE_ARM, Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_NZCV,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X30,
)
from unicorn.x86_const import (
    UC_X86_REG_EFLAGS,
    UC_X86_REG_RAX,
    UC_X86_REG_RDI,
    UC_X86_REG_RSI,
    UC_X86_REG_RSP,
)

from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.decide import decide
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.follow import follow
from retsnoop_py.path.insn import Machine
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.origin import Decision, Made
from retsnoop_py.path.probes import place_probes
from retsnoop_py.path.text import FunctionCode, Part

SOURCE = Path(__file__).with_name("cases.c")
#: As the kernel is built: (-pg) no knowledge of what a callee leaves alone.
FLAGS = (
    "-O2",
    "-g",
    "-fno-ipa-ra",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-fno-pie",
)
#: Neither has the kernel vectors. Jump tables, arm64 alone has; its functions begin with room for
#: ftrace and sign returns.
OWN_FLAGS = {
    "x86_64": ("-mno-sse", "-mno-mmx", "-fcf-protection=none", "-fno-jump-tables"),
    "aarch64": (
        *("-mgeneral-regs-only", "-mbranch-protection=pac-ret"),
        *("-mno-outline-atomics", "-fpatchable-function-entry=2"),
    ),
}
#: ``struct attr``, and the calls: those members that are not 0.
ATTR = struct.Struct("=iiiiQ")
MEMBERS = ("type", "key_size", "value_size", "flags", "next")
CALLS: dict[str, dict[str, int]] = {
    "merged": {"key_size": 8},
    "stored_at_top": {"type": 1, "flags": 8},
    "cleans_up": {"key_size": -1, "next": True},
    "passes_on": {"value_size": 1000},
    "tail_call": {"type": 1, "value_size": 1000},
    "by_cmov": {"type": 3},
    "by_sign": {"value_size": -1},
    "by_setcc": {"type": 9},
    "error_pointer": {"type": 1},
    "null_pointer": {"type": 1, "next": True},
    "from_memory": {"type": 6, "next": True},
    "switched": {"type": 77},
    "switched_in": {"type": 14, "flags": 8},
    "switched_to": {"type": 13},
    "retries": {"value_size": 1000},
    "always": {"type": 1},
    "inlined": {"value_size": 2},
    "looped": {"value_size": 9, "key_size": 3},
    "rejects_all": {"flags": 0x100302},
    "spilled": {"type": 2},
    "settled": {"type": 1},
    "tried_again": {"type": 1, "next": True},
    "kept": {"key_size": 8},
    "either": {"type": 1, "key_size": 8},
    "either_first": {"type": 7, "key_size": 4},
    "both": {"type": 7, "key_size": 8},
    "any_of_four": {"type": 1, "key_size": 4, "value_size": 3, "flags": 9},
    "signed_bit": {"flags": 0x20},
    "null_passed": {},
    "through_pointer": {"value_size": 1000},
    "tail_through": {"value_size": 1000},
    "asked_before": {},
    "handed_on": {"key_size": 8, "next": True},
    "handed_last": {"type": 1},
    "tells_at_the_end": {"key_size": 8},
    "copied_so_far": {"type": 8, "next": True},
    "asked_twice": {"flags": 2, "next": True},
    "known_error": {"type": 4, "key_size": 4, "value_size": 1000},
    "begun_again": {"key_size": 8},
    "handled": {"value_size": 7},
    "tells_which": {"type": 1},
    "undone": {"type": 1},
    "left_behind": {"flags": -5},
    "does_not_wait": {"flags": 0x40},
    "times_out": {"type": 0, "value_size": 20, "flags": 6},
    "does_not_connect": {"type": 2, "key_size": 6, "flags": 0x40},
    "finishes": {"type": 4},
    "stored_in_loop": {"type": 1, "key_size": 4, "value_size": 20, "flags": 6},
    "dispatched": {"type": 2, "key_size": 6, "flags": 0x100},
    "behind_a_loop": {"value_size": 3},
    "behind_a_scan": {"value_size": 4, "type": 3, "flags": 8},
    "no_element": {"next": True},
    "bad_element": {"next": True},
}
EPIPE = 32


@dataclass(frozen=True, slots=True)
class Ran:
    """One function and its run: the addresses of its instructions as they ran.

    ``held``: for conditional comparisons whether they were made, in their order.
    """

    graph: Graph
    result: int
    addresses: tuple[int, ...]
    names: dict[int, str]
    #: With those of functions that were called.
    came: tuple[int, ...]
    held: tuple[bool | None, ...]

    def targets(self) -> Iterator[int]:
        """For each instruction where it led through a pointer; 0 for one that did not."""
        opened = {
            probe.address: len(self.graph.blocks[probe.block].insns)
            for probe in place_probes(self.graph)
            if probe.goes is not None
        }
        for number, at in enumerate(self.came):
            if self.graph.code.contains(at):
                yield self.came[number + opened[at]] if at in opened else 0

    def decide(
        self,
        *,
        kept: int | None = None,
        unprobed: frozenset[int] = frozenset(),
        handed: int = 0,
        missed: slice = slice(0),
    ) -> Decision | None:
        """Return the decision; with ``kept``, only that number of last blocks was recorded.

        ``missed`` selects hits that are removed. Return None if the path has no gap despite that.
        """
        starts = {block.start: block.index for block in self.graph.blocks}
        steps = zip(self.addresses, self.held, self.targets(), strict=True)
        seen = [(starts[at], held, to) for at, held, to in steps if at in starts]
        seen = [one for one in seen if one[0] not in unprobed]
        is_cut = kept is not None and kept < len(seen)
        if kept is not None:
            seen = seen[-kept:]
        del seen[missed]
        probed = frozenset(starts.values()) - unprobed
        hits, held, targets = ([one[part] for one in seen] for part in range(3))
        way = follow(self.graph, hits, probed, is_cut=is_cut, held=held, targets=targets)
        if missed.stop and not way.gaps:
            return None
        return decide(self.graph, way, Failure(self.result), self.names.get, handed)


class Emulated:
    """A machine with the compiled cases in its memory."""

    DATA, STACK, END, PAGE = 0x10000000, 0x20000000, 0x30000000, 0x1000
    #: The second argument, for functions with a second argument.
    SECOND = 3
    #: Bits of NZCV for each condition of a conditional comparison that the cases have.
    HOLDS: ClassVar[dict[str, Callable[[int], bool]]] = {
        "e": lambda flags: bool(flags >> 30 & 1),
        "ne": lambda flags: not flags >> 30 & 1,
    }

    def __init__(self, machine: Machine, binary: Path) -> None:
        self.is_arm = machine.name == "aarch64"
        self.core = Uc(UC_ARCH_ARM64, UC_MODE_ARM) if self.is_arm else Uc(UC_ARCH_X86, UC_MODE_64)
        with binary.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                start, size = segment["p_vaddr"], segment["p_memsz"]
                low = start // self.PAGE * self.PAGE
                self.core.mem_map(low, -(-(start + size - low) // self.PAGE) * self.PAGE)
                self.core.mem_write(start, segment.data())
        for place in (self.DATA, self.STACK, self.END):
            self.core.mem_map(place, 4 * self.PAGE)

    def call(self, start: int, attr: dict[str, int]) -> tuple[int, list[tuple[int, int]]]:
        """Call the function at ``start``: its result, and (address, flags) of what ran."""
        core, stack = self.core, self.STACK + 2 * self.PAGE
        behind = self.DATA + self.PAGE
        values = [attr.get(name, 0) for name in MEMBERS[:-1]]
        core.mem_write(self.DATA, ATTR.pack(*values, behind if "next" in attr else 0))
        core.mem_write(behind, ATTR.pack(0, 0, 0, -EPIPE, 0))
        if self.is_arm:
            core.reg_write(UC_ARM64_REG_X30, self.END)
        else:
            stack -= 8
            core.mem_write(stack, struct.pack("=Q", self.END))
        sp, first, result, flags = (
            (UC_ARM64_REG_SP, UC_ARM64_REG_X0, UC_ARM64_REG_X0, UC_ARM64_REG_NZCV)
            if self.is_arm
            else (UC_X86_REG_RSP, UC_X86_REG_RDI, UC_X86_REG_RAX, UC_X86_REG_EFLAGS)
        )
        core.reg_write(sp, stack)
        core.reg_write(first, self.DATA)
        core.reg_write(UC_ARM64_REG_X1 if self.is_arm else UC_X86_REG_RSI, self.SECOND)
        ran: list[tuple[int, int]] = []
        hook = core.hook_add(
            UC_HOOK_CODE, lambda uc, address, *_: ran.append((address, uc.reg_read(flags)))
        )
        core.emu_start(start, self.END)
        core.hook_del(hook)
        return core.reg_read(result), ran


class Built:
    """The compiled cases."""

    def __init__(self, machine: Machine, binary: Path) -> None:
        self.machine = machine
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
        self.emulated = Emulated(machine, binary)

    def part(self, name: str) -> Part:
        start, size = self.symbols[name]
        return Part(start, self.text[start - self.base : start - self.base + size])

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.emulated.core.mem_read(address, size))

    def ran(self, name: str) -> Ran:
        names = {start: symbol for symbol, (start, _) in self.symbols.items()}
        parts = [self.part(name)]
        if f"{name}.cold" in self.symbols:
            parts.append(self.part(f"{name}.cold"))
        graph = cut(FunctionCode(name, None, tuple(parts)), self.machine, names.get, self.read)
        result, ran = self.emulated.call(graph.code.address, CALLS[name])
        inside = [(at, flags) for at, flags in ran if graph.code.contains(at)]
        conditions = {
            insn.address: insn.condition
            for block in graph.blocks
            for insn in block.insns
            if insn.op == "ccmp"
        }
        held = tuple(
            Emulated.HOLDS[conditions[at]](flags) if at in conditions else None
            for at, flags in inside
        )
        came = tuple(at for at, _ in ran)
        return Ran(graph, result, tuple(at for at, _ in inside), names, came, held)


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> Machine:
    return machine_named(request.param)


@pytest.fixture(scope="module", params=["-fno-jump-tables", "-fno-if-conversion", "-O1", "-Os"])
def built(
    machine: Machine, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    binary = tmp_path_factory.mktemp("path") / "cases"
    own = (*FLAGS, *OWN_FLAGS[machine.name], request.param, "-Wl,-e,merged")
    argv = [f"{machine.name}-linux-gnu-gcc", *own, "-Wall", "-Werror"]
    subprocess.run([*argv, "-o", str(binary), str(SOURCE)], check=True)
    return Built(machine, binary)


def marked(name: str) -> int:
    """The line that decides the case ``name``."""
    lines = SOURCE.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"/* decides: {name} " in line)


def may_decide(name: str) -> set[int]:
    """That line, and those that may as well, if a compiler leaves their condition in the code."""
    lines = SOURCE.read_text().splitlines()
    return {n for n, line in enumerate(lines, 1) if f"decides: {name} " in line}


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
    "error_pointer": {Made.CONSTANT},
    # the end of the list, or a NULL in its place
    "null_pointer": {Made.CONSTANT, Made.MEMORY},
    "from_memory": {Made.MEMORY},
    "switched": {Made.CONSTANT},
    "switched_in": {Made.CONSTANT},
    "switched_to": {Made.CONSTANT},
    "inlined": {Made.CONSTANT},
    "looped": {Made.CONSTANT},
    "rejects_all": {Made.CONSTANT},
    "settled": {Made.CONSTANT},
    "tried_again": {Made.CONSTANT},
    "kept": {Made.CONSTANT},
    "either": {Made.CONSTANT},
    "either_first": {Made.CONSTANT},
    "both": {Made.CONSTANT},
    "any_of_four": {Made.CONSTANT},
    "signed_bit": {Made.CONSTANT},
    "null_passed": {Made.CONSTANT},
    "through_pointer": {Made.CALLEE},
    "asked_before": {Made.CONSTANT},
    "stored_in_loop": {Made.CONSTANT},
    "times_out": {Made.CONSTANT},
    "does_not_connect": {Made.CONSTANT},
    "finishes": {Made.CONSTANT},
    "dispatched": {Made.CONSTANT},
    "begun_again": {Made.CONSTANT},
    "handled": {Made.CONSTANT},
    "tells_which": {Made.CONSTANT},
    "undone": {Made.CONSTANT},
    "left_behind": {Made.MEMORY},
    "does_not_wait": {Made.CONSTANT},
    "tells_at_the_end": {Made.CONSTANT},
    "asked_twice": {Made.CONSTANT},
    "copied_so_far": {Made.CONSTANT},
    "behind_a_loop": {Made.CONSTANT},
    "behind_a_scan": {Made.CONSTANT},
    "no_element": {Made.CONSTANT},
    "bad_element": {Made.CONSTANT},
}


@pytest.mark.parametrize("name", MADE)
def test_the_condition_that_decided_is_found(built: Built, name: str) -> None:
    decision = built.ran(name).decide()
    assert decision.returned is not None, decision
    assert decision.returned.made in MADE[name], decision
    assert decision.decided is not None, decision
    assert line_of(built, decision.decided.address) in may_decide(name), decision


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


@pytest.mark.parametrize(
    ("name", "compared"), [("either_first", 7), ("both", 4), ("any_of_four", 3)]
)
def test_of_several_conditions_the_one_that_decided_is_told(
    built: Built, name: str, compared: int
) -> None:
    """arm64 makes one jump of them, behind comparisons that are not all made."""
    decided = built.ran(name).decide().decided
    assert decided is not None
    assert decided.flags is not None
    assert (decided.flags.right.kind, decided.flags.right.value) == ("const", compared)


def test_flags_that_chose_what_the_function_does_are_no_part_of_the_condition(built: Built) -> None:
    decided = built.ran("dispatched").decide().decided
    assert decided is not None
    assert decided.also == ()


def test_who_made_an_error_that_is_passed_on_is_named(built: Built) -> None:
    for name in (
        *("passes_on", "tail_call", "retries", "through_pointer", "tail_through"),
        "known_error",
    ):
        decision = built.ran(name).decide()
        assert decision.returned is not None
        assert decision.returned.callee == "helper", (name, decision)
        # The call itself is not a reason.
        step = decision.returned.step
        assert decision.decided is None or decision.decided.step >= step, (name, decision)


@pytest.mark.parametrize("name", ["handed_on", "handed_last"])
def test_what_a_function_gave_back_was_made_by_its_caller(built: Built, name: str) -> None:
    ran = built.ran(name)
    plain = ran.decide().returned
    assert plain is not None
    assert (plain.made, plain.callee) == (Made.CALLEE, "give_back")
    decision = ran.decide(handed=2)
    assert decision.returned is not None
    assert decision.returned.made is Made.CONSTANT
    assert decision.decided is not None, decision
    assert line_of(built, decision.decided.address) == marked(name), decision


@pytest.mark.parametrize("name", CALLS)
def test_where_hits_are_missing_nothing_else_is_told(built: Built, name: str) -> None:
    ran = built.ran(name)
    whole = ran.decide()
    blocks = len({block.start for block in ran.graph.blocks} & set(ran.addresses))
    gaps = 0
    for start in range(1, blocks):
        for end in range(start + 1, blocks):
            told = ran.decide(missed=slice(start, end))
            if told is None:
                continue
            gaps += 1
            if told.decided is not None:
                assert told.decided.address == whole.decided.address, (start, end)
            if told.returned is not None and told.returned.made is not Made.UNKNOWN:
                assert told.returned.made is whole.returned.made, (start, end)
                assert told.returned.address == whole.returned.address, (start, end)


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


def test_of_a_loop_that_rejects_all_the_best_element_is_told(built: Built) -> None:
    """The last element failed its first test; the one before passed that."""
    decided = built.ran("rejects_all").decide().decided
    assert decided is not None
    assert decided.elements == 3
    decided = built.ran("looped").decide().decided
    assert decided is not None
    assert decided.elements == 0, "that loop ends at the first element that fits"


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("no_element", True),
        ("bad_element", False),
        ("behind_a_loop", False),
        ("behind_a_scan", False),
        ("looped", False),
    ],
)
def test_the_test_for_a_further_element_rejects_no_element(
    built: Built, name: str, ended: bool
) -> None:
    decided = built.ran(name).decide().decided
    assert decided is not None
    assert (decided.elements, decided.ended) == (0, ended)


def test_the_case_of_a_switch_that_is_tested_later_is_part_of_the_condition(built: Built) -> None:
    decided = built.ran("asked_before").decide().decided
    assert decided is not None
    cases = [(one.condition, one.flags.right.value) for one in decided.also if one.flags]
    assert cases == [("e", 3)]


@pytest.mark.parametrize("name", ["switched", "from_memory", "asked_before"])
def test_the_last_case_of_a_switch_does_not_tell_the_other_cases(built: Built, name: str) -> None:
    """Without a table of jumps, each case is a test, and some are no part of the condition."""
    decided = built.ran(name).decide().decided
    assert decided is not None
    assert decided.cases == (name == "switched")


def test_tests_of_rounds_that_are_over_are_no_part_of_the_condition(built: Built) -> None:
    decided = built.ran("no_element").decide().decided
    assert decided is not None
    assert decided.also == ()


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
    names = re.findall(r"/\* decides: (\w+) ", SOURCE.read_text())
    unmarked = {"retries", "always", "tail_call", "tail_through", "known_error"}
    assert sorted(names) == sorted(CALLS.keys() - unmarked)
