# SPDX-License-Identifier: BSD-2-Clause
"""The reasons why threads wait: read from /proc during the wait, reported in the user's terms."""
