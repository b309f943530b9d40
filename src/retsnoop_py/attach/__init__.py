# SPDX-License-Identifier: BSD-2-Clause
"""Hooking functions: a pure plan, then one module per mechanism that carries it out."""
