#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Build retsnoop-py from a bare machine; `make` calls this, and so do setup.py and src/native.

Only the standard library is used: this runs before anything is installed. Each step looks first
whether its result is up to date, so running everything again costs a fraction of a second.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
VENV = ROOT / ".venv"
SITE_VENV = BUILD / "site-venv"
PACKAGE = ROOT / "src" / "retsnoop_py"
#: Sources that a source distribution brings along.
VENDOR = ROOT / "vendor"
MIN_PYTHON = (3, 11)

# The one list of what the system must have: (Debian package, what it is for).
DEBIAN_PACKAGES = (
    ("ca-certificates", "pip and debuginfod speak https"),
    ("clang", "compiles the BPF objects"),
    ("llvm", "llvm-strip for the BPF objects, llvm-symbolizer for the tests"),
    ("clang-format", "make lint checks the C code"),
    ("gcc", "compiles libbpf and the native extensions"),
    ("libc6-dev", "C headers"),
    ("make", "builds libbpf"),
    ("pkg-config", "finds libelf, and a libbpf of the system's"),
    ("libelf-dev", "libbpf and the native extensions link it"),
    ("libdw-dev", "the DWARF reader links it"),
    ("zlib1g-dev", "libbpf links it"),
    ("python3-dev", "Python headers for the native extensions"),
    ("python3-venv", "makes .venv"),
    ("elfutils", "debuginfo tools the symbolizer is tested against"),
    ("bpftool", "dumps kernel types, and shows that nothing is left behind"),
    ("qemu-system-x86", "boots x86-64 kernels for vm, demo and live tests"),
    ("qemu-system-arm", "boots arm64 kernels for the same"),
    ("qemu-system-common", "has virtiofsd before QEMU 8"),
    ("busybox-static", "the guest's first program"),
    ("zstd", "unpacks kernel modules"),
    ("mmdebstrap", "make test-python runs the newest Python in a chroot"),
    ("crun", "starts the container of a live test"),
    ("zsh", "a test presses TAB in it"),
    ("fish", "a test presses TAB in it"),
    ("locales", "a test makes a German locale"),
    ("jq", "examples of the pages read JSON with it"),
)
#: Packages that only some releases have, and the file that another package has in the others.
#: apt is asked for them, because derivatives of Debian number their releases in their own way.
WHERE_KNOWN = {"virtiofsd": "/usr/lib/qemu/virtiofsd"}
_WHEEL = (
    *("ca-certificates", "clang", "llvm", "gcc", "libc6-dev", "make", "pkg-config"),
    *("libelf-dev", "libdw-dev", "zlib1g-dev", "python3-dev", "python3-venv"),
    # tar(1) unpacks the sources of libraries with these
    *("bzip2", "xz-utils"),
)
#: What there may be besides work on the project, and the packages that are enough for it:
#: `make wheel` and `make standalone`, and `make deb`.
LESS = {"wheel": _WHEEL, "deb": (*_WHEEL, "debhelper", "dpkg-dev", "lintian")}

#: The compiler for guests of the other architecture, by this machine's.
CROSS_COMPILERS = {"x86_64": "gcc-aarch64-linux-gnu", "aarch64": "gcc-x86-64-linux-gnu"}

SOURCE_SUITE = "trixie"  # a stable suite keeps its versions
LIBBPF_VERSION = "1.5.0"
LIBBPF_TARBALL = f"libbpf_{LIBBPF_VERSION}.orig.tar.gz"
LIBBPF_SHA256 = "53492aff6dd47e4da04ef5e672d753b9743848bdb38e9d90eafbe190b7983c44"
# LIBBPF_API marks symbols as visible whatever -fvisibility says, so it is emptied: another libbpf
# in the same process must not take over our calls.
LIBBPF_CFLAGS = "-g -O2 -Wall -std=gnu89 -fPIC -fvisibility=hidden -DLIBBPF_API="

