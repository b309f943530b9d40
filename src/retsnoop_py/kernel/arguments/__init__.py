# SPDX-License-Identifier: BSD-2-Clause
"""Arguments of functions: from BTF to a plan of what to capture, and the types to decode it."""
