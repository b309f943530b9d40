# SPDX-License-Identifier: BSD-2-Clause
"""The examples of docs/api.md, so that tests can run them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_BLOCK = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(where: str = "") -> list[str]:
    """Those that run ``live`` in a kernel, on the host to boot one (``vm``), or anywhere."""
    return [code for kind, code in _BLOCK.findall(PAGE.read_text()) if kind == where]
