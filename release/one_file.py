# SPDX-License-Identifier: BSD-2-Clause
"""``make standalone``: one executable per machine, which needs only a kernel.

The executable is a static CPython with every extension module inside (:mod:`release.interpreter`).
Its Python modules are an archive at its end. It contains no build times or build paths.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import build

from release.interpreter import CAPSTONE, FFI, Interpreter, interpreter, library
from release.libraries import (
    PYTHON,
    SOURCES,
    Target,
    Unit,
    archive,
    compile_all,
    libraries,
    unpacked,
    zig,
)
from release.wheel import DIST, LINKED, MACHINES, extension_objects, install_tools, version

__all__ = ["COMPILED", "REQUIREMENTS", "build_one_file", "looked_up", "main", "one_file_name"]

REQUIREMENTS = build.ROOT / "release" / "one_file.txt"
#: The packages of PyPI that are compiled here.
COMPILED = ("cffi", "msgspec")
_CFLAGS = (
    *("-O2", "-g0", "-fPIC", "-fno-ident", "-fvisibility=hidden", "-w"),
    *("-ffunction-sections", "-fdata-sections", "-D_GNU_SOURCE", "-fno-strict-aliasing"),
)
_LINK = (
    *("-static", "-s", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=none"),
    # musl's default stack of a thread, 128 KiB, is too small for Python.
    "-Wl,-z,stack-size=8388608",
)
_CAPSTONE_FLAGS = ("-DCAPSTONE_USE_SYS_DYN_MEM", "-DCAPSTONE_HAS_X86", "-DCAPSTONE_HAS_ARM64")
#: The code of capstone's module that searches its library, and its replacement here.
_LOOKS_FOR_IT = re.compile(r"^_path_list = .*?^else:\n[^\n]+\n", re.DOTALL | re.MULTILINE)
_FINDS_IT = "_cs = ctypes.CDLL('libcapstone.so.5')\n"


def _downloaded() -> Path:
    """Return the folder of the packages of PyPI: modules/, and a folder for each COMPILED."""
    home = build.BUILD / "one-file" / "packages"
    stamp, text = home / ".stamp", REQUIREMENTS.read_text()
    if build.is_stamped(stamp, text):
        return home
    build.say("pip", "the packages of the one-file program")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pip: list[str | Path] = [sys.executable, "-I", "-m", "pip", "-q", "--disable-pip-version-check"]
    for kind in ("whole", "sources"):
        chosen = [line for line in lines if (line.split("==")[0] in COMPILED) == (kind != "whole")]
        (home / f"{kind}.txt").write_text("\n".join(chosen))
    given = ["--no-deps", "--require-hashes", "-r"]
    target: list[str | Path] = ["--no-compile", "--only-binary=:all:", "--target", home / "modules"]
    build.run([*pip, "install", *target, *given, home / "whole.txt"])
    source: list[str | Path] = ["--no-binary=:all:", "-d", home]
    build.run([*pip, "download", *source, *given, home / "sources.txt"])
    for name in COMPILED:
        [tarball] = home.glob(f"{name}-*.tar.gz")
        (home / name).mkdir()
        build.run(["tar", "-xzf", tarball, "-C", home / name, "--strip-components=1"])
    stamp.write_text(text)
    return home


def _capstone(target: Target, home: Path) -> None:
    source = unpacked(CAPSTONE)
    files = [path.name for path in sorted(source.glob("*.c"))]
    for folder in ("X86", "AArch64"):
        files += [
            f"arch/{folder}/{path.name}" for path in sorted((source / "arch" / folder).glob("*.c"))
        ]
    flags = [*_CAPSTONE_FLAGS, "-I", str(source / "include")]
    archive(target, home, "capstone", [Unit(source, files, flags)])


def _functions() -> Iterator[str]:
    """Yield the C functions that Python code looks up: capstone's, and :func:`looked_up`."""
    binding = unpacked(CAPSTONE) / "bindings" / "python" / "capstone" / "__init__.py"
    yield from sorted(set(re.findall(r'_setup_prototype\(_cs, "(\w+)"', binding.read_text())))
    yield from looked_up()


def looked_up() -> list[str]:
    """Return the functions of the C library that retsnoop-py's modules call by ctypes."""
    found: set[str] = set()
    for path in build.PACKAGE.rglob("*.py"):
        text = path.read_text()
        if "ctypes.CDLL(None" in text:
            found |= set(re.findall(r"\b_?libc\.(\w+)\(", text))
    return sorted(found)


