# SPDX-License-Identifier: BSD-2-Clause
"""A guest that boots once and runs many commands on the host's own files.

The guest sees the host's whole file system through a writable layer, which is discarded at the
end. Therefore the guest uses the same Python, virtual environment and checkout as the host, under
the same paths. Commands run as root; tracefs, debugfs, bpf and cgroup2 are mounted. Only writes to
the directories in ``shares`` and to :attr:`Machine.share` persist. If the host changes other files
while the guest runs, the guest may not see the changes.
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
from typing import ClassVar, Self, TypeVar

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
from retsnoop_py.vm.folder import writable
from retsnoop_py.vm.initrd import find_busybox
from retsnoop_py.vm.kernels import Kernel, ensure, from_path, is_name, known, split
from retsnoop_py.vm.qemu import find_qemu
from retsnoop_py.vm.userland import Userland, find_program
from retsnoop_py.vm.userland import ensure as ensure_userland

BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
"""The environment every command gets, before what the caller adds."""


#: The start of the guest script's message that no transport works, and the known transports.
_NO_FILES = "cannot mount the host's files"
_TRANSPORTS = {"virtiofs", "9p"}


class Machine:
    """A booted guest, as a context manager.

    ``kernel`` is a known name, a :class:`~retsnoop_py.vm.kernels.Kernel`, or None for the default.
    ``arch`` is x86_64 or arm64, by default the host's; a name such as ``arm64/7.2`` contains the
    architecture itself. ``memory`` is in MiB, ``boot_timeout`` in seconds. ``shares`` are host
    directories that the guest may write, under the same paths. With ``debug``, the kernel's DWARF
    is fetched and appears in the guest's /usr/lib/debug. ``kernel_options`` extend the kernel's
    command line.

    Entering boots the guest. It raises BootFailed, InputError, or UnavailableError if QEMU, busybox
    or the network is missing.
    """

    #: What :meth:`start` returns; a subclass may have commands of its own.
    command_type: ClassVar[type[Command]] = Command

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
        #: The command line that starts retsnoop-py in the guest.
        self.program = package.program()
        #: The files of a guest with another architecture; None if the guest uses the host's files.
        self.userland: Userland | None = None
        #: The guest's architecture after the boot; before, the host's.
        self.arch = host()
        self._debug = debug
        self._kernel_options = tuple(kernel_options)
        #: Set this before entering. The guest is then emulated, and its clock counts instructions
        #: while it is busy. Its measurements do not depend on the host's load.
        self.count_instructions = False
        self._extra_shares = [writable(path) for path in shares]
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
        """End the guest at once. Files that the guest wrote outside the shares are lost."""
        if self._host:
            self._host.close()

    def kill(self) -> None:
        """End the guest from any thread; the thread that entered the machine still closes it."""
        if self._host:
            self._host.kill()

    def reboot(self) -> None:
        """End the guest if it still runs, and boot a new guest with a new :attr:`share`.

        Raises the same errors as entering.
        """
        self.close()
        self._boot()

    @property
    def share(self) -> Path:
        """A directory that host and guest can write, under the same path; removed at the end."""
        return self._booted.share

    def new_folder(self, name: str) -> tuple[Path, JobFiles]:
        """Create a folder in :attr:`share`; return its path in the guest, and its files.

        The host must write only these files: the guest can replace any path below the share.
        """
        host = self._booted
        return host.jobs / name, JobFiles(host.jobs_fd, name)

    @property
    def console(self) -> str:
        """The text on the guest's console so far."""
        return self._host.console if self._host else ""

    @property
    def signals(self) -> Channel:
        """The channel that sends signals to commands; see :meth:`Command.send_signal`."""
        return self._signals

    @property
    def stdin(self) -> socket.socket:
        """The socket for the input of a command started with ``live_stdin``.

        A shutdown for writing means end-of-file, so only one command per boot can use the socket.
        """
        return self._booted.stdin

    def alive(self) -> bool:
        """Return True if the guest still runs."""
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

        ``env`` is added to :data:`BASE_ENV`; ``cwd`` defaults to the caller's directory. The
        command reads ``stdin``, or the data sent to :attr:`stdin` with ``live_stdin``, else
        end-of-file. Raises VmError if four commands already run, KernelCrashed if the guest has
        ended.
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
        return self.command_type(self, lane, self._jobs, files, argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = 120.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        """Run a command and return its result; see :meth:`start`. ``timeout`` is in seconds.

        A machine that has not been entered boots only for this command. Raises VmTimeout or
        KernelCrashed; a nonzero exit status of the command raises no error.
        """
        if self._host is None:
            with self:
                return self.start(argv, env=env, cwd=cwd, stdin=stdin).wait(timeout)
        return self.start(argv, env=env, cwd=cwd, stdin=stdin).wait(timeout)

    def kernel_log(self) -> str:
        """Return the guest kernel's whole log, as dmesg prints it."""
        return self.run(["/run/retsnoop-vm/busybox", "dmesg"]).out

    def crash(self, result: Result | None) -> KernelCrashed:
        """Return an error that explains why the guest has ended; the caller raises it."""
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
        """Add ``lane`` to the free lanes; called by the command that used it."""
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
            if not self._debug:  # the guest's files must not depend on the cache
                kernel = replace(kernel, debug=None)
        self.release, self.arch = kernel.release, kernel.arch
        if kernel.arch.is_foreign:
            beside = [kernel.modules, kernel.debug, Path.cwd()]
            self.userland = ensure_userland(kernel.arch, [path for path in beside if path])
            self.program = self.userland.command("retsnoop_py.cli.start:program")
        self._launch(kernel, [])
        self.boot_seconds = time.monotonic() - begin

    def _launch(self, kernel: Kernel, without: list[str]) -> None:
        """Boot with a transport that the kernel supports.

        For some of the user's own kernels, only a boot shows which transport is supported. If the
        first transport does not work, try the other.
        """
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
    """Return the default number of parallel guests: the CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def prepare(names: Sequence[str]) -> list[tuple[str, Kernel]]:
    """Return the kernels with these names, or the kernel images at these paths.

    Kernels that are not in the cache are fetched. If a name is unknown, no kernel is fetched.
    Raises InputError for an unknown name, DataError for a file that is not a kernel image,
    UnavailableError if a kernel cannot be fetched or QEMU is missing.
    """
    images = {name: _image(name) for name in names}
    for name, image in images.items():
        _check_installed(image.arch if image else split(name)[0])
    return [(name, image or ensure(name)) for name, image in images.items()]


def _check_installed(arch: Architecture) -> None:
    """Raise UnavailableError before any download if a program for guests of ``arch`` is missing."""
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
    """Boot each kernel and call ``visit`` with the guest; ``jobs`` guests run at once, in threads.

    Yield each kernel's name with the result of ``visit``, in the order of ``kernels``. After a
    VmError or an UnavailableError (a kernel that cannot be a guest), yield the result of ``failed``
    instead. Other errors of ``visit`` are raised. Closing the generator ends all guests.
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
                    wait([future], timeout=_POLL_S)  # signals are handled between two waits
                result = future.result()
                assert result is not None
                yield name, result
        finally:
            guests.end(running)


class _Guests:
    """The running guests, which another thread can kill.

    Only a guest's own thread closes the guest. Otherwise its files and descriptors could be removed
    or reused while the thread still uses them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machines: list[Machine] = []
        self._is_over = False

    def enter(self, machine: Machine) -> bool:
        """Add ``machine`` before its boot; return False if it must not boot any more."""
        with self._lock:
            if not self._is_over:
                self._machines.append(machine)
            return not self._is_over

    def leave(self, machine: Machine) -> None:
        with self._lock:
            if machine in self._machines:
                self._machines.remove(machine)

    def end(self, running: Sequence[Future[T | None]]) -> None:
        """Kill all guests, including guests that still boot, and wait for their threads."""
        with self._lock:
            self._is_over = True
        for future in running:
            future.cancel()
        while any(not future.done() for future in running):
            with self._lock:
                for machine in self._machines:
                    machine.kill()
            wait(running, timeout=_POLL_S)