# -mcpu=v3 (Linux 5.1): 32-bit compares and arithmetic, which is less work for the verifier.
# -fms-extensions: kernel 7 types have anonymous `struct tag;` members.
# The last warning is one of clang 21, about variables that libbpf's BPF_CORE_READ() fills.
BPF_CFLAGS = (
    *("-target", "bpf", "-mcpu=v3", "-g", "-O2", "-std=gnu11", "-fms-extensions"),
    *("-Wall", "-Werror", "-Wno-microsoft-anon-tag", "-Wno-missing-declarations"),
    *("-Wno-unknown-warning-option", "-Wno-default-const-init-var-unsafe"),
)
BPF_ARCHES = {"x86_64": "x86", "aarch64": "arm64"}  # machine: what bpf_tracing.h calls it


class BuildError(Exception):
    """A step failed; the text says what failed, why, and what to do next."""


class LibbpfPaths(NamedTuple):
    """What a compiler needs to use libbpf, as cffi's ``set_source`` takes it."""

    include_dirs: list[str]
    archive: list[str]
    """The static archive, or where the linker finds the shared library (``extra_objects``)."""
    libraries: list[str]


def say(step: str, text: str) -> None:
    """One line about what a step does; it goes to stderr so that stdout stays the caller's."""
    print(f"  {step:<8} {text}", file=sys.stderr, flush=True)


def run(argv: Sequence[str | Path], env: dict[str, str] | None = None) -> str:
    """Run a program and give its stdout. Raises BuildError with its words where it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{words[0]} is not installed; run: python3 build.py deps") from None
    if done.returncode:
        said = "\n".join(part.rstrip() for part in (done.stdout, done.stderr) if part.strip())
        raise BuildError(f"{' '.join(words)}\nfailed (status {done.returncode}):\n{said}")
    return done.stdout


def digest(paths: Iterable[Path], *more: str) -> str:
    """A fingerprint of the files' names and contents, and of further strings."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    for text in more:
        total.update(f"\0{text}".encode())
    return total.hexdigest()


def is_stamped(stamp: Path, value: str) -> bool:
    """Whether ``stamp`` says that the result beside it was made from ``value``."""
    return stamp.is_file() and stamp.read_text() == value


# --- deps: what the system must have -----------------------------------------------------------


def wanted_packages(machine: str) -> list[str]:
    """The packages that work on the project needs on ``machine``, in any release of Debian."""
    names = [name for name, _ in DEBIAN_PACKAGES]
    return names + ([CROSS_COMPILERS[machine]] if machine in CROSS_COMPILERS else [])


