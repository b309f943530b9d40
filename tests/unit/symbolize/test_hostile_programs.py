# SPDX-License-Identifier: BSD-2-Clause
"""Programs that want to harm who traces them, by their files and the names of these."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.recordings import time_limit
from tests.unit.session.records import facts, failing_session, printing, raw_user_stack, symbols
from tests.unit.symbolize.elf_writer import (
    ALLOC,
    BUILD_ID,
    FIRST,
    NOTE,
    PROGBITS,
    Part,
    note,
    program,
    symbol,
)
from tests.unit.symbolize.elf_writer import symbols as symbol_parts

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile, noted_build_id
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.settings import OutputFormat, Settings, ViewSettings
from retsnoop_py.symbolize import isolated, user
from retsnoop_py.symbolize.frames import Resolved, UserAddress
from retsnoop_py.symbolize.user import ProcessSymbolizer

PID, OTHER = 1234, 1235
BASE = 0x7F0000000000
GOOD = program(note(), *symbol_parts(symbol(1, FIRST, 64)))
#: An address in the function that :data:`GOOD` has.
OUTER = UserAddress(BUILD_ID.hex(), FIRST + 8)


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    with time_limit(60):
        yield


def write_maps(root: Path, name: bytes, tgid: int = PID, inode: int = 0) -> None:
    folder = root / f"proc/{tgid}"
    folder.mkdir(parents=True, exist_ok=True)
    line = f"{BASE:x}-{BASE + 0x10000:x} r-xp 00000000 00:00 {inode}    ".encode() + name + b"\n"
    (folder / "maps").write_bytes(line)


def link_map(root: Path, target: Path, tgid: int = PID) -> None:
    """What the kernel has in map_files for that mapping."""
    folder = root / f"proc/{tgid}/map_files"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{BASE:x}-{BASE + 0x10000:x}").symlink_to(target)


def put(root: Path, name: str, content: bytes = GOOD) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def resolved(root: Path, address: UserAddress = OUTER) -> Resolved:
    with ProcessSymbolizer(root) as processes:
        return processes.resolve_user(PID, address)


def test_the_program_that_is_not_hostile_has_symbols(tmp_path: Path) -> None:
    put(tmp_path, "opt/good")
    write_maps(tmp_path, b"/opt/good")

    found = resolved(tmp_path)
    assert (found.name, found.offset, found.module) == ("outer", 8, "/opt/good")


@pytest.mark.parametrize("name", ["opt/x (deleted)", "opt/x"])
def test_a_fifo_in_a_programs_place_is_not_waited_for(name: str, tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    os.mkfifo(tmp_path / name)
    write_maps(tmp_path, f"/{name}".encode())

    assert resolved(tmp_path, UserAddress("", BASE + 5)).module == f"/{name}"
    assert resolved(tmp_path).name is None


def test_a_device_in_a_programs_place_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/x").symlink_to("/dev/tty")
    write_maps(tmp_path, b"/opt/x")
    opened, real = [], os.open

    def spy(path: object, flags: int, *args: int, **kwargs: int) -> int:
        fd = real(path, flags, *args, **kwargs)  # type: ignore[arg-type]
        if not flags & os.O_PATH:
            opened.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        return fd

    monkeypatch.setattr(os, "open", spy)
    assert resolved(tmp_path).name is None
    assert not [path for path in opened if path.startswith("/dev/tty")]


def test_what_is_mapped_is_read_and_not_what_has_its_name_now(tmp_path: Path) -> None:
    put(
        tmp_path,
        "opt/x (deleted)",
        program(note(), *symbol_parts(symbol(1, FIRST), names=b"\0liar\0")),
    )
    mapped = put(tmp_path, "elsewhere/mapped")
    write_maps(tmp_path, b"/opt/x (deleted)", inode=7)
    link_map(tmp_path, mapped)

    found = resolved(tmp_path)
    assert (found.name, found.module) == ("outer", "/opt/x (deleted)")


def test_a_mapped_file_that_is_unlinked_and_its_process_gone_is_still_known(tmp_path: Path) -> None:
    mapped = put(tmp_path, "opt/x")
    write_maps(tmp_path, b"/opt/x", inode=7)
    link_map(tmp_path, mapped)
    with ProcessSymbolizer(tmp_path) as processes:
        processes.see(PID)
        mapped.unlink()
        (tmp_path / f"proc/{PID}/maps").unlink()
        assert processes.resolve_user(PID, OUTER).name == "outer"


@pytest.mark.parametrize(
    "byte", [b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\xe2\x80\xa8", b"\r"]
)
def test_a_name_cannot_forge_a_mapping(byte: bytes, tmp_path: Path) -> None:
    put(tmp_path, "opt/good")
    forged = f"{BASE + 0x20000:x}-{BASE + 0x30000:x} r-xp 00000000 00:00 0 /opt/good".encode()
    write_maps(tmp_path, b"/opt/x" + byte + forged)

    assert resolved(tmp_path, UserAddress("", BASE + 0x20000 + FIRST)).module is None


@pytest.mark.parametrize("view", [OutputFormat.TEXT, OutputFormat.JSON])
@pytest.mark.parametrize("name", [b"/opt/\xff\xfe", b"/opt/\x1b[31m\xc2\x9b", b"/opt/a\\012b"])
def test_any_name_can_be_shown_and_recorded(
    name: bytes, view: OutputFormat, tmp_path: Path
) -> None:
    write_maps(tmp_path, name)
    settings = Settings(views=ViewSettings(user_stack=True, format=view))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    live = facts(views=settings.views)
    mine = failing_session(tgid=PID, proc_tgid=PID, parts=1)
    with ProcessSymbolizer(tmp_path) as users, RecordingWriter(tmp_path / "a.rsn") as writer:
        writer.start(live)
        pipeline = printing(live, settings, symbols(), out, writer, io.StringIO(), users=users)
        pipeline.feed(raw_user_stack((2, "00" * 20, BASE + 5)) + mine)
        pipeline.finish({})
    out.seek(0)
    text = out.read()

    assert not [char for char in text if char != "\n" and not char.isprintable()]
    if view is OutputFormat.JSON:
        shown = json.loads(text.splitlines()[0])["user_stack"][0]["file"]
        assert shown == name.decode("utf-8", "backslashreplace")


HUGE = 1 << 62
HOSTILE = {
    "a huge section": program(
        note(), Part(".symtab", 2, b"", size=HUGE), Part(".strtab", 3, b"\0")
    ),
    "a section far outside": program(note(), Part(".symtab", 2, b"", size=24, offset=HUGE)),
    "names that are huge": program(
        note(), symbol_parts(symbol(1, FIRST))[0], Part(".strtab", 3, b"", size=HUGE)
    ),
    "a huge note": program(Part(".note", 7, b"\x01", size=HUGE)),
    "a table far outside": program(note(), table=HUGE),
    "a table of sections without size": program(note(), entry=0),
    "more sections than it has": program(note(), count=0xFFFF),
    "names nowhere": program(note(), names=0xFFFF),
    "a table within itself": program(note(), table=1, entry=65535),
    "notes of notes": program(Part(".note", 7, struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3))),
    "nothing": b"",
    "a cut header": GOOD[:40],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_costs_its_own_symbols_only(what: str, tmp_path: Path) -> None:
    put(tmp_path, "opt/bad", HOSTILE[what])
    put(tmp_path, "opt/good")
    write_maps(tmp_path, b"/opt/bad")
    write_maps(tmp_path, b"/opt/good", OTHER)
    with ProcessSymbolizer(tmp_path) as processes:
        bad = processes.resolve_user(PID, UserAddress("", BASE + FIRST + 8))
        good = processes.resolve_user(OTHER, UserAddress("", BASE + FIRST + 8))
        assert (bad.name, bad.module) == (None, "/opt/bad")
        assert good.name == "outer"
        assert processes.warnings == []


def test_a_sparse_file_of_any_size_is_read_within_bounds(tmp_path: Path) -> None:
    size = 1 << 40
    bad = program(
        note(), Part(".symtab", 2, b"", size=size // 2, offset=4096), Part(".strtab", 3, b"\0")
    )
    path = put(tmp_path, "opt/bad", bad)
    os.truncate(path, size)

    with ElfFile(path) as elf, pytest.raises(DataError, match="too large"):
        elf.read(".symtab")


def test_names_without_an_end_are_cut(tmp_path: Path) -> None:
    count = 30_000
    entries = b"".join(symbol(1, FIRST + i, 1) for i in range(count))
    parts = symbol_parts(entries, names=b"\0" + b"A" * 8_000_000)
    put(tmp_path, "opt/x", program(note(), *parts))
    write_maps(tmp_path, b"/opt/x")

    assert resolved(tmp_path).name == "A" * 4096


def test_a_debug_section_that_expands_to_a_thousandfold_costs_the_lines(tmp_path: Path) -> None:
    import zlib

    body = zlib.compress(bytes(64 << 20))
    bomb = struct.pack("<IIQQ", 1, 0, 1 << 45, 1) + body
    parts = [Part(name, PROGBITS, bomb, 0x800) for name in (".debug_info", ".debug_abbrev")]
    put(tmp_path, "opt/x", program(note(), *symbol_parts(symbol(1, FIRST)), *parts))
    write_maps(tmp_path, b"/opt/x")

    found = resolved(tmp_path)
    assert (found.name, found.frames) == ("outer", ())


def child_of(processes: ProcessSymbolizer) -> int:
    child = processes._reader.child
    assert child is not None
    return child


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGSTOP, "takes longer"), (signal.SIGBUS, "crashed")]
)
def test_a_file_that_its_reader_does_not_survive_is_given_up(
    number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "_REQUEST_S", 0.3)
    put(tmp_path, "opt/bad")
    put(tmp_path, "opt/good")
    write_maps(tmp_path, b"/opt/bad")
    write_maps(tmp_path, b"/opt/good", OTHER)
    place = UserAddress("", BASE + FIRST + 8)
    with ProcessSymbolizer(tmp_path) as processes:
        os.kill(child_of(processes), number)
        processes.resolve_user(PID, place)
        monkeypatch.setattr(isolated, "_REQUEST_S", 30.0)
        assert why in processes.warnings[0]
        assert "/opt/bad" in processes.warnings[0]
        assert processes.resolve_user(OTHER, place).name == "outer"


def test_hostile_files_are_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "_REQUEST_S", 0.01)
    monkeypatch.setattr(isolated, "_PATIENCE_S", 0.03)
    with ProcessSymbolizer(tmp_path) as processes:
        for number in range(20):
            put(tmp_path, f"opt/{number}")
            write_maps(tmp_path, f"/opt/{number}".encode(), number)
            if processes._reader.child is not None:
                os.kill(child_of(processes), signal.SIGSTOP)
            processes.resolve_user(number, UserAddress("", BASE + 5))
        assert len(processes.warnings) < 8
        assert "no more symbols" in processes.warnings[-1]


def test_any_number_of_programs_takes_a_few_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "_MAX_KEPT", 4)
    monkeypatch.setattr(user, "_MAX_OPEN", 4)
    place = UserAddress("", BASE + FIRST + 8)
    with ProcessSymbolizer(tmp_path) as processes:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for number in range(30):
            put(tmp_path, f"opt/{number}")
            write_maps(tmp_path, f"/opt/{number}".encode(), number)
            assert processes.resolve_user(number, place).name == "outer"
        assert len(list(Path("/proc/self/fd").iterdir())) < before + 16
        os.kill(child_of(processes), signal.SIGKILL)
        for number in range(30):
            processes.resolve_user(number, UserAddress("", place.place + 1))
        assert len(processes.warnings) == 1


def test_the_reader_of_programs_has_no_rights(tmp_path: Path) -> None:
    put(tmp_path, "opt/good")
    write_maps(tmp_path, b"/opt/good")
    with ProcessSymbolizer(tmp_path) as processes:
        assert processes.resolve_user(PID, OUTER).name == "outer"
        child = child_of(processes)
        status = Path(f"/proc/{child}/status").read_text()
        limits = Path(f"/proc/{child}/limits").read_text()
    values = dict(line.split(":\t", 1) for line in status.splitlines())
    assert int(values["CapEff"], 16) == 0 or os.geteuid() != 0
    assert values["NoNewPrivs"] == "1"
    assert "Max file size             0 " in limits
    assert not Path(f"/proc/{child}").exists()


def test_a_file_only_root_may_read_has_symbols(tmp_path: Path) -> None:
    put(tmp_path, "opt/good").chmod(0o700)
    write_maps(tmp_path, b"/opt/good")

    assert resolved(tmp_path).name == "outer"


def test_a_debug_link_with_a_directory_is_none(tmp_path: Path) -> None:
    for name, expected in ((b"../../etc/x", None), (b"..", None), (b"x.debug", "x.debug")):
        part = Part(".gnu_debuglink", PROGBITS, name + b"\0" * 8, ALLOC)
        with ElfFile(put(tmp_path, "x", program(part))) as elf:
            assert elf.debug_link == expected


def test_installed_programs_are_looked_at_up_to_the_one_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = b"\x55" * 20
    put(tmp_path, "opt/a")
    put(tmp_path, "opt/b", program(note(other), *symbol_parts(symbol(1, FIRST, 64))))
    (tmp_path / "bin").symlink_to("opt")
    monkeypatch.setenv("PATH", "/opt:/bin")
    looked = looked_at(monkeypatch)
    with ProcessSymbolizer(tmp_path) as processes:
        assert processes.resolve_user(PID, OUTER).name == "outer"
        assert set(looked) == {"a"}
        assert processes.resolve_user(PID, UserAddress(other.hex(), FIRST + 8)).name == "outer"
        assert set(looked) == {"a", "b"}
        looked.clear()
        assert processes.resolve_user(PID, UserAddress("ab" * 20, 8)).name is None
        assert looked == []


@pytest.mark.parametrize("name", ["b", "", ".", "..", "../opt/b", "a\ud800", "c" * 300])
def test_the_program_with_the_process_s_name_is_looked_at_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "opt/a", b"")
    put(tmp_path, "opt/b")
    monkeypatch.setenv("PATH", "not-absolute:/nowhere:/opt")
    looked = looked_at(monkeypatch)
    with ProcessSymbolizer(tmp_path) as processes:
        found = processes.resolve_user(PID, OUTER, name=name)
    assert (found.name, found.module) == ("outer", "/opt/b")
    assert list(dict.fromkeys(looked)) == (["b"] if name == "b" else ["a", "b"])


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose build ids were looked at, as they are."""
    looked: list[str] = []

    def spy(fd: int) -> str | None:
        looked.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        return noted_build_id(fd)

    monkeypatch.setattr(user, "noted_build_id", spy)
    return looked


