# SPDX-License-Identifier: BSD-2-Clause
"""Captured arguments as people and programs read them."""
