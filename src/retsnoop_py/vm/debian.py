# SPDX-License-Identifier: BSD-2-Clause
"""Packages of any Debian suite, from the mirror that this machine's apt uses.

An :class:`AptRoot` is a private apt below the user's cache directory, with its own lists, caches,
status file and sources. It installs no packages and does not change the machine's own apt. This
module needs only the standard library: ``build.py`` uses it before dependencies are installed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from retsnoop_py.errors import OutputError, RetsnoopError, UnavailableError
from retsnoop_py.own_file import ROOT_CACHE, cache_folder
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
from retsnoop_py.vm.mirrors import NO_MIRROR_HINT, find_mirror

__all__ = [
    "AptRoot",
    "cache_root",
    "failed",
    "locked",
    "room_told",
    "run_tool",
    "undisturbed",
]

LISTS_FRESH_S = 6 * 3600
"""Lists younger than this are not refreshed unless asked for."""

_TICK_S = 0.1
#: Maximum lines of a failed program's output in an error message.
_WORDS_SHOWN = 4
#: The command installs into the empty system that the private status file describes.
_INSTALL = ("apt-get", "-qq", "-y", "--no-install-recommends", "install")

_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)


def cache_root() -> Path:
    """Return the folder for kernels, packages and sources: see :func:`cache_folder`."""
    return cache_folder()


class AptRoot:
    """A private apt for one suite.

    ``cache`` is the cache root (default: :func:`cache_root`), ``arch`` the Debian architecture
    of the packages. Raises UnavailableError if apt or a Debian mirror is missing, or if a transfer
    fails; the message contains apt's output.
    """

    def __init__(self, suite: str, cache: Path | None = None, arch: str = "amd64") -> None:
        self.suite = suite
        self.arch = arch
        # in one folder, the lists of two architectures would replace each other
        folder = suite if arch == "amd64" else f"{suite}-{arch}"
        self.root = (cache or _cache_of_apt()) / "apt" / folder

    def update(self, force: bool = False) -> None:
        """Refresh package lists that are older than :data:`LISTS_FRESH_S`; with ``force``, all."""
        self._update("deb", force)

    def newest(self, pattern: str) -> tuple[str, str] | None:
        """Return ``(package, version)`` of the highest version of all matching packages.

        ``pattern`` is a Python regular expression for the whole package name. Return None if no
        package matches. Raises DataError if matching takes too long.
        """
        # only here: build.py imports this module before msgspec is installed
        from retsnoop_py.unprivileged.settings import matching

        self.update()
        names = self._run("deb", ["apt-cache", "pkgnames"]).split()
        wanted = matching(pattern, names, f"the regular expression {pattern}")
        found: list[tuple[str, str]] = []
        if wanted:
            for line in self._run("deb", ["apt-cache", "madison", *wanted]).splitlines():
                fields = [field.strip() for field in line.split("|")]
                if len(fields) == 3 and fields[2].endswith("Packages"):
                    found.append((fields[0], fields[1]))
        rank = functools.cmp_to_key(_compare)
        return max(found, key=lambda each: rank(each[1]), default=None)

    def size(self, package: str) -> int:
        """Return the bytes of the .deb of ``package`` (or ``package=version``); 0 if unknown."""
        found = re.search(r"^Size: (\d+)$", self._shown(package), re.MULTILINE)
        return int(found[1]) if found else 0

    def download(
        self, package: str, dest: Path, watch: Callable[[int], None] | None = None
    ) -> Path:
        """Fetch ``package`` (or ``package=version``) into ``dest``; return the path of the .deb.

        ``watch`` is called several times a second with the number of bytes so far.
        """
        self.update()
        path = self._fetch("deb", ["apt-get", "download", package], dest, "*.deb", watch)[0]
        # until now, apt's user could write to the folder
        wanted = re.search(r"^SHA256: (\w+)$", self._shown(package), re.MULTILINE)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if wanted is None or digest != wanted[1]:
            path.unlink()
            raise UnavailableError(f"{package} is not the file that Debian's lists describe")
        return path

    def _shown(self, package: str) -> str:
        return self._run("deb", ["apt-cache", "show", "--no-all-versions", package])

    def resolve(self, packages: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return ``packages`` and their dependencies: name to version and bytes to fetch.

        Recommended packages are not included.
        """
        self.update()
        told = self._run("deb", [*_INSTALL, "--print-uris", *packages])
        found = re.findall(r"^'[^']+' ([^_\s]+)_([^_\s]+)_\S+\.deb (\d+)", told, re.MULTILINE)
        return {name: (version.replace("%3a", ":"), int(size)) for name, version, size in found}

    def download_all(
        self, packages: Sequence[str], dest: Path, watch: Callable[[int], None] | None = None
    ) -> list[Path]:
        """Fetch ``packages`` and their dependencies into ``dest``; see :meth:`resolve`.

        Return the paths of all .deb files in ``dest``.
        """
        self.update()
        dest.mkdir(parents=True, exist_ok=True)
        with self._staging("deb") as staging:

            def tick() -> None:
                if watch:
                    watch(
                        sum(each.stat().st_size for each in staging.rglob("*.deb") if each.exists())
                    )

            # apt checks each file in a folder of its own user, then moves it to a folder of root
            (staging / "archives" / "partial").mkdir(parents=True)
            staging.chmod(0o755)
            os.chown(staging, os.geteuid(), os.getegid())
            archives = f"Dir::Cache::archives={staging}/archives"
            argv = [*_INSTALL, "--download-only", "-o", archives, *packages]
            self._run("deb", argv, tick=tick)
            for file in (staging / "archives").glob("*.deb"):
                _taken(file, dest / file.name)
        return sorted(dest.glob("*.deb"))

    def source(self, package: str, dest: Path) -> list[Path]:
        """Fetch the upstream tarballs of a source package into ``dest``; return their paths.

        Debian's patches and the .dsc file are not fetched. They change with each point release, and
        a mirror may list new files that it does not have yet. The tarball does not change.
        """
        self._update("deb-src", force=False)
        argv = ["apt-get", "source", "--download-only", "--tar-only", package]
        return self._fetch("deb-src", argv, dest, "*")

    def _fetch(
        self,
        kind: str,
        argv: list[str],
        dest: Path,
        pattern: str,
        watch: Callable[[int], None] | None = None,
    ) -> list[Path]:
        """Run ``argv`` in an empty directory of apt's user; move the new files to ``dest``."""
        dest.mkdir(parents=True, exist_ok=True)
        with self._staging(kind) as staging:

            def tick() -> None:
                if watch:
                    watch(sum(each.stat().st_size for each in staging.iterdir() if each.is_file()))

            self._run(kind, argv, staging, tick)
            files = sorted(staging.glob(pattern))
            if not files:
                raise UnavailableError(f"{' '.join(argv)} downloaded no file")
            return [_taken(file, dest / file.name) for file in files]

    @contextlib.contextmanager
    def _staging(self, kind: str) -> Iterator[Path]:
        """Yield a new folder that apt's user can write; remove the folder at the end."""
        staging = Path(tempfile.mkdtemp(prefix="partial-", dir=self.root / kind))
        try:
            if os.geteuid() == 0:
                shutil.chown(staging, sandbox_user())
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _update(self, kind: str, force: bool) -> None:
        home = self.root / kind
        stamp = home / "updated"
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / "lock"):
            with contextlib.suppress(OSError):
                if not force and time.time() - stamp.stat().st_mtime < LISTS_FRESH_S:
                    return
            self._write_config(kind)
            # without Error-Mode, apt-get update returns 0 although a list could not be fetched
            try:
                self._run(kind, ["apt-get", "update", "-o", "APT::Update::Error-Mode=any"])
            except OutputError:  # the next run cannot use truncated lists
                shutil.rmtree(home, ignore_errors=True)
                raise
            stamp.touch()

    def _write_config(self, kind: str) -> None:
        mirror = find_mirror()
        home = self.root / kind
        for folder in ("lists/partial", "archives/partial", "etc/empty"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "status").touch()
        keyring = next((str(path) for path in _KEYRINGS if path.exists()), mirror.signed_by)
        lines = [f"Types: {kind}", f"URIs: {mirror.uri}", f"Suites: {self.suite}"]
        lines.append("Components: main")
        lines += [f"Signed-By: {keyring}"] if keyring else []
        lines += ["Trusted: yes"] if mirror.trusted else []
        (home / "etc" / "debian.sources").write_text("\n".join(lines) + "\n")
        (home / "apt.conf").write_text(_config(home, self.arch, _machine_acquire()))

    def _run(
        self,
        kind: str,
        argv: Sequence[str],
        cwd: Path | None = None,
        tick: Callable[[], None] | None = None,
    ) -> str:
        home = self.root / kind
        # /tmp may not be writable
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(home / "tmp", sandbox_user())
        given = {"APT_CONFIG": home / "apt.conf", "TMPDIR": home / "tmp"}
        variables = {name: str(value) for name, value in given.items()}
        try:
            done = run_tool(argv, variables=variables, cwd=cwd, tick=tick)
        except FileNotFoundError as error:
            raise UnavailableError(f"{argv[0]} is not installed", NO_MIRROR_HINT) from error
        if done.returncode:
            raise failed(
                f"{' '.join(argv[:2])} for Debian {self.suite} failed",
                done.stderr or done.stdout,
                UnavailableError,
                "check this machine's apt sources and its network",
            )
        return done.stdout


