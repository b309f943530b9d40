# SPDX-License-Identifier: BSD-2-Clause
"""The root file system of a guest whose architecture differs from the host's (user land).

The user land is a folder with unpacked Debian packages for the guest's architecture. The packages
are never configured: no program of the folder runs on the host. pip downloads the Python packages
that ``retsnoop-py`` needs. The folder is made once and kept until the next :func:`fetch`::

    userlands/arm64-bookworm-WHAT-VERSIONS/     hashes of the package list and of the versions
    userlands/arm64-wheel-KEY/                  an unpacked wheel of retsnoop-py

The user land does not contain retsnoop-py itself. In a checkout, the guest uses the host's Python
code, so an edit takes effect at once. ``build.py`` compiles the native parts for the guest's
architecture. An installed retsnoop-py uses the wheel of its own version for that architecture.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import math
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retsnoop_py import listener
from retsnoop_py.errors import DataError, InputError, UnavailableError
from retsnoop_py.package import entry_options, expanded, is_one_file, python, read
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
from retsnoop_py.vm.architecture import Architecture
from retsnoop_py.vm.debian import (
    AptRoot,
    cache_root,
    failed,
    locked,
    room_told,
    run_tool,
    undisturbed,
)

__all__ = ["Userland", "check_supported", "ensure", "fetch", "find_program"]

SUITE = "bookworm"
_PYTHON_VERSION = (3, 11)
PYTHON = "/usr/bin/python3"
"""The interpreter of a foreign guest."""

#: Programs from busybox instead of kmod: kmod's modprobe needs indexes that only depmod writes.
_BUSYBOX = ("depmod", "insmod", "lsmod", "modinfo", "modprobe", "rmmod")
_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils"),
    *("findutils", "gawk", "grep", "gzip", "hostname", "libc-bin", "ncurses-base", "sed", "tar"),
    *("xz-utils", "util-linux", "mount", "procps", "iproute2", "busybox-static"),
    *("bpftool", "crun", "python3", "libelf1", "libdw1", "zlib1g"),
    # the user land is also the cross compiler's sysroot
    *("libc6-dev", "libpython3-dev", "libelf-dev", "libdw-dev", "zlib1g-dev"),
)
#: The folder of the Python packages in the guest.
_LIBRARY = Path("usr/lib/retsnoop-py")
#: Names in the root directory that the guest does not share with the host.
_OWN = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found"}
    | {"proc", "run", "sbin", "sys", "usr", "var"}
)
#: The upper layer over the folder of the host's interpreter, such as a virtual environment's.
_PROGRAMS = Path("usr/libexec/retsnoop-py")
_COMMAND = f"""\
#!{PYTHON} -I
import os
import sys

sys.path += [each for each in os.environ.get("PYTHONPATH", "").split(":") if each[:1] == "/"]
from retsnoop_py.cli.start import program

sys.exit(program())
"""
#: A script, not a link: through a link, Python would search its library at the host's path.
_INTERPRETER = f"""\
#!/bin/sh
exec {PYTHON} "$@"
"""
#: Report a compilation that takes longer, in seconds.
_PATIENCE_S = 1.0
#: The list of the installed packages and their versions.
_VERSIONS = Path("usr/share/retsnoop-py.packages")
_PACKAGE = Path(__file__).resolve().parent.parent
#: The output of `python -m release.guest_packages`, in pip's format.
_LOCK = Path(__file__).with_name("python_packages.txt")


@dataclass(frozen=True, slots=True)
class Userland:
    """The files of a foreign guest.

    ``root`` is the guest's root file system, a folder of the host. ``layers`` are more folders of
    the host: each a path in the guest and its overlaid folders, uppermost first. ``env`` contains
    the environment variables with which commands find retsnoop-py.
    """

    root: Path
    layers: tuple[tuple[Path, tuple[Path, ...]], ...]
    env: dict[str, str]

    def hold(self) -> int:
        """Return a descriptor that protects ``root`` from removal until it is closed.

        Raises UnavailableError if ``root`` has just been removed.
        """
        with contextlib.suppress(OSError):
            handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_SH)
            if self.busybox.is_file():
                return handle
            os.close(handle)
        raise UnavailableError(f"a newer one has just replaced {self.root}", "run it again")

    def command(self, function: str) -> list[str]:
        """Return the guest's command that calls ``function`` (``MODULE:NAME``) of this package."""
        folders = self.env["PYTHONPATH"].split(":")
        return [PYTHON, "-I", *entry_options(folders, function)]

    @property
    def busybox(self) -> Path:
        """The statically linked program that the guest starts with."""
        return self.root / "usr" / "bin" / "busybox"


