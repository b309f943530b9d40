# SPDX-License-Identifier: BSD-2-Clause
"""Two recordings compared: what only one has, what neither can have, where calls part."""

from __future__ import annotations

import io
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from tests.unit.session.records import (
    ALLOC,
    EVENTS,
    FUNCTIONS,
    MAP_CREATE,
    PTR,
    SYS_BPF,
    Symbols,
    facts,
    failing_session,
    function,
    pack,
    printing,
    raw_events,
    raw_part,
    raw_session,
    symbols,
)

import retsnoop_py as rs
from retsnoop_py.api import tally
from retsnoop_py.api.tally import plain_name
from retsnoop_py.cli.completion import candidates
from retsnoop_py.cli.main import main
from retsnoop_py.kernel.functions import Function
from retsnoop_py.model.difference import Difference, Failure
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.session.model import EventKind
from retsnoop_py.session.paths import Condition, OperandText, Origin, Place
from retsnoop_py.session.paths import Path as Way
from retsnoop_py.session.pipeline import Pipeline
from retsnoop_py.settings import FilterSettings, Settings, SymbolizeMode, ViewSettings
from retsnoop_py.symbolize.frames import SourceFrame

GOLDEN = Path(__file__).parents[2] / "golden"
KERNELS = ("5.10", "6.1", "6.12", "7.2")
CALLS = ViewSettings(call_trace=True)
START = 10_000_000_000