def known_packages(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that apt can install, by its present lists."""
    if not shutil.which("apt-cache"):
        return []
    return [name for name in names if name in run(["apt-cache", "pkgnames", name]).split()]


def missing_packages(wanted: Sequence[str], dpkg_query: str) -> list[str]:
    """Those of ``wanted`` that are not installed, by lines of ``package<TAB>status``."""
    installed = {line.split("\t")[0] for line in dpkg_query.splitlines() if "\tii" in line}
    return [name for name in wanted if name not in installed]


def install_deps(purpose: str = "") -> None:
    """Install what the system lacks for ``purpose``, one of :data:`LESS` or all that there is.

    Where we may not, say what to type.
    """
    if not shutil.which("dpkg-query"):
        tools = ["clang", "llvm-strip", "gcc", "make"]
        tools += [] if purpose else ["qemu-system-x86_64", "busybox"]
        lacking = [tool for tool in tools if not shutil.which(tool)]
        if lacking:
            names = " ".join(LESS.get(purpose) or (name for name, _ in DEBIAN_PACKAGES))
            raise BuildError(
                f"missing: {' '.join(lacking)}\nThis is not Debian; install what your "
                f"distribution calls these Debian packages, then try again:\n  {names}"
            )
        return
    if purpose in LESS:
        install_packages(LESS[purpose])
    else:
        # asking apt takes half a second
        further = [name for name, other in WHERE_KNOWN.items() if not Path(other).exists()]
        install_packages(wanted_packages(platform.machine()), further)


def install_packages(wanted: Sequence[str], where_known: Sequence[str] = ()) -> None:
    """Install those of Debian's packages ``wanted`` that the system lacks.

    Without root, raise BuildError with the command. The packages ``where_known`` are added if apt
    knows them.
    """
    if not shutil.which("dpkg-query"):
        raise BuildError(f"{' '.join(wanted)}: these are Debian's packages, and here is no dpkg")
    query = ["dpkg-query", "-W", "-f", "${Package}\\t${db:Status-Abbrev}\\n", *wanted, *where_known]
    # its status is 1 if only one of them is unknown, so it tells nothing
    known = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    further = missing_packages(where_known, known)
    missing = missing_packages(wanted, known) + known_packages(further)
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends"]
    if os.geteuid() != 0:
        raise BuildError(
            f"the system lacks {len(missing)} packages; install them and try again:\n"
            f"  sudo apt-get update && sudo {' '.join([*install, *missing])}"
        )
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C")
    run(["apt-get", "update"], env=env)
    # a machine that was never updated has no lists before
    missing = missing_packages(wanted, known) + known_packages(further)
    install += missing
    ask = [word for word in install if word != "-y"] + ["--assume-no"]
    # its status is 1, for the answer is no
    told = subprocess.run(ask, env=env, capture_output=True, text=True, check=False).stdout
    say("deps", f"installing {' '.join(missing)}{cost(told)}")
    run(install, env=env)


def cost(apt: str) -> str:
    """What apt-get would do by its own words, ``apt``, in a few: packages, megabytes."""
    packages = re.search(r"(\d+) newly installed", apt)
    fetched = re.search(r"Need to get ([\d,.]+ [kMG]?B)", apt)
    kept = re.search(r"([\d,.]+ [kMG]?B) of additional disk space", apt)
    parts = [f"{packages[1]} package{'s' * (packages[1] != '1')}"] if packages else []
    parts += [f"{fetched[1]} to download"] if fetched else []
    parts += [f"{kept[1]} on disk"] if kept else []
    return f" ({', '.join(parts)})" if parts else ""


# --- libbpf: a static archive and its headers ---------------------------------------------------


def debian_source(package: str, name: str, wanted: str) -> Path:
    """File ``name`` of a source package of Debian's, from the cache or the machine's mirror.

    ``wanted`` is its SHA-256. Raises BuildError where it cannot be had or is another file.
    """
    sys.path.insert(0, str(ROOT / "src"))
    from retsnoop_py.errors import RetsnoopError
    from retsnoop_py.vm.debian import AptRoot, cache_root

    tarball = cache_root() / "sources" / name
    for known in (VENDOR / name, tarball):
        if known.is_file() and sha256(known) == wanted:
            return known
    say("fetch", f"source of {package} from Debian {SOURCE_SUITE}")
    instead = ", or use the system's: RETSNOOP_LIBBPF=system make build"
    try:
        AptRoot(SOURCE_SUITE).source(package, tarball.parent)
    except RetsnoopError as error:
        raise BuildError(
            f"cannot fetch the source of {package}: {error.message}\nPut {name} into "
            f"{tarball.parent}{instead if package == 'libbpf' else ''}"
        ) from error
    if not tarball.is_file():
        raise BuildError(f"Debian {SOURCE_SUITE} no longer has {name}")
    if sha256(tarball) != wanted:
        raise BuildError(f"{tarball} is not the file build.py expects: its SHA-256 differs")
    return tarball


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_libbpf(machine: str = "", compiler: Sequence[str] = ("cc",)) -> LibbpfPaths:
    """Build libbpf below build/libbpf, unless it is there; for another ``machine`` beside that."""
    home = BUILD / (f"libbpf-{machine}" if machine else "libbpf")
    archive = home / "lib" / "libbpf.a"
    paths = LibbpfPaths([str(home / "include")], [str(archive)], ["elf", "z"])
    stamp, value = home / "stamp", f"{LIBBPF_SHA256} {LIBBPF_CFLAGS}"
    value += f" {' '.join(compiler)}" if machine else ""
    if archive.is_file() and is_stamped(stamp, value):
        return paths
    tarball = debian_source("libbpf", LIBBPF_TARBALL, LIBBPF_SHA256)
    say("libbpf", f"{LIBBPF_VERSION}, static{f', for {machine}' if machine else ''}")
    shutil.rmtree(home, ignore_errors=True)
    source = home / "source"
    source.mkdir(parents=True)
    run(["tar", "-xzf", tarball, "-C", source, "--strip-components=1"])
    # make(1) takes a path with a space in it for two: seen from source/src there is none
    settings = {
        "BUILD_STATIC_ONLY": "y",
        "CFLAGS": f"{LIBBPF_CFLAGS} {shlex.quote(f'-ffile-prefix-map={source}=libbpf')}",
        "OBJDIR": "../../objects",
        "LIBDIR": "../../lib",
        "INCLUDEDIR": "../../include",
        "UAPIDIR": "../../include",
    }
    if machine:
        prefix = compiler[0].removesuffix("gcc")
        settings |= {"CC": shlex.join(compiler), "AR": f"{prefix}ar", "NO_PKG_CONFIG": "1"}
    given = [f"{name}={text}" for name, text in settings.items()]
    given += [f"-j{os.cpu_count() or 1}", "install", "install_uapi_headers"]
    # what an outer make was called with does not concern this one
    env = {name: text for name, text in os.environ.items() if name not in ("MAKEFLAGS", "V")}
    run(["make", "-s", "-C", source / "src", *given], env=env)
    stamp.write_text(value)
    return paths


def system_libbpf() -> LibbpfPaths:
    """The libbpf that pkg-config knows, at least the version we pin."""
    minimum = LIBBPF_VERSION.rsplit(".", 1)[0]
    try:
        words = run(["pkg-config", "--cflags", "--libs", f"libbpf >= {minimum}"]).split()
    except BuildError as error:
        raise BuildError(
            f"RETSNOOP_LIBBPF=system, but there is no libbpf >= {minimum} here; "
            f"unset it to build libbpf {LIBBPF_VERSION} from Debian's source\n{error}"
        ) from error
    return paths_of_flags(words)


def paths_of_flags(words: Sequence[str]) -> LibbpfPaths:
    """pkg-config's words sorted into what cffi wants."""
    found = {kind: [word for word in words if word.startswith(kind)] for kind in ("-I", "-L", "-l")}
    names = {kind: [word[2:] for word in group] for kind, group in found.items()}
    return LibbpfPaths(names["-I"], found["-L"], names["-l"])


def libbpf_choice() -> str:
    """``pinned`` or ``system``, as the environment says."""
    choice = os.environ.get("RETSNOOP_LIBBPF") or "pinned"
    if choice not in ("pinned", "system"):
        raise BuildError(f"RETSNOOP_LIBBPF={choice}: it is either system, or not set")
    return choice


def libbpf_paths() -> LibbpfPaths:
    """Headers and library of the libbpf to use, built first where that is needed."""
    return system_libbpf() if libbpf_choice() == "system" else build_libbpf()


# --- native: the extensions for another machine than this -------------------------------------


#: No guest runs for longer.
_A_DAY_S = 24 * 3600


def build_native(arch: str, sysroot: Path) -> Path:
    """Cross-compile the extensions for ``arch``; the folder they and the BPF objects are in.

    ``sysroot`` is a root file system with the headers and libraries of libc, Python, libelf, libdw
    and zlib. It needs the packages of this build, so .venv/bin/python must run it.
    """
    machine = machine_of(arch)
    home = BUILD / "native" / machine
    compiler = [f"{machine}-linux-gnu-gcc", f"--sysroot={sysroot}", "-O2"]
    libbpf = build_libbpf(machine, compiler)
    objects = build_bpf(machine)
    value = digest(
        [*native_sources(), *objects], LIBBPF_SHA256, *compiler, build_native.__doc__ or ""
    )
    # a guest that runs has the folder it was booted with: one that is there is never touched
    folder = home / value[:16]
    if folder.is_dir():
        return folder / "retsnoop_py"
    say("native", f"extensions for {machine}")
    staging = home / ".new"
    shutil.rmtree(staging, ignore_errors=True)
    made = staging / "retsnoop_py"
    (made / "bpf" / machine).mkdir(parents=True)
    for path in objects:
        shutil.copyfile(path, made / "bpf" / machine / path.name)
    python = next((sysroot / "usr" / "include").glob("python3.*"))
    _compile_extensions(compiler, libbpf, python, made)
    staging.rename(folder)
    for other in home.iterdir():
        if other != folder and time.time() - other.stat().st_mtime > _A_DAY_S:
            shutil.rmtree(other, ignore_errors=True)
    return folder / "retsnoop_py"


def _compile_extensions(
    compiler: Sequence[str], libbpf: LibbpfPaths, python: Path, made: Path
) -> None:
    """Compile the extensions into the folder ``made``; ``python`` has Python's headers."""
    for script in ffi_sources():
        with contextlib.redirect_stdout(io.StringIO()):  # it tells what it generates
            builder = runpy.run_path(str(ROOT / script))["ffibuilder"]
            told = builder.distutils_extension(made.parent / "c")
        names = [name for name in told.libraries if name != "bpf"]
        words = [*compiler, "-shared", "-fPIC", *told.extra_compile_args]
        words += [f"-D{name}={text}" for name, text in told.define_macros]
        # our headers before Python's, which has an object.h as well
        words += [f"-I{path}" for path in (ROOT / "src" / "native", *libbpf.include_dirs, python)]
        words += [*told.sources, *libbpf.archive, *(f"-l{name}" for name in names)]
        run([*words, "-o", str(made / f"{told.name.rpartition('.')[2]}.abi3.so")])


#: After an error the process ends, as after any crash: a report alone would be overlooked.
SANITIZERS = (
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    "-g",
)


def build_sanitized() -> None:
    """Compile the extensions with AddressSanitizer and UBSan into a package in build/sanitized.

    Its other files are links to those of the package. Tests use the extensions with build/sanitized
    in PYTHONPATH and the run-time libraries in LD_PRELOAD. .venv/bin/python must run this.
    """
    home = BUILD / "sanitized"
    compiler = [*shlex.split(os.environ.get("CC") or "gcc"), *SANITIZERS]
    stamp, value = home / "stamp", digest(native_sources(), LIBBPF_SHA256, *compiler)
    package = home / "retsnoop_py"
    if not is_stamped(stamp, value):
        say("native", "with AddressSanitizer and UBSan: build/sanitized")
        shutil.rmtree(home, ignore_errors=True)
        package.mkdir(parents=True)
        headers = Path(sysconfig.get_path("include"))
        _compile_extensions(compiler, libbpf_paths(), headers, package)
        stamp.write_text(value)
    for path in package.iterdir():
        if path.is_symlink():
            path.unlink()
    for path in PACKAGE.iterdir():
        if path.suffix != ".so" and path.name != "__pycache__":
            (package / path.name).symlink_to(path)


# --- bpf: the objects that go into the kernel ---------------------------------------------------


def machine_of(name: str) -> str:
    """The machine ``name`` means, as uname calls it. Raises BuildError for an unknown one."""
    aliases = {"x86": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}
    machine = aliases.get(name, name)
    if machine not in BPF_ARCHES:
        raise BuildError(f"no BPF objects for {name}, only for {' and '.join(BPF_ARCHES)}")
    return machine


def build_bpf(arch: str | None = None) -> list[Path]:
    """Compile src/bpf/*.bpf.c for ``arch``; for the host's own they go into the package too."""
    host = machine_of(platform.machine())
    machine = machine_of(arch) if arch else host
    home = BUILD / "bpf" / machine
    home.mkdir(parents=True, exist_ok=True)
    sources = sorted((ROOT / "src" / "bpf").glob("*.bpf.c"))
    types = ROOT / "vmlinux" / machine
    includes = [types, ROOT / "src" / "bpf", *map(Path, libbpf_paths().include_dirs)]
    flags = [*BPF_CFLAGS, f"-D__TARGET_ARCH_{BPF_ARCHES[machine]}"]
    for path in includes:
        flags += ["-I", str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)]
    shared = digest(
        [*(ROOT / "src" / "bpf").glob("*.h"), *types.glob("*.h")],
        LIBBPF_SHA256,
        libbpf_choice(),
        *flags,
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda source: _compile_bpf(source, home, flags, shared), sources))
    if machine == host:
        _install_bpf(made)
    return made


