# SPDX-License-Identifier: BSD-2-Clause
"""QEMU and virtiofsd: which of them this machine has, and their command lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm.architecture import ARCHITECTURES, Architecture

__all__ = [
    "Emulator",
    "Guest",
    "Share",
    "accelerator",
    "cpu_model",
    "find_qemu",
    "find_virtiofsd",
    "installed",
    "parse_version",
    "qemu_command",
    "virtiofsd_command",
]

#: Instructions are counted as 2 ns each, about as fast as they are emulated.
_NS_SHIFT = 1
#: QEMU needs no obsolete system calls, no other user, no further program and no other priority.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd")


@dataclass(frozen=True, slots=True)
class Share:
    """A directory of the host in the guest; ``socket`` is where its virtiofsd listens."""

    tag: str
    path: Path
    socket: Path
    writable: bool = False


class Emulator(NamedTuple):
    """QEMU's version, and whether it can limit its own system calls (-sandbox)."""

    version: tuple[int, int] = (8, 0)
    has_sandbox: bool = True


@dataclass(frozen=True, slots=True)
class Guest:
    """All that QEMU's command line depends on. Memory in MiB; ``ports`` are (name, open fd).

    ``console`` is the descriptor of a socket.

    ``count_instructions``: the guest's clock goes by them, see :class:`~.machine.Machine`.
    """

    qemu: str
    image: Path
    initrd: Path
    append: str
    memory: int
    cpus: int
    console: int
    shares: Sequence[Share]
    transport: str
    ports: Sequence[tuple[str, int]]
    accel: str = "tcg"
    emulator: Emulator = Emulator()
    count_instructions: bool = False
    arch: Architecture = ARCHITECTURES["x86_64"]


def find_qemu(arch: Architecture) -> str:
    """The QEMU program for ``arch``. Raises UnavailableError where it is missing."""
    found = shutil.which(arch.qemu)
    if not found:
        raise UnavailableError(
            f"{arch.qemu} is not installed; it runs guests of {arch.name}",
            f"install the package {arch.package}",
        )
    return found


