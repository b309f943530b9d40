# SPDX-License-Identifier: BSD-2-Clause
"""The same run on several kernels: the result of each, and a kernel that crashes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.conftest import selected
from tests.live.support import TOOL

from retsnoop_py.cli.on import recording_path
from retsnoop_py.vm import kernels
from retsnoop_py.vm.architecture import split
from retsnoop_py.vm.machine import Machine

#: Fails in mount(2) on each kernel, and ends with 7.
FAILS = "uname -r; mount /nonexistent /mnt 2>/dev/null; exit 7"
CLOSES = "try: os.close(999)\nexcept OSError: pass\n"
TRACED = ["-e", "*sys_mount", "-a", "path_mount"]


@pytest.fixture
def parked(machine: Machine, request: pytest.FixtureRequest) -> list[str]:
    """The first and the last kernel of its architecture, while the shared guest is down."""
    machine.close()
    chosen = [name for name in selected(request.config) if split(name)[0] == machine.arch]
    return list(dict.fromkeys((chosen[0], chosen[-1])))


def on(
    names: list[str], *words: str, script: str = FAILS, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    argv = [TOOL, "--on", ",".join(names), *TRACED, *words, "--", "sh", "-c", script]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, cwd=cwd)


@pytest.mark.oldest_and_newest
@pytest.mark.parametrize(
    ("words", "script", "status"),
    [
        (["--expect", "ENOENT", "--fail-on", "any"], FAILS, 0),
        (["--fail-on", "EPERM"], FAILS, 7),
        (["--fail-on", "ENOENT"], FAILS, 3),
        (["--expect-none"], "true", 0),
    ],
)
def test_what_was_caught_is_the_exit_status(
    words: list[str], script: str, status: int, machine: Machine
) -> None:
    done = machine.run([TOOL, *TRACED, *words, "--", "sh", "-c", script])
    assert done.status == status, done.err
    assert ("retsnoop-py: ENOENT: caught 1 session" in done.err) is (status == 3)


@pytest.mark.one_kernel
def test_each_kernel_streams_under_its_name_and_is_a_row(parked: list[str], tmp_path: Path) -> None:
    release = {name: kernels.ensure(name).release for name in parked}
    record, summary = tmp_path / "run.rsn", tmp_path / "all.json"
    words = ["-o", str(record), "--summary", str(summary), "--expect", "ENOENT"]
    # A package in the current folder must not be imported.
    (tmp_path / "retsnoop_py").mkdir()
    (tmp_path / "retsnoop_py/__init__.py").write_text("raise SystemExit(0)")
    done = on(parked, *words, "--fail-on", "any", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    begins = [done.stdout.index(f"==> {name} <==\n{release[name]}\n") for name in parked]
    assert begins == sorted(begins)
    title, *rows = done.stdout.splitlines()[-len(parked) - 1 :]
    assert title.split() == [
        *("kernel", "release", "failing", "sessions", "lost", "CMD", "verdict")
    ]
    assert [row.split() for row in rows] == [
        [name, release[name], "1", "ENOENT", "-", "7", "ok"] for name in parked
    ]
    told = [json.loads(line) for line in summary.read_text().splitlines()]
    assert [(one["on"], one["verdict"], one["command_status"]) for one in told] == [
        (name, "ok", 7) for name in parked
    ]
    for name in parked:
        recorded = recording_path(record, name)
        replay = [TOOL, "replay", str(recorded)]
        for words, status in (
            ([], 0),
            (["--expect", "ENOENT"], 0),
            (["--expect", "EPERM"], 3),
            (["--fail-on", "EPERM"], 0),
            (["--fail-on", "ENOENT"], 3),
            (["--expect-none"], 3),
        ):
            shown = subprocess.run([*replay, *words], capture_output=True, text=True, check=False)
            assert shown.returncode == status, (words, shown.stderr)
            assert "mount/mount" in shown.stdout


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_guest_that_does_not_boot_crashes_or_hangs_is_a_row(
    parked: list[str], tmp_path: Path
) -> None:
    image = tmp_path / "bzImage"  # alone: its modules are not beside it
    image.write_bytes(kernels.ensure(parked[0]).image.read_bytes())
    crashing, last = kernels.ensure(parked[0]).release, parked[-1]
    script = f"""mount /nonexistent /mnt 2>/dev/null
        case $(uname -r) in
        {kernels.ensure(last).release}) sleep 1000 ;;
        {crashing}) echo going; echo c >/proc/sysrq-trigger ;;
        esac"""
    chosen = [str(image), *parked]
    done = on(chosen, "--format", "json", "--timeout", "25", script=script)
    assert done.returncode == 2, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all("on" in line for line in lines)
    rows = {line["on"]: line for line in lines if line["type"] == "run"}
    assert list(rows) == chosen
    verdicts = ["unbooted", "crashed", "timeout"] if len(parked) > 1 else ["unbooted", "timeout"]
    assert [row["verdict"] for row in rows.values()] == verdicts
    assert "did not boot" in rows[str(image)]["why"][0]
    if len(parked) > 1:
        assert "sysrq" in rows[parked[0]]["why"][0]
    caught = [line for line in lines if line["type"] == "session" and line["on"] == last]
    assert [line["stack"][-1]["call"]["result"]["error"] for line in caught] == ["ENOENT"]


@pytest.mark.one_kernel
def test_an_interrupt_ends_all_guests(parked: list[str]) -> None:
    argv = [TOOL, "--on", parked[-1], *TRACED, "--", "sleep", "1000"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Receiving data"):
                break
        guests = [pid for pid, parent, _ in _processes() if parent == process.pid]
        assert len(guests) >= 1
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        rest = process.stderr.read()
        assert process.wait(30) == 130, rest
        assert time.monotonic() - began < 10
    assert "interrupted" in rest
    assert not [row for row in _processes() if row[0] in guests]


def series_of(release: str) -> tuple[int, int]:
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def _processes() -> Iterator[tuple[int, int, str]]:
    """Process id, parent and name of all that are not dead."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = path.read_text().partition(" (")
        except OSError:
            continue
        name, _, rest = rest.rpartition(") ")
        if rest[0] != "Z":
            yield int(pid), int(rest.split()[1]), name


@pytest.mark.slow
@pytest.mark.one_kernel
def test_diff_tells_what_only_the_older_kernel_refuses(parked: list[str], tmp_path: Path) -> None:
    """memfd_create(2) takes MFD_NOEXEC_SEAL since Linux 6.3, and refuses flags it does not know."""
    code = f"import os\ntry: os.memfd_create('x', 8)\nexcept OSError: pass\n{CLOSES}"
    argv = [TOOL, "--on", ",".join(parked), "-T", "-e", "*_sys_memfd_create", "-e", "*_sys_close"]
    record = tmp_path / "x.rsn"
    argv += ["-o", str(record), "--", sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, last = (recording_path(record, name) for name in (parked[0], parked[-1]))
    if first == last:
        last = tmp_path / "same.rsn"
        last.write_bytes(first.read_bytes())
    compared = [TOOL, "diff", "--format", "json", str(first), str(last)]
    found = subprocess.run(compared, capture_output=True, text=True, timeout=60, check=False)
    told = json.loads(found.stdout)
    releases = [series_of(kernels.ensure(name).release) for name in (parked[0], parked[-1])]
    differ = releases[0] < (6, 3) <= releases[1]
    assert found.returncode == (3 if differ else 0), found.stderr
    assert [one["error"] for one in told.get("only_a", ())] == ["EINVAL"] * differ
    assert not told.get("only_b")
    if differ:
        assert told["only_a"][0]["entry"].endswith("sys_memfd_create")
    both = [one for one in told.get("both", ()) if one["error"] == "EBADF"]
    assert [one["entry"].rpartition("_")[2] for one in both] == ["close"]
