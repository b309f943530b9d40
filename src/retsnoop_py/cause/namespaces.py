# SPDX-License-Identifier: BSD-2-Clause
"""Reasons in namespaces: the namespace, and the right or object that it lacks."""

from __future__ import annotations

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene

__all__ = ["chrooted", "ended", "nested_too_deep", "no_setns", "unmapped"]

#: chown(2): an owner or group that stays.
_UNCHANGED = 0xFFFFFFFF
_CLONE_NEWUSER = 0x10000000
#: user_namespace.level of the innermost one (create_user_ns()).
_MOST_LEVELS = 32
_KINDS = {
    0x00020000: "mount",
    0x02000000: "cgroup",
    0x04000000: "UTS",
    0x08000000: "IPC",
    0x10000000: "user",
    0x20000000: "PID",
    0x40000000: "network",
    0x00000080: "time",
}


def ended(scene: Scene) -> Reason | None:
    """clone(2) in a PID namespace after its first process ended: ENOMEM despite free memory."""
    if "alloc_pid" not in scene.chain:
        return None
    children = [
        one
        for one in scene.witnessed.ends
        if scene.witnessed.parents.get(one.pid) == scene.call.pid and one.time <= scene.call.time
    ]
    if not children:
        return None
    first = children[0]
    return Reason(
        "namespace",
        f"The first process of the new PID namespace, {first.process} (PID {first.pid}), has "
        "ended. The kernel then creates no further process in that namespace. Memory is not short.",
        ("unshare --pid --fork COMMAND: COMMAND is then the first process, and it stays",),
        is_seen_later=False,
    )


def nested_too_deep(scene: Scene) -> Reason | None:
    """A user namespace inside of 32 others."""
    state = scene.call.state
    if state is None or state.namespace < _MOST_LEVELS or not _flags(scene) & _CLONE_NEWUSER:
        return None
    return Reason(
        "namespace",
        f"The process is in {state.namespace} nested user namespaces. Linux allows {_MOST_LEVELS}.",
        ("create the user namespace further outside",),
        is_seen_later=False,
    )


def chrooted(scene: Scene) -> Reason | None:
    """A new user namespace for a process in a chroot (its root is not the root of its mounts)."""
    root = scene.call.root
    if not _flags(scene) & _CLONE_NEWUSER or not (root or "current_chrooted" in scene.chain):
        return None
    where = f", {show(root)}" if root else ""
    return Reason(
        "namespace",
        f"The process has another root directory (chroot){where}. The kernel creates no user "
        "namespace for such a process, not even for root.",
        (
            "change the root by pivot_root(2) instead of chroot(2), as container tools do",
            "or create the user namespace before chroot",
        ),
        is_seen_later=False,
    )


def unmapped(scene: Scene) -> Reason | None:
    """A user or group that the user namespace of the process does not have (EINVAL)."""
    call, state = scene.call, scene.call.state
    if state is None or not state.namespace:
        return None
    if call.name == "setgroups":
        what = "One of the groups"
    else:
        is_group = "gid" in call.name
        at = {"fchownat": 2, "chown": 1, "lchown": 1, "fchown": 1}.get(call.name, 0)
        numbers = [one & 0xFFFFFFFF for one in call.arguments[at : at + 2]]
        numbers = [one for one in numbers if one not in (0, _UNCHANGED)]
        if not numbers:
            return None
        noun = "group" if is_group else "user or group"
        what = f"The {noun} {' or '.join(dict.fromkeys(map(str, numbers)))}"
    return Reason(
        "namespace",
        f"{what} does not exist in the user namespace of the process: its map (/proc/PID/uid_map, "
        "gid_map) has no such number.",
        (
            (
                "use numbers that are mapped, or map more: usermod --add-subuids 100000-165535 "
                "--add-subgids 100000-165535 USER (podman system migrate; unshare --map-auto)"
            ),
        ),
    )


def no_setns(scene: Scene) -> Reason | None:
    """setns(2) without CAP_SYS_ADMIN over the namespace."""
    flags = scene.call.arguments[1] & 0xFFFFFFFF
    names = [name for bit, name in _KINDS.items() if flags & bit]
    what = f"the {' and '.join(names)} namespace" if names else "the namespace"
    if scene.call.uid == 0:
        text = "CAP_SYS_ADMIN in the user namespace that owns it, and CAP_SYS_ADMIN in its own"
        advice = "run it in the user namespace that owns the namespace (nsenter -U first)"
    else:
        text = "CAP_SYS_ADMIN in the user namespace that owns it"
        advice = "run it as root, or enter the user namespace that owns it first: nsenter -U"
    return Reason("namespace", f"Entering {what} requires {text}.", (advice,), is_seen_later=False)


def _flags(scene: Scene) -> int:
    call = scene.call
    return call.arguments[0] if call.name in ("unshare", "clone") else 0
