# SPDX-License-Identifier: BSD-2-Clause
"""What options mean, on the command line and in Python: from words to settings."""
