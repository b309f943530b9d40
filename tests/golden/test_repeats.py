# SPDX-License-Identifier: BSD-2-Clause
"""C code that writes sessions by templates prints the same text as Python."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.recordings import as_of_now, frames_of, pack
from tests.golden.views import VIEWS, recordings, replay_text, stem

from retsnoop_py.cli.replay import show
from retsnoop_py.recording.format import FrameKind
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.session import pipeline, repeats
from retsnoop_py.session.report import Written
from retsnoop_py.settings import OutputFormat
from retsnoop_py.value import replace

HERE = Path(__file__).parent
TIMES = 4


def repeated(recording: Path, made: Path) -> None:
    """Write the recording in the present format, with each frame of records repeated."""
    frames = as_of_now(frames_of(recording))
    many = [[frame] * (TIMES if frame.kind == FrameKind.RECORDS else 1) for frame in frames]
    made.write_bytes(pack([frame for same in many for frame in same]))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sessions that C wrote by templates, one element per text."""
    found: list[int] = []
    split = repeats.Repeats.split

    def spied(self: repeats.Repeats, part: memoryview) -> Iterator[Written | tuple[int, int]]:
        for piece in split(self, part):
            if isinstance(piece, Written):
                found.append(sum(times for _, times in piece.used))
            yield piece

    monkeypatch.setattr(repeats.Repeats, "split", spied)
    monkeypatch.setattr(repeats, "_PAUSE", 0)
    return found


ALL = [(name, ReplayOverrides()) for name in recordings()]
ALL += [(stem(kernel, name), view) for (name, _), view in VIEWS.items() for kernel in ("6.12",)]


@pytest.mark.parametrize("form", list(OutputFormat))
@pytest.mark.parametrize(("name", "view"), ALL, ids=lambda value: getattr(value, "name", None))
def test_repeated_sessions_print_the_expected_text(
    name: str,
    view: ReplayOverrides,
    form: OutputFormat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: list[int],
) -> None:
    path, shown = tmp_path / "repeated.rsn", replace(view, format=form)
    repeated(HERE / f"{name}.rsn", path)
    expected = replay_text(path, shown)
    assert not written

    is_text = form is OutputFormat.TEXT
    monkeypatch.setattr(pipeline, "_MANY", 1)

    assert replay_text(path, shown) == expected
    if view == ReplayOverrides() and name.endswith("-calls"):
        # Python writes the first two sessions of each kind
        assert sum(written) >= expected.count("TID/PID" if is_text else '"type":"session"') // 8
    if name.endswith(("-args", "-probes")):
        assert not written


def test_filtered_sessions_are_skipped_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, shown = tmp_path / "repeated.rsn", ReplayOverrides(allow_errors=frozenset({errno.EXDEV}))
    repeated(HERE / "6.12-calls.rsn", path)

    def closing() -> str:
        out, err = io.StringIO(), io.StringIO()
        assert show(path, shown, out, err) == 0
        assert not out.getvalue()
        return err.getvalue()

    expected = closing()
    hidden: list[int] = []
    split = repeats.Repeats.split

    def spied(self: repeats.Repeats, part: memoryview) -> Iterator[Written | tuple[int, int]]:
        for piece in split(self, part):
            if isinstance(piece, Written):
                assert not piece.text
                hidden.append(sum(times for _, times in piece.hidden))
            yield piece

    monkeypatch.setattr(repeats.Repeats, "split", spied)
    monkeypatch.setattr(repeats, "_PAUSE", 0)
    monkeypatch.setattr(pipeline, "_MANY", 1)

    assert closing() == expected
    assert sum(hidden) > 0
