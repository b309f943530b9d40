# SPDX-License-Identifier: BSD-2-Clause
"""Who refused a call: a seccomp filter, a security module, a missing capability, a missing call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from retsnoop_py.cause.events import Denied
from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.kernel.capabilities import CAPABILITIES, capability_name
from retsnoop_py.kernel.errno import errno_name

__all__ = ["capability", "has_capability", "missing_call", "seccomp", "security_module"]

#: By pattern of a kernel function that a security module has: its name, and what to do. The
#: functions of Landlock have no prefix of their own; they are called from security_*().
_MODULES = (
    (
        "hook_*",
        "Landlock",
        "The process, or one of its parents, restricted itself by a Landlock rule set.",
        ("allow the access in the program that made the rule set",),
    ),
    (
        "apparmor_*",
        "AppArmor",
        "An AppArmor profile forbids this access.",
        (
            "journalctl -k --grep apparmor shows the profile and the rule that is missing",
            "aa-complain PROFILE only logs what the profile forbids",
        ),
    ),
    (
        "selinux_*",
        "SELinux",
        "The SELinux policy forbids this access.",
        (
            "ausearch -m avc -ts recent shows the contexts and the class",
            "setenforce 0 only logs what the policy forbids, for all processes",
        ),
    ),
    ("smack_*", "Smack", "A Smack rule forbids this access.", ()),
    ("tomoyo_*", "TOMOYO", "A TOMOYO policy forbids this access.", ()),
    (
        "yama_*",
        "Yama",
        "The security module Yama forbids tracing this process.",
        ("sysctl kernel.yama.ptrace_scope=0 (every user may then trace all of the own processes)",),
    ),
    (
        "lockdown_*",
        "lockdown",
        "The kernel is locked down: not even root may change or read the running kernel.",
        (
            "cat /sys/kernel/security/lockdown shows the level",
            "switch off Secure Boot, or boot without lockdown=",
        ),
    ),
    (
        "bpf_lsm_*",
        "BPF LSM",
        "A BPF program that is attached to this security hook refused the call.",
        ("bpftool prog list shows the programs of type lsm, and who loaded them",),
    ),
    ("safesetid_*", "SafeSetID", "SafeSetID has no rule that allows this change of user.", ()),
    (
        "loadpin_*",
        "LoadPin",
        "LoadPin only allows files of the file system that it is pinned to.",
        (),
    ),
)


def seccomp(scene: Scene) -> Reason | None:
    """A seccomp filter made the result: the kernel did not begin the call."""
    call = scene.call
    if not call.is_filtered or call.was_entered is not False:
        return None
    return Reason(
        "seccomp",
        f"A seccomp filter of the process returned {errno_name(call.error)} for {call.name}(); the "
        "kernel did not run the call.",
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
    if call.name.startswith("number "):
        text = f"Linux {release} has no system call {call.name}."
    else:
        text = (
            f"Linux {release} does not have the system call {call.name}(), or not this use of it."
        )
    advice = "use a newer kernel, or a program that does not need this call"
    return Reason("unsupported", text, (advice,), is_seen_later=False)


def security_module(scene: Scene) -> Reason | None:
    """A security module refused: one of its functions returned the error."""
    for name in reversed(scene.chain):
        for pattern, module, text, advice in _MODULES:
            if not fnmatchcase(name, pattern):
                continue
            is_hook = any(one.startswith("security_") for one in scene.chain)
            if module == "Landlock" and not is_hook:
                continue
            return Reason(
                "lsm", f"{text} (Security module: {module}.)", advice, is_seen_later=False
            )
    return None


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
    """Whether the process had the capability ``name`` ("SYS_ADMIN"), and no test of it failed."""
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
    return Reason("capability", text, advice, is_seen_later=False)
