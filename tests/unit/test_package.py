# SPDX-License-Identifier: BSD-2-Clause
"""The package's files and its start, in a folder and in an archive."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pytest

from retsnoop_py import __version__, package
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
    said = subprocess.check_output([*package.program(), "--version"], text=True)
    assert said == f"retsnoop-py {__version__}\n"
    code = f"import sys; sys.path[:] = {package.search_path()!r}; import retsnoop_py as it"
    words = [*package.python(), "-S", "-c", f"{code}; print(it.__version__)"]
    assert subprocess.check_output(words, text=True).strip() == __version__


#: Prints the command that starts a function of this package, as its own process finds it.
_WORDS = """
import json
from retsnoop_py import package
print(json.dumps([package.program(), package.entry("code:interact")]))
"""
#: Prints what a started Python ignores and searches.
_FOUND = "import sys, msgspec, retsnoop_py; print((sys.flags.isolated, sys.path, sys.argv))\n"


@pytest.mark.parametrize("kind", ["environment", "PYTHONPATH", "user"])
def test_it_starts_isolated_however_it_is_installed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a virtual environment, PYTHONPATH or ``pip install --user``; modules here are traps."""
    here, trap, home = tmp_path / "here", tmp_path / "trap", tmp_path / "home"
    for folder in (here, trap):
        folder.mkdir()
        for name in ("retsnoop_py", "msgspec", "json", "sitecustomize", "usercustomize"):
            (folder / f"{name}.py").write_text("raise SystemExit('a trap')")
    home.mkdir()
    monkeypatch.chdir(home)
    for name in ("PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    ours = Path(package.__file__).parent
    libraries = [each for each in sys.path if each.endswith("-packages")]
    python = sys.executable if kind == "environment" else _base()
    if kind == "PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ours.parent), *libraries]))
    elif kind == "user":
        code = "import site; print(site.getusersitepackages())"
        site = Path(subprocess.check_output([python, "-c", code], text=True).strip())
        site.mkdir(parents=True)
        (site / "retsnoop_py").symlink_to(ours)
        (site / "libraries.pth").write_text("\n".join(libraries))
    program, prompt = json.loads(subprocess.check_output([python, "-c", _WORDS], text=True))
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", f":.:{trap}:relative")
    said = subprocess.check_output([*program, "--version"], text=True)
    assert said == f"retsnoop-py {__version__}\n"
    said = subprocess.check_output([*prompt, "one"], input=_FOUND, text=True, env=os.environ)
    isolated, path, argv = ast.literal_eval(said.removeprefix(">>> ").partition("\n")[0])
    assert isolated == 1
    assert argv[1:] == ["one"]
    assert Path(argv[0]).is_absolute()
    assert all(Path(each).is_absolute() for each in path)
    assert not {str(here), str(trap)} & {os.path.realpath(each) for each in path}
    first = next(each for each in path if "python3" not in each or "-packages" in each)
    assert (Path(first) / "retsnoop_py" / "package.py").samefile(package.__file__)


def _base() -> str:
    """Return the Python without this environment's packages."""
    return str(vars(sys)["_base_executable"])


def test_the_path_of_a_folder_is_no_code(tmp_path: Path) -> None:
    folder = tmp_path / "'); raise SystemExit(9); ('"
    folder.mkdir()
    (folder / "probe.py").write_text("import sys\ndef run(): print(sys.argv[1:], sys.path)")
    words = [*package.python(), *package.entry_options([str(folder)], "probe:run"), "--", "x"]
    said = subprocess.check_output(words, text=True)
    assert said.startswith("['--', 'x'] ")
    assert repr(str(folder)) in said


@pytest.mark.parametrize("change", ["mode", "parent", "group", "owner", "current", "relative"])
def test_folders_that_others_can_change_are_not_searched(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "above" / "libraries"
    folder.mkdir(parents=True)
    entry = str(folder)
    monkeypatch.setattr(sys, "path", [entry])
    assert package.search_path() == [str(Path(package.__file__).parents[1]), entry]
    found = list(folder.stat())
    if change == "mode":
        folder.chmod(0o1777)
    elif change == "parent":
        folder.parent.chmod(0o777)
    elif change == "group":
        folder.chmod(0o775)
        found = list(folder.stat())
        found[5] = 4712
        monkeypatch.setattr(Path, "stat", _stat_of(folder, os.stat_result(found)))
    elif change == "owner":
        found[4] = 4712
        monkeypatch.setattr(Path, "stat", _stat_of(folder, os.stat_result(found)))
    elif change == "current":
        monkeypatch.chdir(folder)
    else:
        monkeypatch.setattr(sys, "path", ["", ".", os.path.relpath(folder)])
    assert package.search_path() == [str(Path(package.__file__).parents[1])]


def _stat_of(folder: Path, found: os.stat_result) -> Callable[[Path], os.stat_result]:
    """Return ``Path.stat`` with another result for one folder: only root could change its owner."""
    real = Path.stat
    return lambda path: found if path == folder else real(path)


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


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_no_settings_come_from_the_current_folder(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/user")
    for value in (".", "relative", "./x", ""):
        monkeypatch.setenv(variable, value)
        found = package.user_file("kernels.toml")
        assert found.is_absolute()
        assert not found.is_relative_to(tmp_path)
    monkeypatch.setenv(variable, "/srv/settings")
    assert package.user_file("kernels.toml").is_relative_to("/srv/settings")


def test_where_path_has_no_absolute_folder_the_usual_ones_are_searched() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}\nfrom retsnoop_py import caller_environment\n"
    code += "caller_environment.leave_out_unsafe_folders(); import shutil; "
    code += "print(shutil.which('sh'))"
    said = subprocess.check_output(
        [*package.python(), "-c", code], env={"PATH": "."}, cwd="/", text=True
    )
    assert said.strip() in ("/bin/sh", "/usr/bin/sh")


def test_no_python_is_started_that_is_not_isolated() -> None:
    """`package` has the words; elsewhere -I follows ``sys.executable`` or another Python's path.

    Code that makes a release may use -P: with -I, Python ignores PYTHONHASHSEED.
    """
    root = Path(__file__).parents[2]
    files = [*(root / "src").rglob("*.py")]
    assert len(files) > 100
    found = [place for path in files for place in not_isolated(path)]
    makers = [*(root / "release").glob("*.py"), root / "build.py"]
    found += [place for path in makers for place in not_isolated(path, ("-I", "-P"))]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "[sys.executable, '-m', 'pip']",
        "[sys.executable, '-P', '-m', 'pip']",
        "[sys.executable, _isolation(), '-m', 'pip']",
        "(sys.executable, path)",
        "[*words, sys.executable]",
        "subprocess.run(f'{sys.executable} -m pip')",
        "os.execv(sys.executable, words)",
        "words = sys.executable",
        "words = sys._base_executable",
        "words = sys.orig_argv",
        "from sys import executable",
        "['python3', '-m', 'pip']",
        "['/usr/bin/python3', 'program.py']",
        "['env', 'python3.11', '-P', 'program.py']",
        "subprocess.run('python3 -m pip', shell=True)",
        "script = '#!/usr/bin/python3'",
        "PYTHON = '/usr/bin/python3'; words = [PYTHON, '-P', '-m', 'pip']",
        "PYTHON = '/usr/bin/python3'; script = f'#!{PYTHON}'",
        "PYTHON = '/usr/bin/python3'; start(PYTHON)",
        "import multiprocessing",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_a_start_that_is_not_isolated_is_found(line: str, tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(line)
    assert not_isolated(source) == [f"{source}:1"]


@pytest.mark.parametrize(
    "line",
    [
        "[sys.executable, '-I', '-m', 'pip']",
        "PYTHON = '/usr/bin/python3'; words = [PYTHON, '-I', '-m', 'pip']",
        "PYTHON = '/usr/bin/python3'; script = f'#!{PYTHON} -I'",
        "hint = 'python3 build.py deps installs the compiler'",
    ],
)
def test_other_lines_are_no_starts(line: str, tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(line)
    assert not_isolated(source) == []


#: The path or name of a Python.
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
#: The first line of a script for Python, and a command that starts Python, without -I.
_SCRIPT = re.compile(r"#!.*python[\d.]*(?! +-I\b)\s")
_COMMAND = re.compile(r"\s*(?:exec )?(?:\S*/)?python[\d.]* +(?!-I\b)(?:-|\S+\.py\b)")
#: Modules that start a Python by themselves.
_STARTERS = ("multiprocessing", "ProcessPoolExecutor", "executable", "orig_argv", "venv")


def not_isolated(path: Path, options: Sequence[str] = ("-I",)) -> list[str]:
    """The places in a source file where a Python may be started without one of ``options``."""
    tree = ast.parse(path.read_text())
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_python(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    allowed: set[ast.AST] = set()
    starts: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            for one, following in zip_longest(node.elts, node.elts[1:]):
                isolated = isinstance(following, ast.Constant) and following.value in options
                if isolated:
                    allowed.add(one)
                if _is_python(one) and _is_argument(following):
                    starts.append(one)
        elif isinstance(node, ast.JoinedStr):
            for part, following in zip_longest(node.values, node.values[1:]):
                text = following.value if isinstance(following, ast.Constant) else ""
                # a shell script with the arguments of its caller, who chooses the options
                if isinstance(part, ast.FormattedValue) and str(text).startswith((" -I", ' "$@"')):
                    allowed.add(part.value)
        elif isinstance(node, ast.IfExp) and ast.unparse(node.test) == "is_one_file()":
            allowed |= set(ast.walk(node.body))  # it is no Python, or an isolated one
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in NO_START:
            allowed |= set(node.args)
        starts += _starts(node, named)
    wrong = dict.fromkeys(
        f"{path}:{getattr(each, 'lineno', 1)}" for each in starts if each not in allowed
    )
    return list(wrong)


def _starts(node: ast.AST, named: set[str]) -> Iterator[ast.AST]:
    """Yield ``node`` if it names a Python, or can start one."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys":
        if node.attr in ("executable", "_base_executable", "orig_argv"):
            yield node
    elif isinstance(node, ast.Name) and node.id in named and isinstance(node.ctx, ast.Load):
        yield node
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names = [*(each.name for each in node.names), getattr(node, "module", None) or ""]
        if any(part in _STARTERS for name in names for part in name.split(".")):
            yield node
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _SCRIPT.match(node.value + "\n"):
            yield node
    elif (
        isinstance(node, ast.Call)
        and not re.search(r"(print|Error)$", ast.unparse(node.func))
        and any(
            isinstance(each, ast.Constant) and _COMMAND.match(str(each.value)) for each in node.args
        )
    ):
        yield node


def _is_python(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and bool(_PYTHON.fullmatch(str(node.value)))


def _is_argument(node: ast.AST | None) -> bool:
    """Return whether ``node``, which follows a Python in a list, is an option or a script."""
    return isinstance(node, ast.Constant) and bool(re.match(r"-|.*\.py$", str(node.value)))


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
