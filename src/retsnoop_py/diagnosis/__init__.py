# SPDX-License-Identifier: BSD-2-Clause
"""Diagnose the kernel, the user and the CPU: checks, reasons, next steps.

Each module checks one subject. A check is a pure function of a :class:`model.Host`: the files below
its root, and the results of tests on the running kernel (``tries``).
"""