def ensure(arch: Architecture, folders: Sequence[Path] = ()) -> Userland:
    """Return the user land for guests of ``arch``; make the user land if it does not exist.

    The guest sees ``folders`` of the host under the same paths. It also sees the top-level folders
    that do not belong to the system, such as /home and /srv. Raises UnavailableError if a tool or
    the network is missing, DataError for a package that cannot be unpacked.
    """
    root = _system(arch)
    program, library = _program(arch, root)
    shown = [each for each in sorted(Path("/").iterdir()) if each.name not in _OWN]
    shown = [each for each in shown if each.is_dir() and not each.is_symlink()]
    hidden = sorted(each for each in folders if set(each.parts[1:2]) & _OWN)
    layers: list[tuple[Path, tuple[Path, ...]]]
    layers = [(each, (each,)) for each in dict.fromkeys([*shown, *hidden])]
    layers.append(program)
    programs = Path(sys.executable).parent
    if any(path in programs.parents for path, _ in layers):
        layers.append((programs, (root / _PROGRAMS, programs)))
    env = {"PYTHONPATH": f"{library}:/{_LIBRARY}"}
    return Userland(root, tuple(layers), env)


# --- the system ----------------------------------------------------------------------------------


def _system(arch: Architecture) -> Path:
    """Return the newest cached user land of ``arch``; make a user land if there is none."""
    return _newest(arch, _requirements()) or fetch(arch)


def fetch(arch: Architecture) -> Path:
    """Return the user land with the newest package versions; make it if it does not exist.

    Older versions that no guest uses are removed. Raises the errors of :func:`ensure`.
    """
    home = _home()
    requirements = _requirements()
    before = _newest(arch, requirements)
    with contextlib.ExitStack() as stack:
        stack.enter_context(room_told(f"cannot make the user land of {arch.name}"))
        home.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(home / f".{arch.name}.lock"))
        found = _newest(arch, requirements)
        if found != before and found is not None:
            return found  # another made it meanwhile
        apt = AptRoot(SUITE, arch=arch.debian)
        resolved = apt.resolve(_PACKAGES)
        versions = "".join(f"{name} {version}\n" for name, (version, _) in resolved.items())
        key = hashlib.sha256(versions.encode()).hexdigest()[:8]
        folder = home / f"{_stem(arch, requirements)}-{key}"
        if folder.is_dir():
            _say(arch, "the newest packages are in the cache already")
            return folder
        for stale in home.glob(f".{arch.name}-*.new"):
            shutil.rmtree(stale, ignore_errors=True)
        staging = home / f".{folder.name}.new"
        try:
            root = _make(arch, apt, resolved, staging)
            (root / _VERSIONS).write_text(versions)
            root.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        _say(arch, "ready")
        _drop_others(folder)
    return folder


def _home() -> Path:
    return cache_root() / "userlands"


def _stem(arch: Architecture, requirements: Sequence[str]) -> str:
    """Return the common start of the folder names for the current list of packages."""
    made_of = repr((SUITE, _PACKAGES, requirements, _COMMAND, _INTERPRETER, _BUSYBOX))
    return f"{arch.name}-{SUITE}-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"


def _newest(arch: Architecture, requirements: Sequence[str]) -> Path | None:
    """Return the most recent user land for the current list of packages, or None."""
    found = [path.parents[2] for path in _home().glob(f"{_stem(arch, requirements)}-*/{_VERSIONS}")]
    return max(found, key=lambda folder: (folder / _VERSIONS).stat().st_mtime_ns, default=None)


def _drop_others(keep: Path) -> None:
    """Remove the other versions of the user land ``keep`` that no guest uses."""
    for folder in keep.parent.glob(f"{keep.name.rpartition('-')[0]}-*"):
        if folder == keep:
            continue
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _say(arch: Architecture, line: str) -> None:
    listener.current().say(f"user land of {arch.name}: {line}")


@contextlib.contextmanager
def _progress(arch: Architecture, what: str, size: int) -> Iterator[Callable[[int], None]]:
    _say(arch, what)
    with listener.current().progress(f"user land of {arch.name}: {what}", "bytes") as shown:
        yield lambda done: shown.update(done, size)


