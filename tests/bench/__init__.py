# SPDX-License-Identifier: BSD-2-Clause
"""``make bench``: compare retsnoop-py with similar tools, in one guest per kernel."""
