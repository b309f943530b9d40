# SPDX-License-Identifier: BSD-2-Clause
"""Deterministic kernel failures by plain system calls: what the demo and the live tests trace.

``python -m retsnoop_py.workload --help`` lists them. Needs root, no compiler, and nothing
outside the standard library.
"""
