# SPDX-License-Identifier: BSD-2-Clause
"""Kernels to boot: Debian's by short name, fetched into the cache, or an image of the user's own.

A name stands for a suite, not for one version: suites move, so the newest package is looked up
when a kernel is fetched. What is in the cache stays until the next :func:`fetch`.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retsnoop_py.errors import DataError, InputError, UnavailableError
from retsnoop_py.vm.debian import AptRoot, cache_root, locked
from retsnoop_py.vm.modules import write_index, write_kmod_index

__all__ = [
    "DEFAULT",
    "KNOWN",
    "Kernel",
    "KnownKernel",
    "cached",
    "ensure",
    "fetch",
    "from_path",
    "image_release",
    "kernel_dir",
    "known",
    "tree_size",
]

DEFAULT = "6.12"


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """A kernel with a name: where its packages are.

    ``image`` is a pattern of the package with the kernel; ``also`` are packages beside it and
    ``debug`` the one with DWARF, with ``{release}`` standing for the kernel's release.
    """

    name: str
    suite: str
    image: str
    also: tuple[str, ...] = ()
    debug: str = "linux-image-{release}-dbg"
    about: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that can be booted.

    ``modules`` is a directory like ``/lib/modules/RELEASE``; ``debug`` the root of an unpacked
    debug package (``usr/lib/debug/...`` below it), ``vmlinux`` the image with DWARF in there.
    """

    name: str
    release: str
    image: Path
    modules: Path | None = None
    debug: Path | None = None
    vmlinux: Path | None = None
    package: str = ""


def _known(name: str, suite: str, image: str, about: str, also: tuple[str, ...] = ()) -> None:
    # the cloud flavour is a third of the size and has the same BPF and tracing settings; it has
    # virtiofs but no 9p. The ordinary flavour has 9p.
    for suffix, flavour in (("", "cloud-amd64"), ("-full", "amd64")):
        KNOWN[name + suffix] = KnownKernel(
            name + suffix, suite, image.replace("FLAVOUR", flavour), also, about=about
        )


KNOWN: dict[str, KnownKernel] = {}
_known(
    "5.10",
    "bullseye",
    r"linux-image-5\.10\.0-[0-9]+-FLAVOUR-unsigned",
    "oldest in the field: single kprobes, no attach cookies",
)
_known(
    "6.1",
    "bookworm",
    r"linux-image-6\.1\.0-[0-9]+-FLAVOUR-unsigned",
    "Debian 12: cookies, but no FPROBE and so no kprobe.multi",
)
_known(
    "6.12",
    "trixie",
    r"linux-image-6\.12\.[0-9]+\+deb13(?:\.[0-9]+)?-FLAVOUR-unsigned",
    "Debian 13: kprobe.multi and kprobe.session, IBT",
)
_known(
    "7.2",
    "sid",
    # the newest in sid, 7.2 or later; the package split into binary, modules and base there
    r"linux-binary-(?:7\.[2-9]|7\.[1-9][0-9]|[89])[0-9.]*\+deb[0-9]+(?:\.[0-9]+)?-FLAVOUR",
    "newest in sid, 7.2 or later: fsession.multi, fprobe on fgraph",
    also=("linux-modules-{release}", "linux-base-{release}"),
)
_known(
    "7.3",
    "trixie-backports",
    r"linux-binary-7\.3\.[0-9]+\+deb13(?:\.[0-9]+)?-FLAVOUR",
    "Debian 13's backports: a verifier that explains itself, virtiofs built in",
    also=("linux-modules-{release}", "linux-base-{release}"),
)


def kernel_dir(name: str) -> Path:
    """Where kernel ``name`` lives in the cache, fetched or not."""
    return cache_root() / "kernels" / name


def known(name: str) -> KnownKernel:
    """The kernel called ``name``. Raises InputError for a name that is not known."""
    try:
        return KNOWN[name]
    except KeyError:
        names = ", ".join(each for each in KNOWN if not each.endswith("-full"))
        raise InputError(
            f"no kernel called {name}",
            f"known are {names}, each also with -full; or give the path of a kernel image",
        ) from None


