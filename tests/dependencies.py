# SPDX-License-Identifier: BSD-2-Clause
"""``make lint``: compare the imports of src/ with the dependencies in pyproject.toml.

A dependency without an import is installed unnecessarily. An import without a dependency works only
if something else happens to install it. The extensions, which import-linter does not see, may be
imported only by ``libbpf/``, because its results have types.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Module names that differ from the name of their distribution.
MODULES = {"pyelftools": "elftools"}
EXTENSIONS = {"retsnoop_py._bpf", "retsnoop_py._dwarf"}
#: Modules of standard libraries later than this Python.
LATER = {"annotationlib"}
#: Dependencies without an import: the extensions that cffi builds import its backend.
UNSEEN = {"cffi": "the extensions that it makes import _cffi_backend"}


def imported(source: Path) -> Iterator[tuple[str, str]]:
    """Return the top-level modules that a file imports, each with the line."""
    for node in ast.walk(ast.parse(source.read_text(), source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            yield name.split(".")[0], f"{source}:{node.lineno}"


def problems(pyproject: str, sources: dict[str, str]) -> list[str]:
    """Return the problems; ``sources`` are the imported modules with a line for each."""
    told = tomllib.loads(pyproject)["project"]["dependencies"]
    names = [re.match(r"[A-Za-z0-9_.-]+", one)[0] for one in told]  # type: ignore[index]
    declared = {MODULES.get(name, name.replace("-", "_")): name for name in names}
    own = {"retsnoop_py", *sys.stdlib_module_names, *LATER}
    undeclared = sorted(set(sources) - own - set(declared))
    unused = sorted(declared[one] for one in set(declared) - set(sources))
    return [
        *(f"{sources[one]}: {one} is imported and not declared" for one in undeclared),
        *(f"pyproject.toml: nothing imports {one}" for one in unused if one not in UNSEEN),
    ]


def strangers(source: Path) -> Iterator[str]:
    """Return the places outside of ``libbpf/`` that import an extension."""
    if source.parent.name == "libbpf":
        return
    for node in ast.walk(ast.parse(source.read_text(), source)):
        if isinstance(node, ast.ImportFrom) and node.module in EXTENSIONS:
            yield f"{source}:{node.lineno}: only libbpf/ imports {node.module}"


def main() -> int:
    """Check this checkout. Return 1 if there is a problem."""
    found: dict[str, str] = {}
    for source in sorted((ROOT / "src" / "retsnoop_py").rglob("*.py")):
        for module, place in imported(source):
            found.setdefault(module, place)
    wrong = problems((ROOT / "pyproject.toml").read_text(), found)
    for source in sorted((ROOT / "src" / "retsnoop_py").rglob("*.py")):
        wrong += strangers(source)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