def _function_table() -> str:
    names = list(_functions())
    lines = ["struct function { const char *name; void *address; };"]
    lines += [f"extern char {name}[];" for name in names]
    lines.append("const struct function one_file_functions[] = {")
    lines += [f'\t{{ "{name}", {name} }},' for name in names]
    return "\n".join([*lines, "\t{ 0, 0 },", "};", ""])


def _program(target: Target, python: Interpreter, home: Path) -> Path:
    """Return the executable without its archive."""
    packages, made_of = _downloaded(), libraries(target)
    build.say("native", target.triple)
    (home / "lib").mkdir(parents=True)
    _capstone(target, home)
    objects = [
        made
        for group in extension_objects(target, home / "c", made_of, python.include).values()
        for made in group
    ]
    (home / "functions.c").write_text(_function_table())
    cffi = packages / "cffi" / "src" / "c"
    units: dict[Path, list[str]] = {
        build.ROOT / "release" / "one_file.c": [],
        home / "functions.c": ["-fno-builtin"],
        cffi / "_cffi_backend.c": ["-DFFI_BUILDING=1", "-DUSE__THREAD", "-DHAVE_SYNC_SYNCHRONIZE"],
        packages / "msgspec" / "src" / "msgspec" / "_core.c": [],
    }
    jobs: list[tuple[list[str], Path]] = []
    for source, flags in units.items():
        made = home / f"{source.stem}.o"
        places = [f"-ffile-prefix-map={build.ROOT}=.", *python.include]
        jobs.append(([*_CFLAGS, *flags, *places, "-c", str(source)], made))
        objects.append(made)
    compile_all(target, jobs)
    wanted = dict.fromkeys(one for linked in LINKED.values() for one in linked)
    words: list[str | Path] = [*objects, *_LINK, python.archive]
    for folder in (home, python.home, made_of):
        words += ["-L", folder / "lib"]
    words += ["-lcapstone", *(f"-l{one}" for one in wanted)]
    build.run([*target.zig("cc"), *words, *python.linked, "-o", home / "program"])
    return home / "program"


_LICENCES = """\
# What is inside

This program is under the BSD-2-Clause licence, and contains what is named here, each under its
own. Sources with a file are Debian {suite}'s source packages, or PyPI's; the others are Python
packages as PyPI has them, which also have their licence in a folder of their own.

| what | version | licence | source | SHA-256 |
| --- | --- | --- | --- | --- |
{rows}

musl, the C library, and what the compiler adds are under the MIT licence, in musl/ and zig/; both
come with Zig {zig}.

# How to relink with another elfutils

Of elfutils, libelf and libdw are used under the GNU LGPL, version 3 or later. To use a changed one,
take the source of retsnoop-py {version}, put your elfutils into a tarball with one folder at its
top, that into ~/.cache/retsnoop-py/sources under the name of the source above, its SHA-256 into
release/libraries.py, and run `make standalone`.
"""
#: Names of the licence file in a Python package of PyPI.
_LICENCE_FILES = ("LICEN[SC]E*", "COPYING*")


def _licences(home: Path, packages: Path) -> None:
    """Write the licences of all included packages to licences/ of ``home``."""
    rows = []
    for one in (PYTHON, FFI, CAPSTONE, *SOURCES.values()):
        folder = home / "licences" / one.package
        folder.mkdir(parents=True)
        for text in one.texts:
            shutil.copyfile(unpacked(one) / text, folder / text)
        told = (one.package, one.version, one.licence, one.tarball, one.sha256)
        rows.append(f"| {' | '.join(told)} |")
    for name, version_of, sum_of in re.findall(
        r"^(\S+)==(\S+) --hash=sha256:(\w+)$", REQUIREMENTS.read_text(), re.MULTILINE
    ):
        file = name.replace("-", "_").lower()
        where = packages / name if name in COMPILED else packages / "modules"
        below = "" if name in COMPILED else f"{file}-{version_of}.dist-info/**/"
        texts = [path for kind in _LICENCE_FILES for path in where.glob(f"{below}{kind}")]
        if not texts:
            raise build.BuildError(f"{name} {version_of} of PyPI has no licence to ship")
        folder = home / "licences" / name
        folder.mkdir(parents=True)
        for path in texts:
            shutil.copyfile(path, folder / path.name)
        rows.append(f"| {name} | {version_of} | in {name}/ | PyPI | {sum_of} |")
    compiler = zig().parent
    of_compiler = {"musl": compiler / "lib/libc/musl/COPYRIGHT", "zig": compiler / "LICENSE"}
    for name, path in of_compiler.items():
        (home / "licences" / name).mkdir()
        shutil.copyfile(path, home / "licences" / name / path.name)
    shutil.copyfile(build.ROOT / "LICENSE", home / "licences" / "LICENSE")
    table = "\n".join(rows)
    words = _LICENCES.format(
        suite=build.SOURCE_SUITE,
        rows=table,
        version=version(),
        zig=build.run([zig(), "version"]).strip(),
    )
    (home / "licences" / "README.md").write_text(words)


