# SPDX-License-Identifier: BSD-2-Clause
"""Convert captured arguments to text and JSON."""
