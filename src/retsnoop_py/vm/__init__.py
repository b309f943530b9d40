# SPDX-License-Identifier: BSD-2-Clause
"""Boot a kernel under QEMU, run commands in it on the host's own files, bring the results back."""