def _modules(home: Path) -> list[Path]:
    """Return the folders with the modules and data for the archive."""
    packages = _downloaded()
    ours, theirs = home / "ours", home / "theirs"
    shutil.copytree(
        build.PACKAGE,
        ours / "retsnoop_py",
        ignore=shutil.ignore_patterns("*.so", "*.pyi", "__pycache__", "bpf", "py.typed"),
    )
    for machine in MACHINES:
        objects = ours / "retsnoop_py" / "bpf" / machine
        objects.mkdir(parents=True)
        for path in build.build_bpf(machine):
            shutil.copyfile(path, objects / path.name)
    for page in (build.ROOT / "docs").rglob("*.md"):
        copy = ours / "retsnoop_py" / "docs" / page.relative_to(build.ROOT / "docs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, copy)
    left = shutil.ignore_patterns("*.dist-info", "bin", "__pycache__", "py.typed", "*.pyi", "*.exe")
    shutil.copytree(packages / "modules", theirs, ignore=left)
    for name in ("lexers", "styles", "formatters"):  # large, and not needed here
        for path in (theirs / "pygments" / name).iterdir():
            if path.name not in ("__init__.py", "_mapping.py"):
                path.unlink()
    msgspec = packages / "msgspec" / "src" / "msgspec"
    shutil.copytree(
        msgspec, theirs / "msgspec", ignore=shutil.ignore_patterns("*.[ch]", "*.pyi", "py.typed")
    )
    binding = unpacked(CAPSTONE) / "bindings" / "python" / "capstone"
    shutil.copytree(binding, theirs / "capstone", ignore=shutil.ignore_patterns("__pycache__"))
    module = theirs / "capstone" / "__init__.py"
    text, count = _LOOKS_FOR_IT.subn(_FINDS_IT, module.read_text())
    if count != 1:
        raise build.BuildError(
            "capstone looks for its library in another way; mend release/one_file.py"
        )
    module.write_text(text)
    _licences(ours, packages)
    return [ours, theirs]


def one_file_name(machine: str) -> str:
    """Return the file name of the executable in dist/."""
    return f"retsnoop-py-{machine}"


def build_one_file(machine: str) -> Path:
    """Make the executable for ``machine`` in dist/; return its path."""
    target = Target(machine, "musl")
    python = interpreter(target)
    host = interpreter(Target(os.uname().machine, "musl"))
    home = build.BUILD / "one-file" / machine
    shutil.rmtree(home, ignore_errors=True)
    program = _program(target, python, home)
    folders = _modules(home / "modules")
    modules = home / "modules.zip"
    stdlib = library()
    words: list[str | Path] = ["env", "-i", f"PYTHONHOME={stdlib.parent}"]
    words += [
        f"PYTHONPATH={stdlib}",
        host.program,
        "-B",
        "-X",
        "no_debug_ranges",
        Path(__file__).with_name("one_file_library.py"),
    ]
    build.run([*words, modules, stdlib, *folders])
    made = DIST / one_file_name(machine)
    DIST.mkdir(exist_ok=True)
    made.write_bytes(program.read_bytes() + modules.read_bytes())
    made.chmod(0o755)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Make the executables; 0, or 1 after one clear message."""
    parser = argparse.ArgumentParser(prog="make standalone", description=main.__doc__)
    parser.add_argument("machines", nargs="*", help=f"of {', '.join(MACHINES)}; all by default")
    options = parser.parse_args(argv)
    os.umask(0o022)
    try:
        machines = [build.machine_of(name) for name in options.machines or MACHINES]
        with build.locked():
            install_tools()
            for machine in machines:
                made = build_one_file(machine)
                build.say("one file", f"dist/{made.name}, {made.stat().st_size / 1e6:.1f} MB")
    except build.BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
