# SPDX-License-Identifier: BSD-2-Clause
"""Convert options to settings, for the command line and for Python."""
