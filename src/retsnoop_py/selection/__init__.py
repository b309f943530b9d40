# SPDX-License-Identifier: BSD-2-Clause
"""Select the functions to trace: match globs, presets and deny lists against the kernel."""
