# SPDX-License-Identifier: BSD-2-Clause
"""A failure is explained wherever it is in a long log."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import pytest

from retsnoop_py.load import read_log
from retsnoop_py.load.explain import explain_log
from retsnoop_py.load.line_finder import LineFinder, alternatives
from retsnoop_py.load.loud_lines import LOUD, OF_BPF, joined, may_report_failure

HERE = Path(__file__).parent
AGENT = (HERE / "agent.log").read_text()
MAP = "libbpf: map 'events': failed to create: Operation not permitted(-1)\n"
#: The errno is two lines below the failure, as Rust's loaders write it.
CHAIN = (
    "Error: attaching the program failed\n\nCaused by:\n"
    "    0: `perf_event_open` failed\n    1: Permission denied (os error 13)\n"
)
STRACE = (
    'bpf(BPF_PROG_LOAD, {prog_type=BPF_PROG_TYPE_KPROBE, prog_name="p"}, 144) = -1 EPERM'
    " (Operation not permitted)\n"
)


def chatter(size: int) -> str:
    """Lines of a busy service, with words that are parts of others: node, fair, operator."""
    chance = random.Random(7)
    words = ["node", "pod", "cache", "queue", "fair", "terrain", "latency", "operator", "trace"]
    lines, length = [], 0
    while length < size:
        text = " ".join(chance.choices(words, k=9))
        lines.append(f"2026-11-28T03:00:00.{chance.randrange(10**6):06}Z INFO  {text}\n")
        length += len(lines[-1])
    return "".join(lines)


#: Of a log that is cut after 32 KiB instead of 2 MiB.
NOISE = chatter(70_000)


@pytest.fixture(autouse=True)
def cut_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_log, "_MAX_SEGMENT", 32 << 10)


def verifiers(size: int) -> str:
    """Instructions that a verifier followed."""
    line = "{}: (b7) r{} = {}                  ; R{}_w={}\n"
    return "".join(line.format(n, n % 9, n, n % 9, n) for n in range(size // 40))


def told(log: str) -> list[tuple[int, str, str, str]]:
    found = explain_log(io.BytesIO(log.encode()))
    return [(one.line, one.explanation.id, one.program, one.errno) for one in found]


def test_a_failure_before_three_megabytes_of_other_lines_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    assert read_log._MAX_SEGMENT == 2 << 20
    assert told(MAP + chatter(3 << 20)) == told(MAP) != []


@pytest.mark.parametrize(
    "failure", [MAP, CHAIN, STRACE, AGENT], ids=["map", "chain", "strace", "agent"]
)
def test_other_lines_below_change_nothing(failure: str) -> None:
    assert told(failure + NOISE) == told(failure) != []


@pytest.mark.parametrize("failure", [MAP, CHAIN], ids=["map", "chain"])
def test_a_failure_in_the_middle_has_its_line(failure: str) -> None:
    above = NOISE.count("\n")
    assert told(NOISE + failure + NOISE) == [(line + above, *rest) for line, *rest in told(failure)]


def test_each_failure_of_a_long_log_is_explained_once() -> None:
    names = [f"libbpf: prog 'p{n}': failed to attach: No such file or directory\n" for n in "abc"]
    short = [each[1:] for each in told("".join(names))]
    assert len(set(short)) == len(short)
    assert [each[1:] for each in told(NOISE.join([*names, ""]))] == short


def test_a_message_of_several_lines_is_read_as_one_wherever_the_log_is_cut() -> None:
    whole = told(CHAIN)
    for above in range(0, 17_000, 271):
        log = "x" * above + "\n" + CHAIN + NOISE
        assert [each[1:] for each in told(log)] == [each[1:] for each in whole], above


def test_what_loaders_say_within_a_verifiers_log_waits_for_its_reason() -> None:
    end = (
        "R1 invalid mem access 'scalar'\nprocessed 10 insns (limit 1000000) max_states_per_insn 0"
        " total_states 0 peak_states 0 mark_read 0\n"
    )
    failed = "libbpf: prog 'x': BPF program load failed: Permission denied\n"
    short = told(failed + verifiers(4_000) + end)
    assert [each[2:] for each in short] == [("x", "EACCES")]
    assert [each[1:] for each in told(failed + verifiers(70_000) + end)] == [short[0][1:]]
    head = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n"
    assert [each[2] for each in told(MAP + failed + head + verifiers(70_000) + end)] == ["", "x"]


def test_only_the_end_of_each_log_is_read_where_no_loader_wrote() -> None:
    log = (MAP + NOISE + "processed 1 insns\n" + MAP).encode()
    ends = list(read_log.segments(io.BytesIO(log), only_ends=True))
    assert [each.goes_on for each in ends] == [False, False]
    assert [each.lines[-1] for each in ends] == ["processed 1 insns", MAP[8:].strip()]
    parts = list(read_log.segments(io.BytesIO(log)))
    assert [each.goes_on for each in parts] == [True, False, False]


def lines_of_tests() -> list[str]:
    text = (HERE / "test_explain.py").read_text() + (HERE / "test_words.py").read_text() + AGENT
    return sorted(set(text.splitlines()))


@pytest.mark.parametrize("finder", [LOUD, OF_BPF], ids=["loud", "bpf"])
def test_the_finder_finds_the_lines_that_the_pattern_matches(finder: LineFinder) -> None:
    pattern = re.compile(finder._pattern, re.IGNORECASE)
    lines = lines_of_tests()
    expected = [number for number, line in enumerate(lines) if pattern.search(line)]
    assert 50 < len(expected) < len(lines)
    assert finder.offsets("\n".join(lines)) == expected
    assert finder.offsets("\n".join(lines).upper()) == [
        number for number, line in enumerate(lines) if pattern.search(line.upper())
    ]
    assert [finder.matches(line) for line in lines] == [
        bool(pattern.search(line)) for line in lines
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("a|b", ["a", "b"]), (r"a(?:b|c)|[|(]\||d", ["a(?:b|c)", r"[|(]\|", "d"]), ("a", ["a"])],
)
def test_alternatives_are_those_outside_of_parentheses(pattern: str, expected: list[str]) -> None:
    assert alternatives(pattern) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[31mcan\xe2\x80\x99t load\x1b[0m",
        b'{"msg":"can\\u0027t load"}',
        b'"0: (b7) r0 = 0\\nno such thing"',
        b"E1128 03:00:00.000000  1 loader.go:1] one",
        b"2026 [error] one",
        b"FATAL[0001] one",
        b"c\x00a\x00n\x00'\x00t\x00 failed",
    ],
)
def test_a_raw_line_that_may_report_a_failure_is_found(line: bytes) -> None:
    text = joined([b"one\n", line + b"\n", b"two\n", b"x" * 9])
    assert may_report_failure(text) == [1]
    assert text.count("\n") == 3
