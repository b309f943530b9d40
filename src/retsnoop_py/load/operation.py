# SPDX-License-Identifier: BSD-2-Clause
"""An operation in loaders' messages, and rows that most operations share."""

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
    """An operation of a loader: its words, and the meaning of each errno.

    ``otherwise``: the row for a line without an errno. ``is_general``: other operations in the same
    line are more exact.
    """

    words: str
    errors: dict[str, Row]
    otherwise: Row | None = None
    is_general: bool = False


def each(names: str, row: Row) -> dict[str, Row]:
    """Return ``row`` for each errno of ``names``."""
    return dict.fromkeys(names.split(), row)


#: Rows of every operation, unless the operation has its own row.
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

#: Words for operations on a probe, and for a missing probe.
DO = (
    r"(?:not found|(?:does not|doesn't) exist|attach|creat|enabl|open|register|install|add|start"
    r"|set|writ|hook|link|perf_event)\w*"
)


def of(
    words: str, errors: dict[str, Row], otherwise: Row | None = None, is_general: bool = False
) -> Operation:
    """Return an operation, for the tables."""
    return Operation(words, errors, otherwise, is_general)
