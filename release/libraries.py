# SPDX-License-Identifier: BSD-2-Clause
"""The static C libraries inside the release files, for a target of Zig.

Each library comes from Debian's source package, pinned by its SHA-256. It is compiled file by file,
without its own build system. The build systems of six projects probe the compiler for longer than
the compilation takes, and they probe this machine instead of the target. The lists of files are the
projects' own. The linker drops unused functions.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import build

__all__ = [
    "PYTHON",
    "SOURCES",
    "Source",
    "Target",
    "Unit",
    "archive",
    "compile_all",
    "libraries",
    "listed",
    "unpacked",
    "zig",
]


class Source(NamedTuple):
    """A source package of Debian's suite :data:`build.SOURCE_SUITE`."""

    package: str
    version: str
    tarball: str
    sha256: str
    #: Its licence as SPDX calls it, and the files that say so.
    licence: str
    texts: tuple[str, ...]


SOURCES = {
    one.package: one
    for one in (
        Source(
            "libbpf",
            build.LIBBPF_VERSION,
            build.LIBBPF_TARBALL,
            build.LIBBPF_SHA256,
            "LGPL-2.1-only OR BSD-2-Clause",
            ("LICENSE", "LICENSE.BSD-2-Clause", "LICENSE.LGPL-2.1"),
        ),
        Source(
            "elfutils",
            "0.192",
            "elfutils_0.192.orig.tar.bz2",
            "616099beae24aba11f9b63d86ca6cc8d566d968b802391334c91df54eab416b4",
            "GPL-2.0-or-later OR LGPL-3.0-or-later",
            ("COPYING-LGPLV3", "COPYING", "COPYING-GPLV2"),
        ),
        Source(
            "zlib",
            "1.3.1",
            "zlib_1.3.dfsg+really1.3.1.orig.tar.gz",
            "60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb",
            "Zlib",
            ("LICENSE",),
        ),
        Source(
            "xz-utils",
            "5.8.1",
            "xz-utils_5.8.1.orig.tar.xz",
            "0b54f79df85912504de0b14aec7971e3f964491af1812d83447005807513cd9e",
            "0BSD",
            ("COPYING", "COPYING.0BSD"),
        ),
        Source(
            "bzip2",
            "1.0.8",
            "bzip2_1.0.8.orig.tar.gz",
            "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
            "bzip2-1.0.6",
            ("LICENSE",),
        ),
        Source(
            "libzstd",
            "1.5.7",
            "libzstd_1.5.7+dfsg.orig.tar.xz",
            "0c092ef267edce57ba7f3f2645c861f72eaf5e76273c6c3632869423464b90a5",
            "BSD-3-Clause OR GPL-2.0-only",
            ("LICENSE", "COPYING"),
        ),
    )
}
#: Python; its headers are the same for each machine.
PYTHON = Source(
    "python3.13",
    "3.13.5",
    "python3.13_3.13.5.orig.tar.xz",
    "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
    "Python-2.0",
    ("LICENSE",),
)

CFLAGS = (
    *("-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    *("-fno-ident", "-w", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64"),
)


class Target(NamedTuple):
    """The machine and the C library that the compiler makes programs for."""

    machine: str
    libc: str

    @property
    def triple(self) -> str:
        """Return the target as Zig writes it: ``x86_64-linux-gnu.2.28``."""
        return f"{self.machine}-linux-{self.libc}"

    def zig(self, tool: str) -> list[str]:
        """Return the start of a command line: ``cc`` for this target, or ``ar``."""
        words = [str(zig()), tool]
        return [*words, "-target", self.triple] if tool == "cc" else words


def zig() -> Path:
    """Return the compiler, a program in the package ziglang. Raises BuildError if missing."""
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        raise build.BuildError("there is no ziglang in .venv; run: make wheel")
    return Path(found.origin).parent / "zig"


def unpacked(package: str | Source) -> Path:
    """Return the folder of a package's source below build/sources; a name is in :data:`SOURCES`."""
    one = SOURCES[package] if isinstance(package, str) else package
    home = build.BUILD / "sources" / f"{one.package}-{one.version}"
    stamp = home / ".stamp"
    if not build.is_stamped(stamp, one.sha256):
        tarball = build.debian_source(one.package, one.tarball, one.sha256)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        build.run(["tar", "-xf", tarball, "-C", home, "--strip-components=1"])
        stamp.write_text(one.sha256)
    return home


