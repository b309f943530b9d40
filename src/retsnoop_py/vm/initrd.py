# SPDX-License-Identifier: BSD-2-Clause
"""The initial RAM disk: a static busybox, one script and the few modules the boot needs.

No udev and no initramfs generator: that is what keeps a boot under emulation at four seconds.
"""

from __future__ import annotations

import gzip
import shutil
import struct
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from retsnoop_py.errors import UnavailableError

__all__ = ["Cpio", "build_initrd", "find_busybox", "is_static_elf"]

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
        """The archive's bytes, closed by its trailer."""
        self.add("TRAILER!!!", b"", 0)
        return b"".join(self.parts)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def is_static_elf(data: bytes) -> bool:
    """Whether ``data`` is a 64-bit little-endian ELF program that needs no dynamic linker."""
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
    """A statically linked busybox of this machine. Raises UnavailableError where there is none."""
    for name in ("busybox", "busybox-static", "busybox.static"):
        found = shutil.which(name, path="/bin:/usr/bin:/sbin:/usr/sbin:/usr/local/bin")
        if found and is_static_elf(Path(found).read_bytes()):
            return Path(found)
    raise UnavailableError(
        "no statically linked busybox here, which the guest starts with",
        "install the package busybox-static",
    )


def guest_script(name: str) -> bytes:
    """One of the shell scripts of this package that run in the guest."""
    return files(__package__).joinpath(name).read_bytes()


def build_initrd(
    busybox: bytes, modules: list[tuple[str, bytes]], config: str, scripts: dict[str, bytes]
) -> bytes:
    """The compressed archive the kernel unpacks: ``/init`` of ``scripts`` runs first.

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
    # level 1: the emulated CPU unpacks it, and every byte moved costs more than one unpacked
    return gzip.compress(cpio.finish(), compresslevel=1, mtime=0)
