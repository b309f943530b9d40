# SPDX-License-Identifier: BSD-2-Clause
"""What a person types: one module per command, options declared once.

This is the first module that every way to start the program reads, so it refuses a Python that
the others are not written for; its own syntax is that of any Python 3.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on PYTHONPATH is asked by nobody else
    sys.stderr.write(
        "retsnoop-py: error: this is Python {}.{}.{}, and 3.11 or later is needed\n".format(
            *sys.version_info[:3]
        )
    )
    sys.exit(69)
