# SPDX-License-Identifier: BSD-2-Clause
"""What the compiled BPF objects offer the loader: records, programs, maps and settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from retsnoop_py.attach.injected import WAYS
from retsnoop_py.capture import configure, message_sources, process_ids
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.btf_struct import BtfStruct
from retsnoop_py.kernel.functions import FuncFlags
from retsnoop_py.libbpf.object import OBJECTS
from retsnoop_py.mechanism import Mechanism

MAPS = {
    "events",
    "func_cookies",
    "sessions",
    "logs",
    "messages",
    "interims",
    "user_stacks",
    "branch_shots",
    "branch_pairs",
    "debug_funcs",
    "debug_lines",
    "args_plans",
    "buckets",
    "tgid_filter",
    "comm_filter",
    "tree",
    "ip_to_cookie",
    "paths",
    "path_probes",
    "words",
}
SETTINGS = {
    "printk_text": 8,
    "use_ringbuf": 1,
    "emit_success": 1,
    "emit_stack": 1,
    "emit_calls": 1,
    "emit_user_stack": 1,
    "emit_interim": 1,
    "emit_paths": 1,
    "path_sessions": 4,
    "use_lbr": 1,
    "debug_log": 1,
    "capture_args": 1,
    "args_max_total": 8,
    "args_max_data": 8,
    "args_context_plans": 4,
    "args_probe_plans": 4,
    "log_bytes": 8,
    "duration_ns": 8,
    "plain": 1,
    "sessions_max": 4,
    "buckets_max": 4,
    "wake_bytes": 8,
    "tgid_allow_cnt": 4,
    "tgid_deny_cnt": 4,
    "comm_allow_cnt": 4,
    "comm_deny_cnt": 4,
    "follow_tree": 1,
    "in_pid_ns": 1,
    "proc_above": 4,
    "graph_hook": 8,
    "return_hook": 8,
    "multi_return_hook": 8,
    "has_cookie": 1,
    "has_perf_cookie": 1,
    "has_raw_cookie": 1,
    "has_func_ip": 1,
    "current_kprobe_addr": 8,
    "per_cpu_offset_addr": 8,
    "returns_by_place": 1,
    "has_fetch": 1,
    "keep_call_sites": 1,
    "stack_places": 4,
    "miss_programs": 4,
    "task_files_at": 4,
    "files_fdt_at": 4,
    "fdtable_fd_at": 4,
    "file_private_at": 4,
    "prog_stats_at": 4,
    "speakers": 144,
}


def elf_sections() -> dict[str, bytes]:
    with (OBJECTS / "trace.bpf.o").open("rb") as file:
        return {section.name: section.data() for section in ELFFile(file).iter_sections()}


def symbols(keep: Callable[[str, str], bool]) -> dict[str, tuple[str, int]]:
    """Section and size of each global symbol that ``keep(type, section)`` wants."""
    with (OBJECTS / "trace.bpf.o").open("rb") as file:
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


def read_btf() -> Btf:
    return Btf(elf_sections()[".BTF"])


def size_of(btf: Btf, struct: str) -> int:
    type_id = btf.find(struct, Kind.STRUCT)
    assert type_id is not None
    return btf.size_of(type_id)


@pytest.mark.parametrize(
    ("struct", "size"),
    [
        ("rsn_session", 128),
        ("rsn_slot", 24),
        ("rsn_part", 24),
        ("rsn_event", 32),
        ("rsn_stats", 72),
    ],
)
def test_records_have_no_holes_and_a_known_size(struct: str, size: int) -> None:
    btf = read_btf()
    members = btf.struct(struct)
    assert members is not None
    assert size_of(btf, struct) == size
    assert sum(btf.size_of(member.type_id) for member in members) == size


def test_python_reads_function_flags_as_bpf_does() -> None:
    btf = read_btf()
    type_id = btf.find("rsn_func_flags", Kind.ENUM)
    assert type_id is not None
    flags = {flag.name: flag.value for flag in FuncFlags}
    prefix = "RSN_FUNC_"
    assert {k.removeprefix(prefix): v for k, v in btf.enumerators(type_id).items()} == flags


@pytest.mark.parametrize("enum", ["rsn_record_type", "rsn_session_flags"])
def test_enums_of_records_reach_the_btf(enum: str) -> None:
    assert read_btf().find(enum, Kind.ENUM) is not None


def test_object_has_exactly_the_programs_the_loader_knows() -> None:
    found = symbols(lambda kind, section: kind == "STT_FUNC" and section != ".text")
    known = {program for mechanism in Mechanism for program in mechanism.row.programs}
    known |= {way.program for way in WAYS.values()}
    known |= {"rsn_block"}
    assert set(found) == known | {
        *configure.TASK_PROGRAMS,
        configure.COUNTED_BY,
        message_sources.PRINTK_PROGRAM,
        message_sources.STORED_PROGRAM,
        message_sources.NETLINK_PROGRAM,
        *message_sources.FS_CONTEXT_PROGRAMS,
        message_sources.IO_URING_PROGRAM,
        message_sources.WORDS_PROGRAM,
        process_ids.PROGRAM,
    }


def test_objects_may_call_gpl_helpers_and_carry_no_dwarf() -> None:
    sections = elf_sections()
    assert sections["license"] == b"Dual BSD/GPL\0"
    assert not [section for section in sections if section.startswith(".debug")]


def test_object_has_the_maps_the_loader_fills() -> None:
    assert set(symbols(lambda _, section: section == ".maps")) == MAPS


def test_settings_are_constants_of_the_size_the_loader_writes() -> None:
    found = symbols(lambda _, section: section == ".rodata")
    assert {setting: size for setting, (_, size) in found.items()} == SETTINGS


def test_loader_finds_the_gate_and_the_counters() -> None:
    found = symbols(lambda _, section: section == ".bss")
    assert found["ready"] == (".bss", 1)
    assert found["stats"] == (".bss", 72)


def test_session_state_stays_small() -> None:
    assert size_of(read_btf(), "session") <= 6 << 10


@pytest.mark.parametrize("name", ["arg_plan", "args_plan", "debug_func", "pid_row", "speaker"])
def test_what_python_packs_and_reads_by_name_is_in_the_btf(name: str) -> None:
    assert BtfStruct(read_btf(), name).size
