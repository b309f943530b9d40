# SPDX-License-Identifier: BSD-2-Clause
"""What the compiled BPF objects offer the loader: records, programs, maps and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import retsnoop_py
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.functions import FuncFlags

OBJECTS = Path(retsnoop_py.__file__).parent / "bpf"
TRACERS = ("kprobe_multi", "kprobe")
TASK_PROGRAMS = {
    "rsn_task_fork": "raw_tp/sched_process_fork",
    "rsn_task_exit": "raw_tp/sched_process_exit",
    "rsn_task_free": "raw_tp/sched_process_free",
}
PROGRAMS = {
    "kprobe_multi": {
        "rsn_entry": "kprobe.multi",
        "rsn_exit": "kretprobe.multi",
        **TASK_PROGRAMS,
    },
    "kprobe": {"rsn_entry": "kprobe", "rsn_exit": "kretprobe", **TASK_PROGRAMS},
    "calib_feat": {
        "feat_kprobe_multi": "kprobe.multi",
    },
}
MAPS = {"events", "sessions", "tgid_filter", "comm_filter", "tree"}
SETTINGS = {
    "use_ringbuf": 1,
    "emit_success": 1,
    "duration_ns": 8,
    "sessions_max": 4,
    "tgid_allow_cnt": 4,
    "tgid_deny_cnt": 4,
    "comm_allow_cnt": 4,
    "comm_deny_cnt": 4,
    "follow_tree": 1,
    "return_hook": 8,
    "graph_hook": 8,
}
KPROBE_SETTINGS = {
    "has_cookie": 1,
    "has_func_ip": 1,
    "current_kprobe_addr": 8,
    "per_cpu_offset_addr": 8,
    "keep_call_sites": 1,
}


def elf_sections(name: str) -> dict[str, bytes]:
    with (OBJECTS / f"{name}.bpf.o").open("rb") as file:
        return {section.name: section.data() for section in ELFFile(file).iter_sections()}


def symbols(name: str, keep: Callable[[str, str], bool]) -> dict[str, tuple[str, int]]:
    """Section and size of each global symbol that ``keep(type, section)`` wants."""
    with (OBJECTS / f"{name}.bpf.o").open("rb") as file:
        elf = ELFFile(file)
        names = [section.name for section in elf.iter_sections()]
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        found = {}
        for symbol in table.iter_symbols():
            index, info = symbol["st_shndx"], symbol["st_info"]
            if info["bind"] != "STB_GLOBAL" or not isinstance(index, int):
                continue
            if keep(info["type"], names[index]):
                found[symbol.name] = (names[index], symbol["st_size"])
        return found


def read_btf(name: str) -> Btf:
    return Btf(elf_sections(name)[".BTF"])


def size_of(btf: Btf, struct: str) -> int:
    type_id = btf.find(struct, Kind.STRUCT)
    assert type_id is not None
    return btf.size_of(type_id)


@pytest.mark.parametrize("name", TRACERS)
@pytest.mark.parametrize(
    ("struct", "size"), [("rsn_session", 96), ("rsn_slot", 24), ("rsn_stats", 48)]
)
def test_records_have_no_holes_and_a_known_size(name: str, struct: str, size: int) -> None:
    btf = read_btf(name)
    members = btf.struct(struct)
    assert members is not None
    assert size_of(btf, struct) == size
    assert sum(btf.size_of(member.type_id) for member in members) == size


@pytest.mark.parametrize("name", TRACERS)
def test_python_reads_function_flags_as_bpf_does(name: str) -> None:
    btf = read_btf(name)
    type_id = btf.find("rsn_func_flags", Kind.ENUM)
    assert type_id is not None
    flags = {flag.name: flag.value for flag in FuncFlags}
    prefix = "RSN_FUNC_"
    assert {k.removeprefix(prefix): v for k, v in btf.enumerators(type_id).items()} == flags


@pytest.mark.parametrize("name", TRACERS)
@pytest.mark.parametrize("enum", ["rsn_record_type", "rsn_session_flags"])
def test_enums_of_records_reach_the_btf(name: str, enum: str) -> None:
    assert read_btf(name).find(enum, Kind.ENUM) is not None


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_object_has_exactly_the_programs_the_loader_knows(name: str) -> None:
    found = symbols(name, lambda kind, _: kind == "STT_FUNC")
    assert {program: section for program, (section, _) in found.items()} == PROGRAMS[name]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_objects_may_call_gpl_helpers_and_carry_no_dwarf(name: str) -> None:
    sections = elf_sections(name)
    assert sections["license"] == b"Dual BSD/GPL\0"
    assert not [section for section in sections if section.startswith(".debug")]


@pytest.mark.parametrize(
    ("name", "maps"), [("kprobe_multi", MAPS), ("kprobe", {*MAPS, "ip_to_cookie"})]
)
def test_object_has_the_maps_the_loader_fills(name: str, maps: set[str]) -> None:
    assert set(symbols(name, lambda _, section: section == ".maps")) == maps


@pytest.mark.parametrize(
    ("name", "settings"),
    [("kprobe_multi", SETTINGS), ("kprobe", {**SETTINGS, **KPROBE_SETTINGS})],
)
def test_settings_are_constants_of_the_size_the_loader_writes(
    name: str, settings: dict[str, int]
) -> None:
    found = symbols(name, lambda _, section: section == ".rodata")
    assert {setting: size for setting, (_, size) in found.items()} == settings


@pytest.mark.parametrize("name", TRACERS)
def test_loader_finds_the_gate_and_the_counters(name: str) -> None:
    found = symbols(name, lambda _, section: section == ".bss")
    assert found["ready"] == (".bss", 1)
    assert found["stats"] == (".bss", 48)


@pytest.mark.parametrize(("name", "most"), [("kprobe_multi", 5 << 10), ("kprobe", 6 << 10)])
def test_session_state_stays_small(name: str, most: int) -> None:
    assert size_of(read_btf(name), "session") <= most
