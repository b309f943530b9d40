# SPDX-License-Identifier: BSD-2-Clause
"""Deterministic failures of plain system calls, for the demo and the live tests.

``python -m retsnoop_py.workload --list`` lists them. Requires root and only the standard library.
"""
