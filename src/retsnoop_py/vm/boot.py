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
from typing import NamedTuple
from urllib.parse import quote

from retsnoop_py.errors import UnavailableError, no_proc
from retsnoop_py.package import is_one_file, python
from retsnoop_py.vm import confined, initrd, kernels, qemu
from retsnoop_py.vm.architecture import Architecture
from retsnoop_py.vm.command import Channel
from retsnoop_py.vm.console import Console
from retsnoop_py.vm.debian import undisturbed
from retsnoop_py.vm.folder import make_folder, remove_tree
from retsnoop_py.vm.initrd import ModuleTree
from retsnoop_py.vm.userland import Userland

__all__ = ["LANES", "Host", "Plan", "capabilities_to_drop", "plan_modules", "view_obstacle"]

LANES = 4
"""How many commands can run in a guest at the same time."""

_CAP_SETPCAP = 8
#: Capabilities that QEMU does not need, as setpriv(1) calls them, with their numbers: without them
#: a guest makes no device and gives no program capabilities, and a set-user-ID program that it
#: writes loses the bit.
_DROPPED = {"fsetid": 4, "mknod": 27, "setfcap": 31}
#: Bytes of one file in the folder that all guests can write: recordings, and what commands print.
_FILE_LIMIT = 4 << 30
#: Bytes that stay free where that folder is, or half of what was free when the guest started.
_ROOM = 256 << 20
#: What QEMU needs of the host's /dev. There is no /dev/kvm everywhere.
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/kvm")
#: Modules that every guest needs, and those behind each way to the host's files.
_COMMON = ("virtio_pci", "virtio_console", "overlay")
_DRIVERS = {"virtiofs": ("virtiofs",), "9p": ("9pnet_virtio", "9p")}
PORTS = (*(f"lane{number}" for number in range(LANES)), "signals", "stdin")

# loglevel 5 shows warnings; an oops is made a panic so that it cannot go unnoticed, and a panic
# ends QEMU at once
_APPEND = "loglevel=5 oops=panic panic=-1"


class Plan(NamedTuple):
    """How the guest reaches the host's files.

    ``transport`` is virtiofs or 9p; ``modules`` are those that /init must insert, with their
    bytes. ``other`` is the transport to try next if the kernel turns out to lack this one.
    """

    transport: str
    modules: list[tuple[str, bytes]]
    other: str | None = None


def plan_modules(kernel: kernels.Kernel, obstacle: str = "", without: Sequence[str] = ()) -> Plan:
    """Plan one transport: each one more is one more way from the guest to the host.

    virtiofs where the kernel has it and the host too (``obstacle`` says why not), else 9p. Where
    nothing tells what is built in, only a boot does; ``without`` are those that a boot ruled out.
    Raises UnavailableError where neither way is open.
    """
    usable = [name for name in (["9p"] if obstacle else ["virtiofs", "9p"]) if name not in without]
    if kernel.modules is None:
        return Plan(usable[0], [], *usable[1:])
    tree = ModuleTree(kernel.modules)
    if tree.builtin:  # a kernel of one's own may have no modules.builtin
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
    """Why no daemon can be given a read-only view of the host's files; "" if it can.

    ``folder`` is where a directory for a trial can be made.
    """
    if os.geteuid() != 0:
        return "not run as root"
    view = folder / "trial"
    view.mkdir()
    done = subprocess.run(_confined(str(view)), check=False, capture_output=True, text=True)
    view.rmdir()
    return done.stderr.strip() if done.returncode else ""


