# SPDX-License-Identifier: BSD-2-Clause
"""Check the executable of ``make standalone``: no dependencies, fast start, working traces.

RETSNOOP_KERNELS names the kernel of the guest.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import build
import pytest
from elftools.elf.elffile import ELFFile
from release.libraries import Target
from release.one_file import build_one_file
from release.wheel import DIST, MACHINES
from tests.examples import script
from tests.release.reader import PAGE, Reader
from tests.release.system import (
    BARE,
    System,
    assert_answers,
    assert_first_steps,
    bpf_object,
    left_behind,
)

from retsnoop_py import __version__
from retsnoop_py.vm.architecture import ARCHITECTURES, host
from retsnoop_py.vm.debian import AptRoot
from retsnoop_py.vm.initrd import find_busybox
from retsnoop_py.vm.machine import Machine

HOST = os.uname().machine
ELF_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
LIMIT = 30_000_000
KERNEL = (os.environ.get("RETSNOOP_KERNELS") or "6.12").split()[-1]
GOLDEN = build.ROOT / "tests" / "golden"
RECORDING = GOLDEN / "6.12.rsn"
OLDER = GOLDEN / "5.10.rsn"
INSTALLED = build.ROOT / ".venv" / "bin" / "retsnoop-py"
#: Variables that would change the search path or the output of another Python.
HOSTILE = {
    "PYTHONHOME": "/nowhere",
    "PYTHONPATH": "/tmp",
    "PYTHONSTARTUP": "/tmp/x.py",
    "PYTHONVERBOSE": "1",
    "TZ": "UTC",
    "PATH": "/nonexistent",
}


#: A loader's log: the verifier's output, then the loader's error.
LOG = """\
libbpf: prog 'count': BPF program load failed: Permission denied
libbpf: prog 'count': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; return data[12] ? XDP_PASS : XDP_DROP; @ count.bpf.c:9
0: (61) r1 = *(u32 *)(r1 +0)          ; R1_w=pkt(r=0)
1: (71) r1 = *(u8 *)(r1 +12)
invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)
R1 offset is outside of the packet
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'count': failed to load: -EACCES
"""
#: A program that makes a failing call of bpf(2) in a function of its own.
CALLER = """\
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) long creates_no_map(void)
{
	unsigned int attr[18] = { 2, 4, 0xfffffff0, 0x7fffffff };

	return syscall(SYS_bpf, 0, attr, sizeof(attr));
}

int main(void)
{
	return creates_no_map() < 0 ? 0 : 1;
}
"""


def one_file(machine: str = HOST) -> Path:
    return DIST / f"retsnoop-py-{machine}"


@pytest.fixture(params=MACHINES)
def program(request: pytest.FixtureRequest) -> Path:
    return one_file(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root directory with the program, a recording, and a /tmp without execute permission."""
    home = tmp_path / "root"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", home], check=True)
    try:
        shutil.copy(one_file(), home / "retsnoop-py")
        for recording in (RECORDING, OLDER):
            shutil.copy(recording, home / recording.name)
        (home / "load.log").write_text(LOG)
        (home / "tmp").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", home / "tmp"], check=True)
        subprocess.run(["mount", "-o", "remount,ro", home], check=True)
        yield home
    finally:
        subprocess.run(["umount", "-R", home], check=True)


def inside(root: Path, *words: str) -> str:
    argv = ["/usr/sbin/chroot", str(root), "/retsnoop-py", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=HOSTILE, check=False)
    # a replay ends with the number of calls
    errors = [line for line in done.stderr.splitlines() if " calls failed; " not in line]
    assert (done.returncode, errors) == (0, []), done.stderr
    return done.stdout


def test_sudo_finds_it_after_the_command_of_the_page() -> None:
    reader = Reader("bookworm", "one-file-reader")
    shutil.copytree(DIST, reader.checkout / "dist")
    build_it, *rest = script(PAGE, "make standalone")
    assert build_it == "make standalone"
    reader.type(*rest)
    reader.assert_sudo_finds_it()


