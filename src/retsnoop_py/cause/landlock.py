# SPDX-License-Identifier: BSD-2-Clause
"""Denials by Landlock: the missing access right, and the process that made the rule set.

Each hook of Landlock in the kernel requires certain access rights (security/landlock: fs.c, net.c).
They are named as in linux/landlock.h. The hook that returned the error shows the missing right.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from retsnoop_py.cause.operation import operation, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path

__all__ = ["installer", "reason"]

_FS, _NET = "LANDLOCK_ACCESS_FS_", "LANDLOCK_ACCESS_NET_"
_ACCMODE, _TRUNC, _DIRECTORY = 0o3, 0o1000, 0o200000
#: By hook: the access rights that it needs, one of which is missing.
_RIGHTS = {
    "hook_path_mkdir": ("MAKE_DIR",),
    "hook_path_mknod": ("MAKE_REG", "MAKE_CHAR", "MAKE_BLOCK", "MAKE_FIFO", "MAKE_SOCK"),
    "hook_path_symlink": ("MAKE_SYM",),
    "hook_path_unlink": ("REMOVE_FILE",),
    "hook_path_rmdir": ("REMOVE_DIR",),
    "hook_path_link": ("REFER",),
    "hook_path_rename": ("REFER", "REMOVE_FILE", "REMOVE_DIR", "MAKE_REG", "MAKE_DIR"),
    "hook_path_truncate": ("TRUNCATE",),
    "hook_file_truncate": ("TRUNCATE",),
    "hook_file_ioctl": ("IOCTL_DEV",),
    "hook_file_ioctl_compat": ("IOCTL_DEV",),
}
_NETWORK = {"hook_socket_bind": "BIND_TCP", "hook_socket_connect": "CONNECT_TCP"}
#: No rule allows these: they are forbidden to all processes with a rule set.
_NEVER = ("hook_sb_*", "hook_move_mount")
#: These reach another process, which has to be restricted by the same rule set.
_SCOPED = {
    "hook_ptrace_*": "tracing a process that the rule set does not restrict as well",
    "hook_task_kill": "signals to processes outside of it (LANDLOCK_SCOPE_SIGNAL)",
    "hook_file_send_sigiotask": "signals to processes outside of it (LANDLOCK_SCOPE_SIGNAL)",
    "hook_unix_*": "abstract UNIX sockets outside of it (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)",
}


def installer(scene: Scene, *calls: str) -> str | None:
    """Return ``python3 (PID 7)``, which restricted itself and so the process; None if not seen."""
    whose = [
        one
        for one in scene.witnessed.installed
        if one.call in calls
        and one.time <= scene.call.time
        and scene.witnessed.is_below(scene.call.pid, one.pid)
    ]
    return f"{whose[-1].process} (PID {whose[-1].pid})" if whose else None


def reason(scene: Scene, hook: str) -> Reason | None:
    """Return the reason of a Landlock hook's denial; None for any other hook."""
    maker = installer(scene, "landlock_restrict_self")
    by = (
        f"{maker} applied it to itself" if maker else "a program that began this process applied it"
    )
    program = maker or "the program that made the rule set"
    for pattern, words in _SCOPED.items():
        if fnmatchcase(hook, pattern):
            return _reason(
                f"A Landlock rule set forbids {words}; {by}.", f"change the rule set of {program}"
            )
    if any(fnmatchcase(hook, one) for one in _NEVER):
        return _reason(
            f"A process with a Landlock rule set may not change mounts; {by}. No rule allows it.",
            f"mount before {program} restricts itself",
        )
    rights = _rights(scene, hook)
    if not rights:
        return None
    target, path = scene.call.address, scene.target
    where = f"port {target.port}" if target is not None else show(path or "this file")
    listed = " or ".join(rights)
    if target is not None:
        place = f"for port {target.port}"
    else:
        is_of_folder = "READ" not in listed and "WRITE" not in listed and "EXECUTE" not in listed
        folder = os.path.dirname(path) if path and is_of_folder else path
        place = f"below {shell_path(folder or '/')}"
    doing = operation(scene.call)
    doing = doing if where in doing or path is None else f"this access to {where}"
    return _reason(
        f"A Landlock rule set forbids {doing}: no rule of it allows {listed} there; {by}.",
        f"allow {listed} {place} in the rule set of {program}",
        f"or run the command outside of {program}",
    )


def _reason(text: str, *advice: str) -> Reason:
    return Reason("lsm", text, advice, is_seen_later=False)


def _rights(scene: Scene, hook: str) -> tuple[str, ...]:
    if hook in _NETWORK:
        return (_NET + _NETWORK[hook],)
    if hook == "hook_file_open":
        return tuple(_FS + one for one in _of_open(scene))
    return tuple(_FS + one for one in _RIGHTS.get(hook, ()))


def _of_open(scene: Scene) -> list[str]:
    """The rights that opening a file needs."""
    call = scene.call
    if call.name.startswith("execve"):
        return ["EXECUTE"]
    if call.name not in ("open", "openat", "creat"):
        return ["READ_FILE", "WRITE_FILE"]
    flags = 0o1 if call.name == "creat" else call.arguments[1 if call.name == "open" else 2]
    if flags & _DIRECTORY:
        return ["READ_DIR"]
    mode = flags & _ACCMODE
    found = {0: ["READ_FILE"], 1: ["WRITE_FILE"]}.get(mode, ["READ_FILE", "WRITE_FILE"])
    return [*found, *(["TRUNCATE"] if flags & _TRUNC else [])]
