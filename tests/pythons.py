# SPDX-License-Identifier: BSD-2-Clause
"""``make test-python``: unit and golden tests on the oldest and the newest Python we promise.

The newest is Debian sid's, in a root directory that mmdebstrap makes from the mirror of this
machine's apt; it stays in the cache for a week. The oldest, 3.11, is Debian 12's: where this
checkout's .venv has another one, a root directory of Debian 12 is made as well. Thorough tests
(``make test-thorough``) run on this machine's Python alone. A Python that is too old comes from
Debian 11 and must be refused in one sentence. This takes root, for chroot.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import build

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.vm.debian import AptRoot, cache_root, locked

HERE = build.ROOT
#: What only boots kernels, or looks at sources as the host does already.
NOT_NEEDED = {
    *("qemu-system-x86", "qemu-system-arm", "qemu-system-common", "virtiofsd", "busybox-static"),
    *("clang-format", "mmdebstrap", "bpftool", "zstd", "jq"),
}
#: With the compiler of the other machine's code, which unit tests of paths read, and with git, by
#: which a checkout came here.
PACKAGES = sorted(
    {name for name, _ in build.DEBIAN_PACKAGES} - NOT_NEEDED
    | {build.CROSS_COMPILERS[platform.machine()], "git"}
)
FRESH_S = 7 * 24 * 3600
OLDEST = ("bookworm", build.MIN_PYTHON)
NEWEST = "sid"
TOO_OLD = ("bullseye", "python3.9")

#: A process of its own with /proc, /sys and /dev of the machine, in ROOT; everything ends with it.
IN_ROOT = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
root=$1; shift
exec chroot "$root" env -i HOME=/root PATH=/usr/bin:/usr/sbin:/bin LC_ALL=C.UTF-8 \
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_ROOT_USER_ACTION=ignore \
    sh -c 'cd /checkout && exec "$@"' sh "$@"
"""


class Failed(Exception):
    """The text says what could not be done, and why."""


def say(text: str) -> None:
    print(f"  python   {text}", file=sys.stderr, flush=True)


