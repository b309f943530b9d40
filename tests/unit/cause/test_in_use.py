# SPDX-License-Identifier: BSD-2-Clause
"""Who uses a file or a module, which file system is full, why a module does not load."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.unit.cause.test_refused import failed, found

from retsnoop_py import foreign_path
from retsnoop_py.cause import (
    bpf_programs,
    busy,
    cgroups,
    files,
    holders,
    modules,
    network,
    room,
    search,
)
from retsnoop_py.cause.events import State, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.reason import Scene


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[int]:
    """A process whose current directory is the test's, with a file open for writing."""
    pid = os.fork()
    if not pid:
        os.chdir(tmp_path)
        os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.fixture(autouse=True)
def _folders_play_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are settings; ``tests/unit/test_foreign_path.py`` tests what is one."""
    monkeypatch.setattr(foreign_path, "_is_setting", lambda fd: stat.S_ISREG(os.fstat(fd).st_mode))


def test_a_process_by_its_directory_and_by_its_file(tmp_path: Path, stopped: int) -> None:
    (one,) = holders.processes(str(tmp_path)).found
    assert (one.pid, one.use) == (stopped, "its current directory is")
    (one,) = holders.processes(str(tmp_path / "log"), writing=True).found
    assert (one.pid, one.use) == (stopped, "it has open for writing")
    assert not holders.processes(str(tmp_path), running=True).found


@pytest.mark.parametrize("name", ["$(touch PWNED)", "a b;touch PWNED", "caf\u00e9 \\", "-l"])
def test_a_device_that_is_mounted_on_a_hostile_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desktop mounts a USB stick at /media/USER/LABEL, and the stick has the label."""
    point = f"/media/u/{name}"
    escaped = point.replace("\\", "\\134").replace(" ", "\\040")
    (tmp_path / "self").mkdir()
    line = f"30 1 8:17 / {escaped} rw - vfat /dev/sdb1 rw\n"
    (tmp_path / "self/mountinfo").write_text(line)
    monkeypatch.setattr(holders, "_PROC", tmp_path)
    monkeypatch.setattr(holders, "device_of", lambda _: "8:17")
    ((_, command), *_) = holders.device_users("/dev/sdb1")
    words = command.replace("umount", "printf '%s\\n'", 1)
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode() == f"{point}\n"


def test_our_own_files_are_not_in_use(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w"):
        assert not holders.processes(str(tmp_path)).found


def test_a_mount_that_a_process_uses(tmp_path: Path, stopped: int) -> None:
    reason = found(failed("umount2", errno.EBUSY, (0, str(tmp_path))))
    assert reason.kind == "busy"
    assert f"(PID {stopped}): its current directory is {tmp_path}" in reason.text
    assert reason.advice[0] == f"end these processes: kill {stopped}"


def test_a_program_that_runs(tmp_path: Path) -> None:
    program = tmp_path / "sleeper"
    shutil.copy("/bin/sleep", program)
    pid = os.spawnv(os.P_NOWAIT, str(program), ["sleeper", "100"])
    try:
        while not holders.processes(str(program), running=True).found:
            pass
        reason = found(failed("openat", errno.ETXTBSY, (1, str(program))))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert f"sleeper (PID {pid}): it runs {program}" in reason.text
    assert f"mv {program}.new {program}" in reason.advice[0]


def test_a_file_that_is_written_does_not_run(tmp_path: Path, stopped: int) -> None:
    reason = found(failed("execve", errno.ETXTBSY, (0, str(tmp_path / "log"))))
    assert "cannot run while it is open for writing" in reason.text
    assert f"kill {stopped}" in reason.advice[1]


def test_a_module_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "_MODULES", tmp_path)
    call = failed("delete_module", errno.EAGAIN, (0, "loop"))
    assert found(call).text == "The module loop is not loaded."
    (tmp_path / "loop/holders").mkdir(parents=True)
    (tmp_path / "loop/refcnt").write_text("2\n")
    reason = found(call)
    assert reason.kind == "busy"
    assert "in use 2 times" in reason.text
    assert "losetup -D" in reason.advice[0]
    (tmp_path / "loop/holders/user").mkdir()
    assert "modprobe -r user" in found(call).advice[0]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("mod: Unknown symbol helper (err -2)", "needs the symbol helper"),
        ("mod: version magic '5.10.0 SMP ' should be '6.12.1 SMP '", "its version is '5.10.0 SMP'"),
        ("mod: disagrees about version of symbol printk", "the symbol printk differs"),
        ("Loading of unsigned module is rejected", "has no signature"),
        ("mod: something else", 'The kernel reported: "mod: something else"'),
    ],
)
def test_what_the_kernel_says_of_a_module(message: str, words: str) -> None:
    reason = found(failed("finit_module", errno.EINVAL), said=(message,))
    assert reason.kind == "module"
    assert words in reason.text


