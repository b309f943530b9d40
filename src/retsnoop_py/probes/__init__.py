# SPDX-License-Identifier: BSD-2-Clause
"""Injected probes: what ``-J`` says, and which places of this kernel that means."""
