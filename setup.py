# SPDX-License-Identifier: BSD-2-Clause
"""What pyproject.toml cannot say: the native extensions, and BPF objects as package data."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# pip runs this file with another directory first on the path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import build

#: release/wheel.py has put the extensions and the BPF objects where they belong.
PREBUILT = os.environ.get("RETSNOOP_PREBUILT") == "1"


class BuildWithBpf(build_py):
    """Compile the BPF objects before the package's files are collected."""

    def run(self) -> None:
        """Run as setuptools' own command, with the objects up to date.

        What is installed has the pages of ``retsnoop-py help`` beside its modules; in a checkout
        they are read where they are written.
        """
        if not PREBUILT:
            build.build_bpf()
        super().run()
        if not self.editable_mode:
            pages = Path(self.build_lib) / "retsnoop_py" / "docs"
            for page in (build.ROOT / "docs").rglob("*.md"):
                copy = pages / page.relative_to(build.ROOT / "docs")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, copy)


class CopyExtensions(build_ext):
    """Take the extensions that were compiled for another machine as they are."""

    def build_extension(self, ext: Extension) -> None:
        """Copy one from beside the package's modules to where it is collected."""
        name = f"{ext.name.rpartition('.')[2]}.abi3.so"
        copy = Path(self.build_lib) / "retsnoop_py" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build.PACKAGE / name, copy)


class SdistWithLibbpf(sdist):
    """The source of libbpf comes along, so that building needs no network."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Add it to what is collected."""
        super().make_release_tree(base_dir, files)
        tarball = build.debian_source("libbpf", build.LIBBPF_TARBALL, build.LIBBPF_SHA256)
        folder = Path(base_dir) / build.VENDOR.name
        folder.mkdir()
        shutil.copyfile(tarball, folder / tarball.name)


def native() -> dict[str, object]:
    """The extensions: how to compile them, or that they are there."""
    if not PREBUILT:
        return {"cffi_modules": [f"{path}:ffibuilder" for path in build.ffi_sources()]}
    names = [Path(path).stem.removeprefix("ffi") for path in build.ffi_sources()]
    return {
        "ext_modules": [Extension(f"retsnoop_py.{name}", [], py_limited_api=True) for name in names]
    }


def man_pages() -> list[tuple[str, list[str]]]:
    """Those that ``make man`` has made; they are made by the program, so not here."""
    home = build.BUILD / "man"
    found = {n: sorted(home.glob(f"*.{n}")) for n in (1, 7)}
    return [
        (f"share/man/man{n}", [str(page.relative_to(build.ROOT)) for page in pages])
        for n, pages in found.items()
        if pages
    ]


setup(
    data_files=man_pages(),
    **native(),
    cmdclass={
        "build_py": BuildWithBpf,
        "sdist": SdistWithLibbpf,
        **({"build_ext": CopyExtensions} if PREBUILT else {}),
    },
    # the extensions use the stable ABI only, so one wheel serves every CPython from 3.11 on
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
