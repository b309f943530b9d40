# SPDX-License-Identifier: BSD-2-Clause
"""Find out which line of the Linux kernel returned that error."""

__version__ = "0.1.0"
