# SPDX-License-Identifier: BSD-2-Clause
"""Which package a kernel's name stands for, and kernels given as files."""

from __future__ import annotations

import errno
import gzip
import json
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from retsnoop_py.errors import DataError, InputError, OutputError, UnavailableError
from retsnoop_py.vm import kernels
from retsnoop_py.vm.architecture import ARCHITECTURES
from retsnoop_py.vm.debian import failed

PACKAGES = {
    "5.10": "linux-image-5.10.0-32-cloud-amd64-unsigned",
    "5.10-full": "linux-image-5.10.0-32-amd64-unsigned",
    "6.1": "linux-image-6.1.0-50-cloud-amd64-unsigned",
    "6.1-full": "linux-image-6.1.0-50-amd64-unsigned",
    "6.12": "linux-image-6.12.107+deb13-cloud-amd64-unsigned",
    "6.12-full": "linux-image-6.12.107+deb13-amd64-unsigned",
    "7.2": "linux-binary-7.2.13+deb14-cloud-amd64",
    "7.2-full": "linux-binary-7.2.13+deb14-amd64",
    "7.3": "linux-binary-7.3.4+deb13-cloud-amd64",
    "7.3-full": "linux-binary-7.3.4+deb13-amd64",
}
OTHERS = [
    "linux-image-6.1.0-50-rt-amd64-unsigned",
    "linux-image-6.1.0-50-cloud-amd64-dbg",
    "linux-image-6.12.107+deb13-cloud-amd64-dbg",
    "linux-image-6.12.107+deb13-cloud-amd64",
    "linux-image-6.16.3+deb13-cloud-amd64-unsigned",
    "linux-image-cloud-amd64",
    "linux-binary-unsigned-7.2.13+deb14-cloud-amd64",
    "linux-binary-7.1.9+deb14-cloud-amd64",
    "linux-binary-7.2.13+deb14-rt-amd64",
    "linux-binary-7.4.0~rc2+deb13-cloud-amd64",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_selects_its_package_and_no_other(name: str) -> None:
    pattern = kernels.known(name).image
    candidates = [*PACKAGES.values(), *OTHERS]
    assert [each for each in candidates if re.fullmatch(pattern, each)] == [PACKAGES[name]]


@pytest.mark.parametrize("version", ["7.2.13+deb14", "7.10.2+deb14", "8.0+deb15.1"])
def test_newest_takes_any_series_but_no_other_flavour(version: str) -> None:
    pattern = re.compile(kernels.known("newest").image)
    assert pattern.fullmatch(f"linux-binary-{version}-cloud-amd64")
    assert not pattern.fullmatch(f"linux-binary-{version}-amd64")
    assert not pattern.fullmatch(f"linux-binary-{version}-rt-amd64")


def bzimage(release: str) -> bytes:
    image = bytearray(0x2000)
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x20E, 0x1000)
    words = f"{release} (builder@host) #1 SMP\0".encode()
    image[0x1200 : 0x1200 + len(words)] = words
    return bytes(image)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "bzImage"
    path.write_bytes(bzimage("6.99.0-own"))
    return path


def test_an_image_tells_its_release(image: Path) -> None:
    assert kernels.image_release(image) == (ARCHITECTURES["x86_64"], "6.99.0-own")