def _make(
    arch: Architecture, apt: AptRoot, resolved: Mapping[str, tuple[str, int]], staging: Path
) -> Path:
    """Make the user land in the folder ``staging``; return its root file system."""
    total = sum(size for _, size in resolved.values())
    root, debs = staging / "root", staging / "debs"
    what = f"downloading {len(resolved)} packages of Debian {SUITE}, {total >> 20} MB"
    with _progress(arch, what, total) as watch:
        archives = apt.download_all(_PACKAGES, debs, watch)
    # since Debian 12, /bin and similar folders are links, which a package's script makes
    for name in ("bin", "sbin", *arch.libraries):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    size = sum(path.stat().st_size for path in archives)
    done = 0
    with _progress(arch, "unpacking them", size) as watch:
        for archive in archives:
            _unpack(archive, root)
            done += archive.stat().st_size
            watch(done)
    shutil.rmtree(debs)
    _configure(root)
    _install_python_packages(arch, root / _LIBRARY, _requirements())
    _compile_python(arch, root)
    return root


def _unpack(archive: Path, root: Path) -> None:
    """Unpack a Debian package into ``root``; links to folders stay links."""
    argv = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    into = ["tar", "-x", "-C", str(root), "--keep-directory-symlink", "--no-same-owner"]
    with undisturbed():
        source = subprocess.Popen(
            argv,
            env=environment_of_tools(),
            cwd=TOOL_FOLDER,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        target = subprocess.Popen(
            into,
            env=environment_of_tools(),
            cwd=TOOL_FOLDER,
            stdin=source.stdout,
            stderr=subprocess.PIPE,
        )
    try:
        assert source.stdout is not None
        source.stdout.close()
        said = target.communicate()[1] + source.communicate()[1]
    except BaseException:
        for process in (source, target):
            process.kill()
            process.wait()
        raise
    if source.returncode or target.returncode:
        words = said.decode(errors="replace")
        raise failed(f"cannot unpack {archive.name}", words, DataError)


def _configure(root: Path) -> None:
    """Do the work of the packages' scripts: users, shell, awk, modules; add our commands."""
    for name in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    for name, target in (("sh", "dash"), ("awk", "gawk")):
        if not (root / "usr/bin" / name).is_symlink():
            (root / "usr/bin" / name).symlink_to(target)
    for name in _BUSYBOX:
        (root / "usr/sbin" / name).symlink_to("../bin/busybox")
    interpreters = ("python", "python3", f"python3.{sys.version_info.minor}")
    programs = {_PROGRAMS / name: _INTERPRETER for name in interpreters}
    programs |= {_PROGRAMS / "retsnoop-py": _COMMAND, Path("usr/local/bin/retsnoop-py"): _COMMAND}
    for path, text in programs.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    for name in ("root", "tmp", "proc", "sys", "dev", "run"):
        (root / name).mkdir(exist_ok=True)


# --- Python packages -----------------------------------------------------------------------------


def _requirements() -> tuple[str, ...]:
    """Return the guest's Python packages: a version and the SHA-256 of its wheels per line."""
    text = read(_LOCK).decode()
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _install_python_packages(
    arch: Architecture, library: Path, requirements: Sequence[str]
) -> None:
    """Unpack the wheels of ``requirements`` for ``arch``; pip rejects wheels with another hash.

    pip reads the machine's and the user's configuration: some machines can reach only the package
    index named there. Root's pip does not read another user's (:func:`environment_of_tools`).
    """
    _say(arch, f"downloading {' '.join(line.split()[0] for line in requirements)}")
    wheels = library.with_name("wheels")
    wheels.mkdir(parents=True)
    listed = wheels / "requirements.txt"
    listed.write_text("\n".join(requirements))
    argv = [*python(), "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    argv += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp"]
    argv += ["--python-version", ".".join(map(str, _PYTHON_VERSION))]
    abi = "cp" + "".join(map(str, _PYTHON_VERSION))
    for option, values in {
        "--platform": ("manylinux2014", "manylinux_2_17", "manylinux_2_28"),
        "--abi": (abi, "abi3", "none"),
    }.items():
        for value in values:
            argv += [option, f"{value}_{arch.machine}" if option == "--platform" else value]
    done = run_tool([*argv, "-d", str(wheels), "-r", str(listed)])
    if done.returncode:
        raise failed(
            f"pip cannot download the dependencies of retsnoop-py for {arch.name}",
            done.stderr or done.stdout,
            UnavailableError,
            "check this machine's network, and that python3-pip is installed",
        )
    library.mkdir(parents=True)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(library)
    shutil.rmtree(wheels)


def _compile_python(arch: Architecture, root: Path) -> None:
    """Byte-compile the guest's Python libraries, if the host's Python has the same version.

    An emulated CPU would need ten times as long, at each boot. Bytecode is the same on all
    architectures.
    """
    if sys.version_info[:2] != _PYTHON_VERSION or sys.implementation.name != "cpython":
        return
    _say(arch, "compiling Python's library")
    places = [root / "usr/lib/python3.11", root / "usr/lib/python3", root / _LIBRARY]
    jobs = str(len(os.sched_getaffinity(0)))
    argv = [*python(), "-m", "compileall", "-q", "-j", jobs, "-x", r"/(test|lib2to3)/"]
    # ignore the exit status: compileall reports files that are not Python 3 as errors
    run_tool([*argv, "-s", str(root), "-p", "/", *map(str, places)])


# --- this program --------------------------------------------------------------------------------

Layer = tuple[Path, tuple[Path, ...]]


def check_supported(arch: Architecture) -> None:
    """Raise UnavailableError if this retsnoop-py does not support guests of ``arch``."""
    if is_one_file():
        raise UnavailableError(
            f"the one-file program has guests of this machine's architecture, not of {arch.name}",
            "a wheel or a checkout of retsnoop-py has both: retsnoop-py help architectures",
        )


def find_program(arch: Architecture) -> Path:
    """Return the source of retsnoop-py for ``arch``: the checkout's ``build.py``, or a wheel.

    Raises InputError if RETSNOOP_WHEEL names a missing file, UnavailableError without a wheel.
    """
    check_supported(arch)
    script = _PACKAGE.parents[1] / "build.py"
    return script if script.is_file() else _wheel(arch)


def _program(arch: Architecture, sysroot: Path) -> tuple[Layer, Path]:
    """Return the layer with this package for ``arch``, and the folder for PYTHONPATH."""
    source = find_program(arch)
    if source.suffix == ".py":
        return (_PACKAGE, (_compiled(arch, source, sysroot), _PACKAGE)), _PACKAGE.parent
    place = Path("/") / _LIBRARY.with_name("retsnoop-py-wheel")
    return (place, (_unpacked_wheel(arch, source),)), place


def _compiled(arch: Architecture, script: Path, sysroot: Path) -> Path:
    """Return the folder of extensions and BPF objects: the layer over the checkout's package."""
    patience = time.monotonic() + _PATIENCE_S

    def tick() -> None:
        nonlocal patience
        if time.monotonic() > patience:
            patience = math.inf
            _say(arch, "compiling the extensions")

    argv = [*python(), str(script), "native", "--arch", arch.machine]
    # the build names its sources from the checkout on
    done = run_tool([*argv, "--sysroot", str(sysroot)], cwd=script.parent, tick=tick)
    if done.returncode:
        raise UnavailableError(
            f"the extensions cannot be compiled for {arch.name}: {done.stderr.strip()}",
            "python3 build.py deps installs the compiler",
        )
    return Path(done.stdout.strip())


def _wheel(arch: Architecture) -> Path:
    """Return the wheel of this version for ``arch``. Raises InputError or UnavailableError."""
    version = importlib.metadata.version("retsnoop-py")
    name = f"retsnoop_py-{version}-cp311-abi3-*_{arch.machine}.whl"
    told = os.environ.get("RETSNOOP_WHEEL")
    if not told:
        raise _no_wheel(arch, f"a guest of {arch.name} needs the wheel {name}")
    place = expanded(told)
    if not place.exists():
        raise InputError(f"RETSNOOP_WHEEL={told}: no such file", "give the path of a wheel")
    found = sorted(place.glob(name)) if place.is_dir() else [place]
    if not found or not found[-1].match(name):
        what = "does not contain it" if place.is_dir() else "is another file"
        raise _no_wheel(arch, f"a guest of {arch.name} needs the wheel {name}; {place} {what}")
    return found[-1]


def _no_wheel(arch: Architecture, message: str) -> UnavailableError:
    return UnavailableError(
        message,
        "name the wheel or its folder: RETSNOOP_WHEEL=PATH; "
        f"in a checkout, `make wheel MACHINES={arch.machine}` builds it in dist/",
    )


def _unpacked_wheel(arch: Architecture, wheel: Path) -> Path:
    """Return the folder in the cache with the files of ``wheel``; unpack it if necessary."""
    key = hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]
    home = cache_root() / "userlands"
    folder = home / f"{arch.name}-wheel-{key}"
    with locked(home / f".{arch.name}.lock"):
        if not folder.is_dir():
            staging = home / f".{folder.name}.new"
            shutil.rmtree(staging, ignore_errors=True)
            try:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(staging)
            except zipfile.BadZipFile as error:
                shutil.rmtree(staging, ignore_errors=True)
                raise DataError(f"{wheel} is damaged: {error}", "fetch it again") from None
            staging.rename(folder)
    return folder
