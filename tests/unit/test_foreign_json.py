# SPDX-License-Identifier: BSD-2-Clause
"""No bytes from a guest, a recording or a process without rights are a crash of the decoder."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import msgspec
import pytest

import retsnoop_py
from retsnoop_py.cli import on
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_json import decode, encode, encode_msgpack
from retsnoop_py.libbpf.object import OBJECTS
from retsnoop_py.load import guests
from retsnoop_py.load.outcome import read_baseline
from retsnoop_py.model.session import RunResult
from retsnoop_py.package import program
from retsnoop_py.render.palette import Palette

PACKAGE = Path(retsnoop_py.__file__).parent
DAMAGED = [
    b'{"version":1,"a":' + b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"\xff":1}',
    b'{"version":"\xff"}',
    b"\xff",
    b"",
]


@pytest.mark.parametrize("line", DAMAGED)
def test_damage_is_one_kind_of_error(line: bytes) -> None:
    for kind in (dict[str, int], tuple[str, int], list[str]):
        with pytest.raises(DataError):
            decode(msgspec.json.Decoder(kind), line)


@pytest.mark.parametrize("line", DAMAGED)
def test_a_line_of_a_guest_does_not_end_the_runs_on_other_kernels(
    line: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert guests._results("6.12", "6.12.1", line + b"\n") == []
    with on._Outlet(["6.12"], is_json=True) as outlet:
        outlet.write("6.12", 1, line + b'\n{"b":1}\n')
        outlet.end("6.12")
    assert capfd.readouterr().out == '{"on":"6.12","b":1}\n'
    (tmp_path / "summary").write_bytes(line)
    assert on._summary(tmp_path / "summary", "6.12", "6.12.1", 1).verdict == "error"


@pytest.mark.parametrize("line", [line for line in DAMAGED if line])
def test_an_earlier_result_that_is_damaged_is_an_error_of_the_file(
    line: bytes, tmp_path: Path
) -> None:
    (tmp_path / "results").write_bytes(line)
    with pytest.raises(DataError, match="is no result of"):
        read_baseline(tmp_path / "results")


def test_no_line_of_json_of_a_guest_controls_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    line = '{"b":\r["\u009b2J\u202e",\t2]}\n'.encode()
    with on._Outlet(["6.12"], is_json=True) as outlet:
        outlet.write("6.12", 1, line)
        outlet.end("6.12")
    shown = capfd.readouterr().out.removesuffix("\n")
    assert shown.isprintable()
    assert msgspec.json.decode(shown) == {"on": "6.12", "b": ["\u009b2J\u202e", 2]}


def test_no_other_code_knows_the_errors_of_the_decoder() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        if "msgspec" in ast.unparse(node.type)
    }
    assert found == {"foreign_json.py", "vm/catalog.py"}, "the latter reads a file of the user"


#: Other code that writes JSON or MessagePack, and why its texts are valid.
WRITERS = {
    "foreign_json.py": "the rules themselves",
    "cli/manual.py": "a schema of our own",
    "symbolize/isolated.py": "requests and answers of a child: ASCII, with surrogates escaped",
    "unprivileged/dwarf.py": "requests and answers of a child: ASCII, with surrogates escaped",
    "unprivileged/settings.py": "requests and answers of a child, which catch the error",
    "vm/kernels.py": "the description of a Debian package",
}


def test_no_other_code_writes_json() -> None:
    words = ("msgspec.json.encode", "msgspec.msgpack.encode", "json.dumps", "json.dump(")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(word in path.read_text() for word in words)
    }
    assert found == WRITERS.keys()


class Named(msgspec.Struct):
    name: str
    path: Path
    parts: tuple[str, ...]
    counts: dict[str, int]


@pytest.mark.parametrize("text", ["a\udcff", "\ud800", "\udcff\ud800"])
def test_text_that_is_not_utf8_is_valid_json(text: str) -> None:
    """A process, a file or a symbol may have any bytes as its name."""
    value = Named(text, Path(text), (text, "b"), {text: 1})
    for data, decoded in (
        (encode(value, str), msgspec.json.decode),
        (encode_msgpack((text, {text: 1})), msgspec.msgpack.decode),
    ):
        back = decoded(data)
        assert "\\x" in str(back)
        str(back).encode()


def test_a_byte_that_is_not_utf8_is_shown_as_hexadecimal() -> None:
    assert encode({"a\udcff": ["\udce4b"]}) == b'{"a\\\\xff":["\\\\xe4b"]}'


@pytest.mark.parametrize(
    "words",
    [
        ["list", "functions", "x\udcff", "--json"],
        ["list", "tracepoints", "x\udcff", "--json"],
        ["list", "presets", "x\udcff", "--json"],
        ["load", "w\udcff.o", "--format", "json", "--on", "host"],
        ["load", "none\udcff.o", "--format", "json"],
        ["explain", "log\udcff", "--format", "json"],
        ["explain", "log\udcff", "--object", "w\udcff.o", "--format", "json"],
        ["functions", "-e", "x\udcff", "--json"],
        ["diff", "a\udcff.rsn", "b\udcff.rsn", "--json"],
        ["replay", "a\udcff.rsn", "--format", "json"],
    ],
    ids=lambda words: " ".join(words[:2]).encode(errors="backslashreplace").decode(),
)
def test_a_command_with_a_name_that_is_not_utf8_is_no_bug(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "w\udcff.o").write_bytes((OBJECTS / "witness.bpf.o").read_bytes())
    log = b"libbpf: prog 'p\xff': BPF program load failed: Invalid argument\n"
    (tmp_path / "log\udcff").write_bytes(log)
    done = subprocess.run(
        [*program(), *words], cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert b"a bug of retsnoop-py" not in done.stderr, done.stderr
    assert b"Traceback" not in done.stderr
    for line in done.stdout.decode().split("\n"):
        assert line.isprintable()
    if done.stdout:
        msgspec.json.Decoder(dict).decode_lines(done.stdout.replace(b"\n", b" "))


def load_line(name: str) -> bytes:
    return b'{"version":1,"kernel":"k","object":"o","kind":"map","verdict":"ok","name":"%s"}\n' % (
        name.encode()
    )


@pytest.mark.parametrize(
    ("out", "kept"),
    [
        (b"".join(load_line(f"m{number}") for number in range(20_002)), 20_000),
        (load_line("a") + load_line("b" * 1001) + load_line("c"), 1),
    ],
    ids=["many", "long"],
)
def test_results_without_end_of_a_guest_are_left_and_reported(out: bytes, kept: int) -> None:
    """256 MiB of short lines took 2 GB of memory and a minute, and then a row for each."""
    *results, last = guests._results("6.12", "6.12.1", out)
    assert len(results) == kept
    assert (last.kind, last.verdict) == ("kernel", "unbooted")
    assert last.explanation is not None
    assert "All later results are missing" in last.explanation.reason
    again = guests._results("6.12", "6.12.1", load_line("a") * 20_002)
    assert [one.name for one in again] == ["a"]


def test_a_table_of_runs_is_short_whatever_a_guest_sends() -> None:
    one = RunResult(
        1,
        "failed",
        2,
        on="6.12",
        kernel="6.12.1",
        sessions={f"E{number}{'x' * 9000}": 1 for number in range(1000)},
        lost={f"l\x1b{number}{'x' * 9000}": 1 for number in range(1000)},
        why=tuple(f"{number}\x1b{'y' * 9000}" for number in range(1000)),
    )
    text = "\n".join(on.run_lines([one], Palette()))
    assert len(text) < 150_000
    assert "\x1b" not in text
    assert "996 more errors" in text
    assert "996 more counters" in text
    assert "950 more reasons" in text
