# SPDX-License-Identifier: BSD-2-Clause
"""Whose rights a process has."""

from __future__ import annotations

import os
import stat

from retsnoop_py.value import Value

__all__ = ["Identity"]


class Identity(Value):
    """Whose rights a process has: user and group ids that the file system tests.

    ``overrides``: it has CAP_DAC_OVERRIDE, so that modes do not bind it.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    overrides: bool = False

    @property
    def is_root(self) -> bool:
        """Whether it mostly may do everything."""
        return self.uid == 0

    def is_in(self, group: int) -> bool:
        """Whether it has this group."""
        return group == self.gid or group in self.groups

    def may(self, status: os.stat_result, need: int) -> bool:
        """Whether the mode allows ``need`` (bits as in ``R_OK | W_OK | X_OK``)."""
        mode = stat.S_IMODE(status.st_mode)
        if self.uid == 0 or self.overrides:
            is_dir = stat.S_ISDIR(status.st_mode)
            return bool(not need & os.X_OK or is_dir or mode & 0o111)
        shift = 0
        if self.uid == status.st_uid:
            shift = 6
        elif self.is_in(status.st_gid):
            shift = 3
        return mode >> shift & need == need
