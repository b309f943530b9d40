# SPDX-License-Identifier: BSD-2-Clause
"""Explain why a BPF object does not load, from the messages of the kernel and libbpf."""
