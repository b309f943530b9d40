# SPDX-License-Identifier: BSD-2-Clause
"""The host's side of a guest: its folder, the processes behind it and the channels into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from retsnoop_py.errors import OutputError, UnavailableError, no_proc
from retsnoop_py.package import is_one_file, python
from retsnoop_py.vm import initrd, kernels, qemu, read_only
from retsnoop_py.vm.architecture import Architecture
from retsnoop_py.vm.command import Channel
from retsnoop_py.vm.debian import undisturbed
from retsnoop_py.vm.initrd import ModuleTree
from retsnoop_py.vm.userland import Userland

__all__ = ["LANES", "Host", "capabilities_to_drop", "plan_modules", "view_obstacle"]

LANES = 4
"""How many commands can run in a guest at the same time."""

_PREFIX = "rsn-vm-"
_CAP_SETPCAP, _CAP_MKNOD = 8, 27
#: Modules that every guest needs, and those behind each way to the host's files.
_COMMON = ("virtio_pci", "virtio_console", "overlay")
_DRIVERS = {"virtiofs": ("virtiofs",), "9p": ("9pnet_virtio", "9p")}
PORTS = (*(f"lane{number}" for number in range(LANES)), "signals", "stdin")

# loglevel 5 shows warnings; an oops is made a panic so that it cannot go unnoticed, and a panic
# ends QEMU at once
_APPEND = "loglevel=5 oops=panic panic=-1"


def plan_modules(
    kernel: kernels.Kernel, obstacle: str = ""
) -> tuple[list[str], list[tuple[str, bytes]]]:
    """How the guest reaches the host's files, and the modules /init must insert for that.

    virtiofs where the kernel has it and the host too (``obstacle`` says why not), else 9p. Where
    nothing tells what is built in, the guest tries both. Raises UnavailableError where neither way
    is open.
    """
    usable = ["9p"] if obstacle else ["virtiofs", "9p"]
    if kernel.modules is None:
        return usable, []
    tree = ModuleTree(kernel.modules)
    if tree.builtin:  # a kernel of one's own may have no modules.builtin
        usable = [name for name in usable if all(map(tree.has, _DRIVERS[name]))][:1]
    if not usable:
        raise _no_way(kernel, tree.has("virtiofs"), obstacle)
    wanted = [*_COMMON, *(driver for name in usable for driver in _DRIVERS[name])]
    return usable, tree.load_order(wanted)


def _no_way(kernel: kernels.Kernel, has_virtiofs: bool, obstacle: str) -> UnavailableError:
    if has_virtiofs:
        return UnavailableError(
            f"Linux {kernel.release} has no 9p, and its virtiofs cannot be used: {obstacle}",
            "as root, with CAP_SYS_ADMIN, install virtiofsd (in Debian 12 it comes with "
            "qemu-system-common), or take the ordinary flavour of the kernel, such as "
            "--on 6.12-full",
        )
    return UnavailableError(
        f"Linux {kernel.release} cannot see the host's files: neither virtiofs nor 9p is built in "
        f"or among the modules in {kernel.modules}",
        "configure it with CONFIG_VIRTIO_FS, or with CONFIG_NET_9P_VIRTIO and CONFIG_9P_FS",
    )


def view_obstacle(folder: Path) -> str:
    """Why no daemon can be given a read-only view of the host's files; "" if it can.

    ``folder`` is where a directory for a trial can be made.
    """
    view = folder / "trial"
    view.mkdir()
    done = subprocess.run(_in_view(view, []), check=False, capture_output=True, text=True)
    view.rmdir()
    return done.stderr.strip() if done.returncode else ""


def _in_view(view: Path, argv: list[str]) -> list[str]:
    # -S: no site-packages, a tenth of a second faster
    script = ["-m", read_only.__name__] if is_one_file() else [str(Path(read_only.__file__))]
    return [*python(), "-S", *script, str(view), *argv]


def _accelerator(arch: Architecture) -> str:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except FileNotFoundError:
        raise no_proc("a guest cannot be booted") from None
    return qemu.accelerator(arch, cpuinfo)


class Host:
    """What one guest needs on the host; :meth:`close` ends and removes all of it.

    One thread uses and closes it. Others may call :meth:`kill`.

    ``share`` is a directory both sides can write, under the same path.
    """

    def __init__(self, memory: int, cpus: int, *, count_instructions: bool = False) -> None:
        self.memory = memory
        self.cpus = cpus
        self._count_instructions = count_instructions
        self._cleanup = contextlib.ExitStack()
        self._sockets: dict[str, socket.socket] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = _make_folder()
        self._cleanup.callback(shutil.rmtree, self._folder, ignore_errors=True)
        # tells others that the folder is in use; the kernel drops it however we end
        held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.share = self._folder / "share"
        self.jobs = self.share / ".jobs"
        self.jobs.mkdir(parents=True)
        self.jobs_fd = os.open(self.jobs, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, self.jobs_fd)
        self._console = self._folder / "console"

    def close(self) -> None:
        """Kill the guest and, once it has ended, remove its folder. Idempotent."""
        self._cleanup.close()

    def kill(self) -> None:
        """Kill the guest, if it was started, and leave the rest to :meth:`close`."""
        if self._process is not None:
            self._process.kill()

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

    def launch(
        self,
        kernel: kernels.Kernel,
        writable: Sequence[Path],
        userland: Userland | None = None,
        kernel_options: Sequence[str] = (),
    ) -> None:
        """Start the daemons and QEMU; does not wait for the guest to come up.

        ``userland`` is what a guest of another architecture than the host's has for its files;
        ``kernel_options`` are appended to the kernel's command line.
        Raises UnavailableError if something is not installed.
        """
        program = qemu.find_qemu(kernel.arch)
        busybox = userland.busybox if userland else initrd.find_busybox()
        held = kernels.hold(kernel)
        if held is not None:
            self._cleanup.callback(os.close, held)
        if userland is not None:
            self._cleanup.callback(os.close, userland.hold())
        daemon = qemu.find_virtiofsd()
        obstacle = "virtiofsd is not installed, or not run as root"
        if daemon:
            obstacle = view_obstacle(self._folder)
        transports, loads = plan_modules(kernel, obstacle)
        shares = self._shares(writable)
        image = self._folder / "initrd"
        image.write_bytes(
            initrd.build_initrd(
                busybox.read_bytes(),
                loads,
                self._config(kernel, transports, shares) + _layers(userland),
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
            append=" ".join([f"console={kernel.arch.console}", _APPEND, *kernel_options]),
            memory=self.memory,
            cpus=self.cpus,
            console=self._console,
            shares=shares,
            transports=transports,
            ports=[(name, self._port(name)) for name in PORTS],
            accel="tcg" if self._count_instructions else _accelerator(kernel.arch),
            qemu_version=qemu.installed_version(program),
            count_instructions=self._count_instructions,
            arch=kernel.arch,
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
            if share.writable:
                argv = qemu.virtiofsd_command(program, share, listener.fileno())
            else:
                # the guest can mount its share anew, and writable: the host must say no
                view = self._folder / share.tag
                view.mkdir()
                seen = replace(share, path=view)
                argv = _in_view(view, qemu.virtiofsd_command(program, seen, listener.fileno()))
            self._spawn(argv, [listener.fileno()], f"virtiofsd-{share.tag}.log")

    def _spawn(self, argv: list[str], fds: Sequence[int], log: str) -> subprocess.Popen[bytes]:
        # no QEMU shall outlive a test run that was killed
        if shutil.which("setpriv"):
            drops = capabilities_to_drop() if log == "qemu.log" else []
            argv = ["setpriv", "--pdeathsig", "KILL", *drops, *argv]
        with (self._folder / log).open("wb") as output, undisturbed():
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


def _layers(userland: Userland | None) -> str:
    """The shell variables that tell the guest what its files are made of."""
    if userland is None:
        return "system=\nlayers=\n"
    layers = " ".join(
        f"{quote(str(path))}={':'.join(quote(str(each)) for each in below)}"
        for path, below in userland.layers
    )
    return f"system={shlex.quote(str(userland.root))}\nlayers={shlex.quote(layers)}\n"


def capabilities_to_drop(status: Path = Path("/proc/self/status")) -> list[str]:
    """Options of setpriv(1): no device is made for a guest.

    For QEMU, which serves 9p: anybody on the host could open one that a guest makes in a folder it
    may write. (virtiofsd has an option, and refuses to start without what it wants to drop itself.)
    Empty where we cannot drop the capability, having no CAP_SETPCAP, or do not have it.
    """
    able = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    held = int(able[1], 16) if able else 0
    if not (held >> _CAP_SETPCAP & 1 and held >> _CAP_MKNOD & 1):
        return []
    return ["--inh-caps", "-mknod", "--bounding-set", "-mknod"]


def _make_folder() -> Path:
    try:
        _sweep(Path(tempfile.gettempdir()))
        return Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    except OSError as error:
        raise OutputError(
            f"cannot create a folder for the guest: {error.strerror}",
            "set TMPDIR to a writable folder",
        ) from None


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
