# SPDX-License-Identifier: BSD-2-Clause
"""The host's side of a guest: its folder, its processes on the host and the channels to it."""

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
from typing import NamedTuple
from urllib.parse import quote

from retsnoop_py.errors import UnavailableError, no_proc
from retsnoop_py.package import is_one_file, python
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
from retsnoop_py.vm import confined, initrd, kernels, qemu
from retsnoop_py.vm.architecture import Architecture
from retsnoop_py.vm.command import Channel
from retsnoop_py.vm.console import Console
from retsnoop_py.vm.debian import undisturbed
from retsnoop_py.vm.folder import Writable, make_folder, remove_tree
from retsnoop_py.vm.folder import writable as find_writable
from retsnoop_py.vm.initrd import ModuleTree
from retsnoop_py.vm.userland import Userland

__all__ = [
    "LANES",
    "Host",
    "Plan",
    "capabilities_to_drop",
    "obstacle_to_drop",
    "plan_modules",
    "view_obstacle",
]

LANES = 4
"""How many commands can run in a guest at the same time."""

_CAP_SETPCAP = 8
#: Capabilities that QEMU does not need: the names of setpriv(1) and the numbers. Without them, a
#: guest cannot create devices or programs with capabilities on the host. If the guest writes to a
#: set-user-ID program, the program loses the bit.
_DROPPED = {"fsetid": 4, "mknod": 27, "setfcap": 31}
#: Maximum bytes of a file in the shared folder: recordings, and the output of commands.
_FILE_LIMIT = 4 << 30
#: Bytes that stay free in the shared folder's file system. The limit is at most half of the bytes
#: that were free when the guest started.
_ROOM = 256 << 20
#: The same for inodes: a guest can make empty files.
_ROOM_FILES = 100_000
#: Devices of the host that QEMU needs. Not every host has /dev/kvm.
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/kvm")
#: Modules that every guest needs, and the modules of each transport.
_COMMON = ("virtio_pci", "virtio_console", "overlay")
_DRIVERS = {"virtiofs": ("virtiofs",), "9p": ("9pnet_virtio", "9p")}
PORTS = (*(f"lane{number}" for number in range(LANES)), "signals", "stdin")

# loglevel 5 shows warnings. An oops becomes a panic, so it cannot go unnoticed; a panic ends QEMU
# at once.
_APPEND = "loglevel=5 oops=panic panic=-1"


class Plan(NamedTuple):
    """How the guest reaches the host's files.

    ``transport`` is virtiofs or 9p. ``modules`` are the names and contents of the modules that
    /init must insert. ``other`` is the transport to try next if the kernel lacks ``transport``.
    """

    transport: str
    modules: list[tuple[str, bytes]]
    other: str | None = None


def plan_modules(kernel: kernels.Kernel, obstacle: str = "", without: Sequence[str] = ()) -> Plan:
    """Return a plan with only one transport, because each transport adds an attack surface.

    The plan uses virtiofs if kernel and host support it, else 9p. ``obstacle`` is the reason why
    the host does not support virtiofs, or "". Without modules.builtin, only a boot shows which
    transports are built in; ``without`` are the transports that earlier boots ruled out. Raises
    UnavailableError if no transport works.
    """
    usable = [name for name in (["9p"] if obstacle else ["virtiofs", "9p"]) if name not in without]
    if kernel.modules is None:
        return Plan(usable[0], [], *usable[1:])
    tree = ModuleTree(kernel.modules)
    if tree.builtin:  # a user's own kernel may lack modules.builtin
        usable = [name for name in usable if all(map(tree.has, _DRIVERS[name]))][:1]
    if not usable:
        raise _no_way(kernel, tree.has("virtiofs"), obstacle)
    wanted = [*_COMMON, *_DRIVERS[usable[0]]]
    return Plan(usable[0], tree.load_order(wanted), *usable[1:])


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
    """Return why a daemon cannot have a read-only view of the host's files, or "" if it can.

    The test creates and removes a directory in ``folder``.
    """
    if os.geteuid() != 0:
        return "not run as root"
    view = folder / "trial"
    view.mkdir()
    done = _try_confined(str(view))
    view.rmdir()
    return done.stderr.strip() if done.returncode else ""


def _confined(*words: str) -> list[str]:
    """Return the command line that runs :mod:`retsnoop_py.vm.confined` with ``words``."""
    # -S: no site-packages, a tenth of a second faster
    script = ["-m", confined.__name__] if is_one_file() else [str(Path(confined.__file__))]
    return [*python(), "-S", *script, *words]


