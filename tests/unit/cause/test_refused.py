# SPDX-License-Identifier: BSD-2-Clause
"""Who refused: security modules by their audit records and hooks, firewall rules, namespaces."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import call

from retsnoop_py.capture.refused import DROPPED, REFUSED, RefusalDecoder
from retsnoop_py.cause import files, mounts, netfilter, security_modules
from retsnoop_py.cause.events import (
    Address,
    Audited,
    Dropped,
    Ended,
    Installed,
    State,
    SystemCall,
    Witnessed,
)
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.libbpf.object import OBJECTS, BpfObject

TID = 7


def failed(name: str, error: int, *texts: tuple[int, str], **changes: object) -> SystemCall:
    known = {"time": 100, "tid": TID, "pid": TID, "was_entered": True, "state": State(begin=50)}
    return call(name, error, *texts, **known | changes)


def found(
    call: SystemCall,
    *,
    chain: tuple[str, ...] = (),
    said: tuple[str, ...] = (),
    **seen: object,
) -> Reason:
    witnessed = Witnessed((call,), **seen)  # type: ignore[arg-type]
    reason = reason_of(Scene(call, witnessed, Identity(call.uid, call.gid), said, chain))
    assert reason is not None
    return reason


def audit(text: str, *, time: int = 70, tid: int = TID) -> tuple[Audited, ...]:
    return (Audited(time, tid, f"audit(1700000000.1:2): {text}"),)


DENIED = (
    'apparmor="DENIED" operation="open" class="file" profile="/usr/bin/man" '
    'name="/etc/shadow" pid=7 comm="man" requested_mask="r" denied_mask="r" fsuid=0 ouid=0'
)


def test_apparmor_by_its_record() -> None:
    call = failed("openat", errno.EACCES, (1, "/etc/shadow"))
    reason = found(call, audited=audit(DENIED))
    assert reason.kind == "lsm"
    assert reason.text == (
        "The AppArmor profile /usr/bin/man does not let the process read /etc/shadow."
    )
    assert '"/etc/shadow r,"' in reason.advice[0]
    assert "aa-complain /usr/bin/man" in reason.advice[1]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ('operation="capable" capability=21 capname="sys_admin"', "capability sys_admin,"),
        (
            'operation="create" family="inet" sock_type="raw" denied_mask="create"',
            "network inet raw,",
        ),
        ('operation="userns_create" class="namespace" denied="userns_create"', "userns,"),
        ('operation="mkdir" name="/srv/a" denied_mask="c"', "/srv/a w,"),
        ('operation="open" name=2F6120622F63 denied_mask="wr"', '"/a b/c" wr,'),
    ],
)
def test_the_rule_that_an_apparmor_profile_lacks(fields: str, rule: str) -> None:
    text = f'apparmor="DENIED" profile="p" {fields}'
    reason = found(failed("openat", errno.EACCES), audited=audit(text))
    assert f'"{rule}"' in reason.advice[0]


@pytest.mark.parametrize(
    "name",
    ["/srv/**", "/srv/@{HOME}", "/srv/x rwk,\n/** rwk,#", '/srv/" rwk, /** rwk, "', "/a{b,c}"],
)
def test_a_name_does_not_change_the_rule_of_an_apparmor_profile(name: str) -> None:
    """The characters of patterns, of the end of a rule, of comments and quotes."""
    fields = f'operation="open" name={name.encode().hex().upper()} denied_mask="w"'
    text = f'apparmor="DENIED" profile="p" {fields}'
    reason = found(failed("openat", errno.EACCES), audited=audit(text))
    assert reason.advice[0].startswith("aa-logprof ")
    assert "/srv" not in " ".join(reason.advice)


def test_the_restriction_of_user_namespaces_has_a_setting() -> None:
    text = 'apparmor="DENIED" operation="capable" profile="unprivileged_userns" capname="sys_admin"'
    reason = found(failed("mount", errno.EPERM), audited=audit(text))
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in reason.advice[-1]


def test_selinux_by_its_record() -> None:
    text = (
        'avc:  denied  { read open } for  pid=7 comm="httpd" name="x" dev="sda1" ino=5 '
        "scontext=system_u:system_r:httpd_t:s0 tcontext=unconfined_u:object_r:user_home_t:s0 "
        "tclass=file permissive=0"
    )
    call = failed("openat", errno.EACCES, (1, "/srv/x"))
    reason = found(call, audited=audit(text))
    assert "system_u:system_r:httpd_t:s0 to read open a file" in reason.text
    assert "unconfined_u:object_r:user_home_t:s0" in reason.text
    assert reason.advice[0].startswith("restorecon -v /srv/x")


def test_a_record_of_another_thread_or_call_is_not_the_reason() -> None:
    call = failed("system call 9", errno.EACCES)
    for other in (audit(DENIED, tid=8), audit(DENIED, time=20), audit('apparmor="ALLOWED"')):
        scene = Scene(call, Witnessed((call,), audited=other), Identity(0, 0))
        assert security_modules.security_module(scene) is None


@pytest.mark.parametrize(
    ("call", "hook", "words"),
    [
        (failed("mkdirat", errno.EACCES, (1, "/srv/a")), "hook_path_mkdir", "FS_MAKE_DIR"),
        (failed("openat", errno.EACCES, (1, "/srv/a")), "hook_file_open", "FS_READ_FILE"),
        (
            failed("openat", errno.EACCES, (1, "/a"), arguments=(0, 0, 0o1001, 0, 0, 0)),
            "hook_file_open",
            "FS_WRITE_FILE or LANDLOCK_ACCESS_FS_TRUNCATE",
        ),
        (failed("execve", errno.EACCES, (0, "/bin/sh")), "hook_file_open", "FS_EXECUTE"),
        (
            failed("connect", errno.EACCES, address=Address(2, "127.0.0.1", 80)),
            "hook_socket_connect",
            "NET_CONNECT_TCP",
        ),
        (failed("mount", errno.EPERM), "hook_sb_mount", "may not change mounts"),
        (failed("kill", errno.EPERM), "hook_task_kill", "LANDLOCK_SCOPE_SIGNAL"),
    ],
)
def test_landlock_names_the_right(call: SystemCall, hook: str, words: str) -> None:
    maker = Installed(10, 3, "sandbox", "landlock_restrict_self")
    reason = found(call, chain=("security_x", hook), installed=(maker,), parents={TID: 3})
    assert words in reason.text
    assert "sandbox (PID 3)" in reason.text
    assert "sandbox (PID 3)" in reason.advice[0]


def test_landlock_of_a_process_that_is_no_ancestor() -> None:
    maker = Installed(10, 3, "sandbox", "landlock_restrict_self")
    call = failed("mkdirat", errno.EACCES, (1, "/srv/a"))
    reason = found(call, chain=("hook_path_mkdir",), installed=(maker,))
    assert "sandbox" not in reason.text
    assert "/srv in the rule set" in reason.advice[0]


def test_yama_names_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = tmp_path / "ptrace_scope"
    monkeypatch.setattr(security_modules, "_PTRACE_SCOPE", scope)
    scope.write_text("3\n")
    call = failed("ptrace", errno.EPERM)
    reason = found(call, chain=("yama_ptrace_access_check",))
    assert "kernel.yama.ptrace_scope is 3" in reason.text
    assert "reboot" in reason.advice[0]


def test_lockdown_names_what_it_forbids() -> None:
    said = ("Lockdown: head: /dev/mem,kmem,port is restricted; see man kernel_lockdown.7",)
    call = failed("openat", errno.EPERM, (1, "/dev/mem"))
    reason = found(call, chain=("security_locked_down", "lockdown_is_locked_down"), said=said)
    assert reason.kind == "lsm"
    assert '"/dev/mem,kmem,port"' in reason.text


def drop(**changes: object) -> Dropped:
    given = {
        "time": 70,
        "tid": TID,
        "family": "ip",
        "table": "shop",
        "chain": "outgoing",
        "handle": 4,
        "is_policy": False,
        "host": "127.0.0.1",
        "port": 81,
        "network": Path("/proc/self/ns/net").stat().st_ino,
    }
    return Dropped(**given | changes)  # type: ignore[arg-type]


def test_a_rule_that_drops_is_named_with_its_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netfilter, "rule_text", lambda _: "udp dport 81 drop")
    reason = found(failed("sendto", errno.EPERM), dropped=(drop(),))
    assert reason.text == (
        "The chain outgoing of the nftables table ip shop dropped the packet to 127.0.0.1:81: the "
        'rule "udp dport 81 drop" with the handle 4 has the verdict drop.'
    )
    assert reason.advice[0] == "delete the rule: nft delete rule ip shop outgoing handle 4"
    assert reason.advice[1].endswith("outgoing ip daddr 127.0.0.1 th dport 81 accept")


@pytest.mark.parametrize("network", [1, 0])
def test_a_rule_of_another_network_namespace_is_not_deleted_here(
    monkeypatch: pytest.MonkeyPatch, network: int
) -> None:
    """A command makes a table, chain and handle that the host's firewall has, too."""
    monkeypatch.setattr(netfilter, "rule_text", lambda _: "tcp dport 22 drop")
    for changes in ({}, {"is_policy": True, "handle": 0}, {"handle": 0}):
        one = drop(network=network, **changes)
        reason = found(failed("sendto", errno.EPERM), dropped=(one,))
        assert "dport 22" not in reason.text
        assert ("net:[1]" if network else "not known") in reason.text
        commands = [advice for advice in reason.advice if "shop" in advice]
        assert commands
        assert all("nsenter -n -t PID nft " in command for command in commands)
        assert "lsns -t net" in reason.advice[-1]