def test_the_search_among_installed_programs_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        put(tmp_path, f"opt/{name}")
    monkeypatch.setenv("PATH", "/opt")
    monkeypatch.setattr(user, "_SEARCH_S", 0.0)
    looked = looked_at(monkeypatch)
    with ProcessSymbolizer(tmp_path) as processes:
        for number in range(3):
            assert processes.resolve_user(PID, UserAddress(f"{number:040}", 8)).name is None
        assert looked == ["a"]
        (told,) = processes.warnings
        assert "took longer" in told


def test_whose_build_ids_are_asked_for_is_no_work_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request takes as long as reading a hundred files does."""
    put(tmp_path, "opt/good")
    write_maps(tmp_path, b"/opt/good")
    asked: list[str] = []
    monkeypatch.setattr(isolated.ProgramReader, "build_id", lambda *args: asked.append(args[2]))

    assert resolved(tmp_path).name == "outer"
    assert asked == []


def test_a_build_id_that_is_not_on_the_first_page_is_asked_for(tmp_path: Path) -> None:
    far = program(Part(".data", PROGBITS, bytes(5000)), note(), *symbol_parts(symbol(1, FIRST, 64)))
    path = put(tmp_path, "opt/far", far)
    write_maps(tmp_path, b"/opt/far")
    with path.open("rb") as file:
        assert noted_build_id(file.fileno()) is None

    assert resolved(tmp_path).name == "outer"


def test_the_first_page_has_the_build_id_that_the_sections_have(tmp_path: Path) -> None:
    mine = Path("/proc/self/exe").resolve()
    for path in (mine, put(tmp_path, "x", program(Part(".note", NOTE, OTHER_NOTE), note()))):
        with ElfFile(path) as elf, path.open("rb") as file:
            assert elf.build_id
            assert noted_build_id(file.fileno()) == elf.build_id


#: One that is not the build id.
OTHER_NOTE = struct.pack("<III", 4, 4, 1) + b"GNU\0" + bytes(4)
LYING = {
    "segments far outside": program(note(), segments=HUGE),
    "segments at the end of the page": program(note(), segments=4095),
    "segments without size": program(note(), segment=0),
    "large segments": program(note(), segment=0xFFFF),
    "a note far outside": program(note()._replace(offset=HUGE, size=HUGE)),
    "a note without an end": program(note()._replace(size=HUGE)),
    "more segments than a page has": program(note(), noted=0xFFFF),
    "notes behind each other": program(*[Part(".note", NOTE, OTHER_NOTE)] * 40, note()),
}


@pytest.mark.parametrize("what", [*HOSTILE, *LYING])
def test_a_first_page_that_lies_has_a_build_id_or_none(what: str, tmp_path: Path) -> None:
    path = put(tmp_path, "x", {**HOSTILE, **LYING}[what])
    with path.open("rb") as file:
        assert noted_build_id(file.fileno()) in (None, BUILD_ID.hex())


def test_we_ourselves_are_not_found_by_our_process_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where /proc belongs to another PID namespace, that is somebody else's."""
    put(tmp_path, "srv/ours")
    write_maps(tmp_path, b"/srv/other", os.getpid())
    write_maps(tmp_path, b"/srv/ours", PID)
    (tmp_path / "proc/self").symlink_to(str(PID))
    monkeypatch.setenv("PATH", "/nowhere")
    with ProcessSymbolizer(tmp_path) as processes:
        assert processes.resolve_user(OTHER, OUTER).module == "/srv/ours"
