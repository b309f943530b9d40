# SPDX-License-Identifier: BSD-2-Clause
"""``make lint``: what src/ imports is declared in pyproject.toml, and what is declared is imported.

A dependency that nobody imports is installed for nothing, and one that nobody declared works
only where something else happens to bring it along. The extensions, which import-linter does not
see, are for ``libbpf/`` alone: what it makes of them has types.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where a distribution's module has another name.
MODULES = {"pyelftools": "elftools"}
EXTENSIONS = {"retsnoop_py._bpf", "retsnoop_py._dwarf"}
#: Of later standard libraries than the one that runs this.
LATER = {"annotationlib"}
#: Declared for what they do without being imported: cffi's extensions import its backend.
UNSEEN = {"cffi": "the extensions that it makes import _cffi_backend"}


def imported(source: Path) -> Iterator[tuple[str, str]]:
    """The top modules a file imports, each with the place."""
    for node in ast.walk(ast.parse(source.read_text(), source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            yield name.split(".")[0], f"{source}:{node.lineno}"


def problems(pyproject: str, sources: dict[str, str]) -> list[str]:
    """What is wrong; ``sources`` are the imported modules with a place where each is."""
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
    """Where a file that is not of ``libbpf/`` imports an extension."""
    if source.parent.name == "libbpf":
        return
    for node in ast.walk(ast.parse(source.read_text(), source)):
        if isinstance(node, ast.ImportFrom) and node.module in EXTENSIONS:
            yield f"{source}:{node.lineno}: only libbpf/ imports {node.module}"


def main() -> int:
    """Check this checkout; 1 if something is wrong."""
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
