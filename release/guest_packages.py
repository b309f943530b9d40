# SPDX-License-Identifier: BSD-2-Clause
"""``python -m release.guest_packages``: the Python packages of guests of another architecture.

Writes ``vm/python_packages.txt`` of the package: the requirements of pyproject.toml and their
dependencies, in the newest version, with the SHA-256 of the wheel for each machine. pip compares
the sums when a guest's files are made. Run this module after a change of the dependencies.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence

import build

__all__ = ["LOCK", "main"]

LOCK = build.PACKAGE / "vm" / "python_packages.txt"
_MACHINES = ("x86_64", "aarch64")
_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
_HEAD = """\
# Python packages of guests of another architecture: pip's format, SHA-256 of the wheels for x86-64
# and arm64, CPython 3.11. `python -m release.guest_packages` writes this file.
"""


def _resolve(requirements: Sequence[str], machine: str) -> dict[str, str]:
    """Return the SHA-256 of each package's wheel for ``machine``, by ``name==version``."""
    pip = [sys.executable, "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pip += ["--dry-run", "--ignore-installed", "--target", str(build.BUILD / "none")]
    pip += ["--report", "-", "--only-binary=:all:", "--implementation", "cp"]
    pip += ["--python-version", "3.11", "--abi", "cp311", "--abi", "abi3", "--abi", "none"]
    pip += [f"--platform={platform}_{machine}" for platform in _PLATFORMS]
    report = json.loads(build.run([*pip, *requirements]))
    return {
        f"{one['metadata']['name']}=={one['metadata']['version']}": one["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for one in report["install"]
    }


def main() -> None:
    """Write the file."""
    project = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    found = [_resolve(project["dependencies"], machine) for machine in _MACHINES]
    names = sorted({name for one in found for name in one}, key=str.lower)
    lines = [_HEAD]
    for name in names:
        missing = [
            machine for machine, one in zip(_MACHINES, found, strict=True) if name not in one
        ]
        if missing:
            raise build.BuildError(f"the index has no wheel of {name} for {', '.join(missing)}")
        sums = sorted({one[name] for one in found})
        lines.append(" ".join([name, *(f"--hash=sha256:{each}" for each in sums)]) + "\n")
    LOCK.write_text("".join(lines))
    build.say("lock", f"{len(names)} packages of guests")


if __name__ == "__main__":
    main()
