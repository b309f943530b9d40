# SPDX-License-Identifier: BSD-2-Clause
"""The one-file program, as far as no compiler is needed; `make test-standalone` tests the rest."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import build
import pytest
from release import interpreter, one_file, one_file_library


def test_its_sources_are_pinned_and_have_a_licence() -> None:
    for one in (interpreter.FFI, interpreter.CAPSTONE):
        assert re.fullmatch("[0-9a-f]{64}", one.sha256)
        assert one.version in one.tarball
        assert one.licence
        assert one.texts


def test_what_the_package_needs_of_pypi_is_pinned_by_its_sum() -> None:
    lines = [line for line in one_file.REQUIREMENTS.read_text().splitlines() if line[0] != "#"]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    pinned = {line.partition("==")[0].lower() for line in lines}
    told = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {re.split("[^a-z]", one)[0] for one in told}
    assert needed - {"capstone"} <= pinned  # which comes from Debian's source
    assert set(one_file.COMPILED) <= pinned


def test_the_c_functions_that_our_modules_look_up_are_found_and_exist() -> None:
    found = set(one_file.looked_up())
    assert {"mount", "unshare", "prctl", "syscall", "umount2"} <= found
    assert all(hasattr(ctypes.CDLL(None), name) for name in found)


def test_the_archive_has_modules_what_they_import_and_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_file_library, "UNNAMED", ())  # some hundred modules
    package = tmp_path / "modules" / "shown"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def colour():\n    import colorsys\n    return colorsys\n"
    )
    (package / "about.toml").write_text("x = 1\n")
    stdlib = Path(os.__file__).parent
    made = [tmp_path / "one.zip", tmp_path / "two.zip"]
    for archive in made:
        one_file_library.main(str(archive), str(stdlib), str(package.parent))
    assert made[0].read_bytes() == made[1].read_bytes()
    code = (
        f"import sys; sys.path[:] = [{str(made[0])!r}]; import shown\n"
        "print(shown.colour().__file__, shown.__loader__.get_data('shown/about.toml'))\n"
    )
    said = subprocess.check_output([sys.executable, "-I", "-S", "-c", code], text=True)
    assert said == f"{made[0]}/colorsys.pyc b'x = 1\\n'\n"
    with zipfile.ZipFile(made[0]) as archive:
        assert not any(name.startswith(("tkinter/", "idlelib/")) for name in archive.namelist())


def test_an_unknown_machine_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_file, "install_tools", lambda: pytest.fail("it went on"))
    assert one_file.main(["riscv64"]) == 1
    assert capsys.readouterr().err.startswith("release: no BPF objects for riscv64, only for ")
