# SPDX-License-Identifier: BSD-2-Clause
"""Map a function's result type to the flags by which the BPF side detects errors.

In the kernel, every BPF helper is a function that returns u64. ``bpf_helper_defs.h``, which libbpf
generates from the kernel's documentation of the helpers, has the documented types.
``helper_list.py`` is extracted from this header. To generate it again::

    python -m retsnoop_py.kernel.flags build/libbpf/include/bpf/bpf_helper_defs.h
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from retsnoop_py.kernel.functions import FuncFlags, ResultKind, ResultType

#: The result of a function without BTF. Most functions return int or void, and only int can report
#: an error. The BPF side checks each call: a 64-bit value that does not extend a 32-bit value is
#: not an int.
UNKNOWN_RESULT = ResultType(ResultKind.UNKNOWN, 4, True, "")


def result_for(name: str, result: ResultType | None) -> ResultType:
    """Return the documented result type of function ``name``; ``result``: BTF's type, or None.

    The two differ for BPF helpers, because the kernel compiles all helpers to return u64. They also
    differ for functions that return an address or an error as unsigned long (IS_ERR_VALUE()).
    """
    if result is None or is_plain_u64(result):
        if result is not None and gives_address(name):
            return _RESULTS["long"]
        return helper_result(name) or result or UNKNOWN_RESULT
    return result


def is_plain_u64(result: ResultType) -> bool:
    """Return True if BTF's type is only an unsigned number of 64 bits."""
    return result.kind is ResultKind.INT and result.size == 8 and not result.signed


def flags_of(result: ResultType) -> FuncFlags:
    """Return the flags, without ENTRY, of a function with the documented type ``result``.

    Void, booleans, unsigned numbers other than addresses, and results of less than 32 bits cannot
    carry an error.

    For a 32-bit result, including enums, only the low half of the register counts, because the
    upper half is undefined. All other results are read as 64 signed bits.
    """
    if result.kind is ResultKind.PTR:
        return FuncFlags.PTR
    unsigned = result.kind is ResultKind.INT and not result.signed
    if result.kind in (ResultKind.VOID, ResultKind.BOOL) or unsigned or result.size < 4:
        return FuncFlags.CANT_FAIL
    if result.kind is ResultKind.UNKNOWN:
        return FuncFlags.SIGN32 | FuncFlags.GUESSED
    return FuncFlags.SIGN32 if result.size == 4 else FuncFlags(0)


HELPER_LIST = Path(__file__).with_name("helper_list.py")

_DECLARATION = (
    r"^static\s++(?:__bpf_fastcall\s++)?(?P<type>\w++(?: ++\w++)*+)\s*+(?P<pointer>\*?)\s*+"
    r"\(\*\s*+const\s++(?P<name>bpf_\w+)\)\("
)

_HEADER = """\
# SPDX-License-Identifier: BSD-2-Clause
\"\"\"What BPF helpers return, as made by ``python -m retsnoop_py.kernel.flags``.\"\"\"

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
    """Return the helpers that a ``bpf_helper_defs.h`` declares, sorted, by their result type."""
    import re

    groups: dict[str, list[str]] = {key: [] for key in _RESULTS}
    for match in re.finditer(_DECLARATION, text, re.MULTILINE):
        groups["pointer" if match["pointer"] else match["type"]].append(match["name"])
    return {key: sorted(names) for key, names in groups.items() if names}


def to_python(groups: dict[str, list[str]]) -> str:
    """Return the text of ``helper_list.py``."""
    parts = [_HEADER]
    for key, names in groups.items():
        lines = "".join(f'        "{name}",\n' for name in names)
        parts.append(f'    "{key}": (\n{lines}    ),\n')
    return "".join([*parts, "}\n"])


@functools.cache
def _table() -> dict[str, ResultType]:
    from retsnoop_py.kernel.helper_list import HELPERS

    return {name: _RESULTS[key] for key, names in HELPERS.items() for name in names}


#: Functions from which mmap(2), mremap(2) and execve(2) get addresses, from Linux 5.10 to 7.3:
#: mm/mmap.c, mm/vma.c, mm/mremap.c, mm/util.c and fs/binfmt_elf.c.
_ADDRESSES = frozenset(
    (
        *("do_mmap", "ksys_mmap_pgoff", "vm_mmap", "vm_mmap_pgoff", "mmap_region", "__mmap_region"),
        *("vm_unmapped_area", "unmapped_area", "unmapped_area_topdown"),
        *("do_mremap", "mremap_to", "mremap_at", "move_vma", "expand_vma"),
        *("elf_map", "elf_load", "load_elf_interp"),
    )
)


def gives_address(name: str) -> bool:
    """Return True if function ``name``, of type unsigned long, returns an address or an error."""
    plain = name.partition(".")[0]
    return plain in _ADDRESSES or "get_unmapped_area" in plain


def helper_result(name: str) -> ResultType | None:
    """Return the result type of the BPF helper ``name``; None for other functions."""
    return _table().get(name) if name.startswith("bpf_") else None


if __name__ == "__main__":
    HELPER_LIST.write_text(to_python(parse_header(Path(sys.argv[1]).read_text())))