def failed(
    what: str, words: str, kind: type[RetsnoopError], hint: str | None = None
) -> RetsnoopError:
    """Return the error for a program that wrote to the cache and failed with the output ``words``.

    The error has the type ``kind``, the first lines of ``words`` and ``hint``. If the disk is full,
    return an OutputError.
    """
    if any(os.strerror(number) in words for number in (errno.ENOSPC, errno.EDQUOT)):
        return _no_room(what)
    lines = words.strip().splitlines()
    if len(lines) > _WORDS_SHOWN:
        lines[_WORDS_SHOWN:] = [f"... ({len(lines) - _WORDS_SHOWN} more lines)"]
    return kind(": ".join((what, "\n".join(lines))) if lines else what, hint)


#: What the system says of a cache that cannot be there.
_REFUSED = (
    *(errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG),
)


@contextlib.contextmanager
def room_told(what: str) -> Iterator[None]:
    """Raise OutputError if the block fails because the cache is full or not writable.

    ``what`` starts the message.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(what) from error
        if error.errno in _REFUSED or _leads_to_the_cache(error.filename):
            raise OutputError(
                f"{what}: {error.filename or cache_root()}: {error.strerror}",
                "set XDG_CACHE_HOME to a writable folder",
            ) from error
        raise


def _leads_to_the_cache(path: object) -> bool:
    """Return whether ``path`` is the cache or a folder above it, which could not be made."""
    root = cache_root()
    return isinstance(path, str) and Path(path) in (root, *root.parents)


def _no_room(what: str) -> OutputError:
    place = cache_root()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free >> 20
    return OutputError(
        f"{what}: no space left in {cache_root()} ({free} MB are free)",
        "free some space, or name a folder elsewhere by XDG_CACHE_HOME: a kernel takes 200 MB with"
        " the lists of packages, its debug files 2 GB, a user land 400 MB",
    )


def run_tool(
    argv: Sequence[str],
    *,
    variables: Mapping[str, str] = MappingProxyType({}),
    cwd: Path | None = None,
    tick: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result; call ``tick`` several times a second meanwhile.

    The program gets ``variables`` beside :func:`environment_of_tools`.

    An exception in this thread, for example from a signal handler, kills the program's process
    group. The program runs in its own session, so Ctrl-C at the terminal does not reach it.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with undisturbed():
            process = subprocess.Popen(
                argv,
                env={**environment_of_tools(), **variables},
                cwd=cwd or TOOL_FOLDER,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        while True:
            try:
                out, err = process.communicate(timeout=_TICK_S if tick else None)
            except subprocess.TimeoutExpired:
                if tick:
                    tick()
            else:
                return subprocess.CompletedProcess(argv, process.returncode, out, err)
    except BaseException:
        if process:
            with contextlib.suppress(ProcessLookupError), process:
                os.killpg(process.pid, signal.SIGKILL)
        raise


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delay signals with Python handlers until the end of the block.

    Popen() starts a process before it returns. A handler that raises in between would leave the
    process running.
    """
    noted: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # handlers run in the main thread
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for late in noted:
            signal.raise_signal(late)


