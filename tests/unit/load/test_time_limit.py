# SPDX-License-Identifier: BSD-2-Clause
"""How long a log may keep ``explain`` busy."""

from __future__ import annotations

import io
from pathlib import Path
from time import thread_time

import pytest
from tests.unit.cpu_limit import at_most

from retsnoop_py.api.loading import _all_of
from retsnoop_py.cli import explain as cli
from retsnoop_py.errors import DataError
from retsnoop_py.listener import Listener, listening
from retsnoop_py.load import explain
from retsnoop_py.load.explain import explain_log

_FAILURE = b"libbpf: prog 'p': BPF program load failed: Invalid argument\n"


class Heard(Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class Endless:
    """A log without an end, of one line over and over."""

    def __init__(self, line: bytes) -> None:
        self.line = line

    def readline(self, size: int, /) -> bytes:
        return self.line[:size]


def heard(stream: object, seconds: float) -> tuple[list[str], list[str]]:
    listener = Heard()
    with listening(listener):
        found = _all_of(explain_log(stream, seconds=seconds))  # type: ignore[arg-type]
    return [one.errno for one in found], listener.lines


@pytest.mark.parametrize("line", [b"\n", b"a" * 5000, _FAILURE], ids=["empty", "long", "failure"])
def test_a_log_without_end_is_left_and_a_warning_has_how_much_was_read(line: bytes) -> None:
    with at_most(15):
        _, lines = heard(Endless(line), 0.2)
    assert len(lines) == 1
    assert "explain stopped after 0 s of CPU time: it read " in lines[0]
    assert "lines) of the log, and did not explain all of it" in lines[0]


def test_a_log_that_is_read_in_time_has_its_failure_and_no_warning() -> None:
    assert heard(io.BytesIO(_FAILURE), 18) == (["EINVAL"], [])


@pytest.mark.parametrize("has_failure", [True, False])
def test_the_command_prints_what_it_found_and_does_not_say_that_there_is_no_more(
    has_failure: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not 0, as for a whole log, and no claim that the log has no failure."""
    monkeypatch.setattr(explain, "_MOST_SECONDS", 0.5)
    log = tmp_path / "log"
    found = (Path(__file__).parent / "agent.log").read_bytes() if has_failure else b""
    log.write_bytes(found + b"".join(b"line %d\n" % number for number in range(1_000_000)))
    with pytest.raises(DataError, match=r"it read \d+\.\d MB \([\d,]+ lines\)") as caught:
        cli.run(cli.ExplainRequest(log, None, None, json=False, github=False, verbose=0))
    assert caught.value.exit_status == 65
    assert ("Verification failed" in capsys.readouterr().out) == has_failure


@pytest.mark.parametrize(
    "line",
    [
        "error: CONFIG_BPF_EVENTS" + " " * 60 + "y",
        "error: CONFIG_BPF_EVENTS " + "." * 60 + " y",
        "error: CONFIG_X" + ": " * 60 + "y",
        "errored, disabling: sched_ext: BPF scheduler " + "." * 2400,
        "error: " + "/sys/module/a/" * 160,
    ],
)
def test_a_line_of_the_security_review_takes_no_time(line: str) -> None:
    with at_most(5):
        list(explain_log(io.BytesIO(line.encode())))


@pytest.mark.parametrize(
    "text",
    [
        "libbpf: prog '{}': failed to attach: -ENOENT\n",
        "libbpf: prog '{}': BPF program load failed: Operation not permitted\n",
        "prog '{0}': failed to load: -1\nfailed to attach {0}: -2\n",
        "libbpf: Error loading BTF: Invalid argument(-22)\n[{}] STRUCT\n",
    ],
)
def test_the_time_for_failures_of_many_programs_grows_with_their_number(text: str) -> None:
    """Each failure was compared with all that waited for an explanation."""

    def seconds(count: int) -> float:
        log = "".join(text.format(f"p{number:x}") for number in range(count)).encode()
        began = thread_time()
        list(explain_log(io.BytesIO(log)))
        return thread_time() - began

    seconds(100)
    assert seconds(6000) < 8 * seconds(1500) + 0.5
