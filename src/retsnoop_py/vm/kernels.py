# SPDX-License-Identifier: BSD-2-Clause
"""Kernels to boot: Debian kernels by name, fetched into the cache, or the user's own images.

:mod:`~retsnoop_py.vm.catalog` maps names to packages. A fetch looks up the newest package. Cached
kernels stay until the next :func:`fetch`::

    kernels/NAME/VERSION/         vmlinuz, lib/modules/RELEASE with config, debug, kernel.json
    kernels/NAME/current          a link to the current version of NAME
    kernels/arm64/NAME/           the same layout for arm64, on every host

A version in use by a guest is locked; a later fetch removes it. Caches of older releases have one
version, directly in ``kernels/NAME``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from retsnoop_py import listener
from retsnoop_py.errors import DataError, InputError, UnavailableError
from retsnoop_py.foreign_json import decode
from retsnoop_py.foreign_path import open_file
from retsnoop_py.vm.architecture import ARCHITECTURES, Architecture, architecture, host, split
from retsnoop_py.vm.catalog import DEFAULT, KnownKernel, all_known, catalog, known, user_file
from retsnoop_py.vm.debian import AptRoot, cache_root, failed, locked, room_told, run_tool
from retsnoop_py.vm.initrd import write_index, write_kmod_index

__all__ = [
    "DEFAULT",
    "Kernel",
    "KnownKernel",
    "SeriesGone",
    "all_known",
    "cached",
    "catalog",
    "ensure",
    "fetch",
    "from_path",
    "hold",
    "image_release",
    "is_name",
    "kernel_dir",
    "known",
    "of_architecture",
    "split",
    "tree_size",
    "user_file",
]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that can be booted.

    ``modules`` is a directory like ``/lib/modules/RELEASE``. ``debug`` is the root of an unpacked
    debug package, which contains ``usr/lib/debug/...``; ``vmlinux`` is its image with DWARF.
    ``folder`` is the version's folder in the cache, or None for the user's own image.
    """

    name: str
    release: str
    image: Path
    modules: Path | None = None
    debug: Path | None = None
    vmlinux: Path | None = None
    package: str = ""
    folder: Path | None = None
    arch: Architecture = field(default_factory=host)


class SeriesGone(UnavailableError):
    """Neither Debian's suites nor the cache contain a package of this kernel any more."""


class _Meta(msgspec.Struct):
    """The fields of ``kernel.json``."""

    release: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
    package: str
    version: str
    suite: str = ""


class _Voice:
    """The progress output of a fetch: lines to ``say``, or to the current listener."""

    def __init__(self, name: str, say: Callable[[str], None] | None) -> None:
        self._name = name
        self._say = say

    def __call__(self, line: str) -> None:
        if self._say:
            self._say(line)
        else:
            listener.current().say(f"{self._name}: {line}")

    @contextlib.contextmanager
    def progress(self, what: str, size: int) -> Iterator[Callable[[int], None]]:
        """Yield a function that receives the number of bytes so far; shown to people only."""
        if self._say:
            yield lambda _: None
            return
        with listener.current().progress(f"{self._name}: {what}", "bytes") as shown:
            yield lambda done: shown.update(done, size)


def is_name(text: str) -> bool:
    """Return True if ``text`` is a kernel's name, with or without its architecture.

    Other texts with a slash, and existing files, are paths of images.
    """
    return not Path(text).is_file() and "/" not in split(text)[1]


def of_architecture(name: str, arch: str) -> str:
    """Return kernel ``name`` with its ``arch``: ``arm64/7.2``. Raises InputError if they differ."""
    wanted = architecture(arch)
    before, slash, _ = name.partition("/")
    if not slash:
        return f"{wanted.name}/{name}"
    if split(name)[0] is not wanted or architecture(before) is not wanted:
        raise InputError(f"the kernel {name} is not of {wanted.name}")
    return name


def kernel_dir(name: str) -> Path:
    """Return the cache folder for the versions of kernel ``name``; it may not exist."""
    arch, plain = split(name)
    home = cache_root() / "kernels"
    return home / plain if arch is ARCHITECTURES["x86_64"] else home / arch.name / plain


