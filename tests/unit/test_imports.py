# SPDX-License-Identifier: BSD-2-Clause
"""An import inside a function has one reason: to load a module only where it is needed.

Such imports keep the start of a command short. An import that loads nothing, because the module
around it has already loaded the same thing, belongs to the top of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from retsnoop_py import package

ROOT = Path(package.__file__).parents[1]
PACKAGE = ROOT / "retsnoop_py"


def name_of(path: Path) -> str:
    """The module in a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text())


def loaded_by(node: ast.stmt) -> Iterator[str]:
    """The modules that an import statement loads, with the packages around them."""
    if isinstance(node, ast.Import):
        names = [one.name for one in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        inside = [f"{node.module}.{one.name}" for one in node.names]
        names = [node.module, *(one for one in inside if one in FILES)]
    else:
        return
    for one in names:
        parts = one.split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def at_top(name: str) -> Iterator[ast.stmt]:
    """The import statements that run when a module is loaded."""
    waiting: list[ast.AST] = [tree(name)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node
            elif isinstance(node, (ast.If, ast.Try, ast.With)) and not is_for_types(node):
                waiting.append(node)


@cache
def closure(name: str) -> frozenset[str]:
    """The modules that are loaded with a module; of other packages, only those it names."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        if one in FILES:
            waiting += [each for node in at_top(one) for each in loaded_by(node)]
    return frozenset(found)


def in_functions(name: str) -> Iterator[ast.stmt]:
    """The import statements inside the functions of a module."""
    for function in ast.walk(tree(name)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (
                node
                for node in ast.walk(function)
                if isinstance(node, (ast.Import, ast.ImportFrom))
            )


def test_an_import_in_a_function_loads_something() -> None:
    useless = {
        f"{FILES[name].relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for name in FILES
        for node in in_functions(name)
        if {*loaded_by(node)} <= closure(name)
    }
    assert not useless, "move these to the top of their files:\n" + "\n".join(sorted(useless))
