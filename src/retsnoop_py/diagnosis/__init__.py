# SPDX-License-Identifier: BSD-2-Clause
"""Diagnose what this kernel, user and CPU support: checks, reasons, next steps.

Each module has the checks of one subject. A check is a pure function of a :class:`model.Host`: the
files below its root, and the results of tests on the running kernel (``tries``).
"""
