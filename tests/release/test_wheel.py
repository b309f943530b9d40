# SPDX-License-Identifier: BSD-2-Clause
"""Check the wheels of ``make wheel`` in dist/: dependencies, contents, working traces.

RETSNOOP_KERNELS names the kernel of the guest.
"""

from __future__ import annotations

import email
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import build
import pytest
from elftools.elf.elffile import ELFFile
from release.libraries import SOURCES
from release.wheel import DIST, build_sdist, build_wheel
from tests.release.system import (
    BARE,
    ENVIRONMENT,
    System,
    assert_answers,
    assert_first_steps,
    bpf_object,
    left_behind,
    of_this_network,
)

from retsnoop_py.vm.debian import AptRoot
from retsnoop_py.vm.machine import Machine
from retsnoop_py.workload.cases import CASES

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
#: Packages of Python in Debian 12, for the other machine.
PYTHON_PACKAGES = (
    *("libc6", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "zlib1g"),
    *("libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libgcc-s1", "libstdc++6"),
    *("libcrypt1", "libuuid1"),
)
HOST = os.uname().machine
LIMIT = 6_000_000
KERNEL = (os.environ.get("RETSNOOP_KERNELS") or "6.12").split()[-1]
#: An environment without compilers, headers and other Pythons.
ALONE = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": os.environ["HOME"]}


def made(machine: str) -> Path:
    [wheel] = DIST.glob(f"retsnoop_py-*-cp311-abi3-manylinux_2_28_{machine}.whl")
    return wheel


def run(*words: str | Path, env: dict[str, str] | None = None) -> str:
    argv = [str(word) for word in words]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(params=MACHINES)
def wheel(request: pytest.FixtureRequest) -> Path:
    return made(request.param)


def test_auditwheel_finds_nothing_but_glibc_2_28(wheel: Path) -> None:
    machine = wheel.stem.removesuffix(".whl").rpartition("manylinux_2_28_")[2]
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    assert f'is consistent with the following platform tag: "manylinux_2_28_{machine}"' in said
    assert wheel.stat().st_size < LIMIT


def test_extensions_match_the_machine_and_export_one_function(wheel: Path, tmp_path: Path) -> None:
    machine = wheel.stem.rpartition("manylinux_2_28_")[2]
    with zipfile.ZipFile(wheel) as archive:
        extensions = [name for name in archive.namelist() if name.endswith(".so")]
        objects = {name for name in archive.namelist() if name.endswith(".bpf.o")}
        archive.extractall(tmp_path)
    assert sorted(extensions) == ["retsnoop_py/_bpf.abi3.so", "retsnoop_py/_dwarf.abi3.so"]
    programs = [path.stem for path in (build.ROOT / "src/bpf").glob("*.bpf.c")]
    assert "trace.bpf" in programs
    assert objects == {f"retsnoop_py/bpf/{one}/{name}.o" for one in MACHINES for name in programs}
    for name in extensions:
        with (tmp_path / name).open("rb") as handle:
            elf = ELFFile(handle)
            assert elf["e_machine"] == MACHINES[machine]
            needed = {
                tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
            }
            table = elf.get_section_by_name(".dynsym")
            shown = {
                symbol.name
                for symbol in table.iter_symbols()
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
            }
        # Other symbols must stay hidden: another libelf or zstd in the process must not be mixed
        # with ours.
        assert shown == {f"PyInit_{Path(name).name.split('.')[0]}"}
        assert {one.split(".")[0] for one in needed} <= {
            *("libc", "libpthread", "libdl", "ld-linux-x86-64", "ld-linux-aarch64"),
        }


