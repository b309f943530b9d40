# SPDX-License-Identifier: BSD-2-Clause
"""The objects that the program prints as JSON and the Python interface returns.

They import nothing of the package, so each part of it may make them.
"""
