# SPDX-License-Identifier: BSD-2-Clause
"""``make wheel``: wheels for x86-64 and arm64 that need only a glibc of 2.28 or later.

The source distribution is unpacked, and the extensions for the target are added. The wheel is made
from that folder, so a file that the source distribution lacks is noticed here. Two runs give the
same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import runpy
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import build

from release.libraries import PYTHON, SOURCES, Target, compile_all, libraries, unpacked

__all__ = [
    "DIST",
    "LINKED",
    "MACHINES",
    "build_sdist",
    "build_wheel",
    "environment",
    "extension_objects",
    "install_tools",
    "main",
    "version",
    "wheel_name",
    "write_sums",
]

DIST = build.ROOT / "dist"
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")
#: The extensions of retsnoop-py, and their libraries.
LINKED = {"_bpf": ("bpf", "elf", "zstd", "z"), "_dwarf": ("dw", "elf", "lzma", "bz2", "zstd", "z")}
_LINK = (
    *("-shared", "-s", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=none"),
    "-Wl,--allow-shlib-undefined",  # the interpreter has Python's functions
)
#: Definitions for Python's headers on a 64-bit Linux; pyconfig.h itself is for one machine.
_PYCONFIG = (
    *(f"SIZEOF_{name} 8" for name in ("LONG", "LONG_LONG", "VOID_P", "SIZE_T", "TIME_T")),
    *("SIZEOF_SHORT 2", "SIZEOF_INT 4", "SIZEOF_WCHAR_T 4", "SIZEOF_PID_T 4", "ALIGNOF_LONG 8"),
    *("ALIGNOF_SIZE_T 8", "WITH_DOC_STRINGS 1", "HAVE_PTHREAD_H 1", "HAVE_SYS_TYPES_H 1"),
    *("HAVE_SYS_STAT_H 1", "HAVE_SYS_TIME_H 1"),
)
_LICENCES = """\
# What is inside

The native extensions of this wheel contain these libraries, linked statically. Each comes from
the source package of the same name in Debian {suite}, from the file named here; its licence is in
the folder of its name beside this file.

| library | version | licence | source | SHA-256 |
| --- | --- | --- | --- | --- |
{rows}

retsnoop-py itself is under the BSD-2-Clause licence; its programs for the kernel say "Dual BSD/GPL"
to it.

# How to relink with another elfutils

Of elfutils, libelf and libdw are used under the GNU LGPL, version 3 or later. To use a changed one:

1. unpack the source distribution of retsnoop-py {version} (`retsnoop_py-{version}.tar.gz`, released
   beside this wheel), which has the source of everything that is not named above;
2. put your elfutils into a tarball with one folder at its top, and the tarball into
   `~/.cache/retsnoop-py/sources` under the name of the source above;
3. put its SHA-256 into `release/libraries.py`, in the place of elfutils' own;
4. run `make wheel`.