def test_a_module_without_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "loaded already" in found(failed("finit_module", errno.EEXIST)).text
    assert "not a kernel module" in found(failed("init_module", errno.ENOEXEC)).text
    disabled = tmp_path / "modules_disabled"
    disabled.write_text("1\n")
    monkeypatch.setattr(modules, "_DISABLED", disabled)
    assert "kernel.modules_disabled is 1" in found(failed("init_module", errno.EPERM)).text


def test_a_quota_names_use_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    mount = files.Mount("/mnt/q", "ext4", ("rw",), "/dev/loop0")
    monkeypatch.setattr(files, "mount_of", lambda _: mount)
    hard, used = 100, 100 << 10
    monkeypatch.setattr(room, "_read", lambda *_: (hard, 0, used, 0, 0, 3, 0, 0, 0))
    reason = found(failed("openat", errno.EDQUOT, (1, "/mnt/q/x")))
    assert reason.text == (
        "The quota of the user root on the ext4 file system at /mnt/q is used up: 100 KiB of "
        "100 KiB are in use."
    )
    assert reason.advice[1] == "or raise the limit: setquota -u root 0 200 0 0 /mnt/q"


def test_a_swap_file_that_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "swaps"
    table.write_text(f"Filename Type Size Used Priority\n{tmp_path}/swap file 4092 0 -2\n")
    monkeypatch.setattr(busy, "_SWAPS", table)
    (tmp_path / "swap").touch()
    reason = found(failed("unlinkat", errno.EPERM, (1, f"{tmp_path}/swap")))
    assert reason.kind == "busy"
    assert reason.advice == (f"swapoff {tmp_path}/swap",)
    again = found(failed("swapon", errno.EBUSY, (0, f"{tmp_path}/swap")))
    assert again.text.endswith("is in use as swap space already.")