def cached(name: str) -> Kernel | None:
    """Kernel ``name`` as it lies in the cache, or None where it was not fetched yet."""
    home = kernel_dir(name)
    try:
        meta = json.loads((home / "kernel.json").read_text())
    except FileNotFoundError:
        return None
    release = meta["release"]
    debug = home / "debug"
    vmlinux = _find_vmlinux(debug, release) if debug.is_dir() else None
    return Kernel(
        name=name,
        release=release,
        image=home / "vmlinuz",
        modules=home / "lib" / "modules" / release,
        debug=debug if vmlinux else None,
        vmlinux=vmlinux,
        package=f"{meta['package']} {meta['version']}",
    )


def ensure(name: str, debug: bool = False) -> Kernel:
    """Kernel ``name`` from the cache, fetched only if it (or its debug files) is not there."""
    known(name)
    have = cached(name)
    if have is None or (debug and not have.vmlinux):
        have = fetch(name, debug)
    if have.modules:
        write_kmod_index(have.modules)
    return have


def fetch(name: str, debug: bool = False, say: Callable[[str], None] | None = None) -> Kernel:
    """Bring the newest version of kernel ``name`` into the cache, with DWARF if ``debug``.

    Progress goes line by line to ``say``, by default to stderr. Raises InputError for an unknown
    name, UnavailableError where apt cannot bring it.
    """
    spec = known(name)
    tell = say or (lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True))
    home = kernel_dir(name)
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.parent / f".{name}.lock"):
        apt = AptRoot(spec.suite)
        tell(f"looking in Debian {spec.suite}")
        apt.update(force=True)
        package, version = apt.newest(spec.image)
        have = cached(name)
        if have and have.package == f"{package} {version}":
            tell(f"{package} {version} is in the cache already")
        else:
            tell(f"found {package} {version}")
            _fetch_image(spec, apt, package, version, tell)
        have = cached(name)
        assert have is not None
        if debug and not have.vmlinux:
            _fetch_debug(spec, apt, have, version, tell)
            have = cached(name)
            assert have is not None
        return have


def _fetch_image(
    spec: KnownKernel, apt: AptRoot, package: str, version: str, tell: Callable[[str], None]
) -> None:
    """Download and unpack the packages of ``spec`` and put them in place in one step."""
    home = kernel_dir(spec.name)
    staging = home.parent / f".{spec.name}.new"
    shutil.rmtree(staging, ignore_errors=True)
    unpacked = staging / "unpacked"
    try:
        _unpack(apt, f"{package}={version}", unpacked, tell)
        image = _find_image(unpacked)
        release = image_release(image)
        for pattern in spec.also:
            _unpack(apt, f"{pattern.format(release=release)}={version}", unpacked, tell)
        modules = staging / "lib" / "modules" / release
        modules.parent.mkdir(parents=True)
        trees = [*unpacked.glob(f"lib/modules/{release}"), *unpacked.glob("usr/lib/modules/*")]
        shutil.move(image, staging / "vmlinuz")
        shutil.move(trees[0], modules)
        tell("indexing modules")
        write_index(modules)
        shutil.rmtree(unpacked)
        meta = {"release": release, "package": package, "version": version, "suite": spec.suite}
        (staging / "kernel.json").write_text(json.dumps(meta, indent=1) + "\n")
        (staging / "release").write_text(release + "\n")
        shutil.rmtree(home, ignore_errors=True)
        staging.rename(home)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    tell(f"ready: Linux {release}, {tree_size(home) >> 20} MB")


