# SPDX-License-Identifier: BSD-2-Clause
"""The VM itself: the environment of a command in it, and the ways it can end."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.examples import difference, shown
from tests.live.support import TOOL

from retsnoop_py import __version__
from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm import confined, kernels, qemu
from retsnoop_py.vm.errors import BootFailed, KernelCrashed, VmTimeout, kernel_problems
from retsnoop_py.vm.machine import Machine

SLEEPER = """
import time
print("up", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("hit")
"""


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The short name of the kernel the test is run on."""
    return str(request.node.callspec.params["machine"])


def test_the_status_of_the_command_is_the_result(machine: Machine) -> None:
    assert machine.run(["sh", "-c", "exit 37"]).status == 37
    assert machine.run(["sh", "-c", "kill -TERM $$"]).status == 128 + signal.SIGTERM
    assert machine.run(["no-such-command-anywhere"]).status == 127


def test_it_is_the_kernel_that_was_asked_for(machine: Machine, name: str) -> None:
    kernel = kernels.cached(name)
    assert kernel is not None
    assert machine.run(["uname", "-r"]).out == f"{kernel.release}\n"
    assert machine.release == kernel.release


def test_standard_output_and_error_are_kept_apart_and_are_bytes(machine: Machine) -> None:
    result = machine.run(["sh", "-c", r"printf 'a\000\377b'; echo wrong >&2"])
    assert result.stdout == b"a\0\xffb"
    assert result.stderr == b"wrong\n"


def test_large_output_arrives_whole(machine: Machine) -> None:
    result = machine.run(["seq", "1", "300000"])
    assert result.stdout == "".join(f"{n}\n" for n in range(1, 300001)).encode()


def test_input_environment_and_directory_are_passed(machine: Machine) -> None:
    script = 'cat; echo "$GREETING"; pwd; echo "$#"'
    result = machine.run(
        ["sh", "-c", script, "sh", "a b", "*"],
        stdin=b"typed\n",
        env={"GREETING": "it's $HOME"},
        cwd=Path("/usr/share"),
    )
    assert result.out == "typed\nit's $HOME\n/usr/share\n2\n"


def test_many_commands_run_in_one_boot(machine: Machine) -> None:
    boots = {machine.run(["cat", "/proc/sys/kernel/random/boot_id"]).out for _ in range(12)}
    assert len(boots) == 1


def test_commands_run_side_by_side(machine: Machine) -> None:
    meeting = machine.share / "meeting"
    waiting = machine.start(["sh", "-c", f"while [ ! -e {meeting} ]; do sleep 0.1; done; echo met"])
    assert waiting.poll() is None
    assert machine.run(["touch", str(meeting)]).status == 0
    assert waiting.wait(60).out == "met\n"


def test_the_virtual_environment_of_the_host_runs(machine: Machine) -> None:
    result = machine.run([sys.executable, "-c", "import retsnoop_py; print(1)"])
    assert result.out == "1\n", result.err


def test_program_and_current_folder_are_there_on_each_architecture(machine: Machine) -> None:
    assert machine.run(["uname", "-m"]).out.strip() == machine.arch.machine
    assert machine.run([*machine.program, "--version"]).out == f"retsnoop-py {__version__}\n"
    assert machine.run([TOOL, "--version"]).out == f"retsnoop-py {__version__}\n"
    here = Path(__file__)
    assert machine.run(["cat", here.name], cwd=here.parent).stdout == here.read_bytes()


def test_the_share_is_written_for_good_and_nothing_else_is(machine: Machine) -> None:
    elsewhere = Path(__file__).with_name("written-in-the-guest")
    script = f"echo kept > {machine.share}/result; echo lost > {elsewhere}; cat {elsewhere}"
    assert machine.run(["sh", "-c", script]).out == "lost\n"
    assert (machine.share / "result").read_text() == "kept\n"
    assert not elsewhere.exists()


def test_the_layer_cannot_be_gone_around(machine: Machine) -> None:
    mounts = machine.run(["cat", "/proc/mounts"]).out.split("\n")
    roots = [line for line in mounts if line.startswith("root ")]
    assert roots == []


#: Tries to write this machine's files past the layer: argv is the victim, then how to mount.
WRITER = """
import os, subprocess, sys
victim, device, *options = sys.argv[1:]
os.mkdir("/tmp/around")
mount = ["mount", *options, device, "/tmp/around"]
subprocess.run(mount, check=True)
remounted = subprocess.run(["mount", "-o", "remount,rw", "/tmp/around"])
victim = "/tmp/around" + victim
new = victim + ".new"
attempts = {
    "create": lambda: open(new, "w"),
    "append": lambda: open(victim, "a"),
    "truncate": lambda: os.truncate(victim, 0),
    "open for both": lambda: os.open(victim, os.O_RDWR),
    "remove": lambda: os.unlink(victim),
    "rename": lambda: os.rename(victim, new),
    "link": lambda: os.link(victim, new),
    "symlink": lambda: os.symlink("x", new),
    "mkdir": lambda: os.mkdir(new),
    "fifo": lambda: os.mkfifo(new),
    "device": lambda: os.mknod(new, 0o60666, os.makedev(254, 0)),
    "chmod": lambda: os.chmod(victim, 0o4777),
    "chown": lambda: os.chown(victim, 1, 1),
    "times": lambda: os.utime(victim, (0, 0)),
    "xattr": lambda: os.setxattr(victim, "user.x", b"x"),
    "core_pattern": lambda: open("/tmp/around/proc/sys/kernel/core_pattern", "w"),
    "disk": lambda: open("/tmp/around/dev/vda", "wb"),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError as error:
        print(name, error.strerror, sep=": ")
    else:
        print(name, "DONE", sep=": ")
print(open(victim).read())
subprocess.run(["umount", "/tmp/around"])
os.rmdir("/tmp/around")
"""


def makes_no_device(guest: Machine) -> None:
    """Neither daemon makes a device on this machine, in a folder the guest may write."""
    made = guest.run(["mknod", str(guest.share / "disk"), "b", "254", "0"])
    assert (made.status, "Operation not permitted" in made.err) == (1, True)
    assert not (guest.share / "disk").exists()


def test_a_guest_that_mounts_the_files_anew_cannot_write_them(
    machine: Machine, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    before = victim.stat()
    result = machine.run([sys.executable, "-c", WRITER, str(victim), "root", "-t", "virtiofs"])
    assert result.status == 0, result.err
    *told, content = result.out.splitlines()
    assert len(told) == 17
    allowed = ("Read-only file system", "Operation not supported", "No such file or directory")
    assert [line for line in told if line.partition(": ")[2] not in allowed] == []
    assert sum(line.endswith("Read-only file system") for line in told) >= 14, told
    assert content == victim.read_text() == "as it was"
    after = victim.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert list(tmp_path.iterdir()) == [victim]
    makes_no_device(machine)


def test_a_read_only_view_is_made_on_hosts_of_every_age(machine: Machine) -> None:
    """Linux 5.10, as a host, has no mount_setattr()."""
    program = [sys.executable, "-I", "-S", confined.__file__, "/tmp/view"]
    script = "cd /tmp/view; ls proc; touch x tmp/y; grep -c ' /tmp/view.* ro,.*nodev' $1"
    script += "; grep ' /tmp/view' $1 | grep -vc ' ro,.*nodev'; touch /tmp/z; echo made"
    words = [*program, "sh", "-c", script, "sh", "/proc/self/mountinfo"]
    machine.run(["mkdir", "/tmp/view"])
    result = machine.run(words)
    mounts, writable, made = result.out.splitlines()
    assert int(mounts) >= 2  # the layer and the share
    assert (writable, made) == ("0", "made")
    assert result.err.count("Read-only file system") == 2
    assert machine.run(["ls", "/tmp/view"]).out == ""
    refused = machine.run(["setpriv", "--bounding-set", "-sys_admin", *program, "touch", "/tmp/no"])
    assert refused.status == confined.FAILED
    assert refused.err.startswith("cannot make a read-only view of the files: unshare mount name")
    assert machine.run(["ls", "/tmp/no"]).status == 2


NESTED = """
set -e
mkdir -p /tmp/chroot/proc /tmp/chroot/sys /tmp/chroot/deeper
mkdir -p /tmp/covered /tmp/sight /tmp/rw /tmp/sub
mount -t proc proc /tmp/chroot/proc
mount -t sysfs sys /tmp/chroot/sys
mount -t devtmpfs dev /tmp/chroot/deeper
mount -t proc proc /tmp/covered
mount -t tmpfs none /tmp/covered
"""


def test_a_view_has_no_file_system_of_the_kernel_wherever_it_is_mounted(machine: Machine) -> None:
    machine.run(["sh", "-c", NESTED])
    program = [sys.executable, "-I", "-S", confined.__file__]
    # the folders that lie below the mounts may have empty files of their own
    look = "cd {}; find proc sys dev tmp/chroot/proc tmp/chroot/sys tmp/chroot/deeper tmp/covered"
    look += " -mindepth 1 ! -type d ! -empty"
    seen = machine.run([*program, "/tmp/sub", "sh", "-c", look.format("/tmp/sub")])
    assert seen.out == ""
    assert seen.err == ""
    rooted = [*program, "--root", "/tmp/sight", "--write", "/tmp/rw", "--keep", "/dev/null"]
    script = "ls /dev /proc /proc/self/exe; cat /dev/null; touch /tmp/rw/made /tmp/not; "
    script += look.format("/tmp/sight") + "; touch /tmp/sight/tmp/rw/not"
    rooted_run = machine.run([*rooted, "/tmp/sub", "sh", "-c", script])
    words = [line for line in rooted_run.out.split() if not line.endswith(":")]
    assert words == ["/proc/self/exe", "null", "self"], rooted_run
    assert rooted_run.err.count("Read-only file system") == 2
    assert machine.run(["ls", "/tmp/rw"]).out == "made\n"
    machine.run(["sh", "-c", "umount /tmp/covered /tmp/covered /tmp/chroot/*; rm -r /tmp/rw"])


def test_a_guest_leaves_no_set_user_id_file(machine: Machine) -> None:
    """Neither a new one, nor one of before that it writes, nor one that a view shows."""
    old = machine.share / "old"
    old.write_text("x")
    old.chmod(0o4755)
    script = f"cd {machine.share}; cp /bin/true new; chmod 4755 new; install -m 2755 new other"
    result = machine.run(["sh", "-c", f"{script}; echo more >> old"])
    assert result.err.count("Operation not permitted") == 2
    for path in (old, machine.share / "new", machine.share / "other"):
        assert not path.stat().st_mode & 0o6000, path
        path.unlink()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/proc", "proc"),
        ("/sys", "sysfs"),
        ("/dev", "devtmpfs"),
        ("/sys/kernel/tracing", "tracefs"),
        ("/sys/kernel/debug", "debugfs"),
        ("/sys/kernel/debug/tracing", "tracefs"),
        ("/sys/fs/bpf", "bpf"),
        ("/sys/fs/cgroup", "cgroup2"),
    ],
)
def test_kernel_file_systems_are_mounted(path: str, kind: str, machine: Machine) -> None:
    script = f"ls {path} >/dev/null; grep ' {path} {kind} ' /proc/mounts"
    assert machine.run(["sh", "-c", script]).status == 0


