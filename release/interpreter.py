# SPDX-License-Identifier: BSD-2-Clause
"""CPython as a static archive for musl, with all of its own extension modules inside.

CPython's own build system configures and makes it, once per target, with Zig's compiler. A build
for another machine requires a Python of the same version here. That is the Python made for this
machine: it is static, so it runs anywhere.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import build

from release.libraries import PYTHON, Source, Target, Unit, archive, libraries, unpacked

__all__ = ["CAPSTONE", "FFI", "Interpreter", "interpreter"]

#: libffi calls C functions of any signature, for ctypes and cffi.
FFI = Source(
    "libffi",
    "3.4.8",
    "libffi_3.4.8.orig.tar.gz",
    "cbb7f0b3b095dc506387ec1e35b891bfb4891d05b90a495bc69a10f2293f80ff",
    "MIT",
    ("LICENSE",),
)
CAPSTONE = Source(
    "capstone",
    "5.0.7",
    "capstone_5.0.7.orig.tar.gz",
    "6427a724726d161d1e05fb49fff8cd0064f67836c04ffca3c11d6d859e719caa",
    "BSD-3-Clause",
    ("LICENSE.TXT", "LICENSE_LLVM.TXT"),
)
#: The results of libffi's configure.
_FFI_FOUND = (
    *(
        'EH_FRAME_FLAGS "a"',
        "FFI_EXEC_STATIC_TRAMP 1",
        "HAVE_ALLOCA_H 1",
        "HAVE_AS_CFI_PSEUDO_OP 1",
    ),
    *("HAVE_AS_X86_64_UNWIND_SECTION_TYPE 1", "HAVE_AS_X86_PCREL 1", "HAVE_INTTYPES_H 1"),
    *("HAVE_HIDDEN_VISIBILITY_ATTRIBUTE 1", "HAVE_LONG_DOUBLE 1", "HAVE_MEMFD_CREATE 1"),
    *("HAVE_MKOSTEMP 1", "HAVE_MMAP 1", "HAVE_MMAP_ANON 1", "HAVE_MMAP_FILE 1", "HAVE_STDINT_H 1"),
    *("HAVE_SYS_MEMFD_H 0", "SIZEOF_DOUBLE 8", "SIZEOF_LONG_DOUBLE 16", "SIZEOF_SIZE_T 8"),
    *("STDC_HEADERS 1", "HAVE_MEMCPY 1", "LIBFFI_GNU_SYMBOL_VERSIONING 1"),
)
_FFI_HIDDEN = """\
#ifdef LIBFFI_ASM
#define FFI_HIDDEN(name) .hidden name
#else
#define FFI_HIDDEN __attribute__ ((visibility ("hidden")))
#endif
"""
_FFI_MACHINE = {
    "x86_64": ("x86", "X86_64", ("ffi64.c", "ffiw64.c", "unix64.S", "win64.S")),
    "aarch64": ("aarch64", "AARCH64", ("ffi.c", "sysv.S")),
}
_CONFIGURE = (
    *("--disable-shared", "--disable-test-modules", "--without-ensurepip", "--with-readline=no"),
    # Python does not search this prefix: the launcher sets all paths.
    *("--prefix=/retsnoop-py", "--with-pkg-config=no"),
)
#: Results that configure would get by running a program, or from this machine.
_ANSWERS = {
    "ac_cv_buggy_getaddrinfo": "no",
    "ac_cv_file__dev_ptmx": "yes",
    "ac_cv_file__dev_ptc": "no",
}
#: Extension modules that this program does not use, and modules that must not be in it.
_LEFT_OUT = (
    *("_curses", "_curses_panel", "_dbm", "_gdbm", "_hashlib", "_sqlite3", "_ssl", "_tkinter"),
    *("_uuid", "nis", "ossaudiodev", "readline", "spwd", "_codecs_cn", "_codecs_hk"),
    *("_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_multibytecodec", "_crypt"),
)


class Interpreter(NamedTuple):
    """The CPython that was made for one target."""

    home: Path
    #: The libraries of its extension modules, as arguments of the linker.
    linked: tuple[str, ...]

    @property
    def archive(self) -> Path:
        """Return the static archive of all object files, without a main()."""
        return self.home / "lib" / f"libpython{_minor()}.a"

    @property
    def program(self) -> Path:
        """Return the path of Python for the target; it finds its library by PYTHONHOME."""
        return self.home / "bin" / "python"

    @property
    def include(self) -> list[str]:
        """Return the compiler's options for the headers of Python and libffi."""
        return [f"-I{self.home / 'include'}"]


def _minor() -> str:
    return PYTHON.version.rpartition(".")[0]


def library() -> Path:
    """Return the folder of Python's own modules."""
    return unpacked(PYTHON) / "Lib"


