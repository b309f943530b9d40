# SPDX-License-Identifier: BSD-2-Clause
"""Running a trace: load, configure, attach, read, stop.

Only this room and attach/ act on the kernel.
"""