def test_no_swap_space_there() -> None:
    reason = found(failed("swapoff", errno.EINVAL, (0, "/nosuch")))
    assert reason.text == "/nosuch is not in use as swap space."


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("cpu.weight", errno.ERANGE, "cpu.weight of the cgroup /a takes a number from 1 to 10000"),
        ("cgroup.subtree_control", errno.EBUSY, "The cgroup /a has processes of its own (1)"),
        ("cgroup.subtree_control", errno.ENOENT, "has only these controllers: cpu pids"),
        ("cgroup.procs", errno.EOPNOTSUPP, "has the type 'domain invalid'"),
    ],
)
def test_what_a_file_of_a_cgroup_rejects(
    name: str, error: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = files.Mount(str(tmp_path), "cgroup2", ("rw",), "none")
    monkeypatch.setattr(files, "mount_of", lambda _: mount)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/cgroup.procs").write_text("7\n")
    (tmp_path / "a/cgroup.controllers").write_text("cpu pids\n")
    (tmp_path / "a/cgroup.type").write_text("domain invalid\n")
    reason = found(failed("write", error, (1, str(tmp_path / "a" / name))))
    assert reason.kind == "cgroup"
    assert words in reason.text


def test_cpus_that_a_cgroup_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuset.cpus.effective").write_text("4000\n")
    monkeypatch.setattr(cgroups, "cgroup_folder", lambda _: tmp_path)
    reason = found(failed("sched_setaffinity", errno.EINVAL))
    assert "cpuset.cpus.effective is 4000" in reason.text


def test_a_search_that_takes_too_long_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS", 0.0)
    users = holders.processes(str(tmp_path))
    assert not users.is_whole
    assert "the search for more ended after" in str(users)
    reason = busy._processes(str(tmp_path), users)
    assert reason is not None
    assert "found no process that uses it until then" in reason.text
    found_programs, remark = bpf_programs.lsm_programs("bpf_lsm_file_open")
    assert (found_programs, "took too long" in remark) == ([], True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        (user,) = network._sockets(server.getsockname()[1])
    assert user.startswith("a process that was not found in")


def test_the_name_of_a_process_may_be_any_bytes() -> None:
    """prctl(2) takes bytes that are no text in UTF-8."""
    name = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)"
    serve = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"
    tell = "print(s.getsockname()[1], flush=True); input()"
    argv = [sys.executable, "-c", f"{name}\n{serve}\n{tell}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        (user,) = network._sockets(port)
        assert f"(PID {process.pid}) listens on" in user
        assert f"(PID {process.pid})" in bpf_programs._holder(process.pid)
        process.kill()


def test_a_flood_of_sockets_at_a_port_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user can have a million sockets at one port (SO_REUSEPORT)."""
    row = "  0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0"
    monkeypatch.setattr(network, "_rows", lambda _: (f"{row} {number}" for number in count(1)))
    monkeypatch.setattr(network, "_holder_of_socket", lambda inode: f"process {inode}")
    found = network._sockets(80)
    assert network._MOST_USERS < len(found) < 20


def test_a_controller_that_no_cgroup_above_enables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = files.Mount(str(tmp_path), "cgroup2", ("rw",), "none")
    monkeypatch.setattr(files, "mount_of", lambda _: mount)
    leaf = tmp_path / "a/b"
    leaf.mkdir(parents=True)
    for folder, text in ((tmp_path, "cpu cpuset\n"), (tmp_path / "a", "cpu\n"), (leaf, "\n")):
        (folder / "cgroup.controllers").write_text(text)
        (folder / "cgroup.subtree_control").write_text("cpu\n")
    reason = found(failed("openat", errno.EACCES, (1, f"{leaf}/cpuset.cpus")))
    assert reason.text.endswith("The controller cpuset is not enabled for it.")
    names = [f"echo +cpuset >{one}/cgroup.subtree_control" for one in (tmp_path, tmp_path / "a")]
    assert reason.advice == ("; ".join(names),)
    unknown = found(failed("openat", errno.EACCES, (1, f"{leaf}/nosuch.max")))
    assert unknown.advice[0].startswith("ls ")


def test_the_cpus_of_a_process_of_another_user() -> None:
    reason = found(failed("sched_setaffinity", errno.EPERM, arguments=(1, 8, 0, 0, 0, 0), uid=4711))
    assert reason.kind == "owner"
    assert "(PID 1) belongs to root" in reason.text


def test_a_user_that_the_user_namespace_does_not_have() -> None:
    inside = State(namespace=1)
    owner = failed("fchownat", errno.EINVAL, arguments=(0, 0, 5, 0xFFFFFFFF, 0, 0), state=inside)
    assert found(owner).text.startswith("The user or group 5 does not exist in the user namespace")
    group = failed("setgid", errno.EINVAL, arguments=(7, 0, 0, 0, 0, 0), state=inside)
    assert found(group).text.startswith("The group 7 does not exist")


@pytest.mark.parametrize(
    ("name", "most", "words"),
    [
        ("cgroup.max.descendants", "2", "cgroup.max.descendants of the cgroup /a allows 2 cgroups"),
        ("cgroup.max.depth", "1", "cgroup.max.depth of the cgroup /a allows 1 levels of cgroups"),
    ],
)
def test_a_cgroup_above_limits_the_cgroups_below(
    name: str, most: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = files.Mount(str(tmp_path), "cgroup2", ("rw",), "none")
    monkeypatch.setattr(files, "mount_of", lambda _: mount)
    (tmp_path / "a/b").mkdir(parents=True)
    for folder, below in ((tmp_path / "a/b", 0), (tmp_path / "a", 2), (tmp_path, 3)):
        (folder / "cgroup.stat").write_text(f"nr_descendants {below}\nnr_dying_descendants 0\n")
        (folder / "cgroup.max.descendants").write_text("max\n")
        (folder / "cgroup.max.depth").write_text("max\n")
    (tmp_path / "a" / name).write_text(f"{most}\n")
    made = failed("mkdir", errno.EAGAIN, (0, f"{tmp_path}/a/b/c"))
    reason = found(made)
    assert words in reason.text
    assert f">{tmp_path}/a/{name}" in reason.advice[0]
    (tmp_path / "a" / name).write_text("7\n")
    assert cgroups.no_more(Scene(made, Witnessed((made,)), Identity(0, 0))) is None
