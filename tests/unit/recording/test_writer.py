# SPDX-License-Identifier: BSD-2-Clause
"""Writing recordings where it is hard."""

from __future__ import annotations

import io
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.recording.recordings import Replayed, record
from tests.unit.session.records import facts, failing_session, printing, raw_session, symbols

from retsnoop_py.errors import OutputError
from retsnoop_py.recording.format import FrameKind
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.settings import Settings


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """No file may grow over ``limit`` bytes: what a full disk does, for this process alone."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def refused(path: Path) -> OutputError:
    with pytest.raises(OutputError) as caught:
        RecordingWriter(path)
    assert caught.value.exit_status == 74
    return caught.value


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in str(refused(tmp_path / "no" / "a.rsn"))


def test_only_regular_files_are_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    assert "Is a directory" in str(refused(tmp_path))
    refused(tmp_path / "fifo")
    assert "not a regular file" in str(refused(Path("/dev/null")))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory like /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_that_another_user_may_have_made_is_refused(link: Any, shared: Path) -> None:
    precious = shared.parent / "precious"
    precious.write_text("precious")
    link(precious, shared / "a.rsn")

    assert "link" in str(refused(shared / "a.rsn"))
    assert precious.read_text() == "precious"


def test_a_link_to_what_is_not_there_makes_no_file(shared: Path) -> None:
    (shared / "a.rsn").symlink_to(shared.parent / "new")

    assert "link" in str(refused(shared / "a.rsn"))
    assert not (shared.parent / "new").exists()


def test_a_file_of_another_user_is_refused_where_others_may_put_one(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / "a.rsn"
    path.touch()
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert "belongs to another user" in str(refused(path))


def test_a_file_of_who_became_root_by_sudo_is_written(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / "a.rsn"
    path.touch()
    theirs = os.stat_result((*path.stat()[:4], 12345, *path.stat()[5:]))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fstat", lambda fd: theirs)
    monkeypatch.setenv("SUDO_UID", "12345")
    RecordingWriter(path).close()

    monkeypatch.setenv("SUDO_UID", "54321")
    assert "belongs to another user" in str(refused(path))


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a.rsn")
    record(tmp_path / "a.rsn")
    record(tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert Replayed(tmp_path / "link").out


def test_a_file_another_run_is_writing_is_refused(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.rsn"):
        assert "another run" in str(refused(tmp_path / "a.rsn"))
    RecordingWriter(tmp_path / "a.rsn").close()


def test_a_run_that_never_starts_leaves_nothing(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "a.rsn"):
        assert (tmp_path / "a.rsn").exists()
    assert not (tmp_path / "a.rsn").exists()


def test_a_run_that_never_starts_leaves_an_older_recording_alone(tmp_path: Path) -> None:
    out, _ = record(tmp_path / "a.rsn")
    with RecordingWriter(tmp_path / "a.rsn"):
        pass

    assert Replayed(tmp_path / "a.rsn").out == out


def test_a_new_recording_replaces_a_longer_older_one(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    path.write_bytes(bytes(100_000))
    out, _ = record(path)

    assert Replayed(path).out == out


def test_a_recording_is_for_its_owner_only(tmp_path: Path) -> None:
    record(tmp_path / "a.rsn")

    assert (tmp_path / "a.rsn").stat().st_mode & 0o777 == 0o600


def test_what_was_fed_is_in_the_file_before_the_next_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    with RecordingWriter(path) as writer:
        writer.start(facts())
        for count in range(1, 4):
            writer.write([], failing_session())
            replayed = Replayed(path)
            assert replayed.out.count("TID/PID") == count
            assert "it ends here" in str(replayed.error)


def test_a_full_disk_is_told_once_and_costs_only_what_comes_after(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    out, err = io.StringIO(), io.StringIO()
    batch = b"".join(raw_session([(0, i, -22, i * 7919)], flags=1) for i in range(100))
    with RecordingWriter(path) as writer:
        writer.start(facts())
        pipeline = printing(facts(), Settings(), symbols(), out, writer, err)
        pipeline.feed(failing_session())
        with file_size_limit(path.stat().st_size + 2000):
            for _ in range(5):
                pipeline.feed(batch)
        pipeline.feed(failing_session())
        pipeline.finish({})

    assert pipeline.exit_status == 74
    assert err.getvalue().count("recording to") == 1
    assert out.getvalue().count("TID/PID") == 502
    replayed = Replayed(path)
    assert "the disk was full" in str(replayed.error)
    assert replayed.out
    assert out.getvalue().startswith(replayed.out)


def test_batches_are_compressed_where_it_pays(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    noise, plain = os.urandom(4096), failing_session() * 100
    with RecordingWriter(path) as writer:
        writer.start(facts())
        for batch in (noise, plain, failing_session()):
            writer.write([], batch)
        writer.end({}, {})

    frames = [frame for frame in read_frames(path) if frame.kind == FrameKind.RECORDS]
    assert [frame.payload for frame in frames] == [noise, plain, failing_session()]
    assert path.stat().st_size < 8192
