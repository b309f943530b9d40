# SPDX-License-Identifier: BSD-2-Clause
"""What goes into a guest and what is read of it: job scripts, channels, consoles, statuses."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from retsnoop_py.cli.vm import parse_memory
from retsnoop_py.errors import OutputError, RetsnoopError, UnavailableError, UsageError
from retsnoop_py.vm import command as command_module
from retsnoop_py.vm import machine as machine_module
from retsnoop_py.vm.boot import Host, Plan
from retsnoop_py.vm.command import Channel, Command, JobFiles, job_script, release_told
from retsnoop_py.vm.console import Console
from retsnoop_py.vm.errors import (
    BootFailed,
    KernelCrashed,
    VmError,
    VmTimeout,
    crash_reason,
    kernel_problems,
    own_complaint,
    tail,
)
from retsnoop_py.vm.folder import _sweep, make_folder, remove_tree, writable
from retsnoop_py.vm.kernels import Kernel
from retsnoop_py.vm.machine import Machine, in_guests

PANIC = """\
[    1.366843] Run /init as init process
[    9.100000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    9.100100] #PF: supervisor read access in kernel mode
[    9.100200] Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI
[    9.200000] Kernel panic - not syncing: Fatal exception
"""
HEALTHY = """\
[    0.000000] Linux version 6.12.0
[    0.688092] mtrr: your CPUs had inconsistent fixed MTRR settings
[    1.202350] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled
[    1.300000] rcu: Hierarchical RCU implementation.
"""


def run_script(script: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    path = folder / "script"
    path.write_bytes(script)
    env = {**os.environ, "RSN_PID_FILE": str(folder / "pid")}
    return subprocess.run(["/bin/sh", path], env=env, capture_output=True, check=False)


def test_a_job_script_becomes_the_command(tmp_path: Path) -> None:
    words = ["printf", "%s|", "a b", "$HOME", "it's", "", "-n", "new\nline"]
    done = run_script(job_script(words, {}, tmp_path), tmp_path)
    assert done.stdout == b"a b|$HOME|it's||-n|new\nline|"


def test_a_job_script_sets_directory_and_environment_and_leaves_its_pid(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    argv = ["sh", "-c", 'pwd; echo "$A"; echo "${RSN_PID_FILE-unset}"; echo $$']
    done = run_script(job_script(argv, {"A": "x 'y'"}, folder), tmp_path)
    *said, pid = done.stdout.decode().splitlines()
    assert said == [str(folder), "x 'y'", "unset"]
    assert (tmp_path / "pid").read_text().strip() == pid


def test_words_that_are_not_text_survive(tmp_path: Path) -> None:
    word = os.fsdecode(b"\xff\xfe")
    done = run_script(job_script(["printf", "%s", word], {}, tmp_path), tmp_path)
    assert done.stdout == b"\xff\xfe"


def test_a_missing_directory_or_command_has_the_shells_status(tmp_path: Path) -> None:
    assert run_script(job_script(["true"], {}, tmp_path / "no"), tmp_path).returncode == 125
    assert run_script(job_script(["no-such-cmd"], {}, tmp_path), tmp_path).returncode == 127


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[int]:
    """The folder that host and guest share, open."""
    (tmp_path / "jobs").mkdir()
    handle = os.open(tmp_path / "jobs", os.O_RDONLY)
    yield handle
    os.close(handle)


def test_files_of_a_command_are_written_and_read(jobs: int, tmp_path: Path) -> None:
    files = JobFiles(jobs, "1")
    files.write("script", b"exec true")
    assert (tmp_path / "jobs/1/script").read_bytes() == b"exec true"
    assert files.read("stdout") == b""
    (tmp_path / "jobs/1/stdout").write_bytes(b"0123456789")
    assert files.read("stdout", 3, 4) == b"3456"
    assert files.read("stdout", 8) == b"89"


def test_links_that_the_guest_made_lead_nowhere(jobs: int, tmp_path: Path) -> None:
    outside = tmp_path / "of-the-host"
    outside.mkdir()
    (outside / "script").write_bytes(b"secret")
    (tmp_path / "jobs/1").symlink_to(outside)
    with pytest.raises(VmError, match="cannot open the command's 1"):
        JobFiles(jobs, "1")
    files = JobFiles(jobs, "2")
    (tmp_path / "jobs/2/script").symlink_to(outside / "new")
    (tmp_path / "jobs/2/stdout").symlink_to(outside / "script")
    os.mkfifo(tmp_path / "jobs/2/stderr")
    with pytest.raises(VmError, match="cannot open the command's script"):
        files.write("script", b"exec true")
    with pytest.raises(VmError, match="cannot open the command's stdout"):
        files.read("stdout")
    with pytest.raises(VmError, match="guest replaced the command's stderr"):
        files.read("stderr")
    (tmp_path / "jobs").rename(tmp_path / "moved")
    (tmp_path / "jobs").symlink_to(outside)
    JobFiles(jobs, "3").write("script", b"exec true")
    assert sorted(path.name for path in outside.iterdir()) == ["script"]
    assert (tmp_path / "moved/3/script").exists()


class Guest:
    """As much of a machine as a command asks: it is there, and takes its lane back."""

    release, console = "6.99", ""

    def __init__(self, signals: Channel | None = None) -> None:
        self.signals = signals

    def alive(self) -> bool:
        return True

    def release_lane(self, lane: Channel) -> None: ...


def test_output_that_is_passed_on_is_not_held_in_memory(jobs: int, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        files = JobFiles(jobs, "1")
        command = Command(cast("Machine", Guest()), Channel(ours), 1, files, ["seq"])
        size = 48 << 20
        os.truncate(os.open(tmp_path / "jobs/1/stdout", os.O_CREAT | os.O_WRONLY), size)
        seen = 0

        def sink(stream: int, data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        theirs.sendall(b"exit 1 0\n")
        tracemalloc.start()
        try:
            result = command.wait(10, sink)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (result.status, result.stdout, seen) == (0, b"", size)
    assert peak < 8 << 20


def test_output_that_does_not_end_is_ended_by_the_timeout(jobs: int, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        files = JobFiles(jobs, "1")
        guest = cast("Machine", Guest(Channel(ours)))
        command = Command(guest, Channel(ours), 1, files, ["yes"])
        os.truncate(os.open(tmp_path / "jobs/1/stdout", os.O_CREAT | os.O_WRONLY), 1 << 42)
        theirs.sendall(b"exit 1 0\n")
        begun = time.monotonic()
        with pytest.raises(VmTimeout, match="did not end within"):
            command.wait(0.2, lambda stream, data: None)
    assert time.monotonic() - begun < 30


def test_output_that_memory_cannot_hold_is_an_error(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "_MAX_OUTPUT", 1 << 20)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        files = JobFiles(jobs, "1")
        command = Command(cast("Machine", Guest()), Channel(ours), 1, files, ["yes"])
        (tmp_path / "jobs/1/stdout").write_bytes(bytes(1 << 20))
        assert len(command.output()[0]) == 1 << 20
        os.truncate(tmp_path / "jobs/1/stdout", 1 << 40)
        theirs.sendall(b"exit 1 0\n")
        with pytest.raises(VmError, match="yes wrote more than 1 MiB to standard output"):
            command.wait(60)


@pytest.mark.parametrize(
    "line", ["exit 1", "exit ", "exit 1 x", "exit 1 -1", "exit 1 300", f"exit 1 {'9' * 5000}"]
)
def test_an_end_that_is_not_understood_is_an_error(line: str, jobs: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = Command(cast("Machine", Guest()), Channel(ours), 1, JobFiles(jobs, "1"), ["true"])
        theirs.sendall(line.encode() + b"\n")
        with pytest.raises(VmError, match="the guest sent an unexpected line: 'exit "):
            command.wait(60)


def test_a_release_is_one_word() -> None:
    assert release_told("ready 6.12.117+deb13-cloud-amd64") == "6.12.117+deb13-cloud-amd64"
    for line in ("ready ", "ready ../../etc", "ready a b", "ready \x1b[2J", f"ready {'1' * 99}"):
        with pytest.raises(VmError, match="unexpected line"):
            release_told(line)


def test_a_line_without_end_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        theirs.sendall(b"x" * 5000)
        with pytest.raises(VmError, match="a line of more than 4096 bytes"):
            channel.lines()


def test_of_a_long_console_the_beginning_and_the_end_are_kept() -> None:
    console = Console()
    with socket.socket(fileno=os.dup(console.fileno())) as theirs:
        console.start()
        theirs.sendall(b"first\r\n")
        for _ in range(100):
            theirs.sendall(b"x" * 100_000)
        theirs.sendall(b"\nlast\n")
    text = console.text(is_over=True)
    console.close()
    console.close()
    assert text.startswith("first\n")
    assert text.endswith("\nlast\n")
    assert " bytes dropped]\n" in text
    assert len(text) < 4 << 20


def test_a_console_that_is_closed_meanwhile_ends_its_thread() -> None:
    before = threading.active_count()
    console = Console()
    with socket.socket(fileno=os.dup(console.fileno())) as theirs:
        console.start()
        theirs.sendall(b"up\n")
        console.close()
    assert threading.active_count() == before


def test_a_channel_gives_whole_lines_and_never_blocks() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        assert channel.lines() == []
        theirs.sendall(b"ready 6.1\nexit 1")
        assert channel.lines() == ["ready 6.1"]
        theirs.sendall(b" 0\n")
        assert channel.lines() == ["exit 1 0"]
        channel.say("run 2")
        assert theirs.recv(100) == b"run 2\n"


def test_a_channel_to_a_guest_that_is_gone_is_silent() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        channel = Channel(ours)
        channel.say("run 1")
        assert channel.lines() == []


def test_the_first_sign_of_a_crash_is_the_reason() -> None:
    reason = crash_reason(PANIC)
    assert reason == "BUG: kernel NULL pointer dereference, address: 0000000000000008"
    assert crash_reason(HEALTHY) is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 0 PID: 1 at kernel/bpf/verifier.c:1 do_check+0x1/0x2",
        "BUG: sleeping function called from invalid context",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "INFO: task python3:12 blocked for more than 120 seconds.",
        "UBSAN: array-index-out-of-bounds in kernel/x.c",
        "general protection fault, probably for non-canonical address",
    ],
)
def test_kernel_problems_are_found(line: str) -> None:
    assert len(kernel_problems(f"{HEALTHY}[   12.000000] {line}\n")) == 1


def test_a_healthy_log_has_no_problems() -> None:
    assert kernel_problems(HEALTHY) == []


def test_what_the_guests_scripts_could_not_do_is_found() -> None:
    text = HEALTHY + "retsnoop-vm: cannot mount overlay\n[    2.0] reboot: Power down\n"
    assert own_complaint(text) == "cannot mount overlay"
    assert own_complaint(HEALTHY) is None
    assert tail("a\nb\nc\n", 2) == "b\nc"


def test_endings_have_statuses_of_their_own() -> None:
    kinds: list[type[RetsnoopError]] = [BootFailed, KernelCrashed, VmTimeout]
    assert [kind.exit_status for kind in kinds] == [121, 122, 124]


@pytest.mark.parametrize(
    ("text", "size"), [("2G", 2048), ("1500M", 1500), ("1024", 1024), ("3GiB", 3072), ("512m", 512)]
)
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1G", "2T", "100M", "1.5G"])
def test_sizes_that_are_none_or_too_small(text: str) -> None:
    with pytest.raises(UsageError):
        parse_memory(text)


def test_folders_of_killed_runs_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    for name in ("rsn-vm-dead", "rsn-vm-used", "rsn-vm-young", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "qemu.log").touch()
        if name != "rsn-vm-young":
            os.utime(tmp_path / name, (0, 0))
    held = os.open(tmp_path / "rsn-vm-used", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        _sweep(tmp_path)
    finally:
        os.close(held)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other",
        "rsn-vm-used",
        "rsn-vm-young",
    ]


def test_folders_of_other_users_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rsn-vm-theirs"
    folder.mkdir()
    os.utime(folder, (0, 0))
    (tmp_path / "rsn-vm-link").symlink_to(folder)
    uid = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: uid + 1)
        _sweep(tmp_path)
    assert folder.is_dir()
    _sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rsn-vm-link"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder of another user")
def test_roots_folder_for_a_guest_is_where_only_root_can_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    ours = make_folder()
    assert ours.parent == tmp_path.resolve()
    os.chown(tmp_path, 65534, 65534)
    theirs = make_folder()
    try:
        assert theirs.parent == Path("/tmp")
        assert [one.name for one in tmp_path.iterdir()] == [ours.name]
    finally:
        theirs.rmdir()
        os.chown(tmp_path, 0, 0)


def nest(folder: Path, depth: int) -> None:
    """Make folders in each other, deeper than a path can be; each has a file."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def test_a_deep_folder_is_swept() -> None:
    # not in tmp_path: pytest fails to remove such a folder, which a killed run leaves, in each
    # later run
    base = Path(tempfile.mkdtemp(prefix="rsn-deep-"))
    folder = base / "rsn-vm-deep"
    folder.mkdir()
    nest(folder, 3000)
    os.utime(folder, (0, 0))
    _sweep(base)
    assert list(base.iterdir()) == []
    base.rmdir()


