# SPDX-License-Identifier: BSD-2-Clause
"""Reasons in existing objects: a file of that name, or a user of the file."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from typing import Literal

from retsnoop_py.cause import files, permission
from retsnoop_py.cause.operation import path_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.value import replace

#: Bytes of the header of an ELF file with 64 bits; its type ET_REL.
_ELF_HEADER, _RELOCATABLE = 64, 1
#: By machine of the ELF header (elf.h): its name.
_MACHINES = {
    2: "SPARC",
    3: "i386 (32 bits)",
    8: "MIPS",
    20: "PowerPC",
    21: "PowerPC (64 bits)",
    22: "S/390",
    40: "ARM (32 bits)",
    62: "x86-64",
    183: "ARM (aarch64)",
    243: "RISC-V",
    247: "BPF",
    258: "LoongArch",
}

__all__ = [
    "exists",
    "into_itself",
    "is_directory",
    "not_empty",
    "program_format",
]


#: Names of files that exist only while a program works, and keep a second one out.
_LOCKS = ("*.lock", "*.lck", "lock", "*.pid")


def exists(scene: Scene) -> Reason | None:
    """A file of that name exists."""
    path = scene.target
    if path is None:
        return None
    try:
        status = os.lstat(path)
    except OSError:
        return None
    advice = ["choose another name, or remove the existing one"]
    if scene.call.name.startswith("mkdir") and stat.S_ISDIR(status.st_mode):
        advice = ["mkdir -p accepts an existing directory", *advice]
    kind = files.kind_of(status)
    kept = _not_removed(scene, path)
    if kept is not None:
        text = f"There is a {kind} {show(path)} already, and the command could not remove it."
        return replace(kept, text=f"{text} {kept.text}")
    if stat.S_ISREG(status.st_mode) and any(
        fnmatchcase(os.path.basename(path), one) for one in _LOCKS
    ):
        return Reason(
            "exists",
            f"There is a lock file {show(path)} already: {files.described(status)}. Another "
            "process works here, or one ended without removing the file.",
            (
                f"let the other process end: ps aux | grep {shell_word(scene.call.process)}",
                f"if there is none: rm {shell_path(path)}",
            ),
            is_inferred=True,
        )
    return Reason(
        "exists",
        f"There is a {kind} {show(path)} already: {files.described(status)}.",
        tuple(advice),
    )


def _not_removed(scene: Scene, path: str) -> Reason | None:
    """Return why the process could not remove the existing file before, as tar(1) does it."""
    for one in scene.witnessed.calls:
        is_it = one.pid == scene.call.pid and one.name.startswith("unlink")
        if is_it and one is not scene.call and path_of(one) == path:
            other = replace(scene, call=one)
            return permission.file_mode(other) or permission.sticky(other)
    return None


def not_empty(scene: Scene) -> Reason | None:
    """The directory has entries."""
    path = scene.target
    try:
        names = os.listdir(path) if path else []
    except OSError:
        return None
    if not names:
        return None
    shown = ", ".join(map(show, sorted(names)[:3])) + (", ..." if len(names) > 3 else "")
    return Reason(
        "not-empty",
        f"The directory {show(path or '')} is not empty: it has {shown}.",
        (f"rm -r {shell_path(path or '')} (removes the directory and everything in it)",)
        if scene.call.name in ("rmdir", "unlinkat")
        else ("choose another name, or empty the directory first",),
    )


def into_itself(scene: Scene) -> Reason | None:
    """rename(2) of a directory to a place inside the same directory."""
    old, new = scene.path, scene.target
    if old is None or new is None:
        return None
    old, new = os.path.realpath(old), os.path.realpath(new)
    if not new.startswith(f"{old}/"):
        return None
    return Reason(
        "into-itself",
        f"{show(new)} would be inside of {show(old)} itself. A directory cannot be moved into "
        "itself.",
        ("choose a place outside of the directory",),
    )


def is_directory(scene: Scene) -> Reason | None:
    """The path is a directory."""
    path = scene.target
    if path is None or not os.path.isdir(path):
        return None
    advice: tuple[str, ...] = ("give the name of a file",)
    if scene.call.name.startswith("unlink") or scene.call.process == "rm":
        advice = (
            f"rmdir {shell_path(path)} (if the directory is empty)",
            f"or rm -r {shell_path(path)} (removes the directory and everything in it)",
        )
    return Reason("is-a-directory", f"{show(path)} is a directory, not a file.", advice)


def program_format(scene: Scene) -> Reason | None:
    """The file is not a program for this machine."""
    path = scene.path
    try:
        with open_file(path or "") as file:
            head = file.read(_ELF_HEADER)
    except (OSError, ValueError, DataError):
        return None
    if head.startswith(b"\x7fELF"):
        return _elf_format(path or "", head)
    if not head:
        return Reason(
            "format",
            f"{show(path or '')} is empty.",
            ("create the file again: a copy or a build may have been interrupted",),
        )
    if not head.startswith(b"#!"):
        return Reason(
            "format",
            f"{show(path or '')} is not an executable program, and its first line names no "
            "interpreter.",
            (f"start {shell_path(path or '')} with a line such as #!/bin/sh",),
        )
    return None


def _elf_format(path: str, head: bytes) -> Reason:
    """A program in the ELF format that this kernel does not run."""
    own = _machine(_head("/proc/self/exe"))
    machine, kind = _machine(head), int.from_bytes(head[16:18], "little")
    size, end = os.stat(path).st_size, _headers_end(head)
    again = ("copy, download or build the file again",)
    if len(head) < _ELF_HEADER:
        return Reason("format", f"{show(path)} is cut short: it has {size} bytes.", again)
    if machine == own and kind != _RELOCATABLE:
        text = f"{show(path)} is a program for this machine, and "
        if end > size:
            text += (
                f"its file is cut short: it has {size} bytes, and its headers end at byte {end}."
            )
        else:
            text += "the kernel cannot load it. Its file is probably damaged."
        return Reason("format", text, again)
    if machine == own:
        return Reason(
            "format",
            f"{show(path)} is an object file (the output of cc -c), and not a program yet.",
            (f"link it: cc -o PROGRAM {shell_path(path)}",),
        )
    name = _MACHINES.get(machine[1], f"another architecture (number {machine[1]} of elf.h)")
    advice = ["get a build for this machine"]
    if name.startswith("i386"):
        advice.append("or boot a kernel that runs 32-bit programs (CONFIG_IA32_EMULATION)")
    else:
        advice.append("or install qemu-user-static, which runs programs of other machines")
    return Reason(
        "format",
        f"{show(path)} is a program for {name}. This machine is {os.uname().machine}.",
        tuple(advice),
    )


def _headers_end(head: bytes) -> int:
    """Return the end of the program headers of a 64-bit ELF file, in bytes."""
    if len(head) < _ELF_HEADER:
        return 0
    offset, each, count = (
        int.from_bytes(head[at : at + size], "little") for at, size in ((32, 8), (54, 2), (56, 2))
    )
    return offset + each * count


def _head(path: str) -> bytes:
    with open_file(path) as file:
        return file.read(_ELF_HEADER)


def _machine(head: bytes) -> tuple[int, int]:
    """The class (1: 32 bits, 2: 64 bits) and the machine of an ELF header."""
    order: Literal["big", "little"] = "big" if head[5:6] == b"\x02" else "little"
    return int.from_bytes(head[4:5], "little"), int.from_bytes(head[18:20], order)
