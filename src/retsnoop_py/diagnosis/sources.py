# SPDX-License-Identifier: BSD-2-Clause
"""Where source lines come from: a vmlinux with DWARF, debuginfod. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.images import ImageSearch, find_image

__all__ = ["sources"]

_TITLE = "vmlinux with DWARF"
_LOSES = "source lines, inlined functions and :SOURCE globs"
_GET = "install the kernel's debug package, set DEBUGINFOD_URLS, or use -k VMLINUX"


def sources(host: Host) -> list[Check]:
    """The image and the servers."""
    servers = Debuginfod(host.environ)
    image = _image(host, servers) if host.image is None else _named(host, host.image)
    return [image, _debuginfod(servers)]


def _named(host: Host, image: Path) -> Check:
    """The user's own, which a trace takes or ends with."""
    detail, next_step, ends_with = str(image), "", 0
    try:
        find_image(host.facts, image, root=host.root)
    except RetsnoopError as error:
        detail, next_step, ends_with = error.message, error.hint or "", error.exit_status
    return Check(
        key="vmlinux",
        title=_TITLE,
        group=Group.SOURCES,
        answer=Answer.NO if ends_with else Answer.YES,
        detail=detail,
        next_step=next_step,
        ends_with=ends_with,
    )


def _image(host: Host, servers: Debuginfod) -> Check:
    # Without servers: a run would fetch hundreds of megabytes from them, this must not.
    search = find_image(host.facts, root=host.root, debuginfod=Debuginfod({}))
    path, tried = search.path, search.tried
    if path is None and servers.servers and host.facts.build_id:
        cached = _cached(host, servers)
        path, tried = cached.path, (*tried, *cached.tried)
    found, ask = path is not None, path is None and bool(servers.servers)
    detail = str(path) if found else "none was found"
    if ask:
        detail = f"not on this machine; a trace asks {', '.join(servers.servers)}"
    return Check(
        key="vmlinux",
        title=_TITLE,
        group=Group.SOURCES,
        answer=Answer.YES if found else Answer.UNKNOWN if ask else Answer.NO,
        detail=detail,
        next_step="" if found or ask else _GET,
        loses="" if found or ask else _LOSES,
        tried=(*tried, (str(path), "used")) if found else tried,
    )


def _cached(host: Host, servers: Debuginfod) -> ImageSearch:
    """What an earlier run has fetched; an empty file is a server's no."""
    file = servers.cache / str(host.facts.build_id) / "debuginfo"
    try:
        if not file.stat().st_size:
            return ImageSearch("", None, ((str(file), "no server had it when last asked"),))
        return find_image(host.facts, file, root=host.root)
    except OSError as error:
        return ImageSearch("", None, ((str(file), error.strerror or str(error)),))
    except RetsnoopError as error:
        return ImageSearch("", None, ((str(file), error.message),))


def _debuginfod(servers: Debuginfod) -> Check:
    asked = bool(servers.servers)
    return Check(
        key="debuginfod",
        title="debuginfod",
        group=Group.SOURCES,
        answer=Answer.YES if asked else Answer.NO,
        detail=", ".join(servers.servers) if asked else "DEBUGINFOD_URLS is not set",
    )