def _fetch_debug(
    spec: KnownKernel, apt: AptRoot, kernel: Kernel, version: str, tell: Callable[[str], None]
) -> None:
    home = kernel_dir(spec.name)
    staging = home / ".debug.new"
    shutil.rmtree(staging, ignore_errors=True)
    try:
        package = spec.debug.format(release=kernel.release)
        _unpack(apt, f"{package}={version}", staging, tell)
        if not _find_vmlinux(staging, kernel.release):
            raise UnavailableError(f"{package} {version} holds no vmlinux")
        shutil.rmtree(home / "debug", ignore_errors=True)
        staging.rename(home / "debug")
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    tell(f"ready: debug files of Linux {kernel.release}, {tree_size(home / 'debug') >> 20} MB")


def _unpack(apt: AptRoot, package: str, dest: Path, tell: Callable[[str], None]) -> None:
    tell(f"downloading {package.partition('=')[0]}")
    archive = apt.download(package, dest.parent)
    try:
        tell(f"unpacking {archive.stat().st_size >> 20} MB")
        dest.mkdir(exist_ok=True)
        argv = ["dpkg-deb", "-x", str(archive), str(dest)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            raise DataError(f"cannot unpack {archive.name}: {done.stderr.strip()}")
    finally:
        archive.unlink()


def _find_image(root: Path) -> Path:
    images = [*root.glob("boot/vmlinuz-*"), *root.glob("usr/lib/modules/*/vmlinuz")]
    if not images:
        raise UnavailableError("the kernel package holds no vmlinuz")
    return images[0]


def _find_vmlinux(debug: Path, release: str) -> Path | None:
    folder = debug / "usr" / "lib" / "debug"
    places = (
        folder / "boot" / f"vmlinux-{release}",
        folder / "lib" / "modules" / release / "vmlinux",
        folder / "usr" / "lib" / "modules" / release / "vmlinux",
    )
    return next((place for place in places if place.is_file()), None)


def image_release(image: Path) -> str:
    """The release (``uname -r``) a bzImage carries in its setup header.

    Offset 0x20e of the file holds a pointer to the version string, counted from 0x200
    (Documentation/arch/x86/boot.rst). Raises InputError or DataError.
    """
    try:
        with image.open("rb") as file:
            head = file.read(0x10000)
    except OSError as error:
        raise InputError(f"cannot read kernel image {image}: {error.strerror}") from error
    if head[0x202:0x206] != b"HdrS":
        raise DataError(
            f"{image} is not an x86 kernel image (bzImage)",
            "give the file from arch/x86/boot/bzImage or /boot/vmlinuz-*, not vmlinux",
        )
    start = 0x200 + int(struct.unpack_from("<H", head, 0x20E)[0])
    words = head[start : head.find(b"\0", start)].split()
    if not words:
        raise DataError(f"{image} carries no version string")
    return words[0].decode(errors="replace")


def from_path(image: Path, modules: Path | None = None) -> Kernel:
    """A kernel image of the user's own; modules from ``modules`` or the usual places beside it.

    ``modules`` may be the tree itself or a directory with ``RELEASE`` or ``lib/modules/RELEASE``
    in it. Raises InputError if something named does not exist.
    """
    release = image_release(image)
    tails = (".", release, f"modules/{release}", f"lib/modules/{release}")
    if modules is not None:
        found = _module_tree(modules, release, tails)
        if not found:
            raise InputError(
                f"no modules of Linux {release} in {modules}",
                f"expected {modules}/lib/modules/{release} or modules.dep right in it",
            )
    else:
        found = _module_tree(image.resolve().parent, release, tails[1:])
        found = found or _module_tree(Path("/"), release, (f"lib/modules/{release}",))
    return Kernel(str(image), release, image.resolve(), found)


def _module_tree(base: Path, release: str, tails: tuple[str, ...]) -> Path | None:
    marks = ("kernel", "modules.dep", "modules.builtin", "modules.order")
    for tail in tails:
        place = base / tail
        named = tail == "." or place.name == release
        if named and any((place / mark).exists() for mark in marks):
            return place.resolve()
    return None


def tree_size(root: Path) -> int:
    """Bytes taken by the files below ``root``; 0 where there is nothing."""
    return sum(
        (Path(folder) / file).lstat().st_blocks * 512
        for folder, _, files in os.walk(root)
        for file in files
    )
