# SPDX-License-Identifier: BSD-2-Clause
"""Recordings: what a live run consumed, in a file, and its replay."""
