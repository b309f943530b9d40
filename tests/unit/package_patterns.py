# SPDX-License-Identifier: BSD-2-Clause
"""Every regular expression of the package, by the module that has it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import retsnoop_py
from retsnoop_py.load.prefilter import PatternSet

__all__ = ["package_patterns"]

_ROOT = Path(inspect.getfile(retsnoop_py)).parent
_CALLS = (
    *("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"),
)
#: Flags that a compiled pattern has by itself.
_OWN = re.UNICODE | re.DEBUG


@cache
def package_patterns() -> tuple[tuple[str, str | bytes, int], ...]:
    """Module, pattern and flags: those that modules hold, and those written in functions."""
    found: dict[tuple[str | bytes, int], str] = {}
    for path in sorted(_ROOT.rglob("*.py")):
        name = ".".join(("retsnoop_py", *path.relative_to(_ROOT).with_suffix("").parts))
        if name.endswith("__main__"):
            continue
        module = import_module(name.removesuffix(".__init__"))
        for pattern, flags in (*_held(vars(module), set()), *_written(module, path)):
            found.setdefault((pattern, flags), module.__name__)
    return tuple((name, pattern, flags) for (pattern, flags), name in found.items())


def _held(value: Any, seen: set[int]) -> Iterator[tuple[str | bytes, int]]:
    """The patterns in ``value``, in containers and in objects of the package."""
    if id(value) in seen or isinstance(value, (ModuleType, str, bytes, int)):
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value.pattern, value.flags & ~_OWN
    elif isinstance(value, PatternSet):
        yield from ((one, value._flags) for one in value._patterns)
    elif isinstance(value, Mapping):
        for one in list(value.values()):
            yield from _held(one, seen)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for one in value:
            yield from _held(one, seen)
    elif type(value).__module__.startswith("retsnoop_py."):
        for name in (*getattr(type(value), "__slots__", ()), *getattr(value, "__dict__", ())):
            yield from _held(getattr(value, name, None), seen)


def _written(module: ModuleType, path: Path) -> Iterator[tuple[str | bytes, int]]:
    """Yield the patterns of calls in functions; text inserted at run time counts as a letter."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for call in ast.walk(node):
                if (
                    isinstance(call, ast.Call)
                    and (pattern := _pattern_of(module, call)) is not None
                ):
                    yield pattern, _flags_of(module, call)


def _pattern_of(module: ModuleType, call: ast.Call) -> str | bytes | None:
    function = call.func
    if not (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in _CALLS
        and call.args
    ):
        return None
    value = _text(module, call.args[0])
    return value if isinstance(value, (str, bytes)) else None


def _text(module: ModuleType, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.FormattedValue):
        value = _text(module, node.value)
        return value if isinstance(value, str) else "x"
    if isinstance(node, ast.JoinedStr):
        return "".join(str(_text(module, part)) for part in node.values)
    if isinstance(node, ast.Name):
        value = vars(module).get(node.id)
        return value if isinstance(value, (str, bytes)) else None
    if isinstance(node, ast.BinOp):
        sides = [_text(module, side) for side in (node.left, node.right)]
        kind = bytes if any(isinstance(side, bytes) for side in sides) else str
        left, right = (
            side if isinstance(side, kind) else ("x" if kind is str else b"x") for side in sides
        )
        return left + right
    return None


def _flags_of(module: ModuleType, call: ast.Call) -> int:
    """The flags that a call names, wherever among its arguments."""
    flags = 0
    for argument in (*call.args[1:], *(word.value for word in call.keywords)):
        for node in ast.walk(argument):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                flag = getattr(re, node.attr, 0) if node.value.id == "re" else 0
                flags |= int(flag) if isinstance(flag, re.RegexFlag) else 0
    return flags
