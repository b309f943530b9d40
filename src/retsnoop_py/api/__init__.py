# SPDX-License-Identifier: BSD-2-Clause
"""The Python interface, which ``import retsnoop_py`` offers: see docs/api.md.

The commands use the same functions.
"""
