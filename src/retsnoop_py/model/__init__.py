# SPDX-License-Identifier: BSD-2-Clause
"""The objects that the program prints as JSON and the Python interface returns.

They import no other module of the package, so every module can create them.
"""
