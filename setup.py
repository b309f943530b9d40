# SPDX-License-Identifier: BSD-2-Clause
"""What pyproject.toml cannot say: the native extensions, and BPF objects as package data."""

from __future__ import annotations

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
        """Run as setuptools' own command, with the objects up to date."""
        build.build_bpf()
        super().run()


setup(
    cffi_modules=[f"{path}:ffibuilder" for path in build.ffi_sources()],
    cmdclass={"build_py": BuildWithBpf},
    # the extensions use the stable ABI only, so one wheel serves every CPython from 3.11 on
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