def test_modules_of_the_kernel_can_be_loaded(machine: Machine) -> None:
    assert machine.run(["/sbin/modprobe", "btrfs"]).status == 0
    assert machine.run(["grep", "-q", "^btrfs ", "/proc/modules"]).status == 0


def test_loopback_is_up_and_tmp_can_be_written(machine: Machine) -> None:
    assert machine.run(["sh", "-c", "f=$(mktemp) && echo x > $f && cat $f"]).out == "x\n"
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[0])"
    assert machine.run([sys.executable, "-c", code]).out == "127.0.0.1\n"


def test_an_interrupt_reaches_the_command(machine: Machine) -> None:
    command = machine.start([sys.executable, "-c", SLEEPER])
    deadline = time.monotonic() + 60
    while b"up" not in command.output()[0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    result = command.wait(60)
    assert (result.status, result.out) == (0, "up\nhit\n")


def test_a_command_left_running_does_not_hold_up_the_result(machine: Machine) -> None:
    result = machine.run(["sh", "-c", "sleep 40 & echo started"], timeout=30)
    assert (result.status, result.out) == (0, "started\n")
    assert result.seconds < 40


def test_a_timeout_kills_the_command_and_the_machine_goes_on(machine: Machine) -> None:
    with pytest.raises(VmTimeout) as caught:
        machine.run(["sh", "-c", "echo before; sleep 600"], timeout=2)
    assert caught.value.exit_status == 124
    assert caught.value.result is not None
    assert caught.value.result.out == "before\n"
    assert machine.run(["sh", "-c", "pgrep -f '[s]leep 600' || echo gone"]).out == "gone\n"


def test_the_kernel_log_is_clean(machine: Machine) -> None:
    log = machine.kernel_log()
    assert "Linux version" in log
    assert kernel_problems(log) == []
    assert kernel_problems(machine.console) == []


def test_a_panic_is_told_and_a_new_boot_helps(machine: Machine) -> None:
    with pytest.raises(KernelCrashed, match="sysrq triggered crash") as caught:
        machine.run(["sh", "-c", "echo before; sleep 0.5; echo c > /proc/sysrq-trigger"])
    assert caught.value.exit_status == 122
    assert caught.value.result is not None
    assert caught.value.result.out == "before\n"
    assert "Kernel panic" in caught.value.console
    assert not machine.alive()
    machine.reboot()
    assert machine.run(["true"]).status == 0


def vm_run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [TOOL, "vm", "run", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, **options)


def without_description(kernel: kernels.Kernel, tmp_path: Path) -> Path:
    """Return a copy of the modules' tree without the list of built-in modules."""
    assert kernel.modules is not None
    tree = tmp_path / kernel.release
    shutil.copytree(kernel.modules, tree, copy_function=os.symlink)
    (tree / "modules.builtin").unlink()
    return tree


def test_vm_run_boots_an_image_and_writes_where_allowed(parked: str, tmp_path: Path) -> None:
    """The file systems may be built in or modules; the image has no list of built-in modules."""
    kernel = kernels.ensure(parked)
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, OWNER, OWNER)
    words = ["--on", str(kernel.image), "--modules", str(without_description(kernel, tmp_path))]
    script = f"uname -r | tee {results}/release; grep -c ' virtiofs ' /proc/mounts; "
    script += f"cp /bin/true {results}/tool && ! chmod 4755 {results}/tool 2>/dev/null"
    done = vm_run(*words, "--rw", str(results), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert (results / "release").read_text() == f"{kernel.release}\n"
    assert done.stdout == f"{kernel.release}\n2\n"
    belongs_to_owner(results / "release", results / "tool")


#: Whose folder a writable share is.
OWNER = 4321


def belongs_to_owner(*paths: Path) -> None:
    """A file that root of a guest created in another user's folder belongs to that user."""
    for path in paths:
        made = path.stat()
        assert (made.st_uid, made.st_gid) == (OWNER, OWNER), path
        assert not made.st_mode & (stat.S_ISUID | stat.S_ISGID)


@pytest.mark.one_kernel
def test_the_library_reports_a_guest_that_is_not_up_in_time(parked: str) -> None:
    with pytest.raises(BootFailed, match=r"not up after 0\.3 s"), Machine(parked, boot_timeout=0.3):
        pass


@pytest.mark.one_kernel
def test_vm_run_streams_both_ways_and_passes_ctrl_c_and_the_status_on(parked: str) -> None:
    script = "cat; trap 'echo caught; exit 5' INT; echo waiting; echo wrong >&2"
    script += "; while :; do sleep 0.1; done"
    argv = [TOOL, "vm", "run", "--on", parked, "--", "sh", "-c", script]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("typed\n")
        process.stdin.close()
        assert process.stdout.readline() == "typed\n"
        assert process.stdout.readline() == "waiting\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "caught\n"
        assert process.stderr is not None
        assert process.stderr.read() == "wrong\n"
        assert process.wait(60) == 5


@pytest.mark.slow
@pytest.mark.one_kernel
@pytest.mark.usefixtures("parked")
def test_readme_shows_what_a_command_prints_on_another_kernel(tmp_path: Path) -> None:
    page = [one for one in shown("README.md") if one.command.startswith("retsnoop-py vm run")]
    assert page
    env = {"PATH": f"{Path(TOOL).parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"]}
    for one in page:
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {one.command}"],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        # the release of 5.10 moves on, too
        assert not difference(one.output or "", done.stdout, moved=True), done.stdout