def test_it_is_a_small_static_program_for_its_machine(program: Path) -> None:
    assert program.stat().st_size < LIMIT
    with program.open("rb") as file:
        elf = ELFFile(file)
        assert elf.header.e_machine == ELF_MACHINES[program.name.removeprefix("retsnoop-py-")]
        assert {"PT_INTERP", "PT_DYNAMIC"}.isdisjoint(s.header.p_type for s in elf.iter_segments())
    assert bytes(build.ROOT) not in program.read_bytes()


def test_it_contains_the_licence_of_every_part(program: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        names = [name for name in archive.namelist() if name.startswith("licences/")]
        told = archive.read("licences/README.md").decode()
    for name in ("python3.13", "elfutils", "libbpf", "capstone", "musl", "rich", "msgspec"):
        assert name in told
        assert any(one.startswith(f"licences/{name}/") for one in names), name
    assert "relink with another elfutils" in told


def test_replay_and_help_work_in_an_empty_read_only_root(root: Path) -> None:
    assert inside(root, "--version") == f"retsnoop-py {__version__}\n"
    env = dict(os.environ, TZ="UTC")
    wanted = subprocess.check_output([INSTALLED, "replay", RECORDING], text=True, env=env)
    assert inside(root, "replay", "/6.12.rsn") == wanted
    for words in (["--help"], ["help", "exit-status"], ["list", "presets"], ["why", "--help"]):
        assert inside(root, *words) == subprocess.check_output([INSTALLED, *words], text=True)


def test_explain_and_diff_work_in_an_empty_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "load.log").write_text(LOG)
    explained = inside(root, "explain", "/load.log")
    words = [INSTALLED, "explain", tmp_path / "load.log"]
    assert explained == subprocess.check_output(words, text=True)
    assert "count.bpf.c:9" in explained
    words = [INSTALLED, "diff", OLDER, RECORDING]
    wanted = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    argv = ["/usr/sbin/chroot", root, "/retsnoop-py", "diff", "/5.10.rsn", "/6.12.rsn"]
    told = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=HOSTILE, check=False)
    assert "6.12" in told.stdout
    assert (
        told.stdout.replace("/6.12.rsn", str(RECORDING)).replace("/5.10.rsn", str(OLDER))
        == wanted.stdout
    )
    assert told.returncode == wanted.returncode


def test_without_proc_it_finds_itself_by_its_start_path(root: Path) -> None:
    script = "import sys; print(sys.executable, sys.path)"
    assert inside(root, "--python", "-c", script) == "/retsnoop-py ['/retsnoop-py']\n"


def test_its_python_contains_the_package_and_uses_no_other_path(root: Path) -> None:
    script = (
        "import capstone, ctypes, sys, retsnoop_py; from retsnoop_py import _bpf, _dwarf\n"
        "libc = ctypes.CDLL(None); print(libc.syscall(39) > 0, capstone.cs_version()[0])\n"
        "print(sys.flags.isolated, sys.flags.ignore_environment, sys.flags.no_site)\n"
    )
    assert inside(root, "--python", "-c", script) == "True 5\n1 1 1\n"