class Unit(NamedTuple):
    """Files of one library in ``folder``, with the compiler's options for them."""

    folder: Path
    files: list[str]
    flags: list[str]


def libraries(target: Target) -> Path:
    """Return the folder with lib/ and include/ of all libraries, made unless the cache has it."""
    from retsnoop_py.vm.debian import cache_root

    made_from = [one.sha256 for one in SOURCES.values()]
    made_from += [target.triple, build.run([zig(), "version"]), Path(__file__).read_text()]
    key = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    home = cache_root() / "libraries" / f"{target.triple}-{key}"
    if home.is_dir():
        return home
    build.say("static", f"{', '.join(SOURCES)} for {target.triple}")
    # Use the same folder each time: after a change here, Zig's own cache has most of the files.
    partial = build.BUILD / "static" / target.triple
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "lib").mkdir(parents=True)
    try:
        for make in (_zlib, _bzip2, _zstd, _lzma, _elfutils, _libbpf):
            make(target, partial)
        shutil.rmtree(partial / "objects")
        home.parent.mkdir(parents=True, exist_ok=True)
        ready = home.with_name(f".{home.name}-{os.getpid()}")
        shutil.copytree(partial, ready)
        try:
            ready.rename(home)
        except OSError:  # another checkout was faster
            shutil.rmtree(ready)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return home


def archive(target: Target, home: Path, name: str, units: Sequence[Unit]) -> None:
    """Compile ``units`` into lib/libNAME.a of ``home``."""
    jobs: list[tuple[list[str], Path]] = []
    for place, unit in enumerate(units):
        objects = home / "objects" / f"{name}{place}"
        objects.mkdir(parents=True)
        for file in unit.files:
            made = objects / (file.replace("/", "-") + ".o")
            # Keep the path of the source out of the object.
            words = [*CFLAGS, f"-ffile-prefix-map={unit.folder}=.", f"-I{home / 'include'}"]
            jobs.append(([*words, *unit.flags, "-c", str(unit.folder / file)], made))
    compile_all(target, jobs)
    build.run(
        [*target.zig("ar"), "rcsD", home / "lib" / f"lib{name}.a", *(made for _, made in jobs)]
    )


def compile_all(target: Target, jobs: Sequence[tuple[Sequence[str], Path]]) -> None:
    """Run the compiler for each (arguments, result), with one process per core."""

    def one(job: tuple[Sequence[str], Path]) -> None:
        words, made = job
        build.run([*target.zig("cc"), *words, "-o", made])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, jobs))


def _install_headers(home: Path, files: Iterable[Path], below: str = "") -> None:
    folder = home / "include" / below
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, folder / file.name)


def _zlib(target: Target, home: Path) -> None:
    source = unpacked("zlib")
    files = [path.name for path in sorted(source.glob("*.c"))]
    _install_headers(home, (source / "zlib.h", source / "zconf.h"))
    flags = ["-DHAVE_UNISTD_H", "-D_LARGEFILE64_SOURCE=1"]
    archive(target, home, "z", [Unit(source, files, flags)])


def _bzip2(target: Target, home: Path) -> None:
    source = unpacked("bzip2")
    names = ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib")
    _install_headers(home, [source / "bzlib.h"])
    archive(target, home, "bz2", [Unit(source, [f"{name}.c" for name in names], [])])


def _zstd(target: Target, home: Path) -> None:
    source = unpacked("libzstd") / "lib"
    files = [
        str(path.relative_to(source))
        for folder in ("common", "compress", "decompress")
        for path in sorted((source / folder).glob("*.[cS]"))
    ]
    _install_headers(home, (source / "zstd.h", source / "zstd_errors.h"))
    # zstd marks its functions as visible despite -fvisibility.
    flags = ["-DZSTDLIB_VISIBLE=", "-DZSTDERRORLIB_VISIBLE=", "-DZSTD_TRACE=0"]
    archive(target, home, "zstd", [Unit(source, files, [*flags, "-DXXH_NAMESPACE=ZSTD_"])])


#: The encoders of liblzma; Python's own lzma module requires all of liblzma.
_LZMA_ENCODERS = {
    "common": (
        *("alone_encoder", "block_encoder", "block_header_encoder", "easy_encoder"),
        *("easy_encoder_memusage", "filter_encoder", "filter_flags_encoder", "index_encoder"),
        *("stream_encoder", "stream_flags_encoder", "vli_encoder"),
    ),
    "lz": ("lz_encoder", "lz_encoder_mf"),
    "lzma": (
        *("lzma_encoder", "lzma2_encoder", "lzma_encoder_optimum_fast"),
        *("lzma_encoder_optimum_normal", "fastpos_table"),
    ),
    "rangecoder": ("price_table",),
    "delta": ("delta_encoder",),
    "simple": ("simple_encoder",),
}


