# SPDX-License-Identifier: BSD-2-Clause
"""The executed path of a call through a function: machine code, blocks, deciding condition."""