@pytest.mark.parametrize("size", [0x206, 0x20F])
def test_an_image_that_ends_in_its_header_is_none(size: int, tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(bzimage("6.99.0")[:size])
    with pytest.raises(DataError, match="is not a kernel image"):
        kernels.image_release(tmp_path / "bzImage")


def test_a_fifo_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bzImage")
    with pytest.raises(DataError, match="is not a regular file"):
        kernels.image_release(tmp_path / "bzImage")


def arm64_image(release: str) -> bytes:
    image = bytearray(0x30000)
    image[0x38:0x3C] = b"ARM\x64"
    words = f"Linux version {release} (builder@host) #1 SMP\0".encode()
    image[0x20000 : 0x20000 + len(words)] = words
    return bytes(image)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_image_of_arm64_is_known_by_its_own_magic(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "Image"
    path.write_bytes(pack(arm64_image("6.99.0-own")))
    kernel = kernels.from_path(path)
    assert (kernel.arch, kernel.release) == (ARCHITECTURES["arm64"], "6.99.0-own")
    assert kernels.from_path(path, arch="aarch64") == kernel
    with pytest.raises(InputError, match=r"is a kernel of arm64, not of x86_64"):
        kernels.from_path(path, arch="x86_64")
    path.write_bytes(pack(arm64_image("6.99.0-own").replace(b"Linux version", b"Linux varsion")))
    with pytest.raises(DataError, match="no version string"):
        kernels.from_path(path)


def test_a_damaged_packed_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Image.gz"
    path.write_bytes(gzip.compress(arm64_image("6.99.0"))[:20] + bytes(4000))
    with pytest.raises(DataError):
        kernels.from_path(path)


@pytest.mark.parametrize(
    ("name", "arch", "meant"),
    [
        ("7.2", "arm64", "arm64/7.2"),
        ("7.2", "aarch64", "arm64/7.2"),
        ("arm64/7.2", "arm64", "arm64/7.2"),
        ("7.2", "amd64", "x86_64/7.2"),
    ],
)
def test_an_architecture_goes_before_the_name(name: str, arch: str, meant: str) -> None:
    assert kernels.of_architecture(name, arch) == meant


def test_architectures_that_contradict_or_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="not of x86_64"):
        kernels.of_architecture("arm64/7.2", "x86_64")
    with pytest.raises(InputError, match="no architecture called riscv64"):
        kernels.of_architecture("7.2", "riscv64")


def test_kernels_of_two_architectures_lie_apart(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda: machine)  # noqa: B023 - called at once
        assert kernels.kernel_dir("x86_64/7.2") == cache / "7.2"
        assert kernels.kernel_dir("arm64/7.2") == cache / "arm64/7.2"
    assert kernels.kernel_dir("7.2") == cache / "arm64/7.2"
    assert kernels.known("arm64/7.2").name == "7.2"
    assert kernels.known("x86_64/7.2").name == "x86_64/7.2"


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(b"\x7fELF" + bytes(0x1000))
    with pytest.raises(DataError, match="not a kernel image") as caught:
        kernels.from_path(path)
    assert caught.value.hint is not None
    with pytest.raises(InputError, match="No such file"):
        kernels.from_path(tmp_path / "missing")


@pytest.mark.parametrize("place", ["lib/modules/6.99.0-own", "modules/6.99.0-own", "6.99.0-own"])
def test_modules_are_found_beside_the_image_and_where_told(
    image: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / place / "kernel").mkdir(parents=True)
    expected = (tmp_path / place).resolve()
    assert kernels.from_path(image).modules == expected
    assert kernels.from_path(image, tmp_path).modules == expected
    assert kernels.from_path(image, expected).modules == expected


def test_modules_that_were_named_must_exist(image: Path, tmp_path: Path) -> None:
    assert kernels.from_path(image).modules is None
    with pytest.raises(InputError, match=r"no modules of Linux 6\.99\.0-own"):
        kernels.from_path(image, tmp_path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache with all kernels, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "retsnoop-py/kernels"


def test_what_a_cache_of_before_has_is_read_back(cache: Path) -> None:
    assert kernels.cached("6.12") is None
    home = kernels.kernel_dir("6.12")
    assert home == cache / "6.12"
    home.mkdir(parents=True)
    meta = {"release": "6.12.1", "package": "linux-image-6.12.1", "version": "6.12.1-1"}
    (home / "kernel.json").write_text(json.dumps(meta))
    (home / "vmlinuz").touch()
    kernel = kernels.cached("6.12")
    assert kernel is not None
    assert (kernel.release, kernel.package) == ("6.12.1", "linux-image-6.12.1 6.12.1-1")
    assert kernel.vmlinux is None
    vmlinux = home / "debug/usr/lib/debug/boot/vmlinux-6.12.1"
    vmlinux.parent.mkdir(parents=True)
    vmlinux.touch()
    kernel = kernels.cached("6.12")
    assert kernel is not None
    assert kernel.vmlinux == vmlinux


class Suite:
    """Stands for apt: its package is that of the newest of ``versions``, empty but for a kernel."""

    versions: ClassVar[list[str]] = []

    def __init__(self, suite: str, arch: str) -> None:
        self.suite = suite

    def update(self, force: bool) -> None:
        assert force

    def newest(self, pattern: str) -> tuple[str, str] | None:
        found = max(self.versions, default=None)
        return (PACKAGES["6.12"], found) if found else None

    def size(self, package: str) -> int:
        return 1000

    def download(self, package: str, dest: Path, watch: Callable[[int], None]) -> Path:
        watch(500)
        tree = dest / "tree"
        version = package.partition("=")[2]
        release = f"{version}-test"
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: linux\nVersion: {version}\nArchitecture: amd64\n"
        control += "Maintainer: nobody <nobody@localhost>\nDescription: none\n"
        (tree / "DEBIAN/control").write_text(control)
        (tree / "boot").mkdir()
        (tree / f"boot/vmlinuz-{release}").write_bytes(bzimage(release))
        (tree / f"boot/config-{release}").write_text("CONFIG_HZ=250\n")
        (tree / f"lib/modules/{release}/kernel").mkdir(parents=True)
        argv = ["dpkg-deb", "-b", str(tree), str(dest / "linux.deb")]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(tree)
        return dest / "linux.deb"


@pytest.fixture
def suite(cache: Path, monkeypatch: pytest.MonkeyPatch) -> type[Suite]:
    monkeypatch.setattr(kernels, "AptRoot", Suite)
    Suite.versions = ["1"]
    return Suite


def fetch(said: list[str] | None = None) -> kernels.Kernel:
    return kernels.fetch("6.12", say=(said if said is not None else []).append)


def test_a_newer_version_leaves_that_which_a_guest_runs_until_later(
    suite: type[Suite], cache: Path
) -> None:
    old = fetch()
    assert old.modules is not None
    running = kernels.hold(old)
    assert running is not None
    suite.versions += ["2"]
    new = fetch()
    assert new.release == "2-test"
    assert kernels.cached("6.12") == new
    assert old.modules.is_dir()
    os.close(running)
    assert fetch() == new
    assert sorted(path.name for path in (cache / "6.12").iterdir()) == ["2", "current"]
    with pytest.raises(
        UnavailableError, match=r"newer version of 6\.12 has just replaced"
    ) as caught:
        kernels.hold(old)
    assert caught.value.hint == "run it again"


def test_the_configuration_is_kept_where_the_guest_finds_it(suite: type[Suite]) -> None:
    kernel = fetch()
    assert kernel.modules is not None
    assert (kernel.modules / "config").read_text() == "CONFIG_HZ=250\n"


def test_a_version_of_a_cache_of_before_makes_way_too(suite: type[Suite], cache: Path) -> None:
    home = cache / "6.12"
    shutil.move(fetch().image.parent, cache / "moved")
    shutil.rmtree(home)
    (cache / "moved").rename(home)
    old = kernels.cached("6.12")
    assert old is not None
    assert old.folder == home
    assert fetch() == old
    suite.versions += ["2"]
    assert fetch().folder == home / "2"
    assert sorted(path.name for path in home.iterdir()) == ["2", "current"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"release": 6}', '{"release": "../..", "package": "", "version": ""}']
)
def test_a_damaged_description_is_fetched_anew(text: str, suite: type[Suite]) -> None:
    kernel = fetch()
    assert kernel.folder is not None
    (kernel.folder / "kernel.json").write_text(text)
    assert kernels.cached("6.12") is None
    assert kernels.ensure("6.12") == kernel


def test_a_kernel_that_the_suites_have_no_more_stays_usable(suite: type[Suite]) -> None:
    kernel = fetch()
    suite.versions = []
    said: list[str] = []
    assert fetch(said) == kernel
    assert said[-1] == (
        f"Debian trixie does not have its package any more; keeping {kernel.package}"
    )
    assert kernels.ensure("6.12") == kernel
    with pytest.raises(UnavailableError, match=r"in Debian bullseye$") as caught:
        kernels.fetch("5.10", say=said.append)
    assert caught.value.hint is not None
    assert "take the kernel called newest" in caught.value.hint


def test_what_ends_a_fetch_leaves_nothing_behind(
    suite: type[Suite], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(kernels, "write_index", ends)
    with pytest.raises(SystemExit):
        fetch()
    assert list((cache / "6.12").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "cannot fetch 6.12: no space left in {root} "),
        (errno.EROFS, "cannot fetch 6.12: /cache/x: Read-only file system"),
        (errno.ENAMETOOLONG, "cannot fetch 6.12: /cache/x: File name too long"),
    ],
)
def test_a_cache_that_takes_nothing_is_told_with_the_next_step(
    number: int, told: str, suite: type[Suite], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/cache/x")

    monkeypatch.setattr(kernels, "write_index", full)
    with pytest.raises(OutputError) as caught:
        fetch()
    assert caught.value.message.startswith(told.format(root=cache.parent))
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")
    assert list((cache / "6.12").iterdir()) == []


def test_a_cache_that_cannot_be_made_is_told_with_the_next_step(
    suite: type[Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of /proc takes no folder, and says that there is none of that name."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    with pytest.raises(OutputError) as caught:
        fetch()
    assert caught.value.message == "cannot fetch 6.12: /proc/cache: No such file or directory"
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_of_what_a_program_says_the_first_lines_are_told(cache: Path) -> None:
    cache.mkdir(parents=True)
    words = "\n".join(f"tar: file {number}: wrong" for number in range(1000))
    error = failed("cannot unpack a.deb", words, DataError)
    assert isinstance(error, DataError)
    assert error.message.splitlines()[0] == "cannot unpack a.deb: tar: file 0: wrong"
    assert error.message.splitlines()[-1] == "... (996 more lines)"
    full = failed("cannot unpack a.deb", f"{words}\nwrite (28: No space left on device)", DataError)
    assert isinstance(full, OutputError)
    assert full.message.startswith(f"cannot unpack a.deb: no space left in {cache.parent} (")
