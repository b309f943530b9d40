# SPDX-License-Identifier: BSD-2-Clause
"""From batches to text, live and replayed alike; which sessions are reported."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.session.records import (
    BOOL,
    KSTACK,
    LONG,
    PTR,
    call,
    facts,
    failing_session,
    function,
    printing,
    raw_session,
    session,
    symbols,
)

from retsnoop_py.errors import DataError, OutputError
from retsnoop_py.session.caches import Symbol, UserSymbol
from retsnoop_py.session.counts import Counts
from retsnoop_py.session.paths import Origin, OriginKey
from retsnoop_py.session.pipeline import Pipeline, accepts
from retsnoop_py.session.report import Report
from retsnoop_py.settings import BpfSettings, FilterSettings, Settings, StackSettings, SymbolizeMode

BLOCK = """\
23:13:30.000000 -> 23:13:30.000100 TID/PID 7/6 (worker/loader):

                    do_syscall_64+0x87  (arch/x86/entry/common.c:78)
                    . do_syscall_x64    (arch/x86/entry/common.c:47)
    73us [-ENOMEM]  __x64_sys_bpf+0x21  (__se_sys_bpf @ kernel/bpf/syscall.c:5784)
    70us [-ENOMEM]  map_create+0x11f
!   50us [NULL]     array_map_alloc


