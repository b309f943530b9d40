# SPDX-License-Identifier: BSD-2-Clause
"""Reading untrusted files in a process without rights."""