Or link your system's: `pip install` of the source distribution does.
"""


def _python_headers() -> Path:
    home = build.BUILD / "python-headers"
    stamp = home / ".stamp"
    value = f"{PYTHON.sha256} {_PYCONFIG}"
    if not build.is_stamped(stamp, value):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(unpacked(PYTHON) / "Include", home)
        lines = [f"#define {one}\n" for one in _PYCONFIG]
        (home / "pyconfig.h").write_text("".join(lines))
        stamp.write_text(value)
    return home


def _extensions(target: Target) -> Path:
    """Return the folder with the extensions for ``target``, linked with static libraries."""
    home = build.BUILD / "extensions" / target.triple
    made_of = libraries(target)
    stamp = home / ".stamp"
    value = build.digest(
        build.native_sources(), str(made_of), PYTHON.sha256, Path(__file__).read_text()
    )
    if build.is_stamped(stamp, value):
        return home
    build.say("native", target.triple)
    shutil.rmtree(home, ignore_errors=True)
    made = extension_objects(target, home, made_of, [f"-I{_python_headers()}"])
    for name, objects in made.items():
        linked = [f"-l{one}" for one in LINKED[name]]
        words: list[str | Path] = [
            *objects,
            *_LINK,
            "-L",
            made_of / "lib",
            *linked,
            "-lpthread",
            "-ldl",
        ]
        build.run([*target.zig("cc"), *words, "-o", home / f"{name}.abi3.so"])
    stamp.write_text(value)
    return home


def extension_objects(
    target: Target, home: Path, made_of: Path, python: Sequence[str]
) -> dict[str, list[Path]]:
    """Compile the extensions into folders of ``home``; return the objects by extension name.

    ``made_of`` has the headers of the libraries. ``python`` has the options for Python's headers.
    """
    ours = build.ROOT / "src" / "native"
    made: dict[str, list[Path]] = {}
    # retsnoop-py's headers come first, because Python has an object.h as well.
    includes = [f"-I{ours}", f"-I{made_of / 'include'}", *python]
    for script in build.ffi_sources():
        builder = runpy.run_path(str(build.ROOT / script))["ffibuilder"]
        told_of = io.StringIO()  # discard the names of the generated files
        with contextlib.redirect_stdout(told_of), contextlib.redirect_stderr(told_of):
            told = builder.distutils_extension(str(home / "c"))
        name = told.name.rpartition(".")[2]
        flags = [*told.extra_compile_args, *includes]
        flags += ["-g0", "-fPIC", "-fno-ident", "-ffunction-sections", "-fdata-sections"]
        flags += ["-D_GNU_SOURCE", f"-ffile-prefix-map={build.ROOT}=."]
        flags += [f"-D{key}={value}" for key, value in told.define_macros]
        (home / name).mkdir(parents=True)
        jobs = [
            ([*flags, "-c", source], home / name / f"{Path(source).stem}.o")
            for source in told.sources
        ]
        compile_all(target, jobs)
        made[name] = [path for _, path in jobs]
    return made


def build_sdist() -> Path:
    """Make dist/retsnoop_py-VERSION.tar.gz, which `pip install` compiles without a network."""
    env = environment()
    made = build.BUILD / "sdist" / f"retsnoop_py-{version()}.tar.gz"
    build.run([sys.executable, "-P", "setup.py", "-q", "sdist", "-d", made.parent], env=env)
    DIST.mkdir(exist_ok=True)
    epoch = int(env["SOURCE_DATE_EPOCH"])
    with (
        tarfile.open(made) as source,
        (DIST / made.name).open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for one in sorted(source.getmembers(), key=lambda member: member.name):
            one.uid = one.gid = 0
            one.uname = one.gname = "root"
            one.mtime, one.pax_headers = epoch, {}
            one.mode = 0o755 if one.isdir() or one.mode & 0o100 else 0o644
            target.addfile(one, source.extractfile(one) if one.isfile() else None)
    return DIST / made.name


def build_wheel(machine: str, sdist: Path) -> Path:
    """Make the wheel for ``machine`` in dist/ from the source distribution ``sdist``."""
    target = Target(machine, f"gnu.{GLIBC}")
    extensions = _extensions(target)
    home = build.BUILD / "wheel" / machine
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    build.run(["tar", "-xzf", sdist, "-C", home, "--strip-components=1"])
    package = home / "src" / "retsnoop_py"
    for made in extensions.glob("*.abi3.so"):
        shutil.copyfile(made, package / made.name)
    for one in MACHINES:
        objects = package / "bpf" / one
        objects.mkdir(parents=True)
        for path in build.build_bpf(one):
            shutil.copyfile(path, objects / path.name)
    _add_licences(home)
    pages = str(home / "build" / "man")
    build.run(
        [sys.executable, "-P", "-m", "retsnoop_py.cli.manual", "man", pages], env=environment()
    )
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    # The extensions use only the stable ABI, so one wheel supports every CPython from 3.11 on.
    words = [sys.executable, "-P", "setup.py", "-q", "bdist_wheel", "-d", str(DIST)]
    words += ["--plat-name", platform]
    env = dict(environment(), RETSNOOP_PREBUILT="1")
    build.run(["env", "-C", str(home), *words], env=env)
    return DIST / wheel_name(machine)


def _add_licences(home: Path) -> None:
    """Add the licences of the static libraries to the unpacked source distribution."""
    rows = []
    for name, one in SOURCES.items():
        folder = home / "licences" / name
        folder.mkdir(parents=True)
        for text in one.texts:
            shutil.copyfile(unpacked(name) / text, folder / text)
        rows.append(f"| {name} | {one.version} | {one.licence} | {one.tarball} | {one.sha256} |")
    text = _LICENCES.format(suite=build.SOURCE_SUITE, version=version(), rows="\n".join(rows))
    (home / "licences" / "README.md").write_text(text)
    told = home / "pyproject.toml"
    terms = " AND ".join(f"({one.licence})" for one in SOURCES.values())
    changes = {
        'license = "BSD-2-Clause"': f'license = "BSD-2-Clause AND {terms}"',
        'license-files = ["LICENSE"]': 'license-files = ["LICENSE", "licences/**/*"]',
    }
    content = told.read_text()
    for old, new in changes.items():
        if old not in content:
            raise build.BuildError(f"pyproject.toml no longer says {old}; mend release/wheel.py")
        content = content.replace(old, new)
    told.write_text(content)


def version() -> str:
    """Return the version of the package."""
    sys.path.insert(0, str(build.ROOT / "src"))
    from retsnoop_py import __version__

    return __version__


def environment() -> dict[str, str]:
    """Return an environment for reproducible builds: the same source gives the same bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch and (build.ROOT / ".git").exists():
        epoch = build.run(["git", "log", "-1", "--format=%ct"]).strip()
    return dict(os.environ, SOURCE_DATE_EPOCH=epoch or "1577836800", PYTHONHASHSEED="0")


