# SPDX-License-Identifier: BSD-2-Clause
"""Release files: wheels that need only a glibc, made on any machine for any other machine."""
