# SPDX-License-Identifier: BSD-2-Clause
"""Facts about the running kernel, read and never changed."""
