# SPDX-License-Identifier: BSD-2-Clause
"""Run for hours what the tests run for seconds: ``make soak``; docs/reliability.md has results."""
