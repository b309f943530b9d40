# SPDX-License-Identifier: BSD-2-Clause
"""From kernel addresses to names, source lines and inlined frames."""
