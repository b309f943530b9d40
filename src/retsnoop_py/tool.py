# SPDX-License-Identifier: BSD-2-Clause
"""The environment and the current folder of the tools that retsnoop-py starts: apt, QEMU, pip."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from retsnoop_py.caller_environment import CERTIFICATES, are_safe_certificates
from retsnoop_py.own_file import is_own_place

__all__ = ["TOOL_FOLDER", "environment_of_tools"]

#: The current folder of tools. QEMU and others look for some files in the current folder first.
TOOL_FOLDER = "/"
#: Ways to the network: a tool connects to them, and reads no file and starts no program by them.
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")


def environment_of_tools() -> dict[str, str]:
    """Return the whole environment for a tool that retsnoop-py starts; the traced command has more.

    Variables of the caller can name programs, files and servers to a tool (PIP_INDEX_URL,
    APT_CONFIG, TAR_OPTIONS, LD_PRELOAD), and under ``sudo -E`` HOME is another user's folder, with
    that user's pip.conf. A tool gets PATH, the proxies, and certificates that no other user can
    replace.
    """
    given = os.environ
    proxies = [name for each in _PROXIES for name in (each, each.upper()) if name in given]
    certificates = [
        name for name in CERTIFICATES if name in given and are_safe_certificates(given[name])
    ]
    return {
        "PATH": given.get("PATH", os.defpath),
        "HOME": _home(),
        "LC_ALL": "C.UTF-8",
        **{name: given[name] for name in (*proxies, *certificates)},
    }


def _home() -> str:
    """Return the caller's HOME; for root the home that passwd has, if only root can change it."""
    if os.geteuid() != 0:
        return os.environ.get("HOME", "/")
    try:
        home = pwd.getpwuid(0).pw_dir
    except KeyError:
        return "/"
    return home if is_own_place(Path(home)) else "/"
