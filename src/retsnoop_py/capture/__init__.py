# SPDX-License-Identifier: BSD-2-Clause
"""Run a trace: load, configure, attach, read, stop.

Only this package and ``attach`` act on the kernel.
"""
