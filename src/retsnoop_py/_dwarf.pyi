# SPDX-License-Identifier: BSD-2-Clause
# The cffi extension built from src/native: what it holds is declared in src/native/ffi_dwarf.py.
from typing import Any

ffi: Any
lib: Any
