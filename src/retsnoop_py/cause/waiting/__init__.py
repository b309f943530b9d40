# SPDX-License-Identifier: BSD-2-Clause
"""What threads wait for: read from /proc while they wait, and put into the user's terms."""
