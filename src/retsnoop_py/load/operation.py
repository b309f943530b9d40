# SPDX-License-Identifier: BSD-2-Clause
"""An operation that loaders tell of, and what most of them have in common."""

from __future__ import annotations

from retsnoop_py.load.operation_rows import (
    BUSY_PROBE,
    CANNOT,
    CLOSED,
    GONE,
    NO_CALL,
    NO_MEMORY,
    REFUSED,
    RIGHTS,
    TAKEN,
    TOO_MANY,
    Row,
)
from retsnoop_py.value import Value

__all__ = ["ATTACHED", "COMMON", "DO", "PROBED", "Operation", "each", "of"]


class Operation(Value):
    """What a loader tries: its words, and what an errno means for it.

    ``otherwise``: where no errno is named. ``is_general``: others that a
    line has words of say more.
    """

    words: str
    errors: dict[str, Row]
    otherwise: Row | None = None
    is_general: bool = False


def each(names: str, row: Row) -> dict[str, Row]:
    """``row`` for each errno of ``names``."""
    return dict.fromkeys(names.split(), row)


#: What every operation has in common, unless it says otherwise.
COMMON = {
    **each("EPERM EACCES", RIGHTS),
    **each("ENOMEM ENOBUFS", NO_MEMORY),
    **each("EMFILE ENFILE", TOO_MANY),
    **each("ENOSYS", NO_CALL),
}
ATTACHED = {
    **COMMON,
    **each("ENOENT ESRCH ENODEV ENXIO", GONE),
    **each("EBUSY EEXIST", TAKEN),
    **each("EOPNOTSUPP ENOTSUPP ENOTTY ENOPROTOOPT", CANNOT),
    **each("EINVAL ERANGE", REFUSED),
    **each("EBADF", CLOSED),
}
PROBED = {**ATTACHED, **each("EBUSY EEXIST", BUSY_PROBE)}

#: What is done to a probe that is attached, and how it is said that it is not there.
DO = (
    r"(?:not found|(?:does not|doesn't) exist|attach|creat|enabl|open|register|install|add|start"
    r"|set|writ|hook|link|perf_event)\w*"
)


def of(
    words: str, errors: dict[str, Row], otherwise: Row | None = None, is_general: bool = False
) -> Operation:
    """An operation, as the tables write it."""
    return Operation(words, errors, otherwise, is_general)