def sandbox_user() -> str:
    """Return the user of root's apt for downloads: ``_apt`` if it exists, else ``root``."""
    try:
        pwd.getpwnam("_apt")
    except KeyError:
        return "root"
    return "_apt" if os.geteuid() == 0 else "root"


def _cache_of_apt() -> Path:
    """Return the cache root; for root, a folder that apt's user can enter.

    XDG_CACHE_HOME overrides this choice.
    """
    base = cache_root()
    if sandbox_user() == "root" or os.environ.get("XDG_CACHE_HOME") or _is_open(base):
        return base
    return ROOT_CACHE / base.name


def _is_open(folder: Path) -> bool:
    """Return True if every user can enter all existing parts of the path ``folder``."""
    above = (folder, *folder.parents)
    return all(one.stat().st_mode & stat.S_IXOTH for one in above if one.exists())


def _taken(file: Path, target: Path) -> Path:
    """Move a file of apt's user to ``target`` and return its path; root becomes its owner.

    Raises UnavailableError if the file is not a regular file.
    """
    if not stat.S_ISREG(file.lstat().st_mode):
        raise UnavailableError(f"apt left {file.name}, which is not a file")
    path = Path(shutil.move(file, target))
    if os.geteuid() == 0:
        os.chown(path, 0, 0, follow_symlinks=False)
        path.chmod(0o644)
    return path


