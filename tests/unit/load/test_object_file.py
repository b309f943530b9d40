# SPDX-License-Identifier: BSD-2-Clause
"""What a compiled object tells: lines, relocations, externs; and what is no object."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from itertools import product
from pathlib import Path

import pytest
from tests.examples import difference, shown
from tests.fuzz.objects import every_answer
from tests.unit.cpu_limit import at_most

from retsnoop_py.api.loading import object_path
from retsnoop_py.cli import main as entry
from retsnoop_py.errors import DataError, InputError, UsageError
from retsnoop_py.kernel.elf_file import ElfFile, Section, StringTable
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.object_names import object_symbols
from retsnoop_py.load.relocation import Relocation
from retsnoop_py.load.shape import Shape, parse_shapes
from retsnoop_py.load.trial import TrialRequest, try_object

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "tests/live/objects"


CLANG = ("clang", "-target", "bpf", "-g", "-O2", "-D__TARGET_ARCH_x86")
INCLUDES = ("-I", str(ROOT / "build/libbpf/include"), "-I", "/usr/include/x86_64-linux-gnu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("objects")
    for name in ("config", "offers", "flow", "shape"):
        source = str(SOURCES / f"{name}.bpf.c")
        words = [*CLANG, *INCLUDES, "-c", source, "-o", str(made / f"{name}.bpf.o")]
        subprocess.run(words, check=True)
    return made


def line_of(name: str, text: str) -> int:
    lines = (SOURCES / name).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_relocations_have_the_names_of_structs_members_and_enumerators(folder: Path) -> None:
    target = ObjectFile(folder / "offers.bpf.o")
    found = {}
    for program in ("field_gone", "field_renamed", "enumerator_gone"):
        labels = [target.relocation_at(program, index) for index in range(4)]
        found[program] = [one.label for one in labels if one is not None]
    assert found == {
        "field_gone": ["struct task_struct.no_such_field"],
        "field_renamed": ["struct inode.i_atime.tv_sec"],
        "enumerator_gone": ["enumerator BPF_MAP_TYPE_NOSUCH of enum bpf_map_type"],
    }


def test_instructions_have_lines_also_in_functions_that_are_called(folder: Path) -> None:
    target = ObjectFile(folder / "flow.bpf.o")
    first = target.place_at("stack_too_deep", 0)
    assert first is not None
    called = [target.place_at("stack_too_deep", index) for index in range(40)]
    lines = {place.line for place in called if place is not None}
    assert line_of("flow.bpf.c", "return buffer[7];") in lines
    assert line_of("flow.bpf.c", "return buffer[9] + deeper") in lines
    assert any("stack_too_deep" in text for _, text in first.context)
    assert target.place_at("no_such_program", 0) is None


def test_what_is_called_back_belongs_to_the_program(folder: Path) -> None:
    target = ObjectFile(folder / "flow.bpf.o")
    places = [target.place_at("called_back", index) for index in range(20)]
    lines = {place.line for place in places if place is not None}
    assert line_of("flow.bpf.c", "return 5;") in lines
    assert target.passes_functions("called_back")
    assert not target.passes_functions("loop_bounded")
    (helper,) = target.helpers_of("called_back")
    assert helper[0] == 181
    place = target.place_at("called_back", helper[1])
    assert place is not None
    assert place.line == line_of("flow.bpf.c", "bpf_loop(3, five")
    assert target.instruction_at("called_back", helper[1])[:1] == b"\x85"
    assert target.instruction_at("called_back", 1000) == b""


def test_what_is_asked_of_the_configuration_has_a_value_for_not_set(folder: Path) -> None:
    asked = ObjectFile(folder / "config.bpf.o").kconfig()
    assert asked == {"CONFIG_NO_SUCH_OPTION": "0", "CONFIG_HZ": "0"}
    assert ObjectFile(folder / "flow.bpf.o").kconfig() == {}


def test_programs_and_maps_have_names_before_libbpf_reads_them(folder: Path) -> None:
    target = ObjectFile(folder / "flow.bpf.o")
    assert "loop_bounded" in target.programs()
    assert {"five", "deeper", "global_sum"}.isdisjoint(target.programs())
    assert set(target.maps()) == {"events", "counts"}


def test_externs_and_maps_belong_to_the_programs_that_use_them(folder: Path) -> None:
    target = ObjectFile(folder / "offers.bpf.o")
    assert target.externs_of("kfunc_missing") == {"bpf_no_such_kfunc"}
    assert target.externs_of("field_gone") == set()
    assert "bpf_task_acquire" in target.strong_externs()
    flow = ObjectFile(folder / "flow.bpf.o")
    assert flow.maps_of("reference_kept") == {"events"}
    assert flow.maps_of("unreachable") == set()


def test_what_is_long_to_follow_is_told_by_its_code(folder: Path) -> None:
    target = ObjectFile(folder / "flow.bpf.o")
    assert target.has_loop("loop_bounded")
    assert not target.has_loop("register_after_call")
    assert target.instruction_count("register_after_call") > 1
    assert target.instruction_count("no_such_program") == 0


def test_a_shape_is_checked_against_the_objects(folder: Path) -> None:
    targets = [ObjectFile(folder / name) for name in ("shape.bpf.o", "flow.bpf.o")]
    parse_shapes(["is_modern=1", "rounds=7"])[0].check(targets)
    with pytest.raises(InputError, match="nope") as error:
        parse_shapes(["nope=1"])[0].check(targets)
    assert "is_modern, rounds" in (error.value.hint or "")
    with pytest.raises(UsageError, match="8 bits"):
        parse_shapes(["is_modern=256"])[0].check(targets)


def test_a_log_without_lines_gets_them_from_the_object(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text(
        "libbpf: prog 'field_gone': -- BEGIN PROG LOAD LOG --\n"
        "0: (85) call bpf_get_current_task#35\n"
        "1: (85) call unknown#195896080\ninvalid func unknown#195896080\n"
    )
    assert entry.main(["explain", "--object", str(folder / "offers.bpf.o"), str(log)]) == 0
    out = capsys.readouterr().out
    assert "The program uses struct task_struct.no_such_field" in out
    first = line_of("offers.bpf.c", "// refused: core-relocation")
    lines = [first, first + 2]  # compilers differ in what of the macro is whose
    assert any(f"offers.bpf.c:{line}:" in out and f">>> {line} |" in out for line in lines)


def test_what_is_no_bpf_object_is_refused(folder: Path, tmp_path: Path) -> None:
    import sys

    with pytest.raises(DataError, match="not for BPF"):
        ObjectFile(Path(sys.executable).resolve())
    whole = (folder / "flow.bpf.o").read_bytes()
    for size in (0, 3, 63, 64, 300, len(whole) // 2):
        path = tmp_path / "cut"
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            ObjectFile(path)
    assert entry.main(["load", str(tmp_path / "missing.o")]) == 66
    assert entry.main(["load"]) == 64
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--shard", "4/3"]) == 64
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--on", ","]) == 64
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--jobs", "0"]) == 64
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--prog", "loop_bonded"]) == 66
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--map", "event"]) == 66
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--junit", "/nowhere/a.xml"]) == 74
    assert entry.main(["load", str(folder / "flow.bpf.o"), "--baseline", str(tmp_path)]) == 66


def test_the_page_shows_what_explain_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a log that Linux 5.10 gave."""
    (one,) = (one for one in shown("docs/load.md") if one.command.startswith("retsnoop-py explain"))
    for name in ("bounds.bpf.c", "common.h"):
        shutil.copy(SOURCES / name, tmp_path)
    shutil.copy(Path(__file__).with_name("agent.log"), tmp_path)
    places = ("-fdebug-compilation-dir=.", "-c", "bounds.bpf.c", "-o", "prog.bpf.o")
    subprocess.run([*CLANG, *INCLUDES, "-mcpu=v3", *places], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    assert entry.main(one.command.split()[1:]) == 0
    assert not difference(one.output or "", capsys.readouterr().out)


def test_a_damaged_object_is_a_result_and_ends_nothing(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "shape.bpf.o").read_bytes()
    made = tmp_path / "damaged.bpf.o"
    btf = whole.index(b"\x9f\xeb\x01\0")
    for at, byte in ((btf + 24 + 8, 0xFF), (whole.index(b"raw_tp/sys_enter") + 3, 0xFF)):
        damaged = bytearray(whole)
        damaged[at] = byte
        made.write_bytes(damaged)
        found = list(try_object(made, Shape("", ()), TrialRequest("host")))
        assert found, at
        assert all(one.kind in ("object", "btf", "program") for one in found)


@pytest.mark.parametrize(
    ("source", "words", "reason"),
    [
        ("int function(void) { return 1; }", ["-g"], "nothing-in-it"),
        (
            '#include "common.h"\nstruct { __uint(type, BPF_MAP_TYPE_HASH); } m SEC(".maps");',
            [],
            "object-btf",
        ),
    ],
)
def test_an_object_with_nothing_in_it_or_without_btf_is_told_as_that(
    source: str, words: list[str], reason: str, tmp_path: Path
) -> None:
    """libbpf finds that out by itself, before it asks a kernel."""
    made = tmp_path / "x.bpf.o"
    argv = ["clang", "-target", "bpf", "-O2", "-I", str(SOURCES), "-x", "c", "-"]
    argv += ["-I", str(ROOT / "build/libbpf/include"), "-I", "/usr/include/x86_64-linux-gnu"]
    subprocess.run([*argv, *words, "-c", "-o", str(made)], input=source, text=True, check=True)
    (found,) = try_object(made, Shape("", ()), TrialRequest("host"))
    assert (found.kind, found.verdict, found.reason) == ("object", "refused", reason)


SECRET = "[default]\naws_secret_access_key = hunter2\n"
#: A program whose line table names another file than the one that was compiled.
HOSTILE = """
#line 1 "{file}"
__attribute__((section("socket"))) int p(void *ctx) {{ return 0; }}
"""


def hostile_object(folder: Path, file: str) -> Path:
    """An object whose program stands at line 1 of ``file``, by its line table."""
    (folder / "bad.c").write_text(HOSTILE.format(file=file))
    target = folder / "bad.o"
    subprocess.run([*CLANG, "-c", str(folder / "bad.c"), "-o", str(target)], check=True)
    return target


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A file with the first line that the hostile object quotes, and a secret below it."""
    path = tmp_path / "home/credentials"
    path.parent.mkdir()
    text = HOSTILE.splitlines()[2].format(file="")
    path.write_text(f"{text}\n{SECRET}")
    return path


@pytest.mark.parametrize("absolute", [True, False])
def test_no_file_that_an_object_names_is_read_without_a_source_folder(
    tmp_path: Path, credentials: Path, absolute: bool
) -> None:
    (tmp_path / "obj").mkdir()
    name = str(credentials) if absolute else "../home/credentials"
    path = hostile_object(tmp_path / "obj", name)
    place = ObjectFile(path).place_at("p", 0)
    assert place is not None
    assert place.line == 1
    assert "hunter2" not in str(place)
    assert all(number == 1 for number, _ in place.context)


def test_with_a_source_folder_only_files_below_it_are_read(
    tmp_path: Path, credentials: Path
) -> None:
    path = hostile_object(tmp_path, str(credentials))
    source = tmp_path / "source"
    source.mkdir()
    (source / "credentials").symlink_to(credentials)
    place = ObjectFile(path, source=source).place_at("p", 0)
    assert place is not None
    assert "hunter2" not in str(place)
    place = ObjectFile(path, source=credentials.parent).place_at("p", 0)
    assert place is not None
    assert "hunter2" in str(place.context)


def test_a_fifo_or_device_that_an_object_names_is_not_opened(
    tmp_path: Path, credentials: Path
) -> None:
    path = hostile_object(tmp_path, str(credentials))
    credentials.unlink()
    os.mkfifo(credentials)
    assert ObjectFile(path, source=credentials.parent).place_at("p", 0) is not None
    credentials.unlink()
    credentials.symlink_to("/dev/zero")
    assert ObjectFile(path, source=Path("/")).place_at("p", 0) is not None


def test_an_object_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.o")
    with pytest.raises(DataError, match="not a regular file"):
        object_path(str(tmp_path / "fifo.o"))


def test_explain_prints_lines_around_a_place_only_with_a_source_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text((ROOT / "tests/unit/load/agent.log").read_text())
    words = ["explain", "--object", str(folder / "offers.bpf.o")]
    assert entry.main([*words, "--source", str(tmp_path / "none"), str(log)]) == 66
    assert "--source" in capsys.readouterr().err
    assert entry.main([*words, "--source", str(SOURCES), str(log)]) == 0


def section_of(path: Path, name: str) -> Section:
    with ElfFile(path) as elf:
        return elf.sections[name]


def patched(path: Path, changes: dict[int, bytes], to: Path) -> Path:
    data = bytearray(path.read_bytes())
    for at, text in changes.items():
        data[at : at + len(text)] = text
    to.write_bytes(data)
    return to


@pytest.mark.parametrize("size", range(16))
@pytest.mark.parametrize("part", [1, 2])
def test_records_of_btf_ext_that_are_too_short_are_ignored(
    size: int, part: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "offers.bpf.o"
    at = section_of(path, ".BTF.ext").offset
    head = path.read_bytes()[at : at + 32]
    (header,) = struct.unpack_from("=I", head, 4)
    (start,) = struct.unpack_from("=I", head, 8 + 8 * part)
    made = patched(path, {at + header + start: struct.pack("=I", size)}, tmp_path / "a.o")
    target = ObjectFile(made)
    found = [
        (target.place_at if part == 1 else target.relocation_at)(program, index)
        for program in target.programs()
        for index in range(4)
    ]
    assert not any(found)
    log = tmp_path / "log"
    log.write_text(
        "libbpf: prog 'field_gone': -- BEGIN PROG LOAD LOG --\n"
        "0: (85) call bpf_get_current_task#35\n"
        "1: (85) call unknown#195896080\ninvalid func unknown#195896080\n"
    )
    assert entry.main(["explain", "--object", str(made), str(log)]) == 0
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("header", [0, 8, 23, 24, 31, 32, 33, 1 << 16, (1 << 32) - 1])
@pytest.mark.parametrize("length", [0, 8, 23, 24, 25, 31, 32, 40])
def test_a_header_of_btf_ext_that_is_cut_is_ignored(
    header: int, length: int, folder: Path, tmp_path: Path
) -> None:
    path = folder / "offers.bpf.o"
    ext = section_of(path, ".BTF.ext")
    row = header_row(path, ".BTF.ext")
    changes = {ext.offset + 4: struct.pack("=I", header), row + 32: struct.pack("=Q", length)}
    assert every_answer(patched(path, changes, tmp_path / "a.o"))


def header_row(path: Path, name: str) -> int:
    """Where the section header of ``name`` is in the file."""
    (table,) = struct.unpack_from("=Q", path.read_bytes(), 40)
    with ElfFile(path) as elf:
        return table + 64 * elf.section_names.index(name)


@pytest.mark.parametrize("name", ["flow.bpf.o", "offers.bpf.o"])
@pytest.mark.parametrize("less", range(1, 8))
def test_code_that_ends_inside_an_instruction_is_read_up_to_there(
    name: str, less: int, folder: Path, tmp_path: Path
) -> None:
    path = folder / name
    with ElfFile(path) as elf:
        code = [one for one in elf.sections.values() if one.flags & 4 and one.size]
    changes = {header_row(path, one.name) + 32: struct.pack("=Q", one.size - less) for one in code}
    assert every_answer(patched(path, changes, tmp_path / "a.o"))


def test_a_relocation_without_a_type_is_none(folder: Path, tmp_path: Path) -> None:
    path = folder / "offers.bpf.o"
    at = section_of(path, ".BTF.ext").offset
    head = path.read_bytes()[at : at + 32]
    (header,) = struct.unpack_from("=I", head, 4)
    (start,) = struct.unpack_from("=I", head, 24)
    # behind the size of records, the section and how many it has: offset, type
    first = at + header + start + 12
    made = patched(path, {first + 4: struct.pack("=I", 1 << 30)}, tmp_path / "a.o")
    assert ObjectFile(path)._relocations.keys() == ObjectFile(made)._relocations.keys()
    assert every_answer(made)


@pytest.mark.parametrize("access", ["0:\u00b2", "0:" * 3000, "0:" + "9" * 4000, "", ":::", "0:-1"])
def test_a_path_of_a_relocation_that_is_none_is_shown_as_unknown(access: str, folder: Path) -> None:
    target = ObjectFile(folder / "offers.bpf.o")
    btf = target.btf
    assert btf is not None
    # a field, a type, an enumerator: the object combines them with any type
    for type_id, kind in product(range(btf.end), (0, 8, 10)):
        relocation = Relocation(btf, type_id, access, kind, btf)
        assert len(relocation.label) < 10_000
        assert relocation.facts()


def test_sections_that_overlap_to_more_than_the_file_are_damage(
    folder: Path, tmp_path: Path
) -> None:
    path = folder / "flow.bpf.o"
    whole = path.stat().st_size
    with ElfFile(path) as elf:
        code = [one.name for one in elf.sections.values() if one.flags & 4 and one.size]
    assert len(code) > 2
    row = struct.pack("=QQ", 0, whole - 64)
    made = patched(path, {header_row(path, name) + 24: row for name in code}, tmp_path / "a.o")
    with pytest.raises(DataError, match="overlap"):
        ObjectFile(made)


def test_strings_that_lie_one_in_another_are_damage() -> None:
    table = StringTable(b"x" * 100_000, "a.o")
    assert table.at(0) == "x" * 4096
    assert table.at(0) is table.at(0)
    with pytest.raises(DataError, match="one in another"):
        [table.at(at) for at in range(200)]
    text = b"\0".join(b".rel.text%05d" % n for n in range(5000)) + b"\0"
    table = StringTable(text, "a.o")
    starts = range(0, len(text), 15)
    assert len({table.at(start + more) for start in starts for more in (0, 4)}) == 10_000


def test_an_object_with_millions_of_symbols_is_damage(folder: Path, tmp_path: Path) -> None:
    """Else TAB behind its name takes minutes and gigabytes."""
    path = folder / "flow.bpf.o"
    whole = path.stat().st_size
    row = struct.pack("=QQ", whole, 24 << 20)
    made = patched(path, {header_row(path, ".symtab") + 24: row}, tmp_path / "a.bpf.o")
    os.truncate(made, whole + (24 << 20))
    with pytest.raises(DataError, match="more than 262144 symbols"):
        ObjectFile(made)
    assert object_symbols([str(made)]) == []


def test_a_function_is_found_among_many_symbols_in_little_time(
    folder: Path, tmp_path: Path
) -> None:
    """Each of hundreds of functions that a program calls was compared to each symbol."""
    path = tmp_path / "many.o"
    write_calls(path, functions=240, aliases=40_000)
    target = ObjectFile(path)
    assert len(target.symbols) == 40_242
    assert len(target._layout("p")) == 241
    with at_most(1, of_thread=False):
        assert target.has_function("p", "f7")
        assert not target.has_function("p", "nosuch")


def write_calls(path: Path, functions: int, aliases: int) -> None:
    """An object: p calls f0, which calls f1, and so on; many more symbols have f0's address."""
    call, leave = (struct.pack("=BBhi", *one) for one in ((0x85, 0x10, 0, 1), (0x95, 0, 0, 0)))
    last = struct.pack("=BBhi", 0xB7, 0, 0, 0)
    code = (call + leave) * (functions - 1) + last + leave
    names, rows = bytearray(b"\0"), [struct.pack("=IBBHQQ", 0, 0, 0, 0, 0, 0)]
    places = [(f"f{number}", 1, 16 * number) for number in range(functions)]
    places += [("p", 2, 0)] + [(f"g{number}", 1, 0) for number in range(aliases)]
    for name, section, value in places:
        rows.append(struct.pack("=IBBHQQ", len(names), 0x12, 0, section, value, 16))
        names += name.encode() + b"\0"
    sections = [
        ("", 0, 0, b""),
        (".text", 1, 6, code),
        ("tp", 1, 6, struct.pack("=BBhi", 0x85, 0x10, 0, -1) + leave),
        (".reltp", 9, 0, struct.pack("=QQ", 0, 1 << 32 | 10)),
        (".symtab", 2, 0, b"".join(rows)),
        (".strtab", 3, 0, bytes(names)),
    ]
    texts = b"\0".join(name.encode() for name, *_ in sections) + b"\0.shstrtab\0"
    sections.append((".shstrtab", 3, 0, texts))
    data, table = bytearray(64), b""
    for name, kind, flags, content in sections:
        at = texts.index(name.encode() + b"\0")
        table += struct.pack("=IIQQQQIIQQ", at, kind, flags, 0, len(data), len(content), 0, 0, 8, 0)
        data += content
    head = b"\x7fELF\2\1\1" + bytes(9)
    fields = (1, 247, 1, 0, 0, len(data), 0, 64, 0, 0, 64, len(sections), len(sections) - 1)
    data[:64] = head + struct.pack("=HHIQQQIHHHHHH", *fields)
    path.write_bytes(data + table)
