# SPDX-License-Identifier: BSD-2-Clause
"""Which security module refused a call, and by which of its rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import landlock
from retsnoop_py.cause.audit import Record, record_of
from retsnoop_py.cause.bpf_programs import lsm_programs
from retsnoop_py.cause.operation import operation, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path, shell_word

__all__ = ["security_module"]

_LOCKDOWN = Path("/sys/kernel/security/lockdown")
#: The kernel's message: "Lockdown: PROCESS: WHAT is restricted; see man kernel_lockdown.7".
_LOCKDOWN_START, _LOCKDOWN_END = "Lockdown: ", " is restricted"
#: Letters of AppArmor's masks.
_MASKS = {
    "r": "read",
    "w": "write",
    "a": "append to",
    "c": "create",
    "d": "delete",
    "x": "execute",
    "m": "map as a program",
    "l": "link",
    "k": "lock",
}
#: Paths that a rule of AppArmor may contain as they are, in quotes if they have a blank. Other
#: characters are patterns, variables, or end the rule: a file may have the name ``**``.
_APPARMOR_PATH = re.compile(r"/[\w/.+:%~ -]*", re.ASCII)
_SMACK_RULE = ("subject", "object", "requested")
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_SCOPES = {
    1: "a process may only trace its own descendants",
    2: "only processes with CAP_SYS_PTRACE may trace others",
    3: "no process may trace another one, and only a reboot changes that",
}


def security_module(scene: Scene) -> Reason | None:
    """A security module refused: it wrote an audit record, or its function returned the error."""
    record = record_of(scene)
    if record is not None:
        return _of_record(scene, record)
    for name in reversed(scene.chain):
        for pattern, find in _MODULES:
            if fnmatchcase(name, pattern):
                found = find(scene, name)
                if found is not None:
                    return found
    return None


def _reason(text: str, *advice: str) -> Reason:
    return Reason("lsm", text, advice, is_seen_later=False)


# -- by the module's audit records ----------------------------------------------------------------


def _of_record(scene: Scene, record: Record) -> Reason:
    if "apparmor" in record:
        return _apparmor(record)
    if record.get("lsm") == "SMACK":
        subject, target, access = (record.get(one, "?") for one in _SMACK_RULE)
        return _reason(
            f"No Smack rule allows the label {subject} to access the label {target} with {access}.",
            f"echo {shell_word(f'{subject} {target} {access}')} >/sys/fs/smackfs/load2",
        )
    return _selinux(scene, record)


def _apparmor(record: Record) -> Reason:
    profile = record.get("profile", "?")
    what = record.get("name") or record.get("capname") or record.get("peer") or ""
    denied = record.get("denied_mask") or record.get("denied") or ""
    if "capname" in record:
        text = f"use the capability {record['capname']}"
    elif what and denied and set(denied) <= set(_MASKS):
        rights = [_MASKS[one] for one in dict.fromkeys(denied)]
        text = f"{' and '.join(rights)} {show(what)}"
    else:
        text = f"do this: {record.get('operation', '')} {show(what) if what else ''}".strip()
    rule = _apparmor_rule(record, what, denied)
    advice = [f"aa-complain {shell_word(profile)} only logs what the profile forbids"]
    if rule:
        advice = [
            f'add the rule "{rule}" to the profile in /etc/apparmor.d; apparmor_parser -r FILE',
            f"or {advice[0]}",
        ]
    elif what.startswith("/"):
        advice = ["aa-logprof proposes the rule that is missing in the profile", f"or {advice[0]}"]
    if profile == "unprivileged_userns" or record.get("operation") == "userns_create":
        advice.append(
            "or sysctl kernel.apparmor_restrict_unprivileged_userns=0 (every program may then "
            "create user namespaces)"
        )
    return _reason(f"The AppArmor profile {profile} does not let the process {text}.", *advice)


def _apparmor_rule(record: Record, what: str, denied: str) -> str | None:
    """The rule that allows it, as it stands in a profile."""
    if "capname" in record:
        return f"capability {record['capname']},"
    if record.get("operation") == "userns_create":
        return "userns,"
    if "family" in record and "sock_type" in record:
        return f"network {record['family']} {record['sock_type']},"
    if _APPARMOR_PATH.fullmatch(what) and denied and set(denied) <= set("rwaxmlkcd"):
        # c and d, creating and deleting, are parts of w in a profile
        rights = "".join(dict.fromkeys("w" if one in "cd" else one for one in denied))
        rights = "ix" if rights == "x" else rights
        return f"{what if ' ' not in what else f'{chr(34)}{what}{chr(34)}'} {rights},"
    return None


def _selinux(scene: Scene, record: Record) -> Reason:
    path = scene.path
    restore = [f"restorecon -v {shell_path(path)} if its label is wrong (ls -Z)"] if path else []
    return _reason(
        f"The SELinux policy does not allow {record.get('scontext', '?')} to {record['denied']} "
        f"a {record.get('tclass', '?')} with the context {record.get('tcontext', '?')}.",
        *restore,
        f"{'or ' if restore else ''}allow it: ausearch -m avc -ts recent | audit2allow -M NAME; "
        "semodule -i NAME.pp",
        "setenforce 0 only logs what the policy forbids, for all processes",
    )


# -- by the function that returned the error -----------------------------------------------------


def _landlock(scene: Scene, hook: str) -> Reason | None:
    return landlock.reason(scene, hook)


def _plain(text: str, *advice: str) -> Callable[[Scene, str], Reason]:
    return lambda _scene, _hook: _reason(text, *advice)


def _yama(_scene: Scene, _hook: str) -> Reason:
    try:
        value = int(_PTRACE_SCOPE.read_text())
    except (OSError, ValueError):
        return _reason(
            "The security module Yama forbids tracing this process.",
            "sysctl kernel.yama.ptrace_scope shows what it allows",
        )
    text = _SCOPES.get(value, "the process may not be traced")
    advice = [
        "sysctl kernel.yama.ptrace_scope=0 (every user may then trace all of the own processes)",
        "or run it as root" if value == 2 else "or begin the program under the tracer",
    ]
    if value == 3:
        advice = ["set kernel.yama.ptrace_scope to 2 or less in /etc/sysctl.d, and reboot"]
    text = f"The security module Yama forbids it: kernel.yama.ptrace_scope is {value}, so {text}."
    return _reason(text, *advice)


def _lockdown(scene: Scene, _hook: str) -> Reason:
    what = operation(scene.call)
    for line in scene.said:
        before, end, _ = line.partition(_LOCKDOWN_END)
        if end and before.startswith(_LOCKDOWN_START):
            what = f'"{before.rpartition(": ")[2]}"'
    level = ""
    try:
        words = _LOCKDOWN.read_text()
        if "[" in words:
            level = f" (level {words.partition('[')[2].partition(']')[0]})"
    except OSError:
        pass
    return _reason(
        f"The kernel is locked down{level}, and this forbids {what}, even to root.",
        "switch off Secure Boot in the firmware, or boot without lockdown=",
        "a running kernel cannot be unlocked",
    )


def _bpf(_scene: Scene, hook: str) -> Reason:
    where = hook.removeprefix("bpf_lsm_")
    programs, remark = lsm_programs(hook)
    end = f" {remark}" if remark else ""
    if not programs:
        return _reason(
            f"A BPF program of type lsm, which is attached to the hook {where}, refused the call."
            f"{end}",
            "bpftool prog list shows the programs of type lsm; bpftool link list how they are held",
        )
    named = " or ".join(str(one) for one in programs)
    advice = [
        f"end {one.holder}, or change its policy"
        if one.holder
        else f"bpftool prog show id {one.id}"
        for one in programs
    ]
    return _reason(
        f"The BPF program {named}, which is attached to the hook {where}, refused the call.{end}",
        *advice,
    )


def _safesetid(scene: Scene, _hook: str) -> Reason:
    return _reason(
        f"SafeSetID has a policy for user {scene.call.uid}, which does not allow this change of "
        "user or group.",
        f"echo '{scene.call.uid}:NEW' >>/sys/kernel/security/safesetid/uid_allowlist_policy",
    )


#: By pattern of a kernel function that a security module has. The functions of Landlock have no
#: prefix of their own.
_MODULES: tuple[tuple[str, Callable[[Scene, str], Reason | None]], ...] = (
    ("hook_*", _landlock),
    ("yama_*", _yama),
    ("lockdown_*", _lockdown),
    ("bpf_lsm_*", _bpf),
    ("safesetid_*", _safesetid),
    (
        "apparmor_*",
        _plain(
            "An AppArmor profile forbids this access.",
            "journalctl -k --grep apparmor shows the profile and the rule that is missing",
            "aa-complain PROFILE only logs what the profile forbids",
        ),
    ),
    (
        "selinux_*",
        _plain(
            "The SELinux policy forbids this access.",
            "ausearch -m avc -ts recent shows the contexts and the class",
            "setenforce 0 only logs what the policy forbids, for all processes",
        ),
    ),
    ("smack_*", _plain("A Smack rule forbids this access.")),
    (
        "tomoyo_*",
        _plain(
            "The TOMOYO policy does not allow this access.",
            "tomoyo-editpolicy shows the domain and its rules; profile 2 only logs",
        ),
    ),
    (
        "loadpin_*",
        _plain(
            "LoadPin only allows kernel modules and firmware of the pinned file system.",
            "boot with loadpin.enforce=0",
        ),
    ),
    ("ipe_*", _plain("The policy of IPE (Integrity Policy Enforcement) forbids this file.")),
)
