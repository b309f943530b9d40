# SPDX-License-Identifier: BSD-2-Clause
"""Which functions to trace: globs, presets and deny lists against what the kernel has."""
