# SPDX-License-Identifier: BSD-2-Clause
"""What a person types: one module per command, options declared once."""
