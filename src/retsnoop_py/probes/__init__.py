# SPDX-License-Identifier: BSD-2-Clause
"""Injected probes: the meaning of ``-J``, and the matching places in this kernel."""
