# SPDX-License-Identifier: BSD-2-Clause
"""Access control lists of files (acl(5)): which entry decides about a process."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from contextlib import suppress
from struct import error, iter_unpack

from retsnoop_py.cause.identity import Identity
from retsnoop_py.value import Value

__all__ = ["Entry", "access_list", "deciding_entry"]

_ATTRIBUTE = "system.posix_acl_access"
#: Bytes of the version before the entries (linux/posix_acl_xattr.h).
_HEAD = 4
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_WORDS = {
    _USER_OBJ: "user:",
    _USER: "user:",
    _GROUP_OBJ: "group:",
    _GROUP: "group:",
    _OTHER: "other:",
}


class Entry(Value):
    """An entry; ``rights`` are those that are left by the mask, ``given`` those that it names."""

    tag: int
    given: int
    number: int
    rights: int

    @property
    def words(self) -> str:
        """As setfacl(1) writes it: ``user:www-data:r--``."""
        name = ""
        if self.tag in (_USER, _GROUP):
            name = str(self.number)
            with suppress(KeyError):
                is_user = self.tag == _USER
                name = (
                    pwd.getpwuid(self.number).pw_name
                    if is_user
                    else grp.getgrgid(self.number).gr_name
                )
        return f"{_WORDS[self.tag]}{name}:{letters(self.given)}"

    @property
    def is_masked(self) -> bool:
        """Return whether the mask removes rights."""
        return self.given != self.rights

    def with_right(self, right: int) -> str:
        """The entry that setfacl -m needs to add ``right``."""
        before = self.words.rpartition(":")[0]
        return f"{before}:{letters(self.given | right).replace('-', '')}"


def letters(rights: int) -> str:
    """``r-x``."""
    return "".join(name if rights & bit else "-" for name, bit in (("r", 4), ("w", 2), ("x", 1)))


def access_list(path: str) -> tuple[Entry, ...] | None:
    """The list of a file; None where it has none that says more than its mode, or on an error."""
    try:
        raw = os.getxattr(path, _ATTRIBUTE)
        entries = list(iter_unpack("<HHI", raw[_HEAD:]))
    except (OSError, ValueError, error):
        return None
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), 7)
    return tuple(
        Entry(tag, rights, number, rights if tag in (_USER_OBJ, _OTHER) else rights & mask)
        for tag, rights, number in entries
        if tag in _WORDS
    )


def deciding_entry(
    entries: Sequence[Entry], status: os.stat_result, who: Identity, right: int
) -> Entry:
    """The entry that gives ``right`` to a process, or the one that denies it."""

    def first(tag: int) -> Entry | None:
        return next((one for one in entries if one.tag == tag), None)

    if who.uid == status.st_uid and (owner := first(_USER_OBJ)) is not None:
        return owner
    for one in entries:
        if one.tag == _USER and one.number == who.uid:
            return one
    groups = [
        one
        for one in entries
        if (one.tag == _GROUP_OBJ and who.is_in(status.st_gid))
        or (one.tag == _GROUP and who.is_in(one.number))
    ]
    if groups:
        return next((one for one in groups if one.rights & right), groups[0])
    return first(_OTHER) or Entry(_OTHER, 0, 0, 0)
