# SPDX-License-Identifier: BSD-2-Clause
"""What is handed out: wheels that need nothing but a glibc, made on any machine for any other."""
