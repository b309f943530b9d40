# SPDX-License-Identifier: BSD-2-Clause
"""``make bench``: this tool against its peers, side by side in one guest run per kernel."""
