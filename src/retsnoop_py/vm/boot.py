# SPDX-License-Identifier: BSD-2-Clause
"""The host's side of a guest: its folder, the processes behind it and the channels into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm import initrd, kernels, qemu
from retsnoop_py.vm.channel import Channel
from retsnoop_py.vm.modules import ModuleTree

__all__ = ["LANES", "Host", "plan_modules"]

LANES = 4
"""How many commands can run in a guest at the same time."""

_PREFIX = "rsn-vm-"
PORTS = (*(f"lane{number}" for number in range(LANES)), "signals", "stdin")

# loglevel 5 shows warnings; an oops is made a panic so that it cannot go unnoticed, and a panic
# ends QEMU at once
_APPEND = "console=ttyS0 loglevel=5 oops=panic panic=-1"


def plan_modules(
    kernel: kernels.Kernel, have_virtiofsd: bool
) -> tuple[list[str], list[tuple[str, bytes]]]:
    """How the guest reaches the host's files, and the modules /init must insert for that.

    virtiofs where the kernel has it and the daemon is installed, else 9p. Without a module tree
    everything is taken to be built in, and the guest tries both. Raises UnavailableError where
    neither way is open.
    """
    if kernel.modules is None:
        return (["virtiofs", "9p"] if have_virtiofsd else ["9p"]), []
    tree = ModuleTree(kernel.modules)
    common = ["virtio_pci", "virtio_console", "overlay"]
    if tree.has("virtiofs") and have_virtiofsd:
        return ["virtiofs"], tree.load_order([*common, "virtiofs"])
    # a kernel of one's own may have everything built in and no modules.builtin to say so
    if tree.has("9p") or not tree.builtin:
        return ["9p"], tree.load_order([*common, "9pnet_virtio", "9p"])
    raise UnavailableError(
        f"Linux {kernel.release} has no 9p, and virtiofsd, for its virtiofs, is not installed "
        "or not run as root",
        "as root, install virtiofsd (in Debian 12 it comes with qemu-system-common), or take the "
        "ordinary flavour of the kernel, such as --kernel 6.12-full",
    )


def _accelerator() -> str:
    return qemu.accelerator(Path("/proc/cpuinfo").read_text())


class Host:
    """What one guest needs on the host; :meth:`close` ends and removes all of it.

    ``share`` is a directory both sides can write, under the same path.
    """

    def __init__(self, memory: int, cpus: int, *, count_instructions: bool = False) -> None:
        self.memory = memory
        self.cpus = cpus
        self._count_instructions = count_instructions
        self._cleanup = contextlib.ExitStack()
        self._sockets: dict[str, socket.socket] = {}
        self._process: subprocess.Popen[bytes] | None = None
        _sweep(Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        self._cleanup.callback(shutil.rmtree, self._folder, ignore_errors=True)
        # tells others that the folder is in use; the kernel drops it however we end
        held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.share = self._folder / "share"
        self.jobs = self.share / ".jobs"
        self.jobs.mkdir(parents=True)
        self._console = self._folder / "console"

    def close(self) -> None:
        """Kill the guest and remove its folder."""
        self._cleanup.close()

    @property
    def console(self) -> str:
        """What the guest's console has shown so far."""
        try:
            return self._console.read_text(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def logs(self) -> str:
        """What QEMU and the daemons said that looks like a complaint, one line each."""
        return "\n".join(
            f"{log.stem}: {line.strip()}"
            for log in sorted(self._folder.glob("*.log"))
            for line in log.read_text(errors="replace").splitlines()
            # virtiofsd in C tells of every queue it starts
            if log.stem == "qemu" or "rror" in line or "annot" in line or "ailed" in line
        )

    def alive(self) -> bool:
        """Whether the guest is still there."""
        return self._process is not None and self._process.poll() is None

    def channel(self, port: str) -> Channel:
        """The line-based channel to the guest's ``port``."""
        return Channel(self._sockets[port])

    @property
    def stdin(self) -> socket.socket:
        """The raw channel behind live input."""
        return self._sockets["stdin"]

    def launch(self, kernel: kernels.Kernel, writable: Sequence[Path]) -> None:
        """Start the daemons and QEMU; does not wait for the guest to come up.

        Raises UnavailableError if something is not installed.
        """
        program, busybox = qemu.find_qemu(), initrd.find_busybox()
        daemon = qemu.find_virtiofsd()
        transports, loads = plan_modules(kernel, daemon is not None)
        shares = self._shares(writable)
        image = self._folder / "initrd"
        image.write_bytes(
            initrd.build_initrd(
                busybox.read_bytes(),
                loads,
                self._config(kernel, transports, shares),
                {
                    "init": initrd.guest_script("guest_init.sh"),
                    "agent": initrd.guest_script("guest_agent.sh"),
                },
            )
        )
        guest = qemu.Guest(
            qemu=program,
            image=kernel.image,
            initrd=image,
            append=_APPEND,
            memory=self.memory,
            cpus=self.cpus,
            console=self._console,
            shares=shares,
            transports=transports,
            ports=[(name, self._port(name)) for name in PORTS],
            accel="tcg" if self._count_instructions else _accelerator(),
            qemu_version=qemu.installed_version(program),
            count_instructions=self._count_instructions,
        )
        if daemon and "virtiofs" in transports:
            for share in shares:
                self._start_daemon(daemon, share)
        self._process = self._spawn(
            qemu.qemu_command(guest), [fd for _, fd in guest.ports], "qemu.log"
        )

    def _shares(self, writable: Sequence[Path]) -> list[qemu.Share]:
        root = qemu.Share("root", Path("/"), self._folder / "root.sock")
        return [
            root,
            *(
                qemu.Share(f"share{number}", path, self._folder / f"share{number}.sock", True)
                for number, path in enumerate([self.share, *writable])
            ),
        ]

    def _config(
        self, kernel: kernels.Kernel, transports: Sequence[str], shares: Sequence[qemu.Share]
    ) -> str:
        """The shell variables the guest's scripts read."""
        values = {
            "root_tag": "root",
            "transports": " ".join(transports),
            "shares": " ".join(f"{each.tag}={quote(str(each.path))}" for each in shares[1:]),
            "modules": str(kernel.modules or ""),
            "debug": str(kernel.debug or ""),
            "host_name": "retsnoop-vm",
            "jobs": str(self.jobs),
        }
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())

    def _port(self, name: str) -> int:
        """Open a channel for the guest's port ``name``; the descriptor of QEMU's end."""
        ours, theirs = socket.socketpair()
        self._sockets[name] = ours
        self._cleanup.callback(ours.close)
        self._cleanup.callback(theirs.close)
        return theirs.fileno()

    def _start_daemon(self, program: str, share: qemu.Share) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(share.socket))
            listener.listen(1)
            argv = qemu.virtiofsd_command(program, share, listener.fileno())
            self._spawn(argv, [listener.fileno()], f"virtiofsd-{share.tag}.log")

    def _spawn(self, argv: list[str], fds: Sequence[int], log: str) -> subprocess.Popen[bytes]:
        # no QEMU shall outlive a test run that was killed
        if shutil.which("setpriv"):
            argv = ["setpriv", "--pdeathsig", "KILL", *argv]
        with (self._folder / log).open("wb") as output:
            process = subprocess.Popen(
                argv,
                pass_fds=tuple(fds),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal is for the command in the guest, not for QEMU
                start_new_session=True,
            )
        self._cleanup.callback(_end, process)
        return process


def _sweep(base: Path, age: float = 60.0) -> None:
    """Remove the folders that killed runs left in ``base``, older than ``age`` seconds."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another's, or gone by now
            if time.time() - folder.stat().st_mtime < age:
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