def test_all_modules_and_codecs_of_the_package_are_inside() -> None:
    """Python finds codecs by name, so no import shows which codecs are necessary."""
    sources = {path: path.read_text() for path in build.PACKAGE.rglob("*.py")}
    names = [
        ".".join(path.relative_to(build.PACKAGE.parent).with_suffix("").parts) for path in sources
    ]
    modules = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    told = (re.findall(r'(?:code\(|encoding=)"([\w-]+)"', text) for text in sources.values())
    codecs = {name for found in told for name in found}
    assert {"unicode_escape", "utf-16-be"} <= codecs
    script = (
        "import codecs, importlib, sys\nfor name in sys.argv[2:]: importlib.import_module(name)\n"
    )
    script += "for name in sys.argv[1].split(): codecs.lookup(name)\n"
    words = [one_file(), "--python", "-c", script, " ".join(sorted(codecs)), *sorted(modules)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_starts_within_twice_the_time_of_an_installed_program() -> None:
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


#: A root directory with only BusyBox and the program. Only /tmp is writable.
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


def test_in_a_guest_with_only_busybox_it_traces_and_explains() -> None:
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


#: /init of a kernel that runs as a process: BusyBox and the program.
PLAIN = """\
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
run() { echo "@@@@ $*"; /retsnoop-py "$@" 2>&1; echo "= $?"; }
run --version
run -e '*_sys_bpf'
run why -- /bin/busybox true
run functions vfs_read
run doctor
/bin/busybox poweroff -f
"""


@pytest.mark.skipif(HOST != "x86_64", reason="Debian has User-mode Linux for x86 alone")
def test_it_reports_a_kernel_without_btf(tmp_path: Path) -> None:
    """User-mode Linux has no BTF, no ftrace, no kprobes, and fewer BPF program types."""
    package = AptRoot("bookworm", arch=host().debian).download("user-mode-linux", tmp_path)
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "uml"], check=True)
    root = tmp_path / "root"
    for name in ("bin", "proc", "sys"):
        (root / name).mkdir(parents=True)
    shutil.copy(find_busybox(), root / "bin/busybox")
    shutil.copy(one_file(), root / "retsnoop-py")
    (root / "init").write_text(PLAIN)
    (root / "init").chmod(0o755)
    words = ["mem=512M", "rootfstype=hostfs", f"rootflags={root}", "ro", "init=/init"]
    words += ["con=null", "con0=fd:0,fd:1"]
    linux = [tmp_path / "uml/usr/bin/linux.uml", *words]
    done = subprocess.run(
        linux, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    told = [part.replace("\r", "") for part in done.stdout.split("@@@@ ")[1:]]
    version, traced, why, functions, doctor = told
    assert version.endswith(f"retsnoop-py {__version__}\n= 0\n")
    lacking = "this kernel has no BTF: /sys/kernel/btf/vmlinux is missing"
    for text in (traced, why, functions):
        *_, error, hint, status = text.splitlines()[:5]
        assert error == f"retsnoop-py: error: {lacking}"
        assert hint == "hint: use a kernel with CONFIG_DEBUG_INFO_BTF=y"
        assert status == "= 69"
    assert lacking in " ".join(doctor.split())
    assert "next: use a kernel with CONFIG_BPF_EVENTS" in doctor
    assert "= 69" in doctor.splitlines()


@pytest.fixture(scope="module", params=["bullseye", "bookworm", "trixie", "sid"])
def system(request: pytest.FixtureRequest) -> System:
    """A Debian without Python, for each supported release from the oldest to the newest."""
    made = System(request.param, f"{request.param}-one-file")
    assert made.call("sh", "-c", "command -v python3").returncode
    return made


@pytest.mark.parametrize("surrounding", BARE)
def test_commands_work_or_report_errors_in_a_restricted_system(
    system: System, surrounding: str
) -> None:
    assert_answers(system, system.give(one_file()), system.give(RECORDING), surrounding)


def test_in_each_user_land_it_traces_explains_and_loads(system: System, tmp_path: Path) -> None:
    program, recording = system.give(one_file()), system.give(RECORDING)
    refused = system.give(bpf_object(tmp_path, "bounds"))
    assert system.run(program, "--version") == f"retsnoop-py {__version__}\n"
    words = ["env", "TZ=UTC", INSTALLED, "replay", RECORDING]
    wanted = subprocess.check_output(words, text=True)
    assert system.run("env", "TZ=UTC", program, "replay", recording) == wanted
    with Machine(KERNEL) as machine:
        call = system.boot(machine)
        assert_first_steps(call, program, (program, "--python"), refused)
    system.run("rm", program)
    assert left_behind(system) == []


#: A root directory with BusyBox, musl, and a program linked with musl.
MUSL_GUEST = """\
set -e
root=/run/musl
mkdir -p $root
mount -t tmpfs none $root
cp -a {musl}/. $root
cp {program} $root/bin/retsnoop-py
cp {caller} $root/bin/caller
cp /bin/busybox $root/bin/busybox
for name in proc sys dev tmp; do mkdir $root/$name; done
for name in proc sys dev; do mount --rbind /$name $root/$name; done
export PATH=/bin
/usr/sbin/chroot $root /bin/retsnoop-py "$@" </dev/null
"""


def test_in_a_musl_user_land_it_traces_a_program_linked_with_musl(tmp_path: Path) -> None:
    """Debian's musl with its loader, and BusyBox; no glibc."""
    tree = tmp_path / "musl"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    package = AptRoot("trixie", arch=host().debian).download("musl", tmp_path)
    subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
    source, caller = tmp_path / "caller.c", tmp_path / "caller"
    source.write_text(CALLER)
    musl = Target(HOST, "musl")
    subprocess.run([*musl.zig("cc"), "-dynamic", "-g", source, "-o", caller], check=True)
    with caller.open("rb") as file:
        [loader] = [s for s in ELFFile(file).iter_segments() if s.header.p_type == "PT_INTERP"]
        assert loader.get_interp_name() == f"/lib/ld-musl-{HOST}.so.1"
    with Machine(KERNEL) as machine:
        script = machine.share / "musl.sh"
        places = {"musl": tree, "program": one_file(), "caller": caller}
        script.write_text(MUSL_GUEST.format(**places))
        words = ["-e", "*_sys_bpf", "-a", "*map*", "--user-stack", "--", "/bin/caller"]
        traced = machine.run(["sh", str(script), *words], timeout=400)
    assert traced.status == 0, traced.out + traced.err
    assert "[-E2BIG]" in traced.out, traced.out + traced.err
    # syscall() of musl has no frame, so the stack omits its caller
    rows = traced.out.partition("User stack:")[2].splitlines()
    [caller_row] = [row for row in rows if row.strip().startswith("main+")]
    assert f"{source}:" in caller_row, traced.out
    [call_row] = [row for row in rows if row.strip().startswith("syscall+")]
    assert call_row.endswith("/libc.so"), traced.out


def test_it_boots_a_guest_and_runs_in_it() -> None:
    script = "import os; print(os.uname().release, os.getuid())"
    words = [one_file(), "vm", "run", "--on", KERNEL, "--", one_file(), "--python", "-c"]
    said = subprocess.check_output([*words, script], text=True, timeout=300)
    assert said.startswith(f"{KERNEL}.")
    assert said.endswith(" 0\n")


def test_a_guest_of_the_other_architecture_is_rejected_before_any_download(
    tmp_path: Path,
) -> None:
    other = next(one for one in ARCHITECTURES.values() if one.is_foreign)
    env = dict(os.environ, XDG_CACHE_HOME=str(tmp_path))
    for words in (["fetch", f"{other.name}/7.2"], ["run", "--arch", other.name, "--", "true"]):
        argv = [one_file(), "vm", *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 69, done.stderr
        assert f"not of {other.name}" in done.stderr
        assert not list(tmp_path.iterdir())


def test_the_kernel_rejects_the_executable_of_the_other_machine() -> None:
    """Without a registered emulator, the executable does not run and the shell reports why."""
    [other] = (machine for machine in MACHINES if machine != HOST)
    with pytest.raises(OSError, match="Exec format error") as caught:
        subprocess.run([one_file(other), "--version"], check=False)
    assert caught.value.errno == errno.ENOEXEC


def test_two_builds_are_identical() -> None:
    before = one_file().read_bytes()
    time.sleep(1.1)  # a time in seconds inside the file would then differ
    (build.PACKAGE / "__init__.py").touch()
    assert build_one_file(HOST).read_bytes() == before