def _compile_bpf(source: Path, home: Path, flags: Sequence[str], shared: str) -> Path:
    made = home / f"{source.name.removesuffix('.c')}.o"
    stamp, value = made.with_suffix(".stamp"), digest([source], shared)
    if made.is_file() and is_stamped(stamp, value):
        return made
    say("bpf", str(made.relative_to(ROOT)))
    partial = made.with_suffix(".partial")
    here = f"-ffile-prefix-map={ROOT}=."  # the object names its sources, not this machine
    run(["clang", *flags, here, "-c", source.relative_to(ROOT), "-o", partial])
    # drops DWARF and keeps .BTF and .BTF.ext
    run(["llvm-strip", "-g", partial])
    partial.replace(made)
    stamp.write_text(value)
    return made


def _install_bpf(made: Sequence[Path]) -> None:
    """Have exactly these objects in the package; unchanged ones are left alone."""
    home = PACKAGE / "bpf"
    target = home / made[0].parent.name
    target.mkdir(parents=True, exist_ok=True)
    for stale in set(home.rglob("*.bpf.o")) - {target / path.name for path in made}:
        stale.unlink()
    for path in made:
        copy = target / path.name
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            partial = copy.with_suffix(".partial")
            shutil.copyfile(path, partial)
            partial.replace(copy)