def test_a_removed_tree_takes_nothing_outside_along(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").touch()
    folder = tmp_path / "tree"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "a/fifo")
    (folder / "a/locked").mkdir()
    (folder / "a/locked/x").touch()
    (folder / "a/locked").chmod(0)
    if os.geteuid():  # root opens it anyway
        (folder / "a/locked").chmod(0o700)
    remove_tree(folder)
    assert not folder.exists()
    assert (tmp_path / "outside/file").exists()


def test_a_guest_leaves_a_deep_folder_and_it_is_removed() -> None:
    host = Host(256, 1)
    nest(host.share, 1500)
    folder = host.share.parent
    host.close()
    assert not folder.exists()


def test_a_guest_with_writable_folders_is_not_started_if_it_could_make_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, found in (
        ("qemu.find_qemu", "qemu"),
        ("qemu.find_virtiofsd", None),
        ("initrd.find_busybox", tmp_path),
        ("kernels.hold", None),
        ("plan_modules", Plan("9p", [])),
        ("obstacle_to_drop", "setpriv is missing"),
    ):
        monkeypatch.setattr(f"retsnoop_py.vm.boot.{name}", lambda *_, found=found: found)
    host = Host(256, 1)
    try:
        with pytest.raises(UnavailableError, match=r"devices .* in --rw folders: setpriv"):
            host.launch(cast("Kernel", SimpleNamespace(arch=None)), [writable(tmp_path)])
    finally:
        host.close()


