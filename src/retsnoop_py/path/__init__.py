# SPDX-License-Identifier: BSD-2-Clause
"""The way a call took through a function: its machine code, the blocks that ran, what decided."""
