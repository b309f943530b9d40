# SPDX-License-Identifier: BSD-2-Clause
"""Why a BPF object does not load: from the kernel's and libbpf's words to one explanation."""