# --- venv: the command itself -------------------------------------------------------------------


def native_sources() -> list[Path]:
    """The files that the extensions are compiled of; records.h is the layout of BPF's records."""
    ours = [path for path in (ROOT / "src" / "native").iterdir() if path.is_file()]
    return [*ours, ROOT / "src" / "bpf" / "records.h"]


def ffi_sources() -> list[str]:
    """The cffi builder scripts, relative to the project's root."""
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "src/native").glob("ffi_*.py"))]


def build_venv(tools: bool = True) -> None:
    """Make .venv with the command installed in it in place, and compile the extensions.

    Without ``tools`` it does not get what checks and tests the code; one that has them keeps them.
    """
    python, command = VENV / "bin" / "python", VENV / "bin" / "retsnoop-py"
    wanted = {
        "metadata": digest([ROOT / "pyproject.toml"], str(ROOT)),
        "native": digest([*native_sources(), ROOT / "setup.py"], LIBBPF_SHA256, libbpf_choice()),
    }
    stamp = VENV / "retsnoop-stamp.json"
    made = json.loads(stamp.read_text()) if stamp.is_file() and command.exists() else {}
    wanted["tools"] = "dev" if tools or made.get("tools") == "dev" else ""
    extensions = len(list(PACKAGE.glob("_*.abi3.so")))
    if made == wanted and extensions == len(ffi_sources()):
        return
    if not python.exists():
        say("venv", ".venv")
        run([sys.executable, "-I", "-m", "venv", *(["--clear"] if VENV.exists() else []), VENV])
    installed = all(made.get(part) == wanted[part] for part in ("metadata", "tools"))
    if not installed:
        _pip_install(python, bool(wanted["tools"]))
    if installed or (extensions and made.get("native") != wanted["native"]):
        # installing compiled only what was not there
        say("native", " ".join(ffi_sources()))
        run([python, "setup.py", "-q", "build_ext", "--inplace", "--force"])
    stamp.write_text(json.dumps(wanted))