def _confined(*words: str) -> list[str]:
    """The words that start :mod:`retsnoop_py.vm.confined`."""
    # -S: no site-packages, a tenth of a second faster
    script = ["-m", confined.__name__] if is_one_file() else [str(Path(confined.__file__))]
    return [*python(), "-S", *script, *words]


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
        #: The transport to try next if the guest's kernel lacks the one in use.
        self.other_transport: str | None = None
        #: Why the guest was ended here; "" if it was not.
        self.reason = ""
        self._folder = make_folder()
        self._cleanup.callback(remove_tree, self._folder)
        # tells others that the folder is in use; the kernel drops it however we end
        held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.share = self._folder / "share"
        self.jobs = self.share / ".jobs"
        self.jobs.mkdir(parents=True)
        self.jobs_fd = os.open(self.jobs, os.O_RDONLY | os.O_DIRECTORY)
        self._cleanup.callback(os.close, self.jobs_fd)
        self._room = min(_ROOM, _free(self.share) // 2)
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
        """What the guest's console has shown so far; the middle is missing where it is long."""
        return self._console.text(is_over=self._process is not None and not self.alive())

    def logs(self) -> str:
        """What QEMU and the daemons said that looks like a complaint, one line each."""
        return "\n".join(
            f"{log.stem}: {line.strip()}"
            for log in sorted(self._folder.glob("*.log"))
            for line in _beginning(log).splitlines()
            # virtiofsd in C tells of every queue it starts
            if log.stem == "qemu" or "rror" in line or "annot" in line or "ailed" in line
        )

    def alive(self) -> bool:
        """Whether the guest is still there. One that fills this machine's disk is ended here."""
        if self._process is None or self._process.poll() is not None:
            return False
        if time.monotonic() - self._looked > 1:
            self._looked = time.monotonic()
            if _free(self.share) < self._room:
                self.reason = f"the file system of {self.share} was nearly full"
                self._process.kill()
                self._process.wait()
                return False
        return True

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
        without: Sequence[str] = (),
    ) -> None:
        """Start the daemons and QEMU; does not wait for the guest to come up.

        ``userland`` is what a guest of another architecture than the host's has for its files;
        ``kernel_options`` are appended to the kernel's command line; ``without`` are transports
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
        self._check_owners(writable, no_view)
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
        """QEMU's command line, with what keeps QEMU from the rest of the machine.

        ``is_seen``: a view can be made. QEMU's root directory is one then, and the guest's files
        by 9p are another one, without /dev and /proc.
        """
        options = ["--no-setuid"]
        # after the mounts: a mount for the owner of a folder needs CAP_SETFCAP
        drops = capabilities_to_drop() if shutil.which("setpriv") else []
        command = [*(["setpriv", *drops] if drops else []), *qemu.qemu_command(guest)]
        served = guest.shares if guest.transport == "9p" else ()
        if served:
            options += ["--file-limit", str(_FILE_LIMIT)]
        if not is_seen:
            return _confined(*options, "", *command)
        options += ["--root", str(guest.shares[0].path)]
        for share in served[1:]:
            options += ["--write", str(share.path)]
        for path in (*_DEVICES, str(guest.image)):
            if path.startswith("/dev/"):
                options += ["--keep", path]
        return _confined(*options, str(self._view("qemu")), *command)

    def _check_owners(self, writable: Sequence[Path], no_view: str) -> None:
        """Raise UnavailableError if root would make files of root in another user's folder.

        ``no_view`` says why no view of the files can be made; "" if it can.
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
        """Why ``path`` cannot be mounted for its owner; "" if it can."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            for part in ("view", "export"):
                (Path(name) / part).mkdir()
            words = ["--root", f"{name}/export", "--write", str(path), f"{name}/view"]
            done = subprocess.run(_confined(*words), check=False, capture_output=True, text=True)
        return done.stderr.strip() if done.returncode else ""

    def _view(self, name: str) -> Path:
        """An empty directory for a view of the files."""
        view = self._folder / name
        view.mkdir()
        return view

    def _shares(self, writable: Sequence[Path]) -> list[qemu.Share]:
        root = qemu.Share("root", Path("/"), self._folder / "root.sock")
        return [
            root,
            *(
                qemu.Share(f"share{number}", path, self._folder / f"share{number}.sock", True)
                for number, path in enumerate([self.share, *writable])
            ),
        ]

    def _config(self, kernel: kernels.Kernel, transport: str, shares: Sequence[qemu.Share]) -> str:
        """The shell variables the guest's scripts read."""
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
        """Open a channel for the guest's port ``name``; the descriptor of QEMU's end."""
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
                    words += ["--owned", str(share.path)]
                words.append("")
            else:
                # the guest can mount its share anew, and writable: the host must say no
                view = self._view(share.tag)
                words, share = [str(view)], replace(share, path=view)
            argv = _confined(*words, *qemu.virtiofsd_command(program, share, listener.fileno()))
            self._spawn(argv, [listener.fileno()], f"virtiofsd-{share.tag}.log")

    def _spawn(self, argv: list[str], fds: Sequence[int], log: str) -> subprocess.Popen[bytes]:
        # no QEMU shall outlive a test run that was killed
        if shutil.which("setpriv"):
            argv = ["setpriv", "--pdeathsig", "KILL", *argv]
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
    """Options of setpriv(1) for QEMU, which serves 9p: no device and no capability for a guest.

    Anybody on the host could use those that a guest makes in a folder it may write. (virtiofsd has
    an option, and refuses to start without what it wants to drop itself.) Empty where we have no
    CAP_SETPCAP; a capability that we do not have needs no dropping.
    """
    able = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    held = int(able[1], 16) if able else 0
    drops = ",".join(f"-{name}" for name, number in _DROPPED.items() if held >> number & 1)
    if not (held >> _CAP_SETPCAP & 1 and drops):
        return []
    return ["--inh-caps", drops, "--bounding-set", drops]


def _free(folder: Path) -> int:
    """Free bytes in the file system of ``folder``, for ordinary users."""
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def _beginning(log: Path) -> str:
    """At most 1 MiB of a file, as text: a guest can make QEMU and the daemons complain."""
    with log.open("rb") as file:
        return file.read(1 << 20).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