def parse_version(text: str) -> tuple[int, int]:
    """(major, minor) out of what ``qemu-system-x86_64 --version`` prints; (0, 0) if unclear."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def installed(program: str) -> Emulator:
    """What QEMU ``program`` is. Its help begins with the version, and lists -sandbox if it can."""
    done = subprocess.run([program, "--help"], check=False, capture_output=True, text=True)
    return Emulator(parse_version(done.stdout), "\n-sandbox " in done.stdout)


def cpu_model(arch: Architecture, accel: str, version: tuple[int, int]) -> str:
    """The CPU to give the guest.

    QEMU's emulation of x86 before 8.0 can leave a register's bits in EFLAGS after CMPXCHG16B, the
    direction flag among them. The slab allocator of kernels since 6.5 runs that instruction all
    the time, and with QEMU 7.2 every second boot of 6.12 died of it (15 of 32; none of 10
    without the feature). Without the CPU bit the kernel takes a lock instead.
    """
    if accel == "kvm":
        return "host"
    return f"{arch.cpu},-cx16" if arch.name == "x86_64" and version < (8, 0) else arch.cpu


def find_virtiofsd() -> str | None:
    """The virtiofsd program, or None; distributions keep it out of PATH.

    None for an ordinary user too: the daemon in C that comes with QEMU 7 serves root only.
    """
    if os.geteuid() != 0:
        return None
    found = shutil.which("virtiofsd")
    return found or next((path for path in _VIRTIOFSD if os.access(path, os.X_OK)), None)


def accelerator(arch: Architecture, cpuinfo: str, kvm: Path = Path("/dev/kvm")) -> str:
    """``kvm`` where the CPU (text of /proc/cpuinfo) virtualizes and KVM is usable, else ``tcg``.

    On x86 /dev/kvm alone is no proof: under some hypervisors it is a paravirtual kind that cannot
    run an ordinary kernel. On arm64 the CPU does not tell, and there is no other kind.
    """
    able = arch.name != "x86_64" or re.search(r"^flags\s*:.*\b(?:vmx|svm)\b", cpuinfo, re.MULTILINE)
    usable = able and not arch.is_foreign and os.access(kvm, os.R_OK | os.W_OK)
    return "kvm" if usable else "tcg"


def virtiofsd_command(program: str, share: Share, socket_fd: int) -> list[str]:
    """Command line of the daemon behind ``share``, on an already listening socket.

    A socket that listens before the daemon starts leaves QEMU no race to lose. The ``-o`` form
    is understood by both the old daemon in C and the newer one in Rust.
    """
    # the guest is the only writer of what it sees of the host's files; a results directory is
    # looked at from both sides
    cache = "auto" if share.writable else "always"
    options = f"source={share.path},cache={cache},sandbox=chroot"
    if share.writable:
        # anybody on the host could open a device that the guest makes there, or run a program to
        # which it gives capabilities; without CAP_FSETID a file that is written loses its bits
        options += ",modcaps=-mknod:-setfcap:-fsetid"
    return [program, f"--fd={socket_fd}", "-o", options]


def qemu_command(guest: Guest) -> list[str]:
    """The whole QEMU command line."""
    argv = [guest.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    if guest.emulator.has_sandbox:
        argv += ["-sandbox", _SANDBOX]
    board = guest.arch.kvm_board if guest.accel == "kvm" else guest.arch.board
    argv += ["-machine", board, "-smp", str(guest.cpus), "-m", f"{guest.memory}M"]
    # One thread emulates all CPUs in turn. With a thread each, a CPU may still run the int3 of a
    # code patch that the kernel has finished and forgotten, and dies of it: toggling the function
    # tracer on 1,586 functions under load killed Linux 6.12 within 3 s in 3 of 3 runs (QEMU 7.2),
    # and attaching probes is the very same patching. It costs a boot 0.3 s.
    argv += ["-accel", "kvm" if guest.accel == "kvm" else "tcg,thread=single"]
    if guest.count_instructions:
        argv += ["-icount", f"shift={_NS_SHIFT},sleep=on"]
    argv += ["-cpu", cpu_model(guest.arch, guest.accel, guest.emulator.version)]
    append = guest.append
    if guest.accel != "kvm":
        # The emulation translates a program's code anew for each address it is loaded at: with
        # random ones "python -S -c pass" takes 0.42 s in a guest of Linux 7.2, without 0.17.
        append += " norandmaps"
    argv += ["-kernel", str(guest.image), "-initrd", str(guest.initrd), "-append", append]
    argv += ["-chardev", f"socket,id=console,fd={guest.console}"]
    argv += ["-serial", "chardev:console"]
    argv += ["-device", "virtio-serial-pci"]
    for number, (name, fd) in enumerate(guest.ports, start=1):
        argv += ["-chardev", f"socket,id=port{number},fd={fd}"]
        argv += ["-device", f"virtserialport,chardev=port{number},nr={number},name={name}"]
    if guest.transport == "virtiofs":
        # the daemon maps the guest's memory
        memory = f"memory-backend-memfd,id=mem,size={guest.memory}M,share=on"
        argv += ["-object", memory, "-machine", "memory-backend=mem"]
    for share in guest.shares:
        argv += _share_devices(share, guest.transport)
    return argv


def _share_devices(share: Share, transport: str) -> list[str]:
    if transport == "virtiofs":
        return [
            "-chardev",
            f"socket,id=fs-{share.tag},path={_escape(share.socket)}",
            "-device",
            f"vhost-user-fs-pci,chardev=fs-{share.tag},tag={share.tag}",
        ]
    access = "off" if share.writable else "on"
    options = f"security_model=none,readonly={access},multidevs=remap"
    return ["-virtfs", f"local,path={_escape(share.path)},mount_tag={share.tag},{options}"]


def _escape(path: Path) -> str:
    """A comma ends an option in QEMU's syntax and is doubled to mean itself."""
    return str(path).replace(",", ",,")