def run(*argv: object, cwd: Path | None = None) -> str:
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Failed(f"{words[0]} is not installed; run: python3 build.py deps") from None
    if done.returncode:
        raise Failed(f"{' '.join(words[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Root:
    """A root directory of one suite of Debian with what the tests need in it.

    Tests of something else name their own ``packages``, and a directory of their own for them.
    """

    def __init__(
        self, suite: str, packages: Sequence[str] = PACKAGES, name: str | None = None
    ) -> None:
        self.suite = suite
        self.packages = packages
        self.path = cache_root() / "pythons" / (name or suite)
        self.stamp = self.path.with_suffix(".stamp")

    def prepare(self) -> None:
        """Make it, unless it is there and fresh."""
        wanted = " ".join(self.packages)
        try:
            age = time.time() - self.stamp.stat().st_mtime
            if age < FRESH_S and self.stamp.read_text() == wanted:
                return
        except OSError:
            pass  # not there yet
        say(f"a root directory of Debian {self.suite}")
        self.stamp.unlink(missing_ok=True)
        self._delete()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        apt = AptRoot(self.suite)
        apt.update()
        acquire = [
            line
            for line in (apt.root / "deb" / "apt.conf").read_text().splitlines()
            if line.startswith("Acquire::")
        ]
        run(
            *("mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(self.packages)}"),
            *(f"--aptopt={line}" for line in acquire),
            *("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"),
            *(self.suite, self.path, apt.root / "deb" / "etc" / "debian.sources"),
        )
        self.stamp.write_text(wanted)

    def _delete(self) -> None:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        places = [line.split()[4] for line in mounts]
        inside = [place for place in places if place.startswith(f"{self.path}/")]
        if inside:
            raise Failed(f"{inside[0]} is still mounted; unmount it, then try again")
        if self.path.exists():
            shutil.rmtree(self.path)

    @property
    def python(self) -> str:
        """``3.14``: its Python."""
        return (self.path / "usr/bin/python3").readlink().name.removeprefix("python")

    def fetch_wheels(self) -> None:
        """Have what pip is to install in there, fetched by the machine's own pip and network."""
        told = tomllib.loads((HERE / "pyproject.toml").read_text())
        project = told["project"]
        wanted = [
            *told["build-system"]["requires"],
            *project["dependencies"],
            *project["optional-dependencies"]["dev"],
        ]
        wheels = self.path / "wheels"
        stamp = wheels / "stamp"
        value = hashlib.sha256("\0".join([self.python, *wanted]).encode()).hexdigest()
        if stamp.is_file() and stamp.read_text() == value:
            return
        say(f"wheels for Python {self.python}")
        shutil.rmtree(wheels, ignore_errors=True)
        run(
            *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"),
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", self.python),
            *("-d", wheels, *wanted),
        )
        stamp.write_text(value)

    def copy_checkout(self) -> None:
        """Copy the sources of this checkout, and what was built of it for no Python."""
        target = self.path / "checkout"
        kept = {"build", ".venv", ".hypothesis"}
        for old in target.iterdir() if target.exists() else ():
            if old.name in kept:
                continue
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        names = run("git", "ls-files", "-co", "--exclude-standard", cwd=HERE).splitlines()
        for name in names:
            if (HERE / name).is_file():
                copy = target / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(HERE / name, copy)
        for built in ("build/libbpf", "build/bpf", "src/retsnoop_py/bpf"):
            shutil.rmtree(target / built, ignore_errors=True)
            shutil.copytree(HERE / built, target / built)

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the copied checkout, with output of its own."""
        unshare = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IN_ROOT)
        return subprocess.run(
            [*unshare, "sh", str(self.path), *argv], text=True, check=False, stdout=subprocess.PIPE
        )

    def test(self) -> str:
        """Build there and run the tests; a line that says how they ended."""
        with locked(self.path.with_suffix(".lock")):
            self.prepare()
            self.fetch_wheels()
            self.copy_checkout()
            say(f"{self.python} (Debian {self.suite}): the extensions, unit and golden tests")
            if self.call("python3", "build.py", "venv").returncode:
                raise Failed(f"retsnoop-py cannot be built on Python {self.python}")
            done = self.call(
                *(".venv/bin/python", "-m", "pytest", "-q", "-n", str(os.cpu_count() or 1)),
                # thorough ones say more of the compilers there than of Python
                *("-p", "no:cacheprovider", "-m", "not thorough", "tests/unit", "tests/golden"),
            )
        last = done.stdout.strip().rpartition("\n")[2]
        if done.returncode:
            raise Failed(f"{done.stdout}\nPython {self.python} (Debian {self.suite}): {last}")
        return f"Python {self._full()} (Debian {self.suite}): {last}"

    def _full(self) -> str:
        return self.call("python3", "--version").stdout.split()[-1]


@contextmanager
def too_old() -> Iterator[Sequence[str]]:
    """The words that start a Python older than 3.11, unpacked from Debian's packages."""
    suite, name = TOO_OLD
    home = cache_root() / "pythons" / suite
    with locked_home(home):
        if not (home / "usr/bin" / name).exists():
            say(f"{name} of Debian {suite}")
            for package in (f"{name}-minimal", f"lib{name}-minimal", f"lib{name}-stdlib"):
                deb = AptRoot(suite).download(package, home)
                run("dpkg-deb", "-x", deb, home)
                deb.unlink()
    yield ["env", f"PYTHONHOME={home}/usr", f"PYTHONPATH={HERE}/src", f"{home}/usr/bin/{name}"]


@contextmanager
def locked_home(home: Path) -> Iterator[None]:
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "lock"):
        yield


def refusals() -> list[str]:
    """What a Python that is too old says of build.py and of the program: one sentence each."""
    told = []
    with too_old() as python:
        for words in (("build.py", "all"), ("-m", "retsnoop_py", "--version")):
            done = subprocess.run(
                [*python, *words], cwd=HERE, capture_output=True, text=True, check=False
            )
            said = done.stdout + done.stderr
            if not done.returncode or not re.fullmatch(r"[^\n]+3\.11 or later[^\n]+\n", said):
                raise Failed(f"{TOO_OLD[1]} {' '.join(words)} (status {done.returncode}):\n{said}")
            told.append(said.strip())
    return told


def main() -> int:
    """All of it; the exit status."""
    if os.geteuid():
        print("test-python needs root, for chroot: sudo make test-python", file=sys.stderr)
        return 1
    started = time.monotonic()
    here = sys.version_info[:2]
    suites = [NEWEST] if here == OLDEST[1] else [OLDEST[0], NEWEST]
    try:
        results = refusals()
        results += [Root(suite).test() for suite in suites]
    except (Failed, RetsnoopError, OSError) as error:
        print(f"test-python: {error}", file=sys.stderr)
        return 1
    if here == OLDEST[1]:
        results.append(f"Python {sys.version.split()[0]}: test-unit and test-golden, of .venv")
    print("\n".join([*results, f"done in {time.monotonic() - started:.0f} s"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
