# SPDX-License-Identifier: BSD-2-Clause
"""No bytes from a guest, a recording or a process without rights are a crash of the decoder."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import retsnoop_py
from retsnoop_py.cli import on
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_json import decode
from retsnoop_py.load import guests
from retsnoop_py.load.outcome import read_baseline

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
