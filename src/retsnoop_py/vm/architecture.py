# SPDX-License-Identifier: BSD-2-Clause
"""The architectures a guest can have: what Debian, QEMU and GNU call each, and how it boots.

A kernel of another architecture than the host's is named with it: ``arm64/7.2``.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from retsnoop_py.errors import InputError, UnavailableError

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "host", "qualified", "split"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. ``name`` is what users say, ``machine`` what ``uname -m`` says.

    ``board`` and ``cpu`` are QEMU's -machine and -cpu where it emulates, ``kvm_board`` its
    -machine under KVM; ``console`` is the kernel's name of the first serial port.
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
    #: Where program interpreters lie that are not in /lib.
    libraries: tuple[str, ...] = ("lib",)
    #: For the kernel's command line.
    options: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Whether programs of this machine do not run in such a guest."""
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
            # Page tables of five levels, which few machines use, make each miss of the emulated
            # TLB dearer: without them /proc/kallsyms of Linux 7.2 is read in 0.36 s instead of
            # 0.47. Nor "enhanced" string instructions: the emulator runs them byte by byte, and
            # kernel and C library copy and clear with them wherever the CPU says that they are
            # fast. Without the bit a small trace in 6.12 takes 21.9 billion instructions of the
            # host's instead of 26.1.
            cpu="max,-la57,-erms",
            console="ttyS0",
            libraries=("lib", "lib64"),
            # At boot the kernel waits some milliseconds for ticks. Where the host gives the
            # emulator no time just then it panics: "IO-APIC + timer doesn't work!". Under KVM
            # the kernel leaves this check out by itself.
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
            # Pointers are signed by a hash that is quick to emulate: with the architecture's own
            # one a boot takes 14 s instead of 4 to 7. Addresses of 52 bits are what kernels
            # before 5.19 do not know of, and cost what levels of page tables cost.
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
    """The one called ``name``, also by its Debian or uname name. Raises InputError."""
    if name not in _ALIASES:
        raise InputError(
            f"no architecture called {name}", f"known are {' and '.join(ARCHITECTURES)}"
        )
    return _ALIASES[name]


def host() -> Architecture:
    """This machine's. Raises UnavailableError for one that no guest can have."""
    machine = platform.machine()
    if machine not in _ALIASES:
        raise UnavailableError(
            f"VMs need a host of {' or '.join(ARCHITECTURES)}, and this is {machine}"
        )
    return _ALIASES[machine]


def split(name: str) -> tuple[Architecture, str]:
    """Architecture and name of a kernel called ``name``: ``arm64/7.2``, or ``7.2`` of the host's.

    Raises UnavailableError, see :func:`host`.
    """
    before, slash, rest = name.partition("/")
    if slash and before in _ALIASES:
        return _ALIASES[before], rest
    return host(), name


def qualified(arch: Architecture, name: str) -> str:
    """What the kernel ``name`` of ``arch`` is called here: with its architecture if foreign."""
    return f"{arch.name}/{name}" if arch.is_foreign else name
