# SPDX-License-Identifier: BSD-2-Clause
"""What BPF helpers return: the kernel's own code does not say.

Inside the kernel every helper is a function returning u64. What that number means stands in
``bpf_helper_defs.h``, which libbpf generates from the kernel's documentation of the helpers;
``helper_list.py`` is that header boiled down. To make it anew::

    python -m retsnoop_py.kernel.helpers build/libbpf/include/bpf/bpf_helper_defs.h
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from retsnoop_py.kernel.functions import ResultKind, ResultType

__all__ = ["HELPER_LIST", "helper_result", "parse_header", "to_python"]

HELPER_LIST = Path(__file__).with_name("helper_list.py")

_DECLARATION = (
    r"^static\s+(?:__bpf_fastcall\s+)?(?P<type>[\w ]+?)\s*(?P<pointer>\*?)\s*"
    r"\(\*\s*const\s+(?P<name>bpf_\w+)\)\("
)

_HEADER = """\
# SPDX-License-Identifier: BSD-2-Clause
\"\"\"What BPF helpers return, as made by ``python -m retsnoop_py.kernel.helpers``.\"\"\"

from __future__ import annotations

HELPERS: dict[str, tuple[str, ...]] = {
"""

_RESULTS = {
    "void": ResultType(ResultKind.VOID, 0, False, "void"),
    "pointer": ResultType(ResultKind.PTR, 8, False, "void *"),
    "long": ResultType(ResultKind.INT, 8, True, "long"),
    "int": ResultType(ResultKind.INT, 4, True, "int"),
    "__s64": ResultType(ResultKind.INT, 8, True, "s64"),
    "__u64": ResultType(ResultKind.INT, 8, False, "u64"),
    "__u32": ResultType(ResultKind.INT, 4, False, "u32"),
}


def parse_header(text: str) -> dict[str, list[str]]:
    """Names of the helpers a ``bpf_helper_defs.h`` declares, sorted, by what they return."""
    import re

    groups: dict[str, list[str]] = {key: [] for key in _RESULTS}
    for match in re.finditer(_DECLARATION, text, re.MULTILINE):
        groups["pointer" if match["pointer"] else match["type"]].append(match["name"])
    return {key: sorted(names) for key, names in groups.items() if names}


def to_python(groups: dict[str, list[str]]) -> str:
    """The text of ``helper_list.py``."""
    parts = [_HEADER]
    for key, names in groups.items():
        lines = "".join(f'        "{name}",\n' for name in names)
        parts.append(f'    "{key}": (\n{lines}    ),\n')
    return "".join([*parts, "}\n"])


@functools.cache
def _table() -> dict[str, ResultType]:
    from retsnoop_py.kernel.helper_list import HELPERS

    return {name: _RESULTS[key] for key, names in HELPERS.items() for name in names}


def helper_result(name: str) -> ResultType | None:
    """What the BPF helper ``name`` returns; None if it is not one."""
    return _table().get(name) if name.startswith("bpf_") else None


if __name__ == "__main__":
    HELPER_LIST.write_text(to_python(parse_header(Path(sys.argv[1]).read_text())))
