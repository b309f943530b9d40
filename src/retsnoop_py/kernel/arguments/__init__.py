# SPDX-License-Identifier: BSD-2-Clause
"""What functions are given: from BTF to a plan of what to capture, and the types to read it by."""
