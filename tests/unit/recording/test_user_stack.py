# SPDX-License-Identifier: BSD-2-Clause
"""A recording knows what programs were, when they are gone."""

from __future__ import annotations

import io
from pathlib import Path

from tests.golden.json_text import words_of_json, words_of_text
from tests.unit.recording.recordings import Replayed
from tests.unit.session.records import facts, failing_session, printing, raw_user_stack, symbols

from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.settings import OutputFormat, Settings, ViewSettings
from retsnoop_py.symbolize.frames import Resolved, SourceFrame, UserAddress

BUILD_ID = "ab" * 20


class Programs:
    """Knows one file; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, UserAddress]] = []

    def resolve_user(
        self, tgid: int, address: UserAddress, proc_tgid: int | None = None, name: str = ""
    ) -> Resolved:
        self.asked.append((tgid, address))
        if not address.build_id:
            return Resolved(address.place, None, 0, 0, f"/proc/{tgid}")
        start = address.place - 0x10
        lines = (SourceFrame("main", "main.c", 3),)
        return Resolved(address.place, "main", 0x10, start, "/usr/bin/loader", lines)


def batch(tgid: int) -> bytes:
    """A failing session of process ``tgid`` with the same user stack as that of any other."""
    frames = ((1, BUILD_ID, 0x1234), (2, "", 0x7F0000000000))
    return raw_user_stack(*frames) + failing_session(tgid=tgid, parts=1)


def record(path: Path, programs: Programs) -> str:
    settings = Settings(views=ViewSettings(user_stack=True))
    live, out = facts(views=settings.views), io.StringIO()
    with RecordingWriter(path) as writer:
        writer.start(live)
        pipeline = printing(live, settings, symbols(), out, writer, io.StringIO(), programs)
        pipeline.feed(batch(6))
        pipeline.feed(batch(9) * 3)
        pipeline.finish({})
    return out.getvalue()


def test_a_replay_shows_the_same_without_the_programs(tmp_path: Path) -> None:
    programs = Programs()
    live = record(tmp_path / "a.rsn", programs)

    assert live.count("    main+0x10       (main.c:3)  /usr/bin/loader\n") == 4
    assert live.count("    0x7f0000000000              /proc/9\n") == 3
    assert live.count("    0x7f0000000000              /proc/6\n") == 1
    assert Replayed(tmp_path / "a.rsn").out == live


def test_a_file_is_asked_for_once_and_an_address_once_for_each_process(tmp_path: Path) -> None:
    programs = Programs()
    record(tmp_path / "a.rsn", programs)

    assert [tgid for tgid, address in programs.asked if address.build_id] == [6]
    assert [tgid for tgid, address in programs.asked if not address.build_id] == [6, 9]


def test_text_and_json_tell_the_same(tmp_path: Path) -> None:
    live = record(tmp_path / "a.rsn", Programs())
    lines = Replayed(tmp_path / "a.rsn", ReplayOverrides(format=OutputFormat.JSON)).out

    assert words_of_json(lines) == words_of_text(live)