def cached(name: str) -> Kernel | None:
    """Return kernel ``name`` from the cache; None if it is missing or damaged."""
    home = kernel_dir(name)
    current = home / "current"
    folder = current.resolve() if current.exists() else home
    meta = _read_meta(folder)
    image = folder / "vmlinuz"
    if meta is None or not image.is_file():
        return None
    debug = folder / "debug"
    vmlinux = _find_vmlinux(debug, meta.release) if debug.is_dir() else None
    return Kernel(
        name=name,
        release=meta.release,
        image=image,
        modules=folder / "lib" / "modules" / meta.release,
        debug=debug if vmlinux else None,
        vmlinux=vmlinux,
        package=f"{meta.package} {meta.version}",
        folder=folder,
        arch=split(name)[0],
    )


def _read_meta(folder: Path) -> _Meta | None:
    try:
        return decode(msgspec.json.Decoder(_Meta), (folder / "kernel.json").read_bytes())
    except (OSError, DataError):
        return None  # a new fetch repairs the cache


def hold(kernel: Kernel) -> int | None:
    """Return a descriptor that protects the cached files of ``kernel`` until it is closed.

    Return None for the user's own image. Raises UnavailableError if the files were removed.
    """
    if kernel.folder is None:
        return None
    with contextlib.suppress(OSError):
        handle = os.open(kernel.folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if kernel.image.is_file():
            return handle
        os.close(handle)
    raise UnavailableError(
        f"a newer version of {kernel.name} has just replaced {kernel.package}",
        "run it again",
    )


def ensure(name: str, debug: bool = False) -> Kernel:
    """Return kernel ``name`` from the cache; fetch missing files, with ``debug`` also DWARF."""
    known(name)
    have = cached(name)
    if have is None or (debug and not have.vmlinux):
        have = fetch(name, debug)
    if have.modules:
        with room_told(f"cannot index the modules of {name}"):
            write_kmod_index(have.modules)
    return have


def fetch(name: str, debug: bool = False, say: Callable[[str], None] | None = None) -> Kernel:
    """Bring the newest version of kernel ``name`` into the cache, with DWARF if ``debug``.

    Progress lines go to ``say``, by default to stderr. If Debian's suites no longer contain the
    kernel, a cached version is kept. Raises InputError for an unknown name, UnavailableError if
    apt cannot fetch the kernel, OutputError if the disk is full. In all cases, the cache contains
    only complete versions.
    """
    spec = known(name)
    tell = _Voice(name, say)
    home = kernel_dir(name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(room_told(f"cannot fetch {name}"))
        home.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(home.parent / f".{home.name}.lock"))
        have = cached(name)
        found = _locate(spec, tell)
        if found is None:
            if have is None:
                raise _gone(spec)
            tell(
                f"Debian {' or '.join(spec.suites)} does not have its package any more; "
                f"keeping {have.package}"
            )
            return have
        apt, package, version = found
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
        if have.folder != home:
            _drop_others(home, have.folder)
        return have


def _locate(spec: KnownKernel, tell: _Voice) -> tuple[AptRoot, str, str] | None:
    """Return the first suite with a package of ``spec``, the newest package and its version."""
    for suite in spec.suites:
        apt = AptRoot(suite, arch=architecture(spec.arch).debian)
        tell(f"looking in Debian {suite}")
        apt.update(force=True)
        found = apt.newest(spec.image)
        if found:
            return apt, *found
    return None


def _gone(spec: KnownKernel) -> SeriesGone:
    return SeriesGone(
        f"no package named like {spec.image} in Debian {' or '.join(spec.suites)}",
        "suites move on: take the kernel called newest, give the path of an image, or name the "
        f"package of today in {user_file()}",
    )


def _fetch_image(spec: KnownKernel, apt: AptRoot, package: str, version: str, tell: _Voice) -> None:
    """Download and unpack the packages of ``spec``, then move them into the cache atomically."""
    home = kernel_dir(spec.name)
    with _staging(home / ".new") as staging:
        unpacked = _unpack(apt, f"{package}={version}", staging, tell)
        image = _find_image(unpacked)
        release = image_release(image)[1]
        for pattern in spec.also:
            _unpack(apt, f"{pattern.replace('{release}', release)}={version}", staging, tell)
        modules = staging / "lib" / "modules" / release
        modules.parent.mkdir(parents=True)
        trees = [*unpacked.glob(f"lib/modules/{release}"), *unpacked.glob("usr/lib/modules/*")]
        if not trees:
            raise UnavailableError(f"{package} {version} and its dependencies contain no modules")
        shutil.move(image, staging / "vmlinuz")
        shutil.move(trees[0], modules)
        for config in unpacked.glob(f"boot/config-{release}"):
            shutil.move(config, modules / "config")  # the guest sees it in /boot
        tell("indexing modules")
        write_index(modules)
        shutil.rmtree(unpacked)
        meta = _Meta(release, package, version, apt.suite)
        (staging / "kernel.json").write_bytes(msgspec.json.encode(meta) + b"\n")
        folder = home / version
        shutil.rmtree(folder, ignore_errors=True)  # an existing folder was damaged
        staging.rename(folder)
        _point(home / "current", version)
    tell(f"ready: Linux {release}, {tree_size(folder) >> 20} MB")


def _fetch_debug(
    spec: KnownKernel, apt: AptRoot, kernel: Kernel, version: str, tell: _Voice
) -> None:
    assert kernel.folder is not None
    with _staging(kernel.folder / ".debug.new") as staging:
        package = spec.debug.replace("{release}", kernel.release)
        unpacked = _unpack(apt, f"{package}={version}", staging, tell)
        if not _find_vmlinux(unpacked, kernel.release):
            raise UnavailableError(f"{package} {version} contains no vmlinux")
        debug = kernel.folder / "debug"
        shutil.rmtree(debug, ignore_errors=True)
        unpacked.rename(debug)
    tell(f"ready: debug files of Linux {kernel.release}, {tree_size(debug) >> 20} MB")


@contextlib.contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Yield an empty staging ``folder``; remove it at the end, unless it was renamed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _point(link: Path, target: str) -> None:
    """Make the symbolic link ``link`` point to ``target`` atomically."""
    fresh = link.with_name(".current.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _drop_others(home: Path, keep: Path | None) -> None:
    """Remove the versions in ``home`` other than ``keep`` that no guest runs."""
    for folder in home.iterdir():
        whole = (folder / "kernel.json").exists() and not folder.is_symlink()
        if whole and folder != keep:
            _drop(folder, [folder])
    if (home / "kernel.json").exists():  # a cache of an older release, see above
        names = ("vmlinuz", "lib", "debug", ".debug.new", "release", "kernel.json")
        _drop(home, [home / name for name in names])


def _drop(version: Path, parts: list[Path]) -> None:
    """Remove ``parts`` of the folder ``version``, unless a guest uses it."""
    handle = os.open(version, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        for part in parts:
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _unpack(apt: AptRoot, package: str, staging: Path, tell: _Voice) -> Path:
    """Download ``package`` and unpack it into the folder ``unpacked`` in ``staging``."""
    what = f"downloading {package.partition('=')[0]}"
    tell(what)
    with tell.progress(what, apt.size(package)) as watch:
        archive = apt.download(package, staging, watch)
    tell(f"unpacking {archive.stat().st_size >> 20} MB")
    unpacked = staging / "unpacked"
    unpacked.mkdir(exist_ok=True)
    done = run_tool(["dpkg-deb", "-x", str(archive), str(unpacked)])
    if done.returncode:
        raise failed(f"cannot unpack {archive.name}", done.stderr, DataError)
    archive.unlink()
    return unpacked


def _find_image(root: Path) -> Path:
    images = [*root.glob("boot/vmlinuz-*"), *root.glob("usr/lib/modules/*/vmlinuz")]
    if not images:
        raise UnavailableError("the kernel package contains no vmlinuz")
    return images[0]


def _find_vmlinux(debug: Path, release: str) -> Path | None:
    folder = debug / "usr" / "lib" / "debug"
    places = (
        folder / "boot" / f"vmlinux-{release}",
        folder / "lib" / "modules" / release / "vmlinux",
        folder / "usr" / "lib" / "modules" / release / "vmlinux",
    )
    return next((place for place in places if place.is_file()), None)


_ARM64_MAGIC = slice(0x38, 0x3C)
_GZIP_MAGIC = b"\x1f\x8b"
#: Bytes of an image to search for the kernel's banner, which is in the read-only data.
_BANNER_WITHIN = 64 << 20


def image_release(image: Path) -> tuple[Architecture, str]:
    """Return the architecture of a kernel image and its release (``uname -r``).

    An x86 bzImage has a pointer to the version string at offset 0x20e of the file, counted from
    0x200 (Documentation/arch/x86/boot.rst). An arm64 Image, also one packed by gzip, has a magic
    number at 0x38 (Documentation/arch/arm64/booting.rst) and no version; the release is read from
    the kernel's banner. Raises InputError or DataError.
    """
    try:
        with open_file(image) as file:
            head = file.read(0x10000)
            if head[0x202:0x206] == b"HdrS" and len(head) >= 0x210:
                return ARCHITECTURES["x86_64"], _setup_release(image, head)
            data = head + file.read(_BANNER_WITHIN)
    except OSError as error:
        raise InputError(f"cannot read kernel image {image}: {error.strerror}") from error
    if data.startswith(_GZIP_MAGIC):
        with contextlib.suppress(zlib.error):
            data = zlib.decompressobj(wbits=31).decompress(data, _BANNER_WITHIN)
    if data[_ARM64_MAGIC] != b"ARM\x64":
        raise DataError(
            f"{image} is not a kernel image of x86 (bzImage) or arm64 (Image, Image.gz)",
            "give the file from arch/x86/boot/bzImage, arch/arm64/boot/Image or "
            "/boot/vmlinuz-*, not vmlinux",
        )
    banner = re.search(rb"Linux version ([0-9][!-~]*) ", data)
    if not banner:
        raise DataError(f"{image} contains no version string")
    return ARCHITECTURES["arm64"], banner[1].decode()


def _setup_release(image: Path, head: bytes) -> str:
    start = 0x200 + int(struct.unpack_from("<H", head, 0x20E)[0])
    words = head[start : head.find(b"\0", start)].split()
    if not words:
        raise DataError(f"{image} contains no version string")
    return words[0].decode(errors="replace")


def from_path(image: Path, modules: Path | None = None, arch: str | None = None) -> Kernel:
    """Return the user's own kernel image, with its modules from ``modules`` or a usual place.

    ``modules`` may be the tree itself or a directory with ``RELEASE`` or ``lib/modules/RELEASE``
    in it. Raises InputError if a path does not exist, or the image is not of ``arch``.
    """
    its, release = image_release(image)
    if arch is not None and architecture(arch) is not its:
        raise InputError(f"{image} is a kernel of {its.name}, not of {architecture(arch).name}")
    tails = (".", release, f"modules/{release}", f"lib/modules/{release}")
    if modules is not None:
        found = _module_tree(modules, release, tails)
        if not found:
            raise InputError(
                f"no modules of Linux {release} in {modules}",
                f"expected {modules}/lib/modules/{release} or {modules}/modules.dep",
            )
    else:
        found = _module_tree(image.resolve().parent, release, tails[1:])
        found = found or _module_tree(Path("/"), release, (f"lib/modules/{release}",))
    return Kernel(str(image), release, image.resolve(), found, arch=its)


def _module_tree(base: Path, release: str, tails: tuple[str, ...]) -> Path | None:
    marks = ("kernel", "modules.dep", "modules.builtin", "modules.order")
    for tail in tails:
        place = base / tail
        named = tail == "." or place.name == release
        if named and any((place / mark).exists() for mark in marks):
            return place.resolve()
    return None


def tree_size(root: Path) -> int:
    """Return the bytes that the files below ``root`` use; 0 if ``root`` does not exist."""
    return sum(
        (Path(folder) / file).lstat().st_blocks * 512
        for folder, _, files in os.walk(root)
        for file in files
    )