@pytest.mark.parametrize("free", [(1000, 1 << 40), (1 << 50, 10)], ids=["bytes", "inodes"])
def test_a_guest_that_fills_the_disk_is_ended(
    free: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(256, 1)
    try:
        host._process = host._spawn(["sleep", "100"], [], "qemu.log")
        assert host.alive()
        host._looked = 0.0
        told = SimpleNamespace(f_frsize=1, f_bavail=free[0], f_favail=free[1])
        monkeypatch.setattr("os.statvfs", lambda _: told)
        assert not host.alive()
        assert "nearly full" in host.reason
    finally:
        host.close()


def test_a_kernel_without_virtiofs_is_booted_again_with_9p(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guest has one transport at a time. Only a boot tells what is built into some kernels."""
    tried: list[tuple[str, ...]] = []

    class Starting(Host):
        def launch(self, *words: Any, **_: Any) -> None:
            tried.append(tuple(words[4]))
            self.other_transport = None if words[4] else "9p"

    def never(machine: Machine, host: Host, deadline: float) -> None:
        kind = "9p" if tried[-1] else "virtiofs"
        raise BootFailed(f"Linux 6 did not boot: cannot mount the host's files; {kind}: no {kind}")

    monkeypatch.setattr(machine_module, "Host", Starting)
    monkeypatch.setattr(machine_module, "_check_installed", lambda arch: None)
    monkeypatch.setattr(Machine, "_await_lanes", never)
    monkeypatch.setattr(Starting, "channel", lambda self, port: None, raising=False)
    with pytest.raises(BootFailed) as caught:
        Machine(Kernel("own", "6.99", Path("/none"))).__enter__()
    assert tried == [(), ("virtiofs",)]
    assert caught.value.message.endswith("files; virtiofs: no virtiofs; 9p: no 9p")


def test_a_guest_without_a_folder_for_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(OutputError, match="No usable temporary directory") as caught:
        Host(256, 1)
    assert "TMPDIR" in (caught.value.hint or "")


class _Guest:
    """A machine that notes which thread closes it, and whether that is while it is in use."""

    def __init__(self, *_: object, **__: object) -> None:
        self.killed = threading.Event()
        self.closed_by: list[int] = []
        self.owner = 0
        _GUESTS.append(self)

    def __enter__(self) -> Self:
        self.owner = threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed_by.append(threading.get_ident())
        self.killed.set()

    def kill(self) -> None:
        self.killed.set()


_GUESTS: list[_Guest] = []


def test_a_guest_that_is_given_up_is_closed_by_the_thread_that_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _GUESTS.clear()
    monkeypatch.setattr(machine_module, "Machine", _Guest)

    # the first one ends when all are in use
    in_use = threading.Barrier(3)

    def visit(name: str, machine: Machine) -> str:
        in_use.wait(60)
        if name != "first":
            assert cast("_Guest", machine).killed.wait(60)
        return name

    kernels = [(name, cast("Kernel", None)) for name in ("first", "second", "third")]
    found = in_guests(kernels, visit, lambda *_: "failed", 3)
    assert next(found) == ("first", "first")
    found.close()
    assert len(_GUESTS) == 3
    assert all(one.closed_by == [one.owner] for one in _GUESTS if one.owner)


def test_a_guest_that_was_killed_still_has_its_folder(tmp_path: Path) -> None:
    host = Host(256, 1)
    try:
        process = host._spawn(["sleep", "100"], [], "qemu.log")
        host._process = process
        killer = threading.Thread(target=host.kill)
        killer.start()
        killer.join()
        assert process.wait(60) < 0
        assert host.share.is_dir()
        assert os.fstat(host.jobs_fd).st_ino == host.jobs.stat().st_ino
    finally:
        host.close()
    assert not host.share.exists()


def test_root_serves_no_folder_of_another_user_as_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    host = Host(256, 1)
    try:
        host._check_owners([tmp_path], "not run with CAP_SYS_ADMIN")
        os.chown(tmp_path, 12345, 12345)
        with pytest.raises(UnavailableError, match="would belong to root, not to the folder's own"):
            host._check_owners([tmp_path], "not run with CAP_SYS_ADMIN")
    finally:
        host.close()