def _try_confined(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _confined(*words),
        check=False,
        capture_output=True,
        text=True,
        env=environment_of_tools(),
        cwd=TOOL_FOLDER,
    )


def _accelerator(arch: Architecture) -> str:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except FileNotFoundError:
        raise no_proc("a guest cannot be booted") from None
    return qemu.accelerator(arch, cpuinfo)


class Host:
    """The files and processes of one guest on the host; :meth:`close` ends and removes them.

    One thread uses and closes the object. Other threads may call :meth:`kill`.

    ``share`` is a directory that both host and guest can write, under the same path.
    """

    def __init__(self, memory: int, cpus: int, *, count_instructions: bool = False) -> None:
        self.memory = memory
        self.cpus = cpus
        self._count_instructions = count_instructions
        self._cleanup = contextlib.ExitStack()
        self._sockets: dict[str, socket.socket] = {}
        self._process: subprocess.Popen[bytes] | None = None
        #: The transport to try next if the guest's kernel lacks the current transport.
        self.other_transport: str | None = None
        #: Why this object ended the guest; "" if it did not.
        self.reason = ""
        self._folder = make_folder()
        self._cleanup.callback(remove_tree, self._folder)
        # shows other processes that the folder is in use; the kernel drops the lock when we end
        held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.share = self._folder / "share"
        self.jobs = self.share / ".jobs"
        self.jobs.mkdir(parents=True)
        self.jobs_fd = os.open(self.jobs, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, self.jobs_fd)
        free, files = _free(self.share)
        self._room, self._room_files = min(_ROOM, free // 2), min(_ROOM_FILES, files // 2)
        self._looked = time.monotonic()
        self._console = Console()
        self._cleanup.callback(self._console.close)

    def close(self) -> None:
        """Kill the guest and, once it has ended, remove its folder. Idempotent."""
        self._cleanup.close()

    def kill(self) -> None:
        """Kill the guest, if it was started, and leave the rest to :meth:`close`."""
        if self._process is not None:
            self._process.kill()

    @property
    def console(self) -> str:
        """The text on the guest's console so far; the middle of a long text is missing."""
        return self._console.text(is_over=self._process is not None and not self.alive())

    def logs(self) -> str:
        """Return the log lines of QEMU and the daemons that look like errors."""
        return "\n".join(
            f"{log.stem}: {line.strip()}"
            for log in sorted(self._folder.glob("*.log"))
            for line in _beginning(log).splitlines()
            # the C version of virtiofsd logs every queue that it starts
            if log.stem == "qemu" or "rror" in line or "annot" in line or "ailed" in line
        )

    def alive(self) -> bool:
        """Return True if the guest still runs; kill a guest that fills the host's disk."""
        if self._process is None or self._process.poll() is not None:
            return False
        if time.monotonic() - self._looked > 1:
            self._looked = time.monotonic()
            free, files = _free(self.share)
            if free < self._room or files < self._room_files:
                self.reason = f"the file system of {self.share} was nearly full"
                self._process.kill()
                self._process.wait()
                return False
        return True

    def channel(self, port: str) -> Channel:
        """Return the line-based channel to the guest's ``port``."""
        return Channel(self._sockets[port])

    @property
    def stdin(self) -> socket.socket:
        """The raw channel for live input."""
        return self._sockets["stdin"]

    def launch(
        self,
        kernel: kernels.Kernel,
        writable: Sequence[Writable],
        userland: Userland | None = None,
        kernel_options: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        """Start the daemons and QEMU; do not wait until the guest has booted.

        ``userland`` contains the files of a guest that has another architecture than the host.
        ``kernel_options`` are appended to the kernel's command line. ``without`` are transports
        that an earlier boot ruled out. Raises UnavailableError if something is not installed.
        """
        program = qemu.find_qemu(kernel.arch)
        busybox = userland.busybox if userland else initrd.find_busybox()
        held = kernels.hold(kernel)
        if held is not None:
            self._cleanup.callback(os.close, held)
        if userland is not None:
            self._cleanup.callback(os.close, userland.hold())
        daemon = qemu.find_virtiofsd()
        no_view = view_obstacle(self._folder)
        obstacle = no_view if daemon else "virtiofsd is not installed, or not run as root"
        plan = plan_modules(kernel, obstacle, without)
        self.other_transport = plan.other
        shares = self._shares(writable)
        self._check_owners([each.path for each in writable], no_view)
        why = obstacle_to_drop() if writable and plan.transport == "9p" else ""
        if why:
            raise UnavailableError(
                f"the guest could create devices and programs with capabilities in --rw folders:"
                f" {why}",
                "install util-linux and virtiofsd, or leave out --rw",
            )
        image = self._folder / "initrd"
        image.write_bytes(
            initrd.build_initrd(
                busybox.read_bytes(),
                plan.modules,
                self._config(kernel, plan.transport, shares) + _layers(userland),
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
            append=" ".join(
                [f"console={kernel.arch.console}", _APPEND, *kernel.arch.options, *kernel_options]
            ),
            memory=self.memory,
            cpus=self.cpus,
            console=self._console.fileno(),
            shares=shares
            if no_view
            else [replace(shares[0], path=self._view("sight")), *shares[1:]],
            transport=plan.transport,
            ports=[(name, self._port(name)) for name in PORTS],
            accel="tcg" if self._count_instructions else _accelerator(kernel.arch),
            emulator=qemu.installed(program),
            count_instructions=self._count_instructions,
            arch=kernel.arch,
        )
        if daemon and plan.transport == "virtiofs":
            for share in shares:
                self._start_daemon(daemon, share, is_seen=not no_view)
        fds = [self._console.fileno(), *(fd for _, fd in guest.ports)]
        self._process = self._spawn(self._qemu(guest, is_seen=not no_view), fds, "qemu.log")
        self._console.start()

    def _qemu(self, guest: qemu.Guest, *, is_seen: bool) -> list[str]:
        """Return QEMU's command line, with the programs that confine QEMU.

        ``is_seen``: the host can mount views of its files. QEMU's root directory is such a view
        then. The files for 9p are another view, without /dev and /proc.
        """
        options = ["--no-setuid"]
        # after the mounts: a mount for the owner of a folder needs CAP_SETFCAP
        drops = capabilities_to_drop() if shutil.which("setpriv") else []
        program = ["setpriv", *drops] if drops else []
        served = guest.shares if guest.transport == "9p" else ()
        if served:
            options += ["--file-limit", str(_FILE_LIMIT)]
        if not is_seen:
            return _confined(*options, "", *program, *qemu.qemu_command(guest))
        root, *writable = guest.shares
        options += ["--root", str(root.path)]
        # in the view's /proc, where no user of the host can put a link
        inside = [replace(share, path=Path("/proc") / share.tag) for share in writable]
        for share, at in zip(writable if served else (), inside, strict=False):
            options += ["--write", str(share.path), "--at", str(at.path)]
            options += ["--identity", share.identity]
        command = [*program, *qemu.qemu_command(replace(guest, shares=[root, *inside]))]
        for path in (*_DEVICES, str(guest.image)):
            if path.startswith("/dev/"):
                options += ["--keep", path]
        return _confined(*options, str(self._view("qemu")), *command)

    def _check_owners(self, writable: Sequence[Path], no_view: str) -> None:
        """Raise UnavailableError if root would make files of root in another user's folder.

        ``no_view`` is the reason why the host cannot mount a view of the files, or "".
        """
        for path in writable:
            owner = path.stat().st_uid
            if os.geteuid() != 0 or owner == 0:
                continue
            why = no_view or self._obstacle_to_owned(path)
            if why:
                raise UnavailableError(
                    f"files that the guest makes in {path} would belong to root, not to the"
                    f" folder's owner (user ID {owner}): {why}",
                    "use a folder of root, or run as the folder's owner; with CAP_SYS_ADMIN, root"
                    " can use one in a file system with ID-mapped mounts",
                )

    def _obstacle_to_owned(self, path: Path) -> str:
        """Return why ``path`` cannot be mounted for its owner, or "" if it can."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            for part in ("view", "export"):
                (Path(name) / part).mkdir()
            words = ["--root", f"{name}/export", "--write", str(path), f"{name}/view"]
            done = _try_confined(*words)
        return done.stderr.strip() if done.returncode else ""

    def _view(self, name: str) -> Path:
        """Return a new empty directory for a view of the files."""
        view = self._folder / name
        view.mkdir()
        return view

    def _shares(self, writable: Sequence[Writable]) -> list[qemu.Share]:
        root = qemu.Share("root", Path("/"), self._folder / "root.sock")
        return [
            root,
            *(
                qemu.Share(
                    f"share{number}",
                    each.path,
                    self._folder / f"share{number}.sock",
                    writable=True,
                    identity=each.identity,
                )
                for number, each in enumerate([find_writable(self.share), *writable])
            ),
        ]

    def _config(self, kernel: kernels.Kernel, transport: str, shares: Sequence[qemu.Share]) -> str:
        """Return the shell variables that the guest's scripts read."""
        values = {
            "root_tag": "root",
            "transport": transport,
            "shares": " ".join(f"{each.tag}={quote(str(each.path))}" for each in shares[1:]),
            "modules": str(kernel.modules or ""),
            "debug": str(kernel.debug or ""),
            "host_name": "retsnoop-vm",
            "jobs": str(self.jobs),
        }
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())

    def _port(self, name: str) -> int:
        """Open a channel for the guest's port ``name``; return the descriptor of QEMU's end."""
        ours, theirs = socket.socketpair()
        self._sockets[name] = ours
        self._cleanup.callback(ours.close)
        self._cleanup.callback(theirs.close)
        return theirs.fileno()

    def _start_daemon(self, program: str, share: qemu.Share, *, is_seen: bool) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(share.socket))
            listener.listen(1)
            if share.writable:
                words = ["--no-setuid"]
                if share.path == self.share:
                    words += ["--file-limit", str(_FILE_LIMIT)]
                elif is_seen:
                    view = self._view(share.tag)
                    words += ["--owned", str(share.path), "--at", str(view)]
                    words += ["--identity", share.identity]
                    share = replace(share, path=view)
                words.append("")
            else:
                # the guest can remount its share writable, so the host must reject writes
                view = self._view(share.tag)
                words, share = [str(view)], replace(share, path=view)
            argv = _confined(*words, *qemu.virtiofsd_command(program, share, listener.fileno()))
            self._spawn(argv, [listener.fileno()], f"virtiofsd-{share.tag}.log")

    def _spawn(self, argv: list[str], fds: Sequence[int], log: str) -> subprocess.Popen[bytes]:
        # QEMU must not outlive a killed test run
        if shutil.which("setpriv"):
            argv = ["setpriv", "--pdeathsig", "KILL", *argv]
        with (self._folder / log).open("wb") as output, undisturbed():
            process = subprocess.Popen(
                argv,
                env=environment_of_tools(),
                cwd=TOOL_FOLDER,
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
    """Return the shell variables that describe the guest's user land and layers."""
    if userland is None:
        return "system=\nlayers=\n"
    layers = " ".join(
        f"{quote(str(path))}={':'.join(quote(str(each)) for each in below)}"
        for path, below in userland.layers
    )
    return f"system={shlex.quote(str(userland.root))}\nlayers={shlex.quote(layers)}\n"


def obstacle_to_drop(status: Path = Path("/proc/self/status")) -> str:
    """Return why QEMU would keep capabilities of :func:`capabilities_to_drop`, or ""."""
    held = _effective(status)
    if not any(held >> number & 1 for number in _DROPPED.values()):
        return ""
    if not capabilities_to_drop(status):
        return "QEMU would serve them by 9p, and this process cannot drop QEMU's capabilities"
    if not shutil.which("setpriv"):
        return "QEMU would serve them by 9p, and setpriv, which drops capabilities, is missing"
    return ""


def _effective(status: Path) -> int:
    able = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return int(able[1], 16) if able else 0


def capabilities_to_drop(status: Path = Path("/proc/self/status")) -> list[str]:
    """Return options of setpriv(1) that drop capabilities from QEMU, which serves 9p.

    Otherwise a guest could create devices and programs with capabilities in a writable folder, and
    any user on the host could use them. virtiofsd needs no setpriv: it has its own option, and
    does not start without the capabilities that it drops itself. The list is empty without
    CAP_SETPCAP, or if the process has none of the capabilities.
    """
    held = _effective(status)
    drops = ",".join(f"-{name}" for name, number in _DROPPED.items() if held >> number & 1)
    if not (held >> _CAP_SETPCAP & 1 and drops):
        return []
    return ["--inh-caps", drops, "--bounding-set", drops]


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes and inodes in the file system of ``folder``, for ordinary users.

    File systems such as btrfs have no limit of inodes, and report none free.
    """
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize, told.f_favail


def _beginning(log: Path) -> str:
    """Return at most 1 MiB of a log as text: a guest can make QEMU and the daemons fill it."""
    with log.open("rb") as file:
        return file.read(1 << 20).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
