# SPDX-License-Identifier: BSD-2-Clause
"""The command line: one module per command, and options that are declared once.

Every way to start the program imports this module first. It rejects versions of Python that the
other modules do not support, and its own syntax is valid in any Python 3.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on PYTHONPATH is asked by nobody else
    sys.stderr.write(
        "retsnoop-py: error: this is Python {}.{}.{}, and 3.11 or later is needed\n".format(
            *sys.version_info[:3]
        )
    )
    sys.exit(69)
