# SPDX-License-Identifier: BSD-2-Clause
"""The package's files and its start, in a folder and in an archive."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from retsnoop_py import package
from retsnoop_py.libbpf.object import OBJECTS

#: Calls that take ``sys.executable`` as a path and start nothing.
NO_START = ("Path", "zipimporter", "path.is_relative_to")
#: The settings that the one-file program's C part passes to Python.
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
    code = f"import sys; sys.path[:] = {package.search_path()!r}; import retsnoop_py as it"
    words = [*package.python(), "-S", "-c", f"{code}; print(it.__version__)"]
    assert subprocess.check_output(words, text=True).strip() == __version__


def test_it_starts_isolated_unless_packages_would_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert package.program()[1] == package.python()[1] == "-I"
    monkeypatch.setenv("PYTHONPATH", "/srv/packages")
    assert package.program()[1] == "-P"
    assert package.python()[1] == "-I"


#: Prints which program "tool" is to this process, and which one a command gets.
_PATHS = """
import os, shutil
from retsnoop_py.caller_environment import leave_out_unsafe_folders
leave_out_unsafe_folders()
from retsnoop_py.capture.command import resolve
from retsnoop_py.capture.inherited import environment
print(shutil.which("tool"), resolve(["tool"]), environment()["PATH"])
"""


@pytest.mark.parametrize("entry", [".", "", "bin/.."])
def test_no_program_comes_from_the_current_folder(tmp_path: Path, entry: str) -> None:
    """But the traced command, as the caller's shell would find it."""
    (tmp_path / "bin").mkdir()
    for tool in (tmp_path / "tool", tmp_path / "bin/tool"):
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    for behind in (f"{tmp_path}/bin", "/nonexistent"):
        path = f"{entry}:{behind}"
        said = subprocess.check_output(
            [*package.python(), "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_PATHS}"],
            env={"PATH": path},
            cwd=tmp_path,
            text=True,
        )
        ours, commands, given = said.split()
        assert ours == (f"{behind}/tool" if behind != "/nonexistent" else "None")
        assert Path(tmp_path, commands).resolve() == tmp_path / "tool"
        assert given == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs of others with more rights")
@pytest.mark.parametrize("change", ["owner", "parent", "mode", "sticky", "link"])
def test_root_starts_no_program_of_another_user(tmp_path: Path, change: str) -> None:
    """In a folder that another user can change, now or by replacing a folder above it."""
    folder = tmp_path / "opt/bin"
    folder.mkdir(parents=True)
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    entry = folder
    if change == "owner":
        os.chown(folder, 65534, 65534)
    elif change == "parent":
        os.chown(folder.parent, 65534, 65534)
    elif change in ("mode", "sticky"):
        folder.chmod(0o775 if change == "mode" else 0o1777)
    else:
        entry = tmp_path / "link"
        entry.symlink_to(folder)
        os.chown(entry, 65534, 65534, follow_symlinks=False)
    said = subprocess.check_output(
        [*package.python(), "-c", f"import sys; sys.path[:] = {sys.path!r}\n{_PATHS}"],
        env={"PATH": f"{entry}:/usr/bin"},
        text=True,
    )
    ours, commands, given = said.split()
    assert (ours, commands, given) == ("None", f"{entry}/tool", f"{entry}:/usr/bin")


def test_where_path_has_no_absolute_folder_the_usual_ones_are_searched() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}\nfrom retsnoop_py import caller_environment\n"
    code += "caller_environment.leave_out_unsafe_folders(); import shutil; "
    code += "print(shutil.which('sh'))"
    said = subprocess.check_output(
        [*package.python(), "-c", code], env={"PATH": "."}, cwd="/", text=True
    )
    assert said.strip() in ("/bin/sh", "/usr/bin/sh")


def test_no_python_is_started_that_is_not_isolated() -> None:
    """`package` has the words; elsewhere -I or -P follows ``sys.executable``."""
    root = Path(__file__).parents[2]
    files = [*(root / "src").rglob("*.py"), *(root / "release").glob("*.py"), root / "build.py"]
    assert len(files) > 100
    found = [place for path in files for place in not_isolated(path)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "[sys.executable, '-m', 'pip']",
        "(sys.executable, path)",
        "[*words, sys.executable]",
        "subprocess.run(f'{sys.executable} -m pip')",
        "os.execv(sys.executable, words)",
        "words = sys.executable",
        "['python3', '-m', 'pip']",
    ],
)
def test_a_start_that_is_not_isolated_is_found(line: str, tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(line)
    assert not_isolated(source) == [f"{source}:1"]


def not_isolated(path: Path) -> list[str]:
    """The places in a source file where a Python may be started without ``-I`` or ``-P``."""
    tree = ast.parse(path.read_text())
    allowed: set[ast.AST] = set()
    wrong: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            for one, following in pairwise([*node.elts, None]):
                if ast.unparse(one) == "sys.executable" and is_isolating(following):
                    allowed.add(one)
            words = [one.value if isinstance(one, ast.Constant) else "" for one in node.elts[:2]]
            if re.fullmatch(r"python[\d.]* -(?![IP]\b).*", " ".join(map(str, words))):
                wrong.append(node)
        if isinstance(node, ast.IfExp) and ast.unparse(node.test) == "is_one_file()":
            allowed |= set(ast.walk(node.body))  # it is no Python, or an isolated one
        if isinstance(node, ast.Call) and ast.unparse(node.func) in NO_START:
            allowed |= set(node.args)
    wrong += [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) == "sys.executable"
        and node not in allowed
    ]
    return [f"{path}:{node.lineno}" for node in wrong]  # type: ignore[attr-defined]


def is_isolating(node: ast.expr | None) -> bool:
    """Return whether an option excludes the current folder from the search path."""
    options = ("'-I'", "'-P'", "_isolation()")
    return node is not None and ast.unparse(node) in options


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
