# SPDX-License-Identifier: BSD-2-Clause
"""Variables of this process, and those of its caller, which the traced command gets."""

from __future__ import annotations

import os
import re
from pathlib import Path

from retsnoop_py.own_file import is_own_place

__all__ = [
    "CERTIFICATES",
    "are_safe_certificates",
    "leave_out_unsafe_folders",
    "leave_out_unsafe_variables",
    "path_of_caller",
    "variables_of_caller",
]

#: Variables that retsnoop-py and its Python libraries read. They choose no code, and files only by
#: the rules of ``own_file`` and ``foreign_path``.
_OURS = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|SUDO_UID|TMPDIR|PYTHONPATH"
    r"|TERM|COLORTERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|TZ|LANG|LANGUAGE|LC_\w+"
    r"|XDG_CACHE_HOME|XDG_CONFIG_HOME|DEBUGINFOD_\w+|GITHUB_\w+"
    r"|_?RETSNOOP_\w+|_TYPER_COMPLETE\w*|COMP_\w+|(?i:(?:https?|ftp|all|no)_proxy)"
)
#: Files or folders with the certificates of servers.
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: Variables of the caller that this process has removed.
_left_out: dict[str, str] = {}
#: PATH of the caller, and PATH as this process changed it; None if it is unchanged.
_path: tuple[str, str] | None = None


def leave_out_unsafe_folders() -> None:
    """Restrict PATH of this process to absolute folders, for root to folders of root.

    A relative or empty entry is the current folder or lies below it, and another user may have put
    a program there. The same is true of a folder that another user can change. A traced command
    gets the unchanged PATH: :func:`path_of_caller`.
    """
    global _path  # noqa: PLW0603 - a process has one
    given = os.environ.get("PATH")
    if given is None:
        return
    ours = os.pathsep.join(
        one for one in given.split(os.pathsep) if one.startswith("/") and is_own_place(Path(one))
    )
    if ours != given:
        os.environ["PATH"] = ours or os.defpath
        _path = given, os.environ["PATH"]


def leave_out_unsafe_variables() -> None:
    """As root, keep only the variables that retsnoop-py reads, before libraries read others.

    ``sudo -E`` keeps variables of another user. OPENSSL_CONF names code that OpenSSL loads, and
    SSLKEYLOGFILE a file that Python's ssl writes. A traced command gets all variables:
    :func:`variables_of_caller`. Libraries and the loader read some variables even before this.
    """
    if os.geteuid() != 0:
        return
    for name, value in list(os.environ.items()):
        is_safe = name in CERTIFICATES and are_safe_certificates(value)
        if not (is_safe or _OURS.fullmatch(name)):
            _left_out[name] = value
            del os.environ[name]


def are_safe_certificates(paths: str) -> bool:
    """Return whether no other user can replace the files or folders, separated by ``:``."""
    return all(one.startswith("/") and is_own_place(Path(one)) for one in paths.split(os.pathsep))


def variables_of_caller() -> dict[str, str]:
    """Return the environment of the caller of this process, except PATH, which may be changed."""
    return {**_left_out, **os.environ}


def path_of_caller() -> str | None:
    """Return PATH as the caller of this process set it; None if it was not set."""
    now = os.environ.get("PATH")
    return _path[0] if _path is not None and _path[1] == now else now
