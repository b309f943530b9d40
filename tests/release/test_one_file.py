# SPDX-License-Identifier: BSD-2-Clause
"""What ``make standalone`` left in dist/: that it needs nothing, starts quickly, and traces.

RETSNOOP_KERNELS names the kernel of the guest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import build
import pytest
from elftools.elf.elffile import ELFFile
from release.one_file import build_one_file
from release.wheel import DIST, MACHINES
from tests.release.system import System

from retsnoop_py import __version__
from retsnoop_py.vm.machine import Machine

HOST = os.uname().machine
ELF_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
LIMIT = 30_000_000
KERNEL = (os.environ.get("RETSNOOP_KERNELS") or "6.12").split()[-1]
RECORDING = build.ROOT / "tests" / "golden" / "6.12.rsn"
INSTALLED = build.ROOT / ".venv" / "bin" / "retsnoop-py"
#: What would have another Python look elsewhere, or say more.
HOSTILE = {
    "PYTHONHOME": "/nowhere",
    "PYTHONPATH": "/tmp",
    "PYTHONSTARTUP": "/tmp/x.py",
    "PYTHONVERBOSE": "1",
    "TZ": "UTC",
    "PATH": "/nonexistent",
}


def one_file(machine: str = HOST) -> Path:
    return DIST / f"retsnoop-py-{machine}"


@pytest.fixture(params=MACHINES)
def program(request: pytest.FixtureRequest) -> Path:
    return one_file(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root with the program, a recording, and a /tmp where nothing can be executed."""
    home = tmp_path / "root"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", home], check=True)
    try:
        shutil.copy(one_file(), home / "retsnoop-py")
        shutil.copy(RECORDING, home / "6.12.rsn")
        (home / "tmp").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", home / "tmp"], check=True)
        subprocess.run(["mount", "-o", "remount,ro", home], check=True)
        yield home
    finally:
        subprocess.run(["umount", "-R", home], check=True)


