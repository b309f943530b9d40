# SPDX-License-Identifier: BSD-2-Clause
"""``-V``, and with ``-v`` what this kernel can do."""

from __future__ import annotations

from retsnoop_py import __version__


def show(verbose: int) -> int:
    """Print the version; with ``verbose`` a report of the kernel's features, found by trying.

    The report needs privileges; it raises what :func:`retsnoop_py.kernel.features.probe` raises.
    """
    print(f"retsnoop-py {__version__}", flush=True)
    if verbose:
        from retsnoop_py.kernel import features

        print("Feature detection:")
        for label, value in features.probe().lines():
            shown = ("no", "yes")[value] if isinstance(value, bool) else value
            print(f"\t{label}: {shown}")
    return 0