def _lzma(target: Target, home: Path) -> None:
    """Compile the single-threaded decoders of liblzma; with the encoders if Python is inside."""
    source = unpacked("xz-utils") / "src"
    lzma = source / "liblzma"
    parts = {
        "check": ("check", "crc32_fast", "crc64_fast", "sha256"),
        "common": (
            *("alone_decoder", "auto_decoder", "block_buffer_decoder", "block_decoder"),
            *("block_header_decoder", "block_util", "common", "easy_decoder_memusage"),
            *("easy_preset", "file_info", "filter_buffer_decoder", "filter_common"),
            *("filter_decoder", "filter_flags_decoder", "hardware_physmem", "index"),
            *("index_decoder", "index_hash", "stream_buffer_decoder", "stream_decoder"),
            *("stream_flags_common", "stream_flags_decoder", "vli_decoder", "vli_size"),
        ),
        "lz": ("lz_decoder",),
        "lzma": ("lzma_decoder", "lzma2_decoder", "lzma_encoder_presets"),
        "delta": ("delta_common", "delta_decoder"),
        "simple": (
            *("simple_coder", "simple_decoder", "x86", "powerpc", "ia64", "arm", "armthumb"),
            *("arm64", "sparc", "riscv"),
        ),
    }
    files = [f"{folder}/{name}.c" for folder, names in parts.items() for name in names]
    kinds = ["ARM", "ARM64", "ARMTHUMB", "DELTA", "IA64", "LZMA1", "LZMA2", "POWERPC"]
    kinds += ["RISCV", "SPARC", "X86"]
    defined = [f"HAVE_DECODER_{name}" for name in kinds]
    if target.libc == "musl":
        files += [f"{folder}/{one}.c" for folder, names in _LZMA_ENCODERS.items() for one in names]
        defined += ["HAVE_ENCODERS", *(f"HAVE_ENCODER_{name}" for name in kinds)]
        defined += [f"HAVE_MF_{name}" for name in ("HC3", "HC4", "BT2", "BT3", "BT4")]
    defined += [f"HAVE_CHECK_{name}" for name in ("CRC32", "CRC64", "SHA256")]
    defined += ["HAVE_DECODERS", "HAVE_STDBOOL_H", "HAVE_STDINT_H", "HAVE_INTTYPES_H"]
    defined += ["HAVE_STRING_H", "HAVE_LIMITS_H", "HAVE_VISIBILITY=0", "LZMA_API_STATIC"]
    defined += ["SIZEOF_SIZE_T=8", "TUKLIB_SYMBOL_PREFIX=lzma_", "TUKLIB_PHYSMEM_SYSCONF"]
    defined += ["TUKLIB_FAST_UNALIGNED_ACCESS"]
    flags = [f"-D{one}" for one in defined]
    for folder in ("api", "common", "check", "lz", "rangecoder", "lzma", "delta", "simple"):
        flags += ["-I", str(lzma / folder)]
    flags += ["-I", str(source / "common")]
    _install_headers(home, [lzma / "api" / "lzma.h"])
    _install_headers(home, (lzma / "api" / "lzma").glob("*.h"), "lzma")
    archive(target, home, "lzma", [Unit(lzma, files, flags)])