def inside(root: Path, *words: str) -> str:
    argv = ["/usr/sbin/chroot", str(root), "/retsnoop-py", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=HOSTILE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_it_is_static_small_and_of_its_machine(program: Path) -> None:
    assert program.stat().st_size < LIMIT
    with program.open("rb") as file:
        elf = ELFFile(file)
        assert elf.header.e_machine == ELF_MACHINES[program.name.removeprefix("retsnoop-py-")]
        assert {"PT_INTERP", "PT_DYNAMIC"}.isdisjoint(s.header.p_type for s in elf.iter_segments())
    assert bytes(build.ROOT) not in program.read_bytes()


def test_the_licence_of_everything_inside_is(program: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        names = [name for name in archive.namelist() if name.startswith("licences/")]
        told = archive.read("licences/README.md").decode()
    for name in ("python3.13", "elfutils", "libbpf", "capstone", "musl", "rich", "msgspec"):
        assert name in told
        assert any(one.startswith(f"licences/{name}/") for one in names), name
    assert "relink with another elfutils" in told


def test_alone_in_a_read_only_root_it_replays_and_helps(root: Path) -> None:
    assert inside(root, "--version") == f"retsnoop-py {__version__}\n"
    env = dict(os.environ, TZ="UTC")
    wanted = subprocess.check_output([INSTALLED, "replay", RECORDING], text=True, env=env)
    assert inside(root, "replay", "/6.12.rsn") == wanted
    for words in (["--help"], ["help", "exit-status"], ["list", "presets"], ["why", "--help"]):
        assert inside(root, *words) == subprocess.check_output([INSTALLED, *words], text=True)


def test_without_proc_it_is_found_by_what_it_was_started_as(root: Path) -> None:
    script = "import sys; print(sys.executable, sys.path)"
    assert inside(root, "--python", "-c", script) == "/retsnoop-py ['/retsnoop-py']\n"


def test_the_python_inside_has_the_package_and_looks_nowhere_else(root: Path) -> None:
    script = (
        "import capstone, ctypes, sys, retsnoop_py; from retsnoop_py import _bpf, _dwarf\n"
        "libc = ctypes.CDLL(None); print(libc.syscall(39) > 0, capstone.cs_version()[0])\n"
        "print(sys.flags.isolated, sys.flags.ignore_environment, sys.flags.no_site)\n"
    )
    assert inside(root, "--python", "-c", script) == "True 5\n1 1 1\n"


def test_it_starts_in_at_most_twice_the_time_of_the_installed_one() -> None:
    def cpu_seconds(*words: str | Path) -> float:
        before = os.times()
        for _ in range(10):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        used = (after.children_user, after.children_system)
        return sum(used) - before.children_user - before.children_system

    for words in (["--version"], ["--help"], ["replay", str(RECORDING)]):
        ours, installed = cpu_seconds(one_file(), *words), cpu_seconds(INSTALLED, *words)
        print(f"{words[0]}: {ours * 100:.0f} ms, installed {installed * 100:.0f} ms of CPU")
        assert ours <= 2 * installed, words


#: A root of BusyBox and the program, on which nothing can be written but in /tmp.
GUEST = """\
set -e
root=$(mktemp -d /run/bareXXXXXX)
mount -t tmpfs none $root
mkdir $root/bin $root/proc $root/sys $root/dev $root/tmp
cp {program} $root/bin/retsnoop-py
cp /bin/busybox $root/bin/busybox
for name in sh mount; do ln -s busybox $root/bin/$name; done
mount -t proc none $root/proc
mount -t sysfs none $root/sys
mount -t tracefs none $root/sys/kernel/tracing
mount -t devtmpfs none $root/dev
mount -t tmpfs -o noexec none $root/tmp
mount -o remount,ro $root
export PATH=/bin PYTHONHOME=/nowhere
run() {{ echo "@@@@ $1"; /usr/sbin/chroot $root /bin/retsnoop-py "$@" </dev/null 2>&1 || true; }}
workload="/bin/retsnoop-py --python -m retsnoop_py.workload --quiet bpf-map-too-large"
run doctor
run -e '*_sys_bpf' -a '*map*' --user-stack -o /tmp/one.rsn -- $workload
run replay /tmp/one.rsn
run why -- /bin/mount -t nosuchfs none /tmp
run functions -c mount
"""


def test_in_a_guest_of_busybox_alone_it_traces_and_tells_why() -> None:
    with Machine(KERNEL) as machine:
        script = machine.share / "bare.sh"
        script.write_text(GUEST.format(program=one_file()))
        done = machine.start(["sh", str(script)]).wait(500)
    assert done.status == 0, done.err
    _, doctor, traced, replayed, why, listed = done.stdout.decode().split("@@@@ ")
    assert "Tracing works here" in doctor
    for text in (traced, replayed):
        assert "[-ENOMEM]  __x64_sys_bpf" in text or "[-ENOMEM]  __arm64_sys_bpf" in text
        assert "bpf_map_area_alloc" in text
        assert "User stack:" in text
        assert "/bin/retsnoop-py" in text
    assert "returned ENODEV" in why
    assert "get_fs_type() == NULL" in why
    assert "path_mount" in listed
    assert "no symbols of" not in traced


@pytest.mark.parametrize("suite", ["bullseye", "sid"])
def test_in_each_user_land_it_traces_and_tells_why(suite: str) -> None:
    """In the oldest Debian that is kept and in the newest, neither of which has a Python."""
    system = System(suite, f"{suite}-one-file")
    program, recording = system.give(one_file()), system.give(RECORDING)
    assert system.call("sh", "-c", "command -v python3").returncode
    assert system.run(program, "--version") == f"retsnoop-py {__version__}\n"
    words = ["env", "TZ=UTC", INSTALLED, "replay", RECORDING]
    wanted = subprocess.check_output(words, text=True)
    assert system.run("env", "TZ=UTC", program, "replay", recording) == wanted
    with Machine(KERNEL) as machine:
        call = system.boot(machine)
        doctor = call(program, "doctor")
        assert "Tracing works here" in doctor.out, doctor.out + doctor.err
        case = (program, "--python", "-m", "retsnoop_py.workload", "--quiet", "bpf-map-too-large")
        traced = call(program, "-e", "*_sys_bpf", "-a", "*map*", "--", *case)
        assert "[-ENOMEM]" in traced.out, traced.out + traced.err
        why = call(program, "why", "--", *case)
        assert "returned ENOMEM" in why.out, why.out + why.err
        assert "array_map_alloc" in why.out


def test_it_boots_a_guest_itself_and_runs_there() -> None:
    script = "import os; print(os.uname().release, os.getuid())"
    words = [one_file(), "vm", "run", "--kernel", KERNEL, "--", one_file(), "--python", "-c"]
    said = subprocess.check_output([*words, script], text=True, timeout=300)
    assert said.startswith(f"{KERNEL}.")
    assert said.endswith(" 0\n")


def test_two_builds_are_the_same_bytes() -> None:
    before = one_file().read_bytes()
    time.sleep(1.1)  # what notes the time in seconds would differ
    (build.PACKAGE / "__init__.py").touch()
    assert build_one_file(HOST).read_bytes() == before
