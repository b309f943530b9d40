# SPDX-License-Identifier: BSD-2-Clause
"""Hours of what tests do for seconds: ``make soak``; docs/reliability.md has what it gave."""
