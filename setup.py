# SPDX-License-Identifier: BSD-2-Clause
"""What pyproject.toml cannot say: the native extensions, and BPF objects as package data."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# pip runs this file with another directory first on the path
sys.path.insert(0, str(Path(__file__).resolve().parent))
import build


class BuildWithBpf(build_py):
    """Compile the BPF objects before the package's files are collected."""

    def run(self) -> None:
        """Run as setuptools' own command, with the objects up to date.

        What is installed has the pages of ``retsnoop-py help`` beside its modules; in a checkout
        they are read where they are written.
        """
        build.build_bpf()
        super().run()
        if not self.editable_mode:
            pages = Path(self.build_lib) / "retsnoop_py" / "docs"
            for page in (build.ROOT / "docs").rglob("*.md"):
                copy = pages / page.relative_to(build.ROOT / "docs")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, copy)


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
    cffi_modules=[f"{path}:ffibuilder" for path in build.ffi_sources()],
    cmdclass={"build_py": BuildWithBpf},
    # the extensions use the stable ABI only, so one wheel serves every CPython from 3.11 on
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
