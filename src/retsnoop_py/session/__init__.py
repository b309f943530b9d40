# SPDX-License-Identifier: BSD-2-Clause
"""From raw records to sessions, and from sessions to the rows every renderer shows."""
