# SPDX-License-Identifier: BSD-2-Clause
"""Read untrusted files in a process without privileges."""
