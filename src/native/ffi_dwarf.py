# SPDX-License-Identifier: BSD-2-Clause
"""Declare the extension ``retsnoop_py._dwarf``: lines, inline chains and variables by libdw.

``dwarf_api.h`` declares its part between ``/* cdef begin */`` and ``/* cdef end */``, so each
signature is written only once. libdw and libelf are linked dynamically: their static archives are
not position independent.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cffi import FFI

HERE = Path(os.path.relpath(Path(__file__).resolve().parent))
SOURCES = ("dwarf", "dwarf_open", "dwarf_unit", "dwarf_paint", "dwarf_lines", "dwarf_variables")


def declarations(header: Path) -> str:
    """Return the declarations of ``header`` for Python."""
    text = header.read_text()
    return "\n".join(re.findall(r"/\* cdef begin \*/(.*?)/\* cdef end \*/", text, re.DOTALL))


ffibuilder = FFI()
ffibuilder.cdef(declarations(HERE / "dwarf_api.h"))
ffibuilder.set_source(
    "retsnoop_py._dwarf",
    '#include "dwarf_api.h"\n',
    sources=[str(HERE / f"{name}.c") for name in SOURCES],
    include_dirs=[str(HERE)],
    libraries=["dw", "elf"],
    extra_compile_args=["-O2", "-fvisibility=hidden", "-Wall", "-Werror=implicit"],
    py_limited_api=True,
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
)

if __name__ == "__main__":
    ffibuilder.compile(verbose=True)