#: The results of elfutils' configure: the first list for any C library, the others for one each.
_FOUND = (
    *("USE_ZLIB 1", "USE_BZLIB 1", "USE_LZMA 1", "USE_ZSTD 1", "USE_ZSTD_COMPRESS 1"),
    *("CHECK_UNDEFINED 0", "HAVE_VISIBILITY 1", "HAVE_FALLTHROUGH 1", "HAVE_GCC_STRUCT 1"),
    *("HAVE_GETRLIMIT 1", "HAVE_MREMAP 1", "HAVE_PROCESS_VM_READV 1", "HAVE_SCHED_H 1"),
    *("HAVE_STDATOMIC_H 1", "HAVE_ERR_H 1", "HAVE_SYS_RESOURCE_H 1", "HAVE_STRERROR_R 1"),
    *("HAVE_DECL_MEMPCPY 1", "HAVE_DECL_MEMRCHR 1", "HAVE_DECL_REALLOCARRAY 1", "SIZEOF_LONG 8"),
    *(
        "HAVE_SYS_USER_REGS 1",
        'PACKAGE "elfutils"',
        'PACKAGE_NAME "elfutils"',
        "HAVE_DECL_STRERROR_R 1",
    ),
)
_FOUND_GNU = (
    *("HAVE_ERROR_H 1", "HAVE_EXECINFO_H 1", "HAVE_MALLOC_TRIM 1", "HAVE_MALLOC_H 1"),
    *("HAVE_DECL_POWEROF2 1", "HAVE_DECL_RAWMEMCHR 1", "STRERROR_R_CHAR_P 1"),
)
_FOUND_MUSL = ("HAVE_DECL_POWEROF2 0", "HAVE_DECL_RAWMEMCHR 0")
#: elfutils' files for its programs, and the files that need argp or fts, which musl lacks.
_PROGRAMS = ("color.c", "error.c", "printversion.c")
_GNU_ONLY = ("argp-std.c", "linux-kernel-modules.c")
#: libebl's tables name disassemblers. Their build requires m4, and only libasm uses them.
_NO_DISASSEMBLER = "".join(
    f"int {name}_disasm(void) {{ return -1; }}\n" for name in ("i386", "x86_64", "bpf", "riscv")
)


def _elfutils(target: Target, home: Path) -> None:
    """Compile libelf, and libdw with libdwfl, libdwelf, libebl and its back ends inside."""
    source = unpacked("elfutils")
    found = _FOUND_MUSL if target.libc == "musl" else _FOUND_GNU
    settings = home / "objects" / "elfutils"
    settings.mkdir(parents=True)
    version = SOURCES["elfutils"].version
    lines = [f"#define {one}" for one in (*_FOUND, *found)]
    lines += [f'#define PACKAGE_VERSION "{version}"', f'#define VERSION "{version}"']
    (settings / "config.h").write_text("\n".join([*lines, "#include <eu-config.h>", ""]))
    (settings / "no_disassembler.c").write_text(_NO_DISASSEMBLER)
    folders = ("lib", "libelf", "libebl", "libdw", "libdwelf", "libdwfl", "libasm", "backends")
    flags = ["-std=gnu11", "-DHAVE_CONFIG_H", "-D_LIBELF_STATIC", "-I", str(settings)]
    flags += [word for folder in folders for word in ("-I", str(source / folder))]
    flags += ["-include", "config.h"]

    def unit(folder: str) -> Unit:
        left = _PROGRAMS + (_GNU_ONLY if target.libc == "musl" else ())
        files = listed(source / folder / "Makefile.am")
        return Unit(source / folder, [file for file in files if file not in left], flags)

    _install_headers(
        home, (source / "libelf" / name for name in ("libelf.h", "gelf.h", "nlist.h", "elf.h"))
    )
    public = ("libdw/libdw.h", "libdw/known-dwarf.h", "libdwfl/libdwfl.h", "libdwelf/libdwelf.h")
    _install_headers(
        home, (source / name for name in (*public, "libebl/libebl.h", "version.h")), "elfutils"
    )
    shutil.copyfile(source / "libdw" / "dwarf.h", home / "include" / "dwarf.h")
    archive(target, home, "elf", [unit("libelf"), unit("lib")])
    inside = [unit(folder) for folder in ("libdw", "libdwelf", "libdwfl", "libebl", "backends")]
    inside.append(Unit(settings, ["no_disassembler.c"], []))
    archive(target, home, "dw", inside)


def listed(makefile: Path) -> list[str]:
    """Return the C files of the static library in a Makefile.am of elfutils."""
    text = makefile.read_text().replace("\\\n", " ")
    lists = re.findall(r"^\w+_(?:SOURCES|SRCS) \+?= (.*)$", text, re.MULTILINE)
    return sorted({word for one in lists for word in one.split() if word.endswith(".c")})


def _libbpf(target: Target, home: Path) -> None:
    source = unpacked("libbpf") / "src"
    files = [path.name for path in sorted(source.glob("*.c"))]
    flags = ["-std=gnu89", "-DLIBBPF_API=", f"-I{source.parent}/include"]
    flags += [f"-I{source.parent}/include/uapi", "-D_LARGEFILE64_SOURCE"]
    headers = ("bpf", "libbpf", "btf", "libbpf_common", "libbpf_legacy", "libbpf_version")
    _install_headers(home, (source / f"{name}.h" for name in headers), "bpf")
    archive(target, home, "bpf", [Unit(source, files, flags)])