def wheel_name(machine: str) -> str:
    """Return the file name of the wheel for ``machine``."""
    return f"retsnoop_py-{version()}-cp311-abi3-manylinux_{GLIBC.replace('.', '_')}_{machine}.whl"


def write_sums(paths: Sequence[Path]) -> None:
    """Write dist/SHA256SUMS of ``paths``, in the format of sha256sum(1)."""
    sums = [f"{build.sha256(path)}  {path.name}\n" for path in sorted(paths)]
    (DIST / "SHA256SUMS").write_text("".join(sums))


def install_tools() -> None:
    """Install the release tools of pyproject.toml into .venv, unless they are there."""
    told = tomllib.loads((build.ROOT / "pyproject.toml").read_text())
    wanted = told["project"]["optional-dependencies"]["release"]
    stamp = build.VENV / "retsnoop-release-stamp"
    if build.is_stamped(stamp, "\n".join(wanted)):
        return
    build.say("pip", " ".join(wanted))
    pip = [sys.executable, "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    build.run([*pip, *wanted])
    stamp.write_text("\n".join(wanted))


def main(argv: Sequence[str] | None = None) -> int:
    """Make the source distribution and the wheels; 0, or 1 after one clear message."""
    parser = argparse.ArgumentParser(prog="make wheel", description=main.__doc__)
    parser.add_argument("machines", nargs="*", help=f"of {', '.join(MACHINES)}; all by default")
    options = parser.parse_args(argv)
    os.umask(0o022)  # modes are part of the bytes
    try:
        machines = [build.machine_of(name) for name in options.machines or MACHINES]
        with build.locked():
            install_tools()
            sdist = build_sdist()
            build.say("sdist", f"dist/{sdist.name}, {sdist.stat().st_size / 1e6:.1f} MB")
            made = [sdist]
            for machine in machines:
                made.append(build_wheel(machine, sdist))
                build.say("wheel", f"dist/{made[-1].name}, {made[-1].stat().st_size / 1e6:.1f} MB")
            write_sums(made)
    except build.BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