def interpreter(target: Target) -> Interpreter:
    """Return CPython for ``target``, made unless the cache has it."""
    from retsnoop_py.vm.debian import cache_root

    made_of = libraries(target)
    parts = [PYTHON.sha256, FFI.sha256, made_of.name, Path(__file__).read_text()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    home = cache_root() / "interpreters" / f"{target.triple}-{key}"
    if not home.is_dir():
        host = Target(platform.machine(), target.libc)
        builder = None if target == host else interpreter(host)
        partial = build.BUILD / "interpreter" / target.triple
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _libffi(target, partial / "made")
        _python(target, partial, made_of, builder)
        shutil.rmtree(partial / "made" / "objects")
        home.parent.mkdir(parents=True, exist_ok=True)
        ready = home.with_name(f".{home.name}-{os.getpid()}")
        shutil.copytree(partial / "made", ready)
        try:
            ready.rename(home)
        except OSError:  # another checkout was faster
            shutil.rmtree(ready)
        shutil.rmtree(partial)
    return Interpreter(home, tuple((home / "linked").read_text().split()))


def _libffi(target: Target, home: Path) -> None:
    source = unpacked(FFI)
    folder, kind, files = _FFI_MACHINE[target.machine]
    include = home / "include"
    include.mkdir(parents=True)
    (home / "lib").mkdir()
    text = (source / "include" / "ffi.h.in").read_text()
    answers = {"VERSION": FFI.version, "TARGET": kind}
    answers |= {"HAVE_LONG_DOUBLE": "1", "FFI_EXEC_TRAMPOLINE_TABLE": "0"}
    text = re.sub("@([A-Z_]+)@", lambda found: answers[found[1]], text)
    (include / "ffi.h").write_text(text)
    shutil.copyfile(source / "src" / folder / "ffitarget.h", include / "ffitarget.h")
    settings = home / "objects" / "settings"
    settings.mkdir(parents=True)
    lines = [f"#define {one}" for one in _FFI_FOUND]
    (settings / "fficonfig.h").write_text("\n".join([*lines, _FFI_HIDDEN]))
    shared = ("prep_cif.c", "types.c", "raw_api.c", "java_raw_api.c", "closures.c", "tramp.c")
    flags = ["-I", str(settings), "-I", str(source / "include"), "-I", str(source / "src")]
    flags.append("-DHAVE_CONFIG_H")
    units = [Unit(source / "src", [*shared, *(f"{folder}/{name}" for name in files)], flags)]
    archive(target, home, "ffi", units)


def _python(target: Target, partial: Path, made_of: Path, builder: Interpreter | None) -> None:
    """Configure and make CPython in ``partial``; copy the results to made/."""
    build.say("python", f"{PYTHON.version} for {target.triple}, a few minutes")
    made, work = partial / "made", partial / "work"
    work.mkdir()
    source = Path(os.path.relpath(unpacked(PYTHON), work))  # the program contains this path
    flags = ["-g0", "-fno-ident", "-ffunction-sections", "-fdata-sections", "-w", "-Wno-date-time"]
    flags += [f"-ffile-prefix-map={build.ROOT}=."]
    env = dict(os.environ)
    env |= {
        "CC": shlex.join(target.zig("cc")),
        "AR": shlex.join(target.zig("ar")),
        "RANLIB": "true",
        "READELF": "true",
        "CFLAGS": shlex.join(flags),
        "LDFLAGS": "-static -s",
        "LINKFORSHARED": " ",
        "MODULE_BUILDTYPE": "static",
        "SOURCE_DATE_EPOCH": env.get("SOURCE_DATE_EPOCH", "1577836800"),
        "LIBFFI_CFLAGS": f"-I{made / 'include'}",
        "LIBFFI_LIBS": f"-L{made / 'lib'} -lffi",
        **_ANSWERS,
        **{f"py_cv_module_{name}": "n/a" for name in _LEFT_OUT},
    }
    for name, library_name in (("ZLIB", "z"), ("BZIP2", "bz2"), ("LIBLZMA", "lzma")):
        env[f"{name}_CFLAGS"] = f"-I{made_of / 'include'}"
        env[f"{name}_LIBS"] = f"-L{made_of / 'lib'} -l{library_name}"
    words = [str(source / "configure"), *_CONFIGURE]
    if builder is not None:
        words += [f"--host={target.machine}-linux-musl", f"--build={platform.machine()}-linux-gnu"]
        words.append(f"--with-build-python={_build_python(partial, builder)}")
    _in(work, words, env)
    _in(work, ["make", "-s", f"-j{os.cpu_count() or 1}", "python"], env)
    (made / "bin").mkdir()
    shutil.copy(work / "python", made / "bin" / "python")
    shutil.copy(work / f"libpython{_minor()}.a", made / "lib")
    shutil.copytree(unpacked(PYTHON) / "Include", made / "include", dirs_exist_ok=True)
    shutil.copy(work / "pyconfig.h", made / "include")
    (work / "linked.mk").write_text("include Makefile\nlinked:\n\t@echo $(MODLIBS)\n")
    linked = []
    for word in build.run(["make", "-s", "-C", work, "-f", "linked.mk", "linked"]).split():
        if word.endswith(".a"):  # a library that Python's source includes
            shutil.copy(work / word, made / "lib")
            linked.append(f"-l:{Path(word).name}")
        elif word.startswith("-l") and word not in linked:
            linked.append(word)
    (made / "linked").write_text(" ".join(linked))


def _build_python(partial: Path, builder: Interpreter) -> Path:
    """Return a script that runs ``builder`` with its library, for the build of another Python."""
    script = partial / "build-python"
    words = ["env", f"PYTHONHOME={library().parent}", f"PYTHONPATH={library()}"]
    words.append(str(builder.program))
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)
    return script


def _in(folder: Path, words: Sequence[str], env: dict[str, str]) -> None:
    build.run(["env", "-C", str(folder), *words], env=env)
