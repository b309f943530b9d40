# SPDX-License-Identifier: BSD-2-Clause
"""Source lines looked up again at replay, in an image of the recorded kernel."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.unit.recording.recordings import Replayed
from tests.unit.session.records import INT, facts, function, printing, raw_session

from retsnoop_py.errors import DataError
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, SymbolizeMode
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages

PLACE = "boot/vmlinux-6.12.0-test"


def live(tree, path: Path, mode: SymbolizeMode) -> tuple[StreamHeader, str]:
    """A run on the little kernel that saw calls from all over it; its facts and its output."""
    kernel = tree.facts
    found = kernel.kallsyms.named("start_kernel")[0]
    run = facts(
        functions=(function("plain", 0x1000, INT),),
        release=kernel.release,
        build_id=kernel.build_id,
        stext=kernel.kallsyms.address_of("_stext"),
        symbolize=mode,
    )
    out = io.StringIO()
    with KernelImages(kernel) as images, RecordingWriter(path) as writer:
        writer.start(run)
        symbolizer = KernelSymbolizer(kernel, mode, images)
        pipeline = printing(run, Settings(), symbolizer, out, writer)
        addresses = [found.address + offset for offset in range(1, 24)]
        pipeline.feed(raw_session([(0, 0, -22, 5000)], addresses, flags=1))
        pipeline.finish({})
    return run, out.getvalue()


@pytest.mark.parametrize("held", [SymbolizeMode.NONE, SymbolizeMode.LINES])
def test_an_image_gives_what_a_live_run_with_it_gives(tree, tmp_path: Path, held) -> None:
    image = tree.install(PLACE)
    _, wanted = live(tree, tmp_path / "full.rsn", SymbolizeMode.INLINES)
    _, bare = live(tree, tmp_path / "bare.rsn", held)
    assert ". check" in wanted
    assert ". check" not in bare

    replayed = Replayed(tmp_path / "bare.rsn", ReplayOverrides(kernel_image=image))

    assert replayed.error is None
    assert replayed.out == wanted
    assert replayed.err == ""


def test_an_image_of_another_kernel_is_refused(tree, tmp_path: Path) -> None:
    image = tree.install(PLACE)
    run, _ = live(tree, tmp_path / "a.rsn", SymbolizeMode.NONE)
    assert run.build_id
    other = tmp_path / "other.rsn"
    with RecordingWriter(other) as writer:
        writer.start(facts(release="6.1", build_id=run.build_id[::-1], stext=run.stext))
        writer.end({}, {})

    replayed = Replayed(other, ReplayOverrides(kernel_image=image))

    assert isinstance(replayed.error, DataError)
    assert "build id" in str(replayed.error)


def test_an_image_that_cannot_be_placed_is_told(tree, tmp_path: Path) -> None:
    image = tree.install(PLACE)
    run, _ = live(tree, tmp_path / "a.rsn", SymbolizeMode.NONE)
    with RecordingWriter(tmp_path / "b.rsn") as writer:
        writer.start(facts(release=run.release, build_id=run.build_id, stext=0))
        writer.end({}, {})

    replayed = Replayed(tmp_path / "b.rsn", ReplayOverrides(kernel_image=image))

    assert replayed.error is None
    assert "cannot be located" in replayed.err