def _pip_install(python: Path, tools: bool) -> None:
    import tomllib

    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    project = told["project"]
    dev = project["optional-dependencies"]["dev"] if tools else []
    say("pip", f"what the build and the program {'and its tests ' if tools else ''}need")
    run([*pip, *told["build-system"]["requires"], *project["dependencies"], *dev])
    say("pip", "retsnoop-py and its extensions, in place")
    # without isolation, so that the build needs no second copy of cffi and setuptools
    run([*pip, "--no-deps", "--no-build-isolation", "-e", "."])


# --- site: docs/ as pages for a browser ---------------------------------------------------------


def build_site() -> None:
    """Make build/site of docs/ by Sphinx; a warning, such as of a link to nowhere, is an error.

    Sphinx has an environment of its own: it brings thirty packages that nothing else here needs.
    """
    import tomllib

    home = SITE_VENV
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = wanted["project"]["optional-dependencies"]["docs"]
    stamp, value = home / "stamp", " ".join([platform.python_version(), *packages])
    if not is_stamped(stamp, value):
        say("pip", "what makes the site, and opens it in a browser")
        run([sys.executable, "-I", "-m", "venv", "--clear", "--without-pip", home])
        pip = [str(VENV / "bin" / "python"), "-m", "pip", "--python", str(home / "bin" / "python")]
        quietly = ("-q", "--disable-pip-version-check", "--no-compile")
        run([*pip, "install", *quietly, *packages])
        stamp.write_text(value)
    say("site", "build/site")
    # all pages anew: what another page says of one is not noticed otherwise
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    strictly = ("-q", "-n", "-W", "--keep-going", "-E")
    pages = (BUILD / "site-doctrees", ROOT / "docs", BUILD / "site")
    run([str(home / "bin" / "sphinx-build"), *strictly, "-d", *map(str, pages)])


