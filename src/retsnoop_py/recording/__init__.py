# SPDX-License-Identifier: BSD-2-Clause
"""Recordings: the input of a live run in a file, and its replay."""