def _machine_acquire() -> list[str]:
    """Return the machine's own Acquire:: settings: proxies, certificates, validity checks."""
    try:
        done = subprocess.run(
            ["apt-config", "dump"],
            capture_output=True,
            text=True,
            check=True,
            env=environment_of_tools(),
            cwd=TOOL_FOLDER,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError("apt is not installed here", NO_MIRROR_HINT) from error
    skip = ("Acquire::IndexTargets", "Acquire::Languages")
    keep = [line for line in done.stdout.splitlines() if line.startswith("Acquire::")]
    return [line for line in keep if not line.startswith(skip)]


def _config(home: Path, arch: str, acquire: list[str]) -> str:
    """Return the text of a private apt.conf, without the hooks of the machine's configuration."""
    settings = {
        "Dir::State": home,
        "Dir::State::lists": home / "lists",
        "Dir::State::status": home / "status",
        "Dir::Cache": home,
        "Dir::Cache::archives": home / "archives",
        "Dir::Cache::pkgcache": home / "pkgcache.bin",
        "Dir::Cache::srcpkgcache": home / "srcpkgcache.bin",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": home / "etc",
        "Dir::Etc::parts": home / "etc" / "empty",
        "Dir::Etc::main": "/dev/null",
        "APT::Architecture": arch,
        # if this user cannot enter the folders, apt warns and uses root
        "APT::Sandbox::User": sandbox_user(),
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
    }
    own = [f'{name} "{value}";' for name, value in settings.items()]
    own.append(f'#clear APT::Architectures;\nAPT::Architectures {{ "{arch}"; }};')
    return "\n".join([*acquire, *own]) + "\n"


def _compare(left: str, right: str) -> int:
    """Compare two versions in Debian's order: return -1, 0 or 1."""
    if left == right:
        return 0
    argv = ["dpkg", "--compare-versions", left, "lt", right]
    done = subprocess.run(argv, check=False, env=environment_of_tools(), cwd=TOOL_FOLDER)
    return -1 if done.returncode == 0 else 1


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``: two runs must not change the same cache at once."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
