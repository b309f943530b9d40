# SPDX-License-Identifier: BSD-2-Clause
"""Which failure a command reported, and why it happened, in the user's terms.

Data comes in, an answer goes out: nothing here acts on the kernel.
"""
