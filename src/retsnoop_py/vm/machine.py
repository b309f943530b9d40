# SPDX-License-Identifier: BSD-2-Clause
"""A guest that boots once and runs many commands on the host's own files.

The guest sees the host's whole file system through a layer that is thrown away afterwards, so
the same Python, virtual environment and checkout are there, under the same paths. It is root in
there, with tracefs, debugfs, bpf and cgroup2 mounted. Only the directories in ``shares``, and
:attr:`Machine.share`, can be written for good; what the host changes elsewhere while the guest
runs may not be seen in it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from retsnoop_py import package
from retsnoop_py.errors import RetsnoopError, UnavailableError
from retsnoop_py.vm import kernels
from retsnoop_py.vm.architecture import Architecture, host
from retsnoop_py.vm.boot import LANES, Host
from retsnoop_py.vm.command import Channel, Command, JobFiles, job_script, release_told
from retsnoop_py.vm.errors import (
    BootFailed,
    KernelCrashed,
    Result,
    VmError,
    crash_reason,
    own_complaint,
    tail,
)
from retsnoop_py.vm.initrd import find_busybox
from retsnoop_py.vm.kernels import Kernel, ensure, from_path, is_name, known, split
from retsnoop_py.vm.qemu import find_qemu
from retsnoop_py.vm.userland import PYTHON, Userland, find_program
from retsnoop_py.vm.userland import ensure as ensure_userland

BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
"""The environment every command gets, before what the caller adds."""


#: How the guest's script begins to tell that no transport works, and what there is of them.
_NO_FILES = "cannot mount the host's files"
_TRANSPORTS = {"virtiofs", "9p"}


class Machine:
    """A booted guest, as a context manager.

    ``kernel`` is a known name, a :class:`~retsnoop_py.vm.kernels.Kernel` or None for the
    default; ``arch`` is x86_64 or arm64, the host's by default: of a name, ``arm64/7.2`` says the
    same. ``memory`` is in MiB, ``boot_timeout`` in seconds; ``shares`` are host directories
    the guest may write, under the same paths. With ``debug`` the kernel's DWARF is fetched and
    lies in the guest's /usr/lib/debug. ``kernel_options`` extend the kernel's command line.

    Entering raises BootFailed, UnavailableError (QEMU, busybox, network missing) or InputError.
    """

    def __init__(  # noqa: PLR0913 - one parameter per property
        self,
        kernel: str | kernels.Kernel | None = None,
        *,
        arch: str | None = None,
        memory: int = 3072,
        cpus: int = 2,
        shares: Sequence[Path] = (),
        boot_timeout: float = 90.0,
        debug: bool = False,
        kernel_options: Sequence[str] = (),
    ) -> None:
        self.boot_timeout = boot_timeout
        self.boot_seconds = 0.0
        self.release = ""
        self._memory = memory
        self._cpus = cpus
        self._wanted = kernel or kernels.DEFAULT
        if arch is not None and isinstance(self._wanted, str):
            self._wanted = kernels.of_architecture(self._wanted, arch)
        #: The words that start retsnoop-py in the guest.
        self.program = package.program()
        #: What a guest of another architecture has for its files; None for one that has the host's.
        self.userland: Userland | None = None
        #: The guest's, once it is booted.
        self.arch = host()
        self._debug = debug
        self._kernel_options = tuple(kernel_options)
        #: Set before entering: the guest is emulated, and while it has something to do its clock
        #: counts instructions. What it measures does not depend then on what else the host does.
        self.count_instructions = False
        self._extra_shares = [path.resolve() for path in shares]
        self._host: Host | None = None
        self._lanes: list[Channel] = []
        self._jobs = 0

    def __enter__(self) -> Self:
        try:
            self._boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the guest at once; its layer, and all it wrote outside the shares, is gone."""
        if self._host:
            self._host.close()

    def kill(self) -> None:
        """End the guest from any thread; the one that entered the machine still closes it."""
        if self._host:
            self._host.kill()

    def reboot(self) -> None:
        """End the guest, if it is still there, and boot a new one; :attr:`share` is a new one too.

        Raises what entering raises.
        """
        self.close()
        self._boot()

    @property
    def share(self) -> Path:
        """A directory both sides can write, under the same path; gone with the machine."""
        return self._booted.share

    @property
    def console(self) -> str:
        """What the guest's console has shown so far."""
        return self._host.console if self._host else ""

    @property
    def signals(self) -> Channel:
        """The channel that takes signals for commands; see :meth:`Command.send_signal`."""
        return self._signals

    @property
    def stdin(self) -> socket.socket:
        """Where to send the input of a command started with ``live_stdin``.

        Shutting it down for writing is end-of-file, so only one command can be fed.
        """
        return self._booted.stdin

    def alive(self) -> bool:
        """Whether the guest is still there."""
        return self._host is not None and self._host.alive()

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        live_stdin: bool = False,
    ) -> Command:
        """Start a command as root and return without waiting.

        ``env`` is added to :data:`BASE_ENV`; ``cwd`` defaults to the caller's own; without
        ``stdin`` it reads end-of-file, unless ``live_stdin``: then what is sent to
        :attr:`stdin`. At most four commands run at once (VmError). Raises KernelCrashed if the
        guest is gone.
        """
        if not self.alive():
            raise self.crash(None)
        if not self._lanes:
            raise VmError(f"{LANES} commands are already running in this guest, which is the limit")
        lane = self._lanes.pop()
        self._jobs += 1
        files = JobFiles(self._booted.jobs_fd, str(self._jobs))
        own = self.userland.env if self.userland else {}
        script = job_script(argv, {**BASE_ENV, **own, **(env or {})}, cwd or Path.cwd())
        files.write("script", script)
        if stdin is not None:
            files.write("stdin", stdin)
        elif live_stdin:
            files.write("live", b"")
        return Command(self, lane, self._jobs, files, argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = 120.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        """Run a command to its end; see :meth:`start`. ``timeout`` is in seconds.

        A machine that has not been entered is booted for this command alone. Raises VmTimeout or
        KernelCrashed; any exit status of the command itself is a result.
        """
        if self._host is None:
            with self:
                return self.start(argv, env=env, cwd=cwd, stdin=stdin).wait(timeout)
        return self.start(argv, env=env, cwd=cwd, stdin=stdin).wait(timeout)

    def kernel_log(self) -> str:
        """The guest kernel's whole log, as dmesg prints it."""
        return self.run(["/run/retsnoop-vm/busybox", "dmesg"]).out

    def crash(self, result: Result | None) -> KernelCrashed:
        """The error that tells why the guest is gone, for raising."""
        text = self.console
        ended = self._host.reason if self._host else ""
        if ended:
            message = f"the guest with Linux {self.release} was ended: {ended}"
            return KernelCrashed(message, "free some space, or set TMPDIR", text, result)
        reason = crash_reason(text) or "QEMU ended, and the console shows no reason"
        return KernelCrashed(
            f"Linux {self.release} crashed: {reason}",
            "the last lines of its console:\n" + tail(text),
            console=text,
            result=result,
        )

    def release_lane(self, lane: Channel) -> None:
        """Give a lane back; called by the command that ran on it."""
        self._lanes.append(lane)

    @property
    def _booted(self) -> Host:
        if self._host is None:
            raise VmError("this machine is not running")
        return self._host

    def _boot(self) -> None:
        begin = time.monotonic()
        kernel = self._wanted
        if isinstance(kernel, kernels.Kernel):
            _check_installed(kernel.arch)
        else:
            _check_installed(split(kernel)[0])
            kernel = kernels.ensure(kernel, self._debug)
            if not self._debug:  # what the guest sees must not depend on the cache
                kernel = replace(kernel, debug=None)
        self.release, self.arch = kernel.release, kernel.arch
        if kernel.arch.is_foreign:
            beside = [kernel.modules, kernel.debug, Path.cwd()]
            self.userland = ensure_userland(kernel.arch, [path for path in beside if path])
            self.program = [PYTHON, "-P", "-m", "retsnoop_py"]
        self._launch(kernel, [])
        self.boot_seconds = time.monotonic() - begin

    def _launch(self, kernel: Kernel, without: list[str]) -> None:
        """Boot with the transport that the kernel has; only a boot tells for some of one's own."""
        self._lanes = []
        booted = self._host = Host(
            self._memory, self._cpus, count_instructions=self.count_instructions
        )
        booted.launch(kernel, self._extra_shares, self.userland, self._kernel_options, without)
        self._signals = booted.channel("signals")
        try:
            self._await_lanes(booted, time.monotonic() + self.boot_timeout)
        except BootFailed as first:
            if not booted.other_transport or _NO_FILES not in first.message:
                raise
            self.close()
            try:
                self._launch(kernel, [*without, *_TRANSPORTS - {booted.other_transport}])
            except BootFailed as second:
                reason = first.message.partition(_NO_FILES)[2]
                message = second.message.replace(_NO_FILES, _NO_FILES + reason)
                raise BootFailed(message, second.hint, console=second.console) from None

    def _await_lanes(self, host: Host, deadline: float) -> None:
        waiting = [host.channel(f"lane{number}") for number in range(LANES)]
        while waiting:
            for lane in list(waiting):
                ready = [line for line in lane.lines() if line.startswith("ready ")]
                if ready:
                    self.release = release_told(ready[0])
                    waiting.remove(lane)
                    self._lanes.append(lane)
            if not host.alive():
                raise self._boot_failure(host, "QEMU ended")
            if time.monotonic() > deadline:
                raise self._boot_failure(host, f"it was not up after {self.boot_timeout:g} s")
            time.sleep(0.01)

    def _boot_failure(self, host: Host, what: str) -> BootFailed:
        text = host.console
        reason = own_complaint(text) or crash_reason(text) or what
        seen = tail(text) or "(nothing)"
        hint = "\n".join(filter(None, ["the last lines of its console:", seen, host.logs()]))
        return BootFailed(f"Linux {self.release} did not boot: {reason}", hint, console=text)


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
    for name, image in images.items():
        _check_installed(image.arch if image else split(name)[0])
    return [(name, image or ensure(name)) for name, image in images.items()]


def _check_installed(arch: Architecture) -> None:
    """Raise UnavailableError, before anything is downloaded, for what guests of ``arch`` lack."""
    find_qemu(arch)
    if arch.is_foreign:
        find_program(arch)
    else:
        find_busybox()


def _image(name: str) -> Kernel | None:
    if is_name(name):
        known(name)
        return None
    return from_path(package.expanded(name), None)


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
    """Those that are up, to be ended by another thread than theirs.

    Each is closed by its own thread alone: what it uses of the host must not be gone, or something
    else under the same descriptor, while it still runs.
    """

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
                    machine.kill()
            wait(running, timeout=_POLL_S)
