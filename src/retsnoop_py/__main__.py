# SPDX-License-Identifier: BSD-2-Clause
"""``python -m retsnoop_py``."""

from __future__ import annotations

from retsnoop_py.cli.start import program

if __name__ == "__main__":
    program()
