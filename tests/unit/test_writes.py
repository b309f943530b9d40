# SPDX-License-Identifier: BSD-2-Clause
"""Only ``own_file`` creates and replaces files that others could have prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import retsnoop_py

PACKAGE = Path(retsnoop_py.__file__).parent
WRITES = {"write_text", "write_bytes", "touch", "copyfileobj", "copyfile", "copy2"}
WRITES |= {"mkdir", "makedirs", "symlink_to", "symlink", "hardlink_to", "rename", "mkfifo"}
TEMPORARY = {"NamedTemporaryFile", "mkstemp"}
#: Other code that writes, by file and function, and why no other user can have prepared the place.
ALLOWED = {
    ("attach/function_graph.py", "_write"): "a file of tracefs",
    ("capture/load.py", "without_fetch"): "a file in memory",
    ("cli/manual.py", "main"): "man pages, when a package is made",
    ("cli/report.py", "*"): "/dev/null",
    ("render/renderers.py", "*"): "/dev/null",
    ("kernel/debuginfod.py", "_store"): "a new file in the cache, then renamed",
    ("kernel/flags.py", "*"): "run by a developer",
    ("own_file.py", "*"): "the rules themselves",
    ("api/loading.py", "*"): "in a folder that was just made, for us alone",
    ("vm/boot.py", "*"): "in a folder that was just made, for us alone",
    ("cli/completion.py", "_install"): "in HOME, which for root is no other user's",
    ("vm/command.py", "__init__"): "in a folder that is open",
    ("vm/folder.py", "_empty"): "in folders that are open",
    ("vm/confined.py", "_user_namespace"): "the maps of a child of ours in /proc",
    ("vm/confined.py", "make_root"): "in a new mount of tmpfs that only the confined program sees",
    ("vm/debian.py", "*"): "in the cache, of which root uses only its own",
    ("vm/initrd.py", "*"): "in a folder that was just made, for us alone",
    ("vm/kernels.py", "*"): "in a new folder of the cache, which is then renamed",
    ("vm/userland.py", "*"): "in a new folder of the cache, which is then renamed",
}


def writes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Function and line of each call that creates or changes a file by its path."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Call) and _is_write(child):
                yield function, child.lineno
            yield from walk(child, name)

    return walk(tree, "")


def _is_write(call: ast.Call) -> bool:
    word = ast.unparse(call.func).rpartition(".")[2]
    if word in WRITES | TEMPORARY:
        return True
    given = [*call.args, *(one.value for one in call.keywords)]
    texts = [one.value for one in given if isinstance(one, ast.Constant)]
    modes = [one for one in texts if isinstance(one, str) and set(one) <= set("rwxab+t")]
    if word == "open":
        return any(set(one) & set("wxa+") for one in modes) or "O_CREAT" in ast.unparse(call)
    return False


@lru_cache(1)
def found() -> dict[tuple[str, str], list[int]]:
    places: dict[tuple[str, str], list[int]] = {}
    for path in PACKAGE.rglob("*.py"):
        for function, line in writes(ast.parse(path.read_text())):
            file = str(path.relative_to(PACKAGE))
            key = (file, "*") if (file, "*") in ALLOWED else (file, function)
            places.setdefault(key, []).append(line)
    return places


def test_no_other_code_writes_a_file() -> None:
    assert {place: lines for place, lines in found().items() if place not in ALLOWED} == {}


def test_each_allowed_place_is_there() -> None:
    assert ALLOWED.keys() - found().keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(name, 'w')",
        "path.open('ab', buffering=0)",
        "Path(name).write_text('')",
        "os.open(name, os.O_WRONLY | os.O_CREAT)",
        "path.touch()",
        "folder.mkdir(parents=True)",
        "path.symlink_to(name)",
        "NamedTemporaryFile(dir=folder)",
    ],
)
def test_a_write_is_found(line: str) -> None:
    assert len(list(writes(ast.parse(line)))) == 1
    assert not list(writes(ast.parse("open(name)\nwitness.open()\npath.open('rb')")))