"""
SUCCESS = raw_session([(0, 0, 3, 1000)], KSTACK, tid=7)


class Recorder:
    """Keeps what it is given; fails from its ``good``-th write on, once."""

    def __init__(self, good: int = 99) -> None:
        self.good = good
        self.symbols: list[Sequence[Symbol]] = []
        self.batches: list[bytes] = []
        self.users: list[UserSymbol] = []
        self.warnings: list[str] = []
        self.stats: Mapping[str, int] | None = None

    def write(
        self,
        symbols: Sequence[Symbol],
        batch: bytes | memoryview,
        users: Sequence[UserSymbol] = (),
        origins: Sequence[tuple[OriginKey, Origin]] = (),
    ) -> None:
        self.users += users
        if len(self.batches) >= self.good:
            raise OutputError("recording has stopped: disk full", "tracing goes on")
        self.symbols.append(symbols)
        self.batches.append(bytes(batch))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def end(self, stats: Mapping[str, int], counts: Mapping[str, int]) -> None:
        self.stats = dict(stats)


class Run:
    """A pipeline and its two outputs."""

    def __init__(
        self, settings: Settings | None = None, recorder: Recorder | None = None, **changes: object
    ) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.symbols = symbols()
        self.pipeline = printing(
            facts(**({"symbolize": SymbolizeMode.INLINES} | changes)),
            settings or Settings(),
            self.symbols,
            self.out,
            recorder,
            self.err,
        )
        self.feed = self.pipeline.feed
        self.finish = self.pipeline.finish


def test_a_batch_becomes_blocks() -> None:
    run = Run()
    run.feed(failing_session() * 2)
    run.finish({})

    assert run.out.getvalue() == BLOCK * 2
    assert run.err.getvalue() == ""
    assert run.pipeline.exit_status == 0


def test_settings_choose_the_view_and_the_sessions() -> None:
    run = Run(
        Settings(
            filters=FilterSettings(success=True, deny_errors=frozenset({12})),
            stacks=StackSettings(dec_offs=True),
            symbolize=SymbolizeMode.NONE,
        )
    )
    run.feed(failing_session() + SUCCESS)

    assert "do_syscall_64+135\n" in run.out.getvalue()
    assert "[-ENOMEM]" not in run.out.getvalue()
    assert " [3]  __x64_sys_bpf+33\n" in run.out.getvalue()


def test_each_address_is_resolved_once() -> None:
    run = Run()
    run.feed(failing_session() * 50)

    assert len(run.symbols.asked) == len(set(run.symbols.asked))


def test_symbols_are_recorded_with_the_first_batch_that_needs_them() -> None:
    recorder = Recorder()
    run = Run(recorder=recorder)
    run.feed(failing_session())
    run.feed(failing_session())

    assert recorder.batches == [failing_session()] * 2
    assert {symbol.address for _, symbol in recorder.symbols[0]} == set(KSTACK)
    assert recorder.symbols[1] == []


def test_sessions_that_are_not_shown_are_recorded_with_their_symbols() -> None:
    recorder = Recorder()
    run = Run(Settings(filters=FilterSettings(deny_errors=frozenset({12}))), recorder)
    run.feed(failing_session())

    assert run.out.getvalue() == ""
    assert {symbol.address for _, symbol in recorder.symbols[0]} == set(KSTACK)


def test_large_batches_are_worked_on_in_parts() -> None:
    recorder = Recorder()
    run = Run(recorder=recorder)
    record = raw_session([(0, 0, 3, 1000)] * 64, KSTACK)
    batch = record * ((3 << 20) // len(record))
    run.feed(batch)

    assert len(recorder.batches) >= 3
    assert b"".join(recorder.batches) == batch


def test_everything_before_a_malformed_record_is_shown_and_recorded() -> None:
    recorder = Recorder()
    run = Run(recorder=recorder)
    batch = failing_session() + b"\1\0\0\0\1\0\0\0"

    with pytest.raises(DataError, match="malformed record"):
        run.feed(batch)
    assert run.out.getvalue() == BLOCK
    assert b"".join(recorder.batches) == batch


def test_a_recording_that_fails_is_told_once_and_the_run_goes_on() -> None:
    recorder = Recorder(good=1)
    run = Run(recorder=recorder)
    for _ in range(3):
        run.feed(failing_session())
    run.finish({})

    assert run.out.getvalue() == BLOCK * 3
    assert run.err.getvalue() == ("WARNING: recording has stopped: disk full; tracing goes on\n")
    assert run.pipeline.exit_status == 74
    assert recorder.stats is None


def test_losses_are_told_at_the_end_and_recorded() -> None:
    recorder = Recorder()
    run = Run(Settings(bpf=BpfSettings(ringbuf_size=4096)), recorder)
    run.feed(b"\x63\0\0\0\x08\0\0\0" * 2)
    run.finish({"sessions_dropped": 3, "lost_memory": 0})

    assert run.err.getvalue().splitlines() == [
        "WARNING! There were dropped or incomplete data. Output might be incomplete!",
        "DROPPED SAMPLES:     3  the buffer was full: try -C bpf.ringbuf-size=8192",
        "UNKNOWN RECORDS:     2  a newer version recorded them: replay with that version",
    ]
    assert recorder.stats == {"sessions_dropped": 3, "lost_memory": 0}


def test_stacks_without_kernel_frames_are_counted() -> None:
    run = Run()
    run.feed(failing_session() + raw_session([(0, 0, -22, 1000)], flags=1) * 2)
    run.finish({})

    assert run.err.getvalue().startswith("NOTE: 2 stacks without kernel frames")


def test_warnings_are_told_and_recorded() -> None:
    recorder = Recorder()
    run = Run(recorder=recorder)
    run.pipeline.warn("no source lines")

    assert run.err.getvalue() == "WARNING: no source lines\n"
    assert recorder.warnings == ["no source lines"]


def test_an_output_without_unicode_still_gets_every_block() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    pipeline = printing(facts(), Settings(), symbols(), out)
    pipeline.feed(failing_session(stitch_pos=2, task_comm="grün".encode()))

    text = raw.getvalue().decode()
    assert "(gr\\xfcn/loader)" in text
    assert "!*  50us [NULL]     array_map_alloc\n" in text


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_an_output_that_cannot_be_written_is_an_output_error() -> None:
    pipeline = printing(facts(), Settings(), symbols(), FullDisk())

    with pytest.raises(OutputError, match="No space left"):
        pipeline.feed(failing_session())


def test_functions_that_the_layouts_do_not_describe_are_refused_at_once() -> None:
    with pytest.raises(DataError, match="layout of struct rsn_"):
        Run(layouts=())


def test_no_more_sessions_are_shown_and_recorded_than_were_asked_for() -> None:
    recorder = Recorder()
    run = Run(Settings(stop_count=2), recorder)
    run.feed(failing_session() + SUCCESS)
    assert not run.pipeline.done
    run.feed(failing_session() * 3)
    run.feed(failing_session())
    run.finish({})

    assert run.pipeline.done
    assert run.out.getvalue() == BLOCK * 2
    assert b"".join(recorder.batches) == failing_session() + SUCCESS + failing_session()
    assert recorder.stats == {}


def test_what_is_wrong_with_files_of_symbols_is_recorded_before_the_end() -> None:
    """A frame behind the end damages a recording, and a replay tells it in the same place."""

    class InOrder(Recorder):
        def warn(self, text: str) -> None:
            frames.append(text)

        def end(self, stats: Mapping[str, int], counts: Mapping[str, int]) -> None:
            frames.append("end")

    frames: list[str] = []
    out, err = io.StringIO(), io.StringIO()
    run = printing(facts(), Settings(), symbols(), out, err=err, recorder=InOrder())
    run.finish({"sessions_died": 1}, lambda: ["no symbols"])
    assert frames == ["no symbols", "end"]
    assert err.getvalue().startswith("WARNING: no symbols\nNOTE: 1 thread exited")


class Stop(BaseException):
    """What a signal raises."""


class Stuck:
    """A sink that takes some sessions once and then nothing more."""

    def __init__(self) -> None:
        self.shown = 0
        self.abandoned = False

    def show(self, reports: Sequence[Report]) -> None:
        if self.shown:
            raise Stop
        self.shown = len(reports)

    def say(self, line: str) -> None:
        raise AssertionError(line)

    def end(self, lost: Mapping[str, int]) -> None:
        raise AssertionError(lost)

    def conclude(self, counts: Counts) -> None:
        raise AssertionError(counts)

    def abandon(self) -> None:
        self.abandoned = True


def test_what_was_not_shown_is_counted_when_it_is_dropped() -> None:
    sink = Stuck()
    pipeline = Pipeline(facts(), Settings(), symbols(), sink)
    count = 3 * (1 << 16) // len(failing_session())
    with pytest.raises(Stop):
        pipeline.feed(failing_session() * count)
    assert pipeline.discard() == count - sink.shown > sink.shown > 0
    assert sink.abandoned
    pipeline.feed(failing_session() * count)
    assert pipeline.discard() == 0


RUNNING, EXITING, DIED, IGNORED, SWITCHED = 128, 64, 2, 8, 256


def running(**values: object) -> bytes:
    """The call of :func:`failing_session` while it is still in map_create()."""
    slots = [(0, 1, 0, 10_000_000_000), (1, 2, 0, 10_000_001_000)]
    head = {"flags": RUNNING, "depth": 2, "start_ts": 10_000_000_000, "emit_ts": 12_000_000_000}
    return raw_session(slots, KSTACK, **({**head, "tid": 7, "task_comm": b"worker"} | values))


def test_calls_still_running_are_counted_by_function() -> None:
    run = Run()
    run.pipeline.feed_running(running() + running(tid=8))
    run.pipeline.finish({})
    assert run.out.getvalue() == ""
    assert run.err.getvalue() == (
        "NOTE: 2 calls still running when tracing ended: __x64_sys_bpf (2). "
        "-S, -I or -L show them.\n"
    )


@pytest.mark.parametrize(
    "filters", [FilterSettings(success=True), FilterSettings(longer_ns=1_999_999_999)]
)
def test_calls_still_running_are_shown_where_they_are_looked_for(filters: FilterSettings) -> None:
    run = Run(Settings(filters=filters, stop_count=1))
    run.pipeline.feed(failing_session() if filters.success else b"")
    run.out.truncate(0)
    run.pipeline.feed_running(running())
    run.pipeline.finish({})
    text = run.out.getvalue()
    assert "... [...]  map_create+0x11f\n" in text
    assert "Still running when tracing ended, in map_create." in text
    assert run.err.getvalue() == ""


def test_a_call_that_has_not_lasted_so_long_is_not_even_counted() -> None:
    run = Run(Settings(filters=FilterSettings(longer_ns=2_000_000_001)))
    run.pipeline.feed_running(running())
    run.pipeline.finish({})
    assert run.out.getvalue() == run.err.getvalue() == ""


def test_a_thread_that_exits_elsewhere_has_returned_unseen() -> None:
    elsewhere = [0xFFFFFFFF81000050]
    values = {"depth": 1, "start_ts": 1, "emit_ts": 2, "tid": 7}
    inside = raw_session([(0, 1, 0, 1)], KSTACK, **values, flags=DIED | EXITING)
    outside = raw_session([(0, 1, 0, 1)], elsewhere, **values, flags=DIED | EXITING | 1)
    unshown = raw_session([(0, 1, 0, 1)], KSTACK, **values, flags=DIED | EXITING | IGNORED)
    run = Run(Settings(filters=FilterSettings(success=True)))
    run.pipeline.feed(inside + outside + unshown)
    run.pipeline.finish({"sessions_abandoned": 1})
    assert run.out.getvalue().count("TID/PID") == 1
    assert "ABANDONED SAMPLES:   2 " in run.err.getvalue()
    assert "NOTE: 2 threads exited inside a traced call." in run.err.getvalue()


def test_calls_that_the_kernel_kept_from_us_are_told_with_the_session() -> None:
    run = Run()
    run.pipeline.feed(failing_session(missed=2, missed_in=1))
    run.pipeline.feed(failing_session(missed=1, missed_in=2, flags=1 | SWITCHED))
    run.pipeline.finish({})
    sure, maybe = [line for line in run.out.getvalue().splitlines() if line.startswith("NOTE")]
    assert sure == (
        "NOTE: 2 traced calls inside map_create not seen: "
        "the kernel kept BPF programs from running there."
    )
    assert maybe.startswith("NOTE: Up to 1 traced call inside array_map_alloc not seen: ")
    assert run.err.getvalue() == ""
    with pytest.raises(DataError, match="not traced"):
        run.pipeline.feed(failing_session(missed=2, missed_in=3))


EINVAL, ENOMEM, ENOENT, NULL = 22, 12, 2, 0

#: -ENOMEM at the surface, NULL at the bottom.
NOMEM = session(
    call("sys_bpf", -ENOMEM),
    call(function("maybe", result=BOOL), 0),
    call(function("alloc", result=PTR), 0),
)
GOOD = session(call("sys_bpf", 0), is_error=False)


def errors(*allow: int, deny: tuple[int, ...] = ()) -> FilterSettings:
    return FilterSettings(
        allow_errors=frozenset(allow) if allow else None, deny_errors=frozenset(deny)
    )


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (errors(), True),
        (errors(ENOMEM), True),
        (errors(NULL), True),
        (errors(EINVAL), False),
        (errors(EINVAL, ENOMEM), True),
        (errors(deny=(ENOMEM,)), False),
        (errors(deny=(NULL,)), False),
        (errors(deny=(EINVAL,)), True),
        (errors(ENOMEM, deny=(NULL,)), False),
        (errors(ENOMEM, deny=(EINVAL,)), True),
        (errors(ENOMEM, deny=(ENOMEM,)), False),
    ],
)
def test_error_filters_look_at_every_call(settings: FilterSettings, reported: bool) -> None:
    assert accepts(NOMEM, settings) is reported


def test_a_positive_number_is_no_error() -> None:
    subject = session(call("f", EINVAL), call("g", -ENOENT))

    assert not accepts(subject, errors(EINVAL))
    assert accepts(subject, errors(ENOENT, deny=(EINVAL,)))


def test_zero_is_null_only_from_a_function_that_returns_a_pointer() -> None:
    subject = session(call("f", 0), call("g", -ENOENT))

    assert not accepts(subject, errors(NULL))
    assert accepts(subject, errors(deny=(NULL,)))


def test_what_the_register_holds_above_the_type_does_not_count() -> None:
    assert accepts(session(call("f", 0x1234_FFFF_FFEA)), errors(EINVAL))
    assert not accepts(session(call(function("f", result=LONG), 0xFFFFFFEA)), errors(EINVAL))


def test_a_call_that_has_not_returned_has_no_error() -> None:
    subject = session(call("f", -EINVAL, finished=False), call("g", -ENOENT))

    assert not accepts(subject, errors(EINVAL))
    assert accepts(subject, errors(deny=(EINVAL,)))


def test_stitched_calls_count() -> None:
    assert accepts(session(call("f", -EINVAL), call("g", -2, stitched=True)), errors(ENOENT))


def test_with_only_a_deny_filter_at_least_one_error_must_be_seen() -> None:
    assert not accepts(session(call("f", 1)), errors(deny=(EINVAL,)))


@pytest.mark.parametrize("settings", [errors(EINVAL), errors(deny=(NULL,))])
def test_error_filters_do_not_concern_successes(settings: FilterSettings) -> None:
    assert not accepts(GOOD, settings)
    with_success = FilterSettings(
        success=True, allow_errors=settings.allow_errors, deny_errors=settings.deny_errors
    )
    assert accepts(GOOD, with_success)


def test_successes_are_reported_only_when_asked_for() -> None:
    assert not accepts(GOOD, FilterSettings())
    assert accepts(GOOD, FilterSettings(success=True))
    assert accepts(NOMEM, FilterSettings(success=True))


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (FilterSettings(pids=(240,)), True),
        (FilterSettings(pids=(250,)), False),
        (FilterSettings(deny_pids=(240,)), False),
        (FilterSettings(deny_pids=(250,)), True),
        (FilterSettings(pids=(240, 1), deny_pids=(240,)), False),
        (FilterSettings(comms=("worker",)), True),
        (FilterSettings(comms=("loader",)), False),
        (FilterSettings(deny_comms=("worker",)), False),
        (FilterSettings(pids=(240,), comms=("other",)), False),
    ],
)
def test_processes_are_matched_by_process_id_and_thread_name(
    settings: FilterSettings, reported: bool
) -> None:
    assert accepts(NOMEM, settings) is reported


def test_names_are_cut_as_the_kernel_cuts_them() -> None:
    subject = session(call("f"), task_comm="a-very-long-nam")

    assert accepts(subject, FilterSettings(comms=("a-very-long-name-indeed",)))


@pytest.mark.parametrize(("longer_ns", "reported"), [(0, True), (5000, True), (5001, False)])
def test_the_duration_is_that_of_the_entry_function(longer_ns: int, reported: bool) -> None:
    assert accepts(NOMEM, FilterSettings(longer_ns=longer_ns)) is reported


def test_an_unfinished_session_lasts_until_it_was_reported() -> None:
    subject = session(call("f", finished=False), died=True)

    assert accepts(subject, FilterSettings(longer_ns=1_000_000_000))
    assert not accepts(subject, FilterSettings(longer_ns=1_000_000_001))
