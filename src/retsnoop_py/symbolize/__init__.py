# SPDX-License-Identifier: BSD-2-Clause
"""Resolve addresses to names, source lines and inlined frames."""