def test_every_file_of_the_package_is_inside(wheel: Path) -> None:
    """If pyproject.toml omits a data folder, the program works only in a checkout."""
    files = run("git", "-C", build.ROOT, "ls-files", "src/retsnoop_py", "docs/*.md").split()
    wanted = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    wanted |= {f"retsnoop_py/{name}" for name in files if name.startswith("docs/")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert wanted > {"retsnoop_py/vm/guest_init.sh", "retsnoop_py/docs/why.md"}
    assert sorted(wanted - names) == []
    assert any(name.endswith("/share/man/man1/retsnoop-py.1") for name in names)


def test_it_contains_the_licences_of_all_parts(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        home = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        told = email.message_from_bytes(archive.read(home))
        shipped = {
            name.removeprefix(home.removesuffix("METADATA") + "licenses/"): archive.read(name)
            for name in archive.namelist()
            if "/licenses/" in name
        }
    assert set(told.get_all("License-File") or ()) == set(shipped)
    for name, one in SOURCES.items():
        assert one.licence in told["License-Expression"]
        for text in one.texts:
            assert len(shipped[f"licences/{name}/{text}"]) > 20
    readme = shipped["licences/README.md"].decode()
    assert all(one.sha256 in readme for one in SOURCES.values())
    assert "How to relink with another elfutils" in readme
    assert "LICENSE" in shipped


@pytest.fixture(scope="module")
def venv() -> Path:
    """An empty venv with the wheel for this machine, in build/, which guests can read."""
    home = build.BUILD / "wheel-venv"
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", home)
    pip = [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    env = dict(os.environ, PATH="/nonexistent", PYTHONPATH="")
    run(*pip, "--only-binary=:all:", made(HOST), env=env)
    return home


def test_version_and_doctor_work_in_an_empty_venv(venv: Path) -> None:
    version = made(HOST).name.split("-")[1]
    tool = venv / "bin/retsnoop-py"
    assert run(tool, "--version", env=ALONE) == f"retsnoop-py {version}\n"
    done = subprocess.run([tool, "doctor", "--json"], capture_output=True, env=ALONE, check=False)
    told = json.loads(done.stdout)
    assert told["kernel"]["machine"] == HOST
    assert done.returncode == told["exit_status"], done.stderr
    script = "import retsnoop_py._bpf, retsnoop_py._dwarf; print(retsnoop_py._dwarf.__file__)"
    where = run(venv / "bin/python", "-c", script, env=ALONE)
    assert where.startswith(str(venv / "lib"))


@pytest.mark.parametrize("platform", ["another machine", "glibc 2.27"])
def test_pip_rejects_it_on_unsupported_systems(venv: Path, tmp_path: Path, platform: str) -> None:
    other = next(machine for machine in MACHINES if machine != HOST)
    wheel = made(other if platform == "another machine" else HOST)
    older = f"manylinux_2_27_{HOST}"
    words = [] if platform == "another machine" else ["--platform", older, "--only-binary=:all:"]
    pip = [venv / "bin/python", "-m", "pip", "install", "--no-deps", "--target", tmp_path, *words]
    done = subprocess.run([*pip, wheel], capture_output=True, text=True, check=False)
    assert done.returncode
    assert f"{wheel.name} is not a supported wheel on this platform" in done.stderr
    assert not list(tmp_path.iterdir())


def test_in_an_empty_venv_it_traces(venv: Path) -> None:
    """The wheel traces bpf-map-too-large in a guest, down to the function that failed."""
    tool, python = venv / "bin/retsnoop-py", venv / "bin/python"
    words = [tool, "vm", "run", "--on", KERNEL, "--"]
    [case] = [one for one in CASES if one.name == "bpf-map-too-large"]
    words += [tool, "-e", "*_sys_bpf"]
    words += [word for one in case.outcomes for name in one.deepest for word in ("-a", name)]
    words += ["--format", "json", "--", python, "-m", "retsnoop_py.workload", "--quiet"]
    said = run(*words, "bpf-map-too-large")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    [session] = [line for line in lines if line["type"] == "session"]
    chain = [row["call"] for row in session["stack"] if "call" in row]
    expected = {errno.errorcode[one.errno]: one.deepest for one in case.outcomes}
    assert chain[0]["function"]["name"] == "__x64_sys_bpf" or HOST != "x86_64"
    assert chain[-1]["function"]["name"] in expected[chain[0]["result"]["error"]]


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_on_a_bare_debian_pip_installs_it_and_uninstalls_it_completely(
    suite: str, tmp_path: Path
) -> None:
    """Only Python 3.11 or 3.13 with pip: no compiler, no headers."""
    system = System(suite, f"{suite}-wheel")
    env = ENVIRONMENT | of_this_network(system)
    install = ("apt-get", "-qq", "-y", "--no-install-recommends", "install")
    system.run("apt-get", "-qq", "update", env=env)
    system.run(*install, "python3-pip", "python3-venv", env=env)
    assert system.call("sh", "-c", "command -v gcc cc").returncode
    system.run("python3", "-m", "venv", "/opt/tool")
    pip, tool = "/opt/tool/bin/pip", "/opt/tool/bin/retsnoop-py"
    wheel = system.give(made(HOST))
    system.run(pip, "install", "-q", "--only-binary=:all:", wheel, env=env)
    refused = system.give(bpf_object(tmp_path, "bounds"))
    with Machine(KERNEL) as machine:
        assert_first_steps(system.boot(machine), tool, ("/opt/tool/bin/python",), refused)
    recording = system.give(build.ROOT / "tests/golden/6.12.rsn")
    for surrounding in BARE:
        assert_answers(system, tool, recording, surrounding)
    system.run(pip, "uninstall", "-q", "-y", "retsnoop-py")
    assert left_behind(system, wheel) == []


def test_it_reports_a_c_library_that_is_too_old(venv: Path, tmp_path: Path) -> None:
    """A venv copied to an older system: its extensions need a later glibc."""
    package = shutil.copytree(site_of(venv) / "retsnoop_py", tmp_path / "retsnoop_py")
    for extension in package.glob("*.so"):
        data = extension.read_bytes()
        wanted = max(re.findall(rb"GLIBC_2\.(\d+)\0", data), key=int)
        old, new = b"GLIBC_2." + wanted, b"GLIBC_9." + wanted
        hashes = [elf_hash(name).to_bytes(4, "little") for name in (old, new)]
        extension.write_bytes(data.replace(old, new).replace(*hashes))
    words = [venv / "bin/python", "-m", "retsnoop_py", "functions", "vfs_read"]
    env = ALONE | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 69, done.stderr
    error, hint = done.stderr.splitlines()
    assert "a later C library than this machine has" in error
    assert "GLIBC_9." in error
    assert f"retsnoop-py-{HOST} needs none" in hint


def site_of(venv: Path) -> Path:
    [site] = venv.glob("lib/python*/site-packages")
    return site


def elf_hash(name: bytes) -> int:
    """Return the hash by which a loader finds a symbol version."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


@pytest.mark.parametrize("room", ["symbolize", "libbpf", "kernel"])
def test_the_tests_of_the_checkout_pass_with_it(venv: Path, room: str) -> None:
    """Run tests of DWARF, ELF and BTF with the wheel's libraries. The venv also gets pytest."""
    told = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        one
        for one in told["optional-dependencies"]["dev"]
        if one.startswith(("pytest>", "hypothesis>", "pyelftools>"))
    ]
    assert len(wanted) == 3
    run(venv / "bin/python", "-m", "pip", "install", "-q", *wanted)
    script = "import retsnoop_py, sys; print(retsnoop_py.__file__)"
    assert run(venv / "bin/python", "-c", script).startswith(str(venv / "lib"))
    said = run(
        venv / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/unit/{room}"
    )
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


@pytest.fixture(scope="module")
def foreign(venv: Path) -> list[str | Path]:
    """The start of a command line that runs the other machine's Python with its wheel in QEMU."""
    other = next(machine for machine in MACHINES if machine != HOST)
    home = build.BUILD / "foreign"
    root, site, emulator = home / "root", home / "site", home / "emulator"
    for folder in (root, site):
        shutil.rmtree(folder, ignore_errors=True)
    theirs = AptRoot("bookworm", cache=home, arch=DEBIAN[other])
    for package in PYTHON_PACKAGES:
        run("dpkg", "-x", theirs.download(package, home / "debs"), root)
    ours = AptRoot("bookworm", cache=emulator, arch=DEBIAN[HOST])
    run("dpkg", "-x", ours.download("qemu-user-static", emulator), emulator)
    platforms = [f"--platform=manylinux_2_{minor}_{other}" for minor in (28, 17)]
    pip = [venv / "bin/python", "-m", "pip", "install", "-q", *platforms, "--python-version=3.11"]
    run(*pip, "--only-binary=:all:", "--no-compile", "--target", site, made(other))
    python = next((root / "usr/bin").glob("python3.[0-9]*"))
    given = [f"PYTHONPATH={site}", f"PYTHONHOME={root / 'usr'}", "PYTHONDONTWRITEBYTECODE=1"]
    settings = [word for one in given for word in ("-E", one)]
    return [emulator / f"usr/bin/qemu-{other}-static", "-L", root, *settings, python]


def test_the_other_machines_wheel_replays_and_reads_dwarf(
    foreign: list[str | Path], venv: Path, tmp_path: Path
) -> None:
    recording = build.ROOT / "tests/golden/6.12.rsn"
    env = dict(os.environ, TZ="UTC")
    said = run(*foreign, "-m", "retsnoop_py", "replay", recording, env=env)
    assert said == run(venv / "bin/retsnoop-py", "replay", recording, env=env)
    (tmp_path / "tiny.c").write_text("int main(int argc, char **argv)\n{\n\treturn argc * 3;\n}\n")
    script = (
        "import os, sys; from pathlib import Path; "
        "from retsnoop_py.libbpf.dwarf import DwarfImage; "
        "image = DwarfImage(Path(sys.argv[1])); place = image.lookup(int(sys.argv[2], 16)); "
        "print(os.uname().machine, place.frames[0].function, place.frames[0].line)"
    )
    for packed in ("none", "zlib"):
        program = tmp_path / packed
        run("gcc", "-O1", "-g", f"-gz={packed}", "-o", program, tmp_path / "tiny.c")
        [main] = [line for line in run("nm", program).splitlines() if line.endswith(" T main")]
        said = run(*foreign, "-c", script, program, main.split()[0])
        machine, *place = said.split()
        assert machine != HOST
        assert place == ["main", "3"]


def test_the_sdist_builds_without_a_network(tmp_path: Path) -> None:
    """It needs the packages of `python3 build.py deps`, cffi and setuptools; libbpf is inside."""
    [sdist] = DIST.glob("retsnoop_py-*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
    env = dict(os.environ, XDG_CACHE_HOME=str(tmp_path / "empty"))
    offline = ["unshare", "--net", *pip, "--no-build-isolation", "--no-index", "-w", tmp_path]
    run(*offline, sdist, env=env)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "retsnoop_py/_dwarf.abi3.so" in archive.namelist()
        assert f"retsnoop_py/bpf/{HOST}/trace.bpf.o" in archive.namelist()


def test_two_builds_are_identical() -> None:
    made_by_first = [build_wheel(HOST, build_sdist()), *DIST.glob("retsnoop_py-*.tar.gz")]
    before = [path.read_bytes() for path in made_by_first]
    for path in (build.ROOT / "README.md", build.PACKAGE / "__init__.py"):
        path.touch()  # the file times of a checkout differ from the commit
    build_wheel(HOST, build_sdist())
    assert [path.read_bytes() for path in made_by_first] == before
    with tarfile.open(made_by_first[1]) as archive:
        assert {member.uname for member in archive} == {"root"}
