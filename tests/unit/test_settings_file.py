# SPDX-License-Identifier: BSD-2-Clause
"""Files of settings and of lists that stop a run, fill the memory or look like a bug."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retsnoop_py.errors import DataError
from retsnoop_py.load.outcome import read_baseline, read_expectations

PROGRAM = Path(sys.executable).parent / "retsnoop-py"
#: What reads each file of ~/.config.
READERS = {
    "kernels.toml": "vm.catalog import all_known as read",
    "no-failure.txt": "selection.ordinary import load as read",
    "arguments.toml": "kernel.arguments.semantics import load_semantics as read",
}
#: Ends as the program does.
_RUN = """
import sys
from retsnoop_py.cli import main
from retsnoop_py.unprivileged import settings
from retsnoop_py.{reader}
settings._SECONDS = 2.0
main._job = lambda words: main.Job(lambda: read() is None)
sys.exit(main.main([]))
"""


def nested(path: Path) -> None:
    path.write_text("a = " + "[" * 100_000)


def deep(path: Path) -> None:
    path.write_text(".".join("a" * 500_000) + " = 1")


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "large": lambda path: path.write_text("# a comment\n" * 200_000),
    "nested": nested,
    "deep": deep,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_settings_neither_stops_a_run_nor_is_a_bug(
    kind: str, name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "retsnoop-py"
    folder.mkdir()
    KINDS[kind](folder / name)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    words = [sys.executable, "-c", _RUN.format(reader=READERS[name])]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, len(done.stdout)) == (65, 0), done.stderr
    assert str(folder / name) in done.stderr


@pytest.mark.parametrize("image", ["(a+)+b", "(" * 5000 + ")" * 5000, "a{1000000000000}"])
def test_a_pattern_of_a_kernel_does_not_keep_a_run_busy(image: str, tmp_path: Path) -> None:
    """A package of 60 letters: the pattern would take years."""
    (tmp_path / "retsnoop-py").mkdir()
    (tmp_path / "retsnoop-py/kernels.toml").write_text(f'[kernel.x]\nsuites=["s"]\nimage="{image}"')
    code = f"""
from retsnoop_py.errors import DataError
from retsnoop_py.unprivileged import settings
from retsnoop_py.vm import catalog
settings._SECONDS = 1.0
try:
    image = catalog.known("x").image
    print(settings.matching(image, ["{"a" * 60}", "b"], "kernels.toml"))
except DataError as error:
    print("data", error.message[-300:])
"""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.startswith("data "), done.stderr


def test_tab_does_not_wait_for_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "retsnoop-py").mkdir()
    os.mkfifo(tmp_path / "retsnoop-py/kernels.toml")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    environment["_RETSNOOP_PY_COMPLETE"] = "candidates_bash"
    words = [str(PROGRAM), "6.", "vm", "run", "--on", "6."]
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ["-e", "@/dev/zero"],
        ["-J", "@/dev/zero"],
        ["-n", "@/dev/zero", "-e", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_list_without_end_is_one_message(words: list[str]) -> None:
    argv = [str(PROGRAM), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "is too large" in done.stderr
    assert done.returncode == 65, done.stderr


def test_a_table_of_results_without_end_is_too_large() -> None:
    for read in (read_expectations, read_baseline):
        with pytest.raises(DataError, match="is too large"):
            read(Path("/dev/zero"))


def test_input_that_needs_too_much_memory_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from retsnoop_py.cli import main

    def work(words: list[str]) -> main.Job:
        return main.Job(lambda: len(bytes(1 << 60)))

    monkeypatch.setattr(main, "_job", work)
    assert main.main([]) == 69
    said = capsys.readouterr().err
    assert "not enough memory" in said
    assert "bug" not in said
