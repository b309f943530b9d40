# SPDX-License-Identifier: BSD-2-Clause
"""Reasons for a denied call: a seccomp filter, a missing capability, an unsupported call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from retsnoop_py.cause.events import Denied
from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.landlock import installer
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.kernel.capabilities import CAPABILITIES, capability_name
from retsnoop_py.kernel.errno import errno_name

__all__ = ["capability", "denials", "has_capability", "missing_call", "seccomp"]


def seccomp(scene: Scene) -> Reason | None:
    """A seccomp filter made the result: the kernel did not begin the call."""
    call = scene.call
    if not call.is_filtered or call.was_entered is not False:
        return None
    maker = installer(scene, "seccomp", "prctl")
    by = f" {maker} installed a filter while the command ran." if maker else ""
    return Reason(
        "seccomp",
        f"A seccomp filter of the process returned {errno_name(call.error)} for {call.name}(); the "
        f"kernel did not run the call.{by}",
        (
            f"allow {call.name} in the filter",
            "of a container: docker run --security-opt seccomp=PROFILE, or seccomp=unconfined",
            "of a systemd service: SystemCallFilter=",
        ),
        is_seen_later=False,
    )


def missing_call(scene: Scene) -> Reason | None:
    """The kernel does not have the system call."""
    call = scene.call
    if call.was_entered is False or scene.chain:
        return None
    release = os.uname().release
    if call.name.startswith("system call "):
        text = f"Linux {release} has no {call.name}."
    else:
        text = (
            f"Linux {release} does not have the system call {call.name}(), or not this use of it."
        )
    advice = "use a newer kernel, or a program that does not need this call"
    return Reason("unsupported", text, (advice,), is_seen_later=False)


_MOUNTS = (
    "a mount namespace (unshare --user --map-root-user --mount; of a mount of proc also --pid "
    "--fork)"
)
#: By call: the namespace that a process has to create to use the call in a user namespace.
_OWN = (
    ("set*name", "a UTS namespace (unshare --user --map-root-user --uts)"),
    ("*mount*", _MOUNTS),
    ("pivot_root", _MOUNTS),
    ("RTM_*", "a network namespace (unshare --user --map-root-user --net)"),
    ("NFT_*", "a network namespace (unshare --user --map-root-user --net)"),
)


def denials(scene: Scene) -> Sequence[Denied]:
    """The capabilities that the thread did not have when this call tested them, in order."""
    call = scene.call
    if call.state is None or not call.state.begin:
        return ()
    return [
        one
        for one in scene.witnessed.denied
        if one.tid == call.tid and call.state.begin <= one.time <= call.time and not one.is_silent
    ]


def has_capability(scene: Scene, name: str) -> bool:
    """Return whether the process had the capability ``name`` ("SYS_ADMIN") and no test failed."""
    state, number = scene.call.state, CAPABILITIES.index(name)
    if any(one.capability == number for one in denials(scene)):
        return False
    return state is not None and bool(state.capabilities >> number & 1)


def capability(scene: Scene) -> Reason | None:
    """The kernel tested a capability, and the process does not have it."""
    found = denials(scene)
    if not found or scene.call.state is None:
        return None
    last, state = found[-1], scene.call.state
    name = capability_name(last.capability)
    user = user_name(scene.call.uid)
    has_it = bool(state.capabilities >> last.capability & 1)
    advice: tuple[str, ...]
    if has_it and last.namespace < state.namespace:
        text = (
            f"This requires {name} in the user namespace that owns the object. The process has "
            "it only in its own user namespace."
        )
        advice = ("run it outside of the user namespace (a rootless container is one)",)
        own = next((one for glob, one in _OWN if fnmatchcase(scene.call.name, glob)), None)
        if own is _MOUNTS and scene.call.is_elsewhere:
            own = None  # it has one already
        if own is not None:
            advice = (f"create {own} together with the user namespace", f"or {advice[0]}")
    elif scene.call.uid == 0 and state.namespace and last.namespace == state.namespace:
        text = (
            f"This requires {name} in the user namespace of the process. The process does not "
            "have it there: root is not mapped, so the capabilities end when it runs a program."
        )
        advice = ("map root: unshare --user --map-root-user COMMAND",)
        return Reason("capability", text, advice, is_seen_later=False, is_inferred=True)
    elif scene.call.uid == 0:
        text = f"This requires {name}. The process runs as root, and does not have it."
        short = name.removeprefix("CAP_")
        advice = (
            f"of a container: docker run --cap-add {short}",
            f"of a systemd service: add {name} to CapabilityBoundingSet=",
        )
    else:
        text = f"This requires {name}. The process runs as user {user}, and does not have it."
        advice = (
            "run it as root",
            f"or give the program the capability: setcap {name.lower()}+ep PROGRAM",
        )
        if scene.call.name in ("unshare", "clone", "clone3"):
            own = "create a user namespace with the others: unshare --user --map-root-user ..."
            advice = (advice[0], f"or {own}")
    return Reason("capability", text, advice, is_seen_later=False)
