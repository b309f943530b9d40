# SPDX-License-Identifier: BSD-2-Clause
"""The identity that the kernel tests a process's rights with."""

from __future__ import annotations

import os
import stat

from retsnoop_py.value import Value

__all__ = ["Identity"]


class Identity(Value):
    """The user and group ids of a process that the file system tests.

    ``overrides``: the process has CAP_DAC_OVERRIDE, so modes do not restrict it.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    overrides: bool = False

    @property
    def is_root(self) -> bool:
        """Return whether the process usually has all rights."""
        return self.uid == 0

    def is_in(self, group: int) -> bool:
        """Return whether the process has this group."""
        return group == self.gid or group in self.groups

    def may(self, status: os.stat_result, need: int) -> bool:
        """Return whether the mode allows ``need`` (bits as in ``R_OK | W_OK | X_OK``)."""
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