class Ways:
    """Knows what ways mean, as the kernel's code would tell."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def origin(self, path: Way) -> Origin | None:
        return self._origin


def record(
    path: Path,
    *batches: bytes,
    functions: tuple[Function, ...] = FUNCTIONS,
    origin: Origin | None = None,
    names: Symbols | None = None,
    **changes: object,
) -> Path:
    """A recording of these records."""
    settings = Settings(filters=FilterSettings(success=True), views=CALLS)
    values = {"filters": settings.filters, "views": CALLS, "symbolize": SymbolizeMode.INLINES}
    live = facts(functions=functions, **(values | changes))
    with RecordingWriter(path) as writer:
        writer.start(live)
        pipeline = printing(live, settings, names or symbols(), io.StringIO(), writer)
        if origin is not None:
            pipeline = Pipeline(
                live, settings, names or symbols(), Silent(), writer, origins=Ways(origin)
            )
        for batch in batches:
            pipeline.feed(batch)
        pipeline.finish({})
    return path


class Silent:
    """A sink of nothing."""

    def show(self, reports: object) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self, lost: object) -> None: ...
    def conclude(self, counts: object) -> None: ...

    def abandon(self) -> None: ...


def bad_call() -> bytes:
    return raw_events(START, 7, *EVENTS) + failing_session(last_seq=6, parts=1)


def good_call(found: int = 0xFF26A6C64793D000, descriptor: int = 4) -> bytes:
    """The calls of tests.unit.session.records.EVENTS where nothing fails."""
    address = found - (1 << 64)  # registers are signed
    events = (
        *EVENTS[:3],
        (EventKind.EXIT, 3, 2, address),
        (EventKind.EXIT, 2, 1, descriptor),
        (EventKind.EXIT, 1, 0, descriptor),
    )
    slots = [(0, 0, descriptor, 73_000), (1, 1, descriptor, 70_000), (2, 2, address, 50_000)]
    head = {"start_ts": START, "emit_ts": START + 9, "tid": 7, "tgid": 6}
    return raw_events(START, 7, *events) + raw_session(slots, last_seq=6, parts=1, **head)


def names(failures: tuple[Failure, ...]) -> list[list[str]]:
    return [[call.function for call in failure.calls] for failure in failures]


def golden(name: str) -> str:
    return str(GOLDEN / f"{name}.rsn")


def test_kernels_of_the_same_workload_differ_in_what_linux_changed() -> None:
    # 5.10 finds the array too large after array_map_alloc_check, 6.12 in it
    found = rs.diff(golden("5.10"), golden("6.12"))
    (large,) = [one for one in found.only_a if one.error == "E2BIG"]
    assert (large.a, large.b, large.same_error) == (1, 0, 3)
    assert names((large,)) == [["__x64_sys_bpf", "array_map_alloc"]]
    # it has neither memdup_user nor the per-CPU allocation in that place
    assert sorted(one.error for one in found.only_a) == ["E2BIG", "EFAULT", "ENOMEM"]
    assert sorted(one.error for one in found.only_b) == ["EFAULT", "ENOMEM"]
    assert len(found.both) == 14
    (mount,) = [one for one in found.both if one.entry == "__x64_sys_mount"]
    assert (mount.a, mount.b) == (1, 1)


def test_what_one_kernel_cannot_trace_is_no_difference() -> None:
    # ringbuf_map_alloc is not to be traced on 7.2, and map_create stands for it there
    found = rs.diff(golden("6.12"), golden("7.2"))
    assert not found.found
    assert found.a.failed == found.b.failed == 21
    assert "ringbuf_map_alloc" in found.a.only_here
    assert found.b.only_here == ("map_update_elem",)
    (moved,) = [one for one in found.both if names((one,))[0][-1] == "map_create"]
    assert (moved.a, moved.b) == (3, 3)


def test_what_was_not_selected_is_told_apart_from_what_did_not_fail() -> None:
    found = rs.diff(golden("6.12-calls"), golden("6.12"))
    assert [(one.entry, one.error) for one in found.unseen_b] == [("__x64_sys_mount", "ENODEV")]
    assert not found.unseen_b[0].calls[0].both
    assert "__x64_sys_mount" in found.b.only_here
    assert not found.unseen_a
    assert "__x64_sys_mount" not in {one.entry for one in found.only_b}


@pytest.mark.parametrize(("a", "b"), list(permutations(KERNELS, 2)))
def test_the_other_way_round_is_the_same(a: str, b: str) -> None:
    one, other = (rs.diff(golden(x), golden(y)) for x, y in ((a, b), (b, a)))
    assert [f.calls for f in one.only_a] == [f.calls for f in other.only_b]
    assert [f.a for f in one.only_a] == [f.b for f in other.only_b]
    assert len(one.both) == len(other.both) > 10
    assert sum(f.a for f in (*one.only_a, *one.both, *one.unseen_a)) == one.a.failed
    assert sum(f.b for f in (*one.only_b, *one.both, *one.unseen_b)) == one.b.failed


def test_a_failure_is_told_with_where_it_parts_from_a_call_that_succeeded(tmp_path: Path) -> None:
    good = record(tmp_path / "good.rsn", good_call(), good_call())
    bad = record(tmp_path / "bad.rsn", good_call(), bad_call(), release="6.13")
    found = rs.diff(good, bad)
    assert found.only_a == found.both == ()
    (failure,) = found.only_b
    assert (failure.entry, failure.error, failure.b) == ("__x64_sys_bpf", "ENOMEM", 1)
    assert failure.succeeded == 2
    (departure,) = failure.departures
    assert (departure.kind, departure.equal, departure.nearest) == ("tree", 3, None)
    inside = [(step.function, step.depth) for step in departure.inside]
    assert inside == [("__x64_sys_bpf", 1), ("map_create", 2), ("array_map_alloc", 3)]
    ((a,), (b,)) = departure.a, departure.b
    assert (a.step, a.function, a.text) == ("exit", "array_map_alloc", "pointer")
    assert (b.step, b.function, b.text) == ("exit", "array_map_alloc", "NULL")


def test_descriptors_and_addresses_do_not_matter(tmp_path: Path) -> None:
    a = record(tmp_path / "a.rsn", good_call(), bad_call())
    other = good_call(0xFF26A6C64166B640, 9)
    b = record(tmp_path / "b.rsn", other, bad_call(), bad_call())
    found = rs.diff(a, b)
    assert not found.found
    assert [(one.a, one.b) for one in found.both] == [(1, 2)]


@pytest.mark.parametrize(
    "suffix", [".isra.0", ".constprop.0", ".part.0", ".cold", ".llvm.123", ".isra.0.cold"]
)
def test_suffixes_of_the_compiler_do_not_matter(suffix: str, tmp_path: Path) -> None:
    assert plain_name(f"map_create{suffix}") == "map_create"
    renamed = function(f"map_create{suffix}", MAP_CREATE.address)
    a = record(tmp_path / "a.rsn", bad_call())
    b = record(tmp_path / "b.rsn", bad_call(), functions=(SYS_BPF, renamed, ALLOC))
    found = rs.diff(a, b)
    assert not found.found
    assert len(found.both) == 1
    assert found.a.only_here == found.b.only_here == ()


def test_a_function_that_the_compiler_split_is_one_function(tmp_path: Path) -> None:
    # array_map_alloc is a part of map_create here, and no function of its own there
    part = function("map_create.part.0", ALLOC.address, PTR)
    a = record(tmp_path / "a.rsn", bad_call(), functions=(SYS_BPF, MAP_CREATE, part))
    slots = [(0, 0, -12, 73_000), (1, 1, 0xFFFFFFF4, 70_000)]
    head = {"start_ts": START, "emit_ts": START + 9, "tid": 7, "tgid": 6, "flags": 1}
    whole = raw_events(START, 7, EVENTS[0], EVENTS[1], EVENTS[4], EVENTS[5])
    whole += raw_session(slots, last_seq=4, parts=1, **head)
    b = record(tmp_path / "b.rsn", whole, functions=(SYS_BPF, MAP_CREATE))
    found = rs.diff(a, b)
    assert not found.found
    assert [(one.a, one.b) for one in found.both] == [(1, 1)]


def test_names_that_only_look_like_suffixes_stay() -> None:
    assert plain_name("a.isra") == "a"
    for name in ("isra", "part_0", "foo.bar", "foo.partial.0", "kcold", ".isra.0x"):
        assert plain_name(name) == name


def followed(path: Path, left: int, *, build: str = "aa", line: int = 58) -> Path:
    """A recording with ``--path array_map_alloc``: it fails for what it was given."""
    blocks = [ALLOC.address, ALLOC.address + (0x20 if left == 4 else 0x98)]
    origin = Origin(
        tuple(blocks),
        "constant",
        None,
        Place(blocks[1], "xor %eax,%eax"),
        Place(blocks[0], "jne"),
        Condition(
            "attr->key_size != 4" if left != 4 else "attr->value_size == 0",
            (OperandText("attr->key_size", 0, 0, 4, False),),
            True,
        ),
    )
    hits = b"".join(pack("rsn_hit", probe=probe, left=left) for probe in (0, left))
    head = pack(
        "rsn_path",
        size=len(pack("rsn_path")) + len(hits),
        kind=int(EventKind.PATH),
        cnt=2,
        id=2,
        seq=3,
        result=0,
    )
    part = raw_part(head + hits, start_ts=START, tid=7, cnt=1)
    batch = raw_events(START, 7, *EVENTS) + part + failing_session(last_seq=6, parts=2)
    sources = {
        address: (SourceFrame("array_map_alloc", "kernel/bpf/arraymap.c", line + at, 29),)
        for at, address in enumerate(blocks)
    }
    known = Symbols(*FUNCTIONS, sources=sources)
    return record(path, batch, origin=origin, names=known, build_id=build)


def test_ways_of_the_same_kernel_are_compared_block_by_block(tmp_path: Path) -> None:
    a, b = followed(tmp_path / "a.rsn", 4), followed(tmp_path / "b.rsn", 8)
    (failure,) = rs.diff(a, b).other_ways
    assert (failure.error, failure.a, failure.b) == ("ENOMEM", 1, 1)
    (departure,) = failure.departures
    assert (departure.kind, departure.equal) == ("path", 1)
    assert [step.place for step in departure.inside] == ["kernel/bpf/arraymap.c:58:29"]
    block, decided = departure.b
    assert (block.step, block.place) == ("block", "kernel/bpf/arraymap.c:59:29")
    assert decided.text == "returned NULL because attr->key_size != 4"
    assert departure.a[1].text == "returned NULL because attr->value_size == 0"


def test_ways_of_different_kernels_are_compared_by_what_was_decided(tmp_path: Path) -> None:
    a = followed(tmp_path / "a.rsn", 8)
    same = rs.diff(a, followed(tmp_path / "b.rsn", 8, build="bb", line=99))
    assert not same.found
    (failure,) = rs.diff(a, followed(tmp_path / "c.rsn", 4, build="bb")).other_ways
    ((one,), (other,)) = failure.departures[0].a, failure.departures[0].b
    assert one.text.endswith("attr->key_size != 4")
    assert other.text.endswith("attr->value_size == 0")


def test_so_many_chains_that_not_all_can_be_kept_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tally, "_MOST_CHAINS", 5)
    found = rs.diff(golden("5.10"), golden("6.12"))
    assert found.uncounted > 10
    main(["diff", golden("5.10"), golden("6.12")])
    assert "too many different chains" in capsys.readouterr().out


def test_call_trees_are_kept_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_ALL_STEPS", 4)
    good, bad = (tmp_path / "good.rsn", tmp_path / "bad.rsn")
    record(good, good_call())
    record(bad, bad_call())
    assert rs.diff(good, bad).only_b[0].departures == ()


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.99])
def test_a_damaged_recording_is_compared_up_to_the_damage(
    share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(golden("6.12")).read_bytes()
    cut = tmp_path / "cut.rsn"
    cut.write_bytes(data[: int(len(data) * share)])
    assert main(["diff", golden("6.12"), str(cut)]) == 65
    out, err = capsys.readouterr()
    assert f"{cut} is damaged at byte " in out
    assert "35 functions, 26 calls, 21 failed" in out
    assert err.startswith(f"retsnoop-py: error: {cut} is damaged at byte ")
    assert err.endswith("hint: everything before that byte has been compared\n")
    found = rs.diff(golden("6.12"), cut)
    assert found.b.damage is not None
    assert found.a.damage is None
    assert 0 <= found.b.calls <= found.a.calls


def test_no_damage_ends_in_another_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(golden("7.2-calls")).read_bytes()
    broken, statuses = tmp_path / "broken.rsn", set()
    for at in range(0, len(data), 97):
        broken.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        statuses.add(main(["diff", str(broken), golden("6.12-calls")]))
        broken.write_bytes(data[:at])
        statuses.add(main(["diff", golden("6.12-calls"), str(broken)]))
        assert "a bug of retsnoop-py" not in capsys.readouterr().err
    assert statuses == {65}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 64, "two recordings, not 0"),
        (["6.12.rsn"], 64, "two recordings, not 1"),
        (["6.12.rsn", "7.2.rsn", "6.1.rsn"], 64, "two recordings, not 3"),
        (["6.12.rsn", "6.12.rsn"], 64, "are the same file"),
        (["6.12.rsn", "./6.12.rsn"], 64, "are the same file"),
        (["6.12.rsn", "missing.rsn"], 66, "cannot read missing.rsn"),
        (["6.12.rsn", "6.12.txt"], 65, "6.12.txt is not a retsnoop-py recording"),
        (["6.12.rsn", "."], 66, "cannot read ."),
        (["-x", "EFOO", "6.12.rsn", "7.2.rsn"], 64, "EFOO"),
        (["-T", "6.12.rsn", "7.2.rsn"], 64, "a recording is already traced"),
        (["--format", "xml", "6.12.rsn", "7.2.rsn"], 64, "xml"),
    ],
)
def test_bad_input_is_told(
    words: list[str],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(GOLDEN)
    assert main(["diff", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_exit_status_says_whether_there_is_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.rsn"
    copy.write_bytes(Path(golden("6.12-calls")).read_bytes())
    assert main(["diff", golden("6.12-calls"), str(copy)]) == 0
    assert "No difference" in capsys.readouterr().out
    assert main(["diff", golden("5.10"), golden("6.12")]) == 3
    assert "No difference" not in capsys.readouterr().out


def test_filters_narrow_what_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = rs.diff(golden("5.10"), golden("6.12"), allow_errors="E2BIG")
    assert {one.error for one in (*found.only_a, *found.both)} == {"E2BIG"}
    assert found.only_a[0].succeeded == 4  # those are what it is compared with
    assert rs.diff(golden("5.10"), golden("6.12"), comm="nobody").a.calls == 0
    assert main(["diff", "-X", "E2BIG", golden("5.10"), golden("6.12")]) == 3
    assert "E2BIG" not in capsys.readouterr().out


def test_json_is_of_the_schema_and_tells_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = [golden("5.10-calls"), golden("6.12-calls")]
    assert main(["diff", "--format", "json", *words]) == 3
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert msgspec.json.decode(out, type=Difference, strict=True) == rs.diff(*words)
    assert msgspec.json.decode(out)["type"] == "diff"


def test_the_page_is_plain_in_a_pipe_and_drawn_with_ascii_on_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff", "--ascii", golden("5.10-calls"), golden("6.12-calls")]) == 3
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x1b" not in out
    assert "A      > memdup_user" in out


def test_recordings_without_call_trees_are_compared_by_their_failures() -> None:
    found = rs.diff(golden("6.12-calls"), golden("7.2"))
    assert found.notes == ("call trees are not compared: B was recorded without -T",)
    assert all(one.departures == () for one in found.only_b)
    assert len(found.only_b) > 5


def test_calls_that_were_reported_before_their_end_count_once() -> None:
    found = rs.diff(golden("6.12-interim"), golden("7.2-interim"))
    assert found.a.failed == found.b.failed == 3
    assert not found.found


def test_what_comes_from_a_recording_cannot_write_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = function("map\x1b[2Jcreate", MAP_CREATE.address)
    a = record(tmp_path / "a.rsn", bad_call(), functions=(SYS_BPF, evil, ALLOC), machine="\x1b]0;")
    b = record(tmp_path / "b.rsn", good_call(), functions=(SYS_BPF, evil, ALLOC))
    assert main(["diff", "-v", str(a), str(b)]) == 3
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"map\x1b[2Jcreate" in out


def test_the_shell_offers_recordings_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    for words in (["diff"], ["diff", "5.10.rsn"], ["diff", "-v", "5.10.rsn"]):
        assert [one.text for one in candidates(words, "6.12-c")] == ["6.12-calls.rsn"]
    assert "--allow-errors" in {one.text for one in candidates(["diff"], "--a")}
