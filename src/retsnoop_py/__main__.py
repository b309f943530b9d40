# SPDX-License-Identifier: BSD-2-Clause
"""``python -m retsnoop_py``."""

from __future__ import annotations

import sys

from retsnoop_py.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
