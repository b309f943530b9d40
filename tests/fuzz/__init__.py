# SPDX-License-Identifier: BSD-2-Clause
"""Fuzzers for all input that others may have created: ``make fuzz FOR=60``."""
