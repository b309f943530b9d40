# SPDX-License-Identifier: BSD-2-Clause
"""``-V``, and with ``-v`` what this kernel can do."""

from __future__ import annotations

import os

from retsnoop_py import __version__
from retsnoop_py.errors import PrivilegeError


def show(verbose: int) -> int:
    """Print the version; with ``verbose`` a report of the kernel's features, found by trying.

    Raises :class:`PrivilegeError` where they cannot be tried.
    """
    print(f"retsnoop-py {__version__}", flush=True)
    if verbose:
        from retsnoop_py.attach.features import Features

        features = Features()
        # To one who may not ask, every answer is no.
        if os.geteuid() and not features.ringbuf:
            raise PrivilegeError(
                "what this kernel can do cannot be tried without privileges", "run it as root"
            )
        print("Feature detection:")
        for label, value in features.lines():
            shown = ("no", "yes")[value] if isinstance(value, bool) else value
            print(f"\t{label}: {shown}")
    return 0
