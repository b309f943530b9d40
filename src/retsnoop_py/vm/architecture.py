# SPDX-License-Identifier: BSD-2-Clause
"""The supported guest architectures: their names in Debian, QEMU and GNU, and boot options.

If a kernel's architecture is not the host's, its name contains the architecture: ``arm64/7.2``.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from retsnoop_py.errors import InputError, UnavailableError

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "host", "qualified", "split"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. ``name`` is the name for users, ``machine`` the output of ``uname -m``.

    ``board`` and ``cpu`` are QEMU's -machine and -cpu for emulation, ``kvm_board`` is the -machine
    for KVM. ``console`` is the kernel's name of the first serial port.
    """

    name: str
    machine: str
    debian: str
    gnu: str
    qemu: str
    package: str
    board: str
    kvm_board: str
    cpu: str
    console: str
    #: Folders of program interpreters outside /lib.
    libraries: tuple[str, ...] = ("lib",)
    #: Options for the kernel's command line.
    options: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """True if the host's programs do not run in a guest of this architecture."""
        return self.machine != platform.machine()


ARCHITECTURES = {
    one.name: one
    for one in (
        Architecture(
            name="x86_64",
            machine="x86_64",
            debian="amd64",
            gnu="x86_64-linux-gnu",
            qemu="qemu-system-x86_64",
            package="qemu-system-x86",
            board="q35",
            kvm_board="q35",
            # Few machines use five-level page tables, which slow down each miss of the emulated
            # TLB: reading /proc/kallsyms of Linux 7.2 takes 0.36 s without them, 0.47 s with
            # them. The emulator runs "enhanced" string instructions byte by byte, but kernel and
            # C library use them to copy and clear memory if the CPU reports them as fast.
            # Without the CPU bit, a small trace in Linux 6.12 needs 21.9 billion host
            # instructions instead of 26.1 billion.
            cpu="max,-la57,-erms",
            console="ttyS0",
            libraries=("lib", "lib64"),
            # At boot, the kernel waits some milliseconds for timer ticks. If the host does not run
            # the emulator during this time, the kernel panics: "IO-APIC + timer doesn't work!".
            # Under KVM, the kernel skips this check.
            options=("no_timer_check",),
        ),
        Architecture(
            name="arm64",
            machine="aarch64",
            debian="arm64",
            gnu="aarch64-linux-gnu",
            qemu="qemu-system-aarch64",
            package="qemu-system-arm",
            board="virt,gic-version=3",
            kvm_board="virt,gic-version=host",
            # Pointer signing uses a hash that is quick to emulate: with the architecture's own
            # hash, a boot takes 14 s instead of 4 to 7 s. Kernels before 5.19 do not support
            # 52-bit addresses, which also need more levels of page tables.
            cpu="max,pauth-impdef=on,lpa2=off",
            console="ttyAMA0",
        ),
    )
}
"""By name. The first is the one whose kernels lie in the cache without its name."""

_ALIASES = {
    alias: one for one in ARCHITECTURES.values() for alias in (one.name, one.machine, one.debian)
}


def architecture(name: str) -> Architecture:
    """Return the architecture ``name``, or with this Debian or uname name. Raises InputError."""
    if name not in _ALIASES:
        raise InputError(
            f"no architecture called {name}", f"known are {' and '.join(ARCHITECTURES)}"
        )
    return _ALIASES[name]


def host() -> Architecture:
    """Return the host's architecture. Raises UnavailableError if guests do not support it."""
    machine = platform.machine()
    if machine not in _ALIASES:
        raise UnavailableError(
            f"VMs need a host of {' or '.join(ARCHITECTURES)}, and this is {machine}"
        )
    return _ALIASES[machine]


def split(name: str) -> tuple[Architecture, str]:
    """Split a kernel's name into architecture and name: ``arm64/7.2``; ``7.2`` is for the host.

    Raises UnavailableError, see :func:`host`.
    """
    before, slash, rest = name.partition("/")
    if slash and before in _ALIASES:
        return _ALIASES[before], rest
    return host(), name


def qualified(arch: Architecture, name: str) -> str:
    """Return the full name of kernel ``name``: with ``arch`` if that is not the host's."""
    return f"{arch.name}/{name}" if arch.is_foreign else name