def prepare_browser() -> None:
    """Chromium and what drives it, for ``make test-site``."""
    install_packages(["chromium", "chromium-driver"])


# --- the command line ---------------------------------------------------------------------------


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One build at a time in a checkout; a second one waits."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build_all(purpose: str = "") -> None:
    """Every step; for a ``purpose`` of :data:`LESS` without what checks and tests the code."""
    started = time.monotonic()
    install_deps(purpose)
    libbpf_paths()
    build_bpf()
    build_venv(tools=not purpose)
    # guests read the checkout and cannot write to it
    run([VENV / "bin" / "python", "-m", "compileall", "-q", PACKAGE])
    say("done", f".venv/bin/retsnoop-py, {time.monotonic() - started:.1f} s")


def parser() -> argparse.ArgumentParser:
    """The command line of build.py."""
    top = argparse.ArgumentParser(
        prog="build.py",
        description="Build retsnoop-py. Each step does only what is not done yet.",
        epilog="Start with `python3 build.py all` (or `make build`), as root on a bare Debian: "
        "packages the system lacks are installed; without root they are named. Set "
        "RETSNOOP_LIBBPF=system to link the libbpf (1.5 or later) that pkg-config finds.",
    )
    steps = top.add_subparsers(dest="step", metavar="STEP", required=True)
    everything = steps.add_parser(
        "all", help="everything below, in this order; leaves .venv/bin/retsnoop-py"
    )
    deps = steps.add_parser(
        "deps", help="install the Debian packages that are missing (see the top)"
    )
    for step in (everything, deps):
        what = "only what this takes; by default also what checks, tests and guests take"
        step.add_argument("--for", dest="purpose", choices=LESS, default="", help=what)
    steps.add_parser("libbpf", help=f"libbpf {LIBBPF_VERSION} from Debian's source: build/libbpf")
    bpf = steps.add_parser("bpf", help="compile src/bpf/*.bpf.c into src/retsnoop_py/bpf")
    bpf.add_argument("--arch", help="x86_64 or arm64; another than this machine's: build/bpf only")
    steps.add_parser("venv", help="make .venv with retsnoop-py installed in place, and dev tools")
    native = steps.add_parser(
        "native", help="the extensions for another machine: build/native; .venv/bin/python runs it"
    )
    native.add_argument("--arch", required=True, help="x86_64 or arm64")
    native.add_argument("--sysroot", required=True, type=Path, help="headers and libraries for it")
    steps.add_parser(
        "sanitized",
        help="the extensions with sanitizers: build/sanitized; .venv/bin/python runs it",
    )
    steps.add_parser("site", help="docs/ as a site below build/site; needs .venv")
    steps.add_parser("browser", help="Chromium, which the tests of the site drive")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step; 0, or 1 after one clear message."""
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(map(str, MIN_PYTHON))
        print(
            f"build.py: this is Python {platform.python_version()}, {wanted} or later is needed; "
            f"name one: make build PYTHON=/usr/bin/python{wanted}",
            file=sys.stderr,
        )
        return 1
    options = parser().parse_args(argv)
    steps: dict[str, Callable[[], object]] = {
        "libbpf": libbpf_paths,
        "venv": build_venv,
        "site": build_site,
        "browser": prepare_browser,
        "sanitized": build_sanitized,
    }
    try:
        with locked():
            if options.step == "bpf":
                build_bpf(options.arch)
            elif options.step == "all":
                build_all(options.purpose)
            elif options.step == "deps":
                install_deps(options.purpose)
            elif options.step == "native":
                print(build_native(options.arch, options.sysroot.resolve()))
            else:
                steps[options.step]()
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
