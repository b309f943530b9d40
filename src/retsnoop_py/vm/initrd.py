# SPDX-License-Identifier: BSD-2-Clause
"""The initial RAM disk: a static busybox, one script and the few modules the boot needs.

It contains neither udev nor an initramfs generator, so a boot under emulation takes four seconds.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from retsnoop_py.errors import DataError, UnavailableError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
from retsnoop_py.vm.debian import failed, run_tool

#: Bytes of a module that is read: the largest of distributions have 30 MB.
_LARGEST = 512 << 20
_MODULE_FILE = re.compile(r"(.+)\.ko(?:\.xz|\.gz|\.zst)?")


def module_name(file: str) -> str | None:
    """``virtio_pci`` for ``kernel/drivers/virtio/virtio-pci.ko.xz``; None for other files."""
    found = _MODULE_FILE.fullmatch(file.rsplit("/", 1)[-1])
    return found[1].replace("-", "_") if found else None


def read_module(path: Path) -> bytes:
    """Return the decompressed ELF file. Raises DataError or UnavailableError on failure.

    The modules of a user's own kernel may come from anyone: a file that is not regular, or that is
    larger than 512 MiB, is an error.
    """
    try:
        with open_file(path) as file:
            data = _decompressed(path.suffix, file)
    except FileNotFoundError as error:
        if path.exists():
            raise UnavailableError(
                f"{path} needs zstd to read", "install the package zstd"
            ) from error
        raise DataError(f"kernel module {path} is missing") from error
    except (lzma.LZMAError, zlib.error, OSError, EOFError) as error:
        raise DataError(f"kernel module {path} is damaged: {error}") from error
    if len(data) > _LARGEST:
        raise DataError(f"kernel module {path} has more than {_LARGEST >> 20} MiB")
    return data


def _decompressed(suffix: str, file: BinaryIO) -> bytes:
    """Return the contents of a module's file, at most one byte more than allowed."""
    if suffix == ".xz":
        with lzma.open(file) as plain:
            return plain.read(_LARGEST + 1)
    if suffix == ".gz":
        with gzip.open(file) as plain:
            return plain.read(_LARGEST + 1)
    if suffix != ".zst":  # the standard library has it from Python 3.14 only
        return file.read(_LARGEST + 1)
    with subprocess.Popen(
        ["zstd", "-dc"],
        env=environment_of_tools(),
        cwd=TOOL_FOLDER,
        stdin=file,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        data = program.stdout.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            program.kill()
    if program.returncode and len(data) <= _LARGEST:
        raise OSError(f"zstd ended with {program.returncode}")
    return data


def modinfo(data: bytes, key: str) -> list[str]:
    """Return the values of ``key`` in the NUL-terminated ``key=value`` strings of ``.modinfo``."""
    values = re.findall(rb"\0" + key.encode() + rb"=([^\0]*)(?=\0)", data)
    return [value.decode(errors="replace") for value in values]


def dependency_order(wanted: Iterable[str], depends: dict[str, list[str]]) -> list[str]:
    """Return ``wanted`` and all dependencies, each module once and after its dependencies.

    ``depends`` maps each loadable module to its direct dependencies. Other names are built in and
    need no loading.
    """
    order: dict[str, None] = {}
    # without recursion, and each module once: the tree may have a circle, or be thousands deep
    begun: set[str] = set()
    waiting = [(name, False) for name in reversed(list(wanted))]
    while waiting:
        name, is_ready = waiting.pop()
        if is_ready:
            order[name] = None
        elif name not in begun and name in depends:
            begun.add(name)
            waiting.append((name, True))
            waiting += [(need, False) for need in reversed(depends[name])]
    return list(order)


class ModuleTree:
    """The modules below ``root``, a directory like ``/lib/modules/RELEASE``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, Path] = {}
        for path in sorted(root.rglob("*.ko*")):
            name = module_name(path.name)
            if name:
                self.files.setdefault(name, path)
        builtin = root / "modules.builtin"
        lines = builtin.read_text().split() if builtin.exists() else []
        self.builtin = {name for name in map(module_name, lines) if name}

    def has(self, name: str) -> bool:
        """Return True if the kernel has ``name``, built in or as a module."""
        return name in self.files or name in self.builtin

    def depends(self, wanted: Iterable[str]) -> dict[str, list[str]]:
        """Return the direct dependencies of ``wanted`` and of each of their dependencies."""
        found: dict[str, list[str]] = {}
        queue = [name for name in wanted if name in self.files]
        while queue:
            name = queue.pop()
            if name in found:
                continue
            listed = ",".join(modinfo(read_module(self.files[name]), "depends"))
            found[name] = [need.replace("-", "_") for need in listed.split(",") if need]
            queue += [need for need in found[name] if need in self.files]
        return found

    def load_order(self, wanted: Iterable[str]) -> list[tuple[str, bytes]]:
        """Return ``(name, ELF bytes)`` of the modules to insert for ``wanted``, in load order.

        Raises DataError for more than 512 MiB.
        """
        names = list(wanted)
        order = dependency_order(names, self.depends(names))
        found, room = [], _LARGEST
        for name in order:
            data = read_module(self.files[name])
            room -= len(data)
            if room < 0:
                raise DataError(
                    f"the modules that a guest needs have more than {_LARGEST >> 20} MiB"
                )
            found.append((name, data))
        return found


def write_index(root: Path) -> None:
    """Decompress the modules below ``root`` in place, write modules.dep and modules.alias.

    Distribution packages leave this to depmod at installation. These two text files are all that
    busybox's modprobe reads, which the guest takes where the host has no kmod.
    """
    tree = ModuleTree(root)
    needs: dict[str, list[str]] = {}
    aliases: list[str] = []
    for name, path in tree.files.items():
        data = read_module(path)
        if path.suffix != ".ko":
            plain = path.with_suffix("")
            plain.write_bytes(data)
            path.unlink()
            tree.files[name] = plain
        listed = ",".join(modinfo(data, "depends"))
        needs[name] = [need.replace("-", "_") for need in listed.split(",") if need]
        aliases += [f"alias {alias} {name}\n" for alias in modinfo(data, "alias")]
    lines = []
    for name in sorted(needs):
        chain = [need for need in reversed(dependency_order([name], needs)) if need != name]
        paths = [str(tree.files[each].relative_to(root)) for each in (name, *chain)]
        lines.append(f"{paths[0]}: {' '.join(paths[1:])}".rstrip() + "\n")
    (root / "modules.dep").write_text("".join(lines))
    (root / "modules.alias").write_text("".join(aliases))


def write_kmod_index(root: Path) -> None:
    """Write the binary indexes of kmod's modprobe, once, where this machine has depmod.

    ``root`` must end in ``lib/modules/RELEASE``. Raises DataError if depmod does not like it.
    """
    depmod = shutil.which("depmod", path="/sbin:/usr/sbin:/bin:/usr/bin")
    # of all its files the last one it writes: others are there when it was interrupted
    if depmod is None or (root / "modules.devname").exists():
        return
    argv = [depmod, "-b", str(root.parents[2]), root.name]
    done = run_tool(argv)
    if done.returncode:
        raise failed(f"depmod failed on {root}", done.stderr, DataError)


_DIRECTORY = 0o040755
_FILE = 0o100644
_PROGRAM = 0o100755
_CHARACTER = 0o020600


@dataclass(slots=True)
class Cpio:
    """A "newc" cpio archive in the making (Documentation/driver-api/early-userspace)."""

    parts: list[bytes] = field(default_factory=list)
    inode: int = 0

    def add(self, name: str, data: bytes, mode: int, device: tuple[int, int] = (0, 0)) -> None:
        """Append one entry; ``mode`` is st_mode with its type, ``device`` major and minor."""
        self.inode += 1
        path = name.encode() + b"\0"
        numbers = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + path
        self.parts += [_pad(head), _pad(data)]

    def directory(self, name: str) -> None:
        """Append an empty directory."""
        self.add(name, b"", _DIRECTORY)

    def file(self, name: str, data: bytes, program: bool = False) -> None:
        """Append a regular file."""
        self.add(name, data, _PROGRAM if program else _FILE)

    def finish(self) -> bytes:
        """Return the archive's bytes, with the trailer."""
        self.add("TRAILER!!!", b"", 0)
        return b"".join(self.parts)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def is_static_elf(data: bytes) -> bool:
    """Return True if ``data`` is a 64-bit little-endian ELF program without a dynamic linker."""
    if data[:6] != b"\x7fELF\x02\x01":
        return False
    table, size, count = (
        struct.unpack_from("<Q", data, 32)[0],
        *struct.unpack_from("<HH", data, 54),
    )
    kinds = [struct.unpack_from("<I", data, table + size * index)[0] for index in range(count)]
    interpreter = 3  # PT_INTERP
    return interpreter not in kinds


def find_busybox() -> Path:
    """Return a statically linked busybox of this machine. Raises UnavailableError."""
    for name in ("busybox", "busybox-static", "busybox.static"):
        found = shutil.which(name, path="/bin:/usr/bin:/sbin:/usr/sbin:/usr/local/bin")
        if found and is_static_elf(Path(found).read_bytes()):
            return Path(found)
    raise UnavailableError(
        "no statically linked busybox here, which the guest starts with",
        "install the package busybox-static",
    )


def guest_script(name: str) -> bytes:
    """Return the text of a shell script of this package that runs in the guest."""
    return files(__package__).joinpath(name).read_bytes()


def build_initrd(
    busybox: bytes, modules: list[tuple[str, bytes]], config: str, scripts: dict[str, bytes]
) -> bytes:
    """Return the compressed archive that the kernel unpacks; ``init`` of ``scripts`` runs first.

    ``modules`` are inserted in the order given; ``config`` is shell text that /init sources.
    """
    cpio = Cpio()
    for folder in ("bin", "dev", "proc", "sys", "lower", "rw", "root", "modules"):
        cpio.directory(folder)
    # the console must exist before devtmpfs is mounted, or /init has no stderr
    cpio.add("dev/console", b"", _CHARACTER, (5, 1))
    cpio.file("bin/busybox", busybox, program=True)
    for name, text in scripts.items():
        cpio.file(name, text, program=True)
    for number, (name, data) in enumerate(modules):
        cpio.file(f"modules/{number:03d}-{name}.ko", data)
    cpio.file("config", config.encode())
    # level 1: the emulated CPU unpacks it, and moving a byte costs more than unpacking a byte
    return gzip.compress(cpio.finish(), compresslevel=1, mtime=0)
