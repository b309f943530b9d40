# SPDX-License-Identifier: BSD-2-Clause
"""``--user``: the command runs with the rights of another user, tracing with ours."""

from __future__ import annotations

import os
import pwd

from retsnoop_py.errors import InputError
from retsnoop_py.value import Value


class User(Value):
    """A user as passwd and group know it; ``groups`` are all of them, the first its own."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    def become(self) -> None:
        """Take the user's ids and groups, for good. Raises OSError where we may not."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say who somebody is; all others stay as they are."""
        return {
            "HOME": self.home,
            "SHELL": self.shell,
            "USER": self.name,
            "LOGNAME": self.name,
        }


def find_user(name: str) -> User:
    """The user of that name, or of that number. Raises InputError if there is none."""
    try:
        known = pwd.getpwnam(name)
    except KeyError:
        known = _by_number(name)
    return User(
        name=known.pw_name,
        uid=known.pw_uid,
        gid=known.pw_gid,
        groups=tuple(os.getgrouplist(known.pw_name, known.pw_gid)),
        home=known.pw_dir,
        shell=known.pw_shell or "/bin/sh",
    )


def _by_number(text: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(int(text) if text.isascii() and text.isdecimal() else -1)
    except (KeyError, OverflowError):
        raise InputError(
            f"--user {text}: there is no such user", "`getent passwd` lists those there are"
        ) from None
