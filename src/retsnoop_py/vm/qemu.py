# SPDX-License-Identifier: BSD-2-Clause
"""QEMU and virtiofsd: how to find the installed programs, and their command lines."""

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
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
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

#: With -icount, an instruction counts as 2 ns (1 << shift), about the speed of the emulation.
_NS_SHIFT = 1
#: QEMU needs no obsolete system calls, no other user, no further program and no other priority.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd")


@dataclass(frozen=True, slots=True)
class Share:
    """A directory of the host in the guest; its virtiofsd listens at ``socket``.

    ``identity`` is ``DEVICE:INODE`` of a writable directory, see :class:`~.folder.Writable`.
    """

    tag: str
    path: Path
    socket: Path
    writable: bool = False
    identity: str = ""


class Emulator(NamedTuple):
    """QEMU's version, and whether it can limit its own system calls (-sandbox)."""

    version: tuple[int, int] = (8, 0)
    has_sandbox: bool = True


@dataclass(frozen=True, slots=True)
class Guest:
    """The parameters of QEMU's command line. Memory in MiB; ``ports`` are (name, open fd).

    ``console`` is the descriptor of a socket.

    ``count_instructions``: the guest's clock counts instructions, see :class:`~.machine.Machine`.
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
    """Return the path of QEMU for ``arch``. Raises UnavailableError if it is not installed."""
    found = shutil.which(arch.qemu)
    if not found:
        raise UnavailableError(
            f"{arch.qemu} is not installed; it runs guests of {arch.name}",
            f"install the package {arch.package}",
        )
    return found


def parse_version(text: str) -> tuple[int, int]:
    """Return (major, minor) from the output of ``qemu-system-x86_64 --version``; else (0, 0)."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def installed(program: str) -> Emulator:
    """Return the version and features of QEMU ``program``, from the output of ``--help``."""
    done = subprocess.run(
        [program, "--help"],
        check=False,
        capture_output=True,
        text=True,
        env=environment_of_tools(),
        cwd=TOOL_FOLDER,
    )
    return Emulator(parse_version(done.stdout), "\n-sandbox " in done.stdout)


def cpu_model(arch: Architecture, accel: str, version: tuple[int, int]) -> str:
    """Return the guest's CPU model for -cpu.

    In QEMU before 8.0, the x86 emulation can leave a register's bits in EFLAGS after CMPXCHG16B,
    including the direction flag. The slab allocator since Linux 6.5 uses this instruction
    constantly. With QEMU 7.2, 15 of 32 boots of Linux 6.12 crashed; without the CPU feature, 0 of
    10. Without the feature, the kernel uses a lock instead.
    """
    if accel == "kvm":
        return "host"
    return f"{arch.cpu},-cx16" if arch.name == "x86_64" and version < (8, 0) else arch.cpu


def find_virtiofsd() -> str | None:
    """Return the path of virtiofsd, or None. Distributions install it outside PATH.

    Return None for an ordinary user too: the C daemon of QEMU 7 requires root.
    """
    if os.geteuid() != 0:
        return None
    found = shutil.which("virtiofsd")
    return found or next((path for path in _VIRTIOFSD if os.access(path, os.X_OK)), None)


def accelerator(arch: Architecture, cpuinfo: str, kvm: Path = Path("/dev/kvm")) -> str:
    """Return ``kvm`` if the CPU supports virtualization and KVM is usable, else ``tcg``.

    ``cpuinfo`` is the text of /proc/cpuinfo. On x86, /dev/kvm alone is not sufficient: some
    hypervisors provide a paravirtual KVM that cannot run an ordinary kernel. On arm64,
    /proc/cpuinfo does not show virtualization, and this other type of KVM does not exist.
    """
    able = arch.name != "x86_64" or re.search(r"^flags\s*:.*\b(?:vmx|svm)\b", cpuinfo, re.MULTILINE)
    usable = able and not arch.is_foreign and os.access(kvm, os.R_OK | os.W_OK)
    return "kvm" if usable else "tcg"


def virtiofsd_command(program: str, share: Share, socket_fd: int) -> list[str]:
    """Return the command line of the daemon that serves ``share`` on a listening socket.

    The socket already listens when the daemon starts, which avoids a race with QEMU. Both the old C
    daemon and the newer Rust daemon accept the ``-o`` form.
    """
    # only the guest's own layer changes its view of the host's files, so it may cache them; host
    # and guest both access a writable directory
    cache = "auto" if share.writable else "always"
    options = f"source={share.path},cache={cache},sandbox=chroot"
    if share.writable:
        # otherwise any user of the host could open a device that the guest creates there, or run a
        # program with capabilities; without CAP_FSETID, a write clears a file's set-ID bits
        options += ",modcaps=-mknod:-setfcap:-fsetid"
    return [program, f"--fd={socket_fd}", "-o", options]


def qemu_command(guest: Guest) -> list[str]:
    """Return the whole QEMU command line."""
    argv = [guest.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    if guest.emulator.has_sandbox:
        argv += ["-sandbox", _SANDBOX]
    board = guest.arch.kvm_board if guest.accel == "kvm" else guest.arch.board
    argv += ["-machine", board, "-smp", str(guest.cpus), "-m", f"{guest.memory}M"]
    # One thread emulates all CPUs in turn. With a thread per CPU, a CPU may run the int3 of a code
    # patch after the kernel has finished the patch, and the kernel crashes. Toggling the function
    # tracer on 1,586 functions under load crashed Linux 6.12 within 3 s in 3 of 3 runs (QEMU 7.2).
    # Attaching probes patches code in the same way. A single thread costs 0.3 s per boot.
    argv += ["-accel", "kvm" if guest.accel == "kvm" else "tcg,thread=single"]
    if guest.count_instructions:
        argv += ["-icount", f"shift={_NS_SHIFT},sleep=on"]
    argv += ["-cpu", cpu_model(guest.arch, guest.accel, guest.emulator.version)]
    append = guest.append
    if guest.accel != "kvm":
        # The emulation translates a program's code again for each load address. In a guest of Linux
        # 7.2, "python -S -c pass" takes 0.42 s with random addresses and 0.17 s without.
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
    """Double the commas of ``path``: a single comma ends an option in QEMU's syntax."""
    return str(path).replace(",", ",,")