def test_a_policy_and_an_unknown_rule_that_drop() -> None:
    policy = found(failed("sendto", errno.EPERM), dropped=(drop(is_policy=True, handle=0),))
    assert "the policy of the chain is drop" in policy.text
    assert "nft add rule ip shop outgoing ip daddr 127.0.0.1 th dport 81 accept" in policy.advice[0]
    unknown = found(failed("sendto", errno.EPERM), dropped=(drop(handle=0),))
    assert "nft -a list chain ip shop outgoing" in unknown.advice[0]


#: Names that the kernel takes and nft(8) reads as commands, and one that a shell does.
HOSTILE = (
    "x; flush ruleset",
    "x\nflush ruleset",
    "x'; touch PWNED; '",
    "-f",
    "x {",
    "$(reboot)",
    "",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_name_of_a_table_is_no_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nft joins its arguments, so that a name with a semicolon would run as root."""
    nft = tmp_path / "nft"
    nft.write_text(f"#!/bin/sh\necho ran >>{tmp_path}/ran\necho '  drop # handle 4'\n")
    nft.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert netfilter.rule_text(drop()) == "drop"
    (tmp_path / "ran").unlink()
    for one in (drop(table=name), drop(chain=name, is_policy=True), drop(table=name, handle=0)):
        reason = found(failed("sendto", errno.EPERM), dropped=(one,))
        assert [advice for advice in reason.advice if name and name in advice] == []
        assert len(reason.advice) == 1
    assert not (tmp_path / "ran").exists()


def test_packets_that_were_dropped_explain_a_connection_without_answer() -> None:
    address = Address(2, "127.0.0.1", 81)
    call = failed("connect", errno.ETIMEDOUT, address=address)
    assert found(call, dropped=(drop(tid=0),)).kind == "netfilter"
    assert found(call, dropped=(drop(port=82),)).kind == "no-answer"


def test_a_firewall_without_records_is_still_a_firewall() -> None:
    reason = found(failed("sendto", errno.EPERM), chain=("ip_push_pending_frames", "nf_hook_slow"))
    assert reason.kind == "netfilter"
    assert any("nft list ruleset" in one for one in reason.advice)


def test_a_pid_namespace_whose_first_process_has_ended() -> None:
    call = failed("clone", errno.ENOMEM)
    seen = {"ends": (Ended(60, 9, "true", 0, 0),), "parents": {9: TID}}
    reason = found(call, chain=("copy_process", "alloc_pid"), **seen)
    assert reason.kind == "namespace"
    assert "true (PID 9), has ended" in reason.text
    assert "unshare --pid --fork" in reason.advice[0]


def test_the_decoder_and_the_objects_agree() -> None:
    for file, name, layout in (
        ("refused.bpf.o", "refused_event", REFUSED),
        ("dropped.bpf.o", "dropped_event", DROPPED),
    ):
        with BpfObject(OBJECTS / file) as obj:
            btf = Btf(obj.btf())
        struct = btf.find(name, Kind.STRUCT)
        assert struct is not None
        assert btf.size_of(struct) == layout.size


def test_records_as_values() -> None:
    decoder = RefusalDecoder("x86_64")
    restrict, seccomp, _ = decoder.numbers()
    decoder.refused(
        REFUSED.pack(5, 7, 6, 1, 0, 3, 0, b"man", b"abcdef")
        + REFUSED.pack(6, 7, 6, 2, restrict, 0, 0, b"sandbox", b"")
        + REFUSED.pack(7, 7, 6, 2, seccomp, 0, 0, b"sandbox", b"")[:-1]
    )
    assert decoder.audited == [Audited(5, 7, "abc")]
    assert decoder.installed == [Installed(6, 6, "sandbox", "landlock_restrict_self")]
    packet = (9, 7, 2, 4, 0, 81, 4, drop().network, bytes([127, 0, 0, 1]), b"shop", b"outgoing")
    decoder.dropping(DROPPED.pack(*packet))
    assert decoder.dropped == [drop(time=9)]


def test_no_user_namespace_below_another_root() -> None:
    call = failed("unshare", errno.EPERM, arguments=(0x10000000, 0, 0, 0, 0, 0), root="/srv/root")
    assert "another root directory (chroot), /srv/root. The kernel creates" in found(call).text
    inside = failed("unshare", errno.EPERM, arguments=(0x10000000, 0, 0, 0, 0, 0))
    chain = ("create_user_ns", "current_chrooted")
    assert "another root directory (chroot). The kernel" in found(inside, chain=chain).text


def test_files_of_proc_are_covered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "20 1 0:20 / /proc rw - proc proc rw\n"
        "21 20 0:21 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw\n"
        "22 20 0:5 /null /proc/timer_list rw - devtmpfs udev rw\n"
        "23 20 0:20 /sys /proc/sys ro - proc proc rw\n"
        "24 1 0:24 / /sys rw - sysfs sysfs rw\n"
    )
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    texts = (0, "proc"), (1, "/mnt"), (2, "proc")
    reason = found(
        failed("mount", errno.EPERM, *texts), chain=("path_mount", "mount_too_revealing")
    )
    assert reason.kind == "namespace"
    assert "Mounts cover /proc/timer_list, /proc/sys." in reason.text
    texts = (0, "sysfs"), (1, "/mnt"), (2, "sysfs")
    reason = found(
        failed("mount", errno.EPERM, *texts), chain=("path_mount", "mount_too_revealing")
    )
    assert reason.text.endswith("are visible.")
    other = failed("mount", errno.EPERM, *texts)
    assert mounts.covered(Scene(other, Witnessed((other,)), Identity(0, 0))) is None
