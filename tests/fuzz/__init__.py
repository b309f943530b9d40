# SPDX-License-Identifier: BSD-2-Clause
"""Fuzzers of what retsnoop-py reads from others: ``make fuzz FOR=60``."""
