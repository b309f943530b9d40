# SPDX-License-Identifier: BSD-2-Clause
"""From the session model to what people read."""
