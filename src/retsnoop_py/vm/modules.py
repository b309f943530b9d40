# SPDX-License-Identifier: BSD-2-Clause
"""Kernel modules as files: which there are, what each needs, and their plain bytes."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from retsnoop_py.errors import DataError, UnavailableError
from retsnoop_py.vm.debian import run_tool

__all__ = [
    "ModuleTree",
    "dependency_order",
    "module_name",
    "read_module",
    "write_index",
    "write_kmod_index",
]

_MODULE_FILE = re.compile(r"(.+)\.ko(?:\.xz|\.gz|\.zst)?")


def module_name(file: str) -> str | None:
    """``virtio_pci`` for ``kernel/drivers/virtio/virtio-pci.ko.xz``; None for other files."""
    found = _MODULE_FILE.fullmatch(file.rsplit("/", 1)[-1])
    return found[1].replace("-", "_") if found else None


def read_module(path: Path) -> bytes:
    """The ELF file, decompressed. Raises DataError or UnavailableError where that cannot be."""
    data = path.read_bytes()
    try:
        if path.suffix == ".xz":
            return lzma.decompress(data)
        if path.suffix == ".gz":
            return gzip.decompress(data)
        if path.suffix == ".zst":  # the standard library has it from Python 3.14 only
            return subprocess.run(
                ["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True
            ).stdout
    except FileNotFoundError as error:
        raise UnavailableError(f"{path} needs zstd to read", "install the package zstd") from error
    except (lzma.LZMAError, OSError, EOFError, subprocess.CalledProcessError) as error:
        raise DataError(f"kernel module {path} is damaged: {error}") from error
    return data


def modinfo(data: bytes, key: str) -> list[str]:
    """The values of ``key`` among the NUL-terminated ``key=value`` strings of ``.modinfo``."""
    values = re.findall(rb"\0" + key.encode() + rb"=([^\0]*)(?=\0)", data)
    return [value.decode(errors="replace") for value in values]


def dependency_order(wanted: Iterable[str], depends: dict[str, list[str]]) -> list[str]:
    """``wanted`` and all they need, each once and after what it needs.

    ``depends`` maps every loadable module to its direct needs; names missing there are built in
    and need no loading.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in depends:
            return
        for need in depends[name]:
            visit(need)
        order.append(name)

    for name in wanted:
        visit(name)
    return order


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
        """Whether the kernel has ``name``, built in or as a module."""
        return name in self.files or name in self.builtin

    def depends(self, wanted: Iterable[str]) -> dict[str, list[str]]:
        """The direct needs of ``wanted`` and of everything they lead to."""
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
        """``(name, ELF bytes)`` of the modules to insert for ``wanted``, in that order."""
        names = list(wanted)
        order = dependency_order(names, self.depends(names))
        return [(name, read_module(self.files[name])) for name in order]


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
        raise DataError(f"depmod failed on {root}: {done.stderr.strip()}")
