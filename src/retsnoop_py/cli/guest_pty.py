# SPDX-License-Identifier: BSD-2-Clause
"""The entry point of a command that runs in a guest on the user's terminal."""

from __future__ import annotations

import sys
from typing import NoReturn

from retsnoop_py.vm.guest_pty import main

__all__ = ["program"]


def program() -> NoReturn:
    """Run the command of ``sys.argv``, as :mod:`retsnoop_py.vm.guest_pty` does, and exit."""
    sys.exit(main(sys.argv[1:]))