@pytest.mark.one_kernel
def test_vm_run_ends_with_124_when_time_is_up(parked: str) -> None:
    done = vm_run("--on", parked, "--timeout", "1", "--", "sh", "-c", "echo before; sleep 60")
    assert done.returncode == 124
    assert done.stdout == "before\n"
    assert "did not end within 1 s" in done.stderr


@pytest.mark.one_kernel
def test_vm_run_ends_with_122_when_the_kernel_panics(parked: str) -> None:
    done = vm_run("--on", parked, "--", "sh", "-c", "echo c > /proc/sysrq-trigger")
    assert done.returncode == 122
    assert "Kernel panic - not syncing: sysrq triggered crash" in done.stderr


@pytest.mark.one_kernel
def test_vm_run_ends_with_121_when_the_kernel_does_not_boot(parked: str, tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(kernels.ensure(parked).image.read_bytes())
    done = vm_run("--on", str(image), "--", "true")
    assert done.returncode == 121
    assert "did not boot: cannot mount" in done.stderr
    assert "neither built in nor among the modules it was given" in done.stderr


def children_of(process: subprocess.Popen[str]) -> list[int]:
    told = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in told.split()]


def await_the_end_of(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(_running, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.1)


@pytest.mark.one_kernel
def test_a_killed_run_leaves_no_process(parked: str) -> None:
    argv = [TOOL, "vm", "run", "--on", parked, "--", "sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        children = children_of(process)
        assert children
        process.kill()
    await_the_end_of(children)


@pytest.mark.one_kernel
def test_the_first_signal_ends_a_boot(parked: str, tmp_path: Path) -> None:
    argv = [TOOL, "vm", "run", "--on", parked, "--", "true"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, env=env, text=True) as process:
        while len(children := children_of(process)) < 3:  # two daemons and QEMU
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 128 + signal.SIGTERM
    await_the_end_of(children)
    assert list(tmp_path.iterdir()) == []


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
    except ProcessLookupError:
        return False


@pytest.mark.one_kernel
def test_without_virtiofsd_files_are_shared_by_9p(
    parked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cloud flavours have no 9p; the ordinary ones do."""
    monkeypatch.setattr(qemu, "find_virtiofsd", lambda: None)
    os.chown(tmp_path, OWNER, OWNER)
    with Machine(f"{parked}-full", shares=(tmp_path,)) as guest:
        made = guest.run(["sh", "-c", f"cp /bin/true {tmp_path}/tool; chmod 4755 {tmp_path}/tool"])
        assert made.status == 1, made.err
        belongs_to_owner(tmp_path / "tool")
        mounts = guest.run(["cat", "/proc/mounts"]).out
        assert f"{guest.share} 9p rw" in mounts
        assert " virtiofs " not in mounts
        code = f"open('{guest.share}/written', 'w').write('here'); print(1)"
        assert guest.run([sys.executable, "-c", code]).out == "1\n"
        assert (guest.share / "written").read_text() == "here"
        # The guest gets a view of the host without the kernel's file systems (test_vm.py, above).
        assert guest.run(["ls", f"{guest.share.parent}/sight"]).out == ""
        # the device serves one mount, which the layer has; it says readonly=on (test_qemu.py)
        options = "trans=virtio,version=9p2000.L"
        anew = guest.run(["mount", "-t", "9p", "-o", options, "root", "/mnt"])
        assert (anew.status, "busy" in anew.err) == (32, True)
        makes_no_device(guest)
        assert kernel_problems(guest.kernel_log()) == []


@pytest.mark.one_kernel
def test_without_virtiofsd_a_cloud_kernel_says_what_to_install(
    parked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "find_virtiofsd", lambda: None)
    with pytest.raises(UnavailableError, match="has no 9p") as caught, Machine(parked):
        pass
    assert caught.value.hint is not None
    assert "install virtiofsd" in caught.value.hint
