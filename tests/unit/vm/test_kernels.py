# SPDX-License-Identifier: BSD-2-Clause
"""Which package a kernel's name stands for, and kernels given as files."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.vm import kernels

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
    spec = kernels.known(name)
    pattern = spec.image
    same_suite = [PACKAGES[each] for each in PACKAGES if kernels.known(each).suite == spec.suite]
    candidates = [*same_suite, *OTHERS]
    assert [each for each in candidates if re.fullmatch(pattern, each)] == [PACKAGES[name]]


@pytest.mark.parametrize("version", ["7.3.1", "7.10.2", "8.0", "7.2~rc3"])
def test_7_2_is_the_newest_of_sid(version: str) -> None:
    found = re.fullmatch(kernels.known("7.2").image, f"linux-binary-{version}+deb14-cloud-amd64")
    assert bool(found) == ("rc" not in version)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no kernel called 4\.19") as caught:
        kernels.known("4.19")
    assert caught.value.hint is not None
    assert "5.10, 6.1, 6.12, 7.2" in caught.value.hint


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
    assert kernels.image_release(image) == "6.99.0-own"


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(b"\x7fELF" + bytes(0x1000))
    with pytest.raises(DataError, match="not an x86 kernel image") as caught:
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


def test_what_is_cached_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels.cached("6.12") is None
    home = kernels.kernel_dir("6.12")
    assert home == tmp_path / "retsnoop-py/kernels/6.12"
    home.mkdir(parents=True)
    meta = {"release": "6.12.1", "package": "linux-image-6.12.1", "version": "6.12.1-1"}
    (home / "kernel.json").write_text(json.dumps(meta))
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
