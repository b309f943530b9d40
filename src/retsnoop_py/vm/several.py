# SPDX-License-Identifier: BSD-2-Clause
"""The same on several kernels: a guest for each, some at a time, results in the kernels' order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from retsnoop_py.errors import RetsnoopError, UnavailableError
from retsnoop_py.vm.errors import VmError
from retsnoop_py.vm.initrd import find_busybox
from retsnoop_py.vm.kernels import Kernel, ensure, from_path, known
from retsnoop_py.vm.machine import Machine
from retsnoop_py.vm.qemu import find_qemu

__all__ = ["guests_at_a_time", "in_guests", "prepare"]

T = TypeVar("T")

_POLL_S = 0.2


def guests_at_a_time() -> int:
    """One per core that we may use."""
    return len(os.sched_getaffinity(0))


def prepare(names: Sequence[str]) -> list[tuple[str, Kernel]]:
    """The kernels called so, or the images at these paths; fetched if not in the cache.

    Nothing is fetched where one of them is not known. Raises InputError for that, DataError for a
    file that is no image, UnavailableError where one cannot be fetched, or without QEMU.
    """
    images = {name: _image(name) for name in names}
    find_qemu()
    find_busybox()
    return [(name, image or ensure(name)) for name, image in images.items()]


def _image(name: str) -> Kernel | None:
    if "/" in name or Path(name).is_file():
        return from_path(Path(name).expanduser(), None)
    known(name)
    return None


def in_guests(
    kernels: Sequence[tuple[str, Kernel]],
    visit: Callable[[str, Machine], T],
    failed: Callable[[str, Kernel, RetsnoopError], T],
    jobs: int,
) -> Generator[tuple[str, T]]:
    """Boot each kernel and have ``visit`` use the guest, ``jobs`` at a time, each in a thread.

    Gives what it returns, or what ``failed`` makes of a guest that went wrong (VmError, or
    UnavailableError for a kernel that cannot be a guest), in the order of ``kernels``. Closing this
    ends all guests. Raises what else ``visit`` raises.
    """
    jobs = max(1, min(jobs, len(kernels)))
    cpus = max(1, min(4, guests_at_a_time() // jobs))
    guests = _Guests()

    def one(name: str, kernel: Kernel) -> T | None:
        machine = Machine(kernel, cpus=cpus)
        try:
            if not guests.enter(machine):
                return None
            with machine:
                return visit(name, machine)
        except (VmError, UnavailableError) as error:
            return failed(name, kernel, error)
        finally:
            guests.leave(machine)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: list[Future[T | None]] = []
        try:
            running = [pool.submit(one, *each) for each in kernels]
            for (name, _), future in zip(kernels, running, strict=True):
                while not future.done():
                    wait([future], timeout=_POLL_S)  # a signal is heard in between
                result = future.result()
                assert result is not None
                yield name, result
        finally:
            guests.end(running)


class _Guests:
    """Those that are up, to be ended by another thread than theirs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machines: list[Machine] = []
        self._is_over = False

    def enter(self, machine: Machine) -> bool:
        """Note one before it boots; False if it must not any more."""
        with self._lock:
            if not self._is_over:
                self._machines.append(machine)
            return not self._is_over

    def leave(self, machine: Machine) -> None:
        with self._lock:
            if machine in self._machines:
                self._machines.remove(machine)

    def end(self, running: Sequence[Future[T | None]]) -> None:
        """End all, those that are being booted too, and wait until they are gone."""
        with self._lock:
            self._is_over = True
        for future in running:
            future.cancel()
        while any(not future.done() for future in running):
            with self._lock:
                for machine in self._machines:
                    machine.close()
            wait(running, timeout=_POLL_S)
