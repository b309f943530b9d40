# SPDX-License-Identifier: BSD-2-Clause
"""The package's files and its start, in a folder and in an archive."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from retsnoop_py import package
from retsnoop_py.libbpf.object import OBJECTS

#: What the one-file program's C part says to Python.
_ONE_FILE = """
import sys
sys.frozen, sys.executable, sys.path[:0] = True, {archive!r}, [{archive!r}]
from pathlib import Path
from retsnoop_py import package
home = Path(package.__file__).parent
assert package.program() == [{archive!r}], package.program()
assert package.python() == [{archive!r}, "--python"], package.python()
print(package.read(home / "bpf" / "some.o"), package.read(Path({other!r})))
package.read(home / "bpf" / "none.o")
"""


def test_the_words_that_start_it_do() -> None:
    from retsnoop_py import __version__

    said = subprocess.check_output([*package.program(), "--version"], text=True)
    assert said == f"retsnoop-py {__version__}\n"
    code = "import retsnoop_py; print(retsnoop_py.__version__)"
    assert (
        subprocess.check_output([*package.python(), "-c", code], text=True).strip() == __version__
    )


def test_a_file_of_the_package_is_read_where_it_lies() -> None:
    path = next(OBJECTS.glob("*.o"))
    assert package.read(path) == path.read_bytes()
    with pytest.raises(FileNotFoundError):
        package.read(OBJECTS / "none.o")


def test_in_one_file_its_files_are_in_the_archive_and_others_are_not(tmp_path: Path) -> None:
    archive, other = tmp_path / "program", tmp_path / "other"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("retsnoop_py/__init__.py", "")
        made.write(package.__file__, "retsnoop_py/package.py")
        made.writestr("retsnoop_py/bpf/some.o", b"inside")
    other.write_bytes(b"outside")
    code = _ONE_FILE.format(archive=str(archive), other=str(other))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "b'inside' b'outside'\n", done.stderr
    missing = f"No such file or directory: '{archive}/retsnoop_py/bpf/none.o'"
    assert done.stderr.strip().endswith(missing)
