# SPDX-License-Identifier: BSD-2-Clause
"""What a selection comes to, function by function: traced how, or why not."""
