# SPDX-License-Identifier: BSD-2-Clause
"""The native part, behind typed Python: libbpf's objects and what our own C does.

Nothing outside this room calls into the extension. Each object owns its handle; a call that fails
raises with errno and the log, or gives the errno where its caller decides what that means.
"""
