# SPDX-License-Identifier: BSD-2-Clause
"""Limits, settings and refusals: what was captured as the call failed decides."""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import OTHER, call

from retsnoop_py.cause import ipc, limits, sysctl
from retsnoop_py.cause.events import Address, Denied, Ended, State, SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.killed import killed
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.kernel.capabilities import CAPABILITIES, capability_name
from retsnoop_py.value import replace

INFINITY = (1 << 64) - 1
ALL = (1 << len(CAPABILITIES)) - 1
NO_LIMITS = ((INFINITY, INFINITY),) * 16


def state(capabilities: int = 0, **changes: object) -> State:
    given: dict[str, object] = {"begin": 5, "limits": NO_LIMITS, "capabilities": capabilities}
    return State(**given | changes)  # type: ignore[arg-type]


def limited(number: int, soft: int, hard: int = INFINITY, **changes: object) -> State:
    rows = [*NO_LIMITS]
    rows[number] = soft, hard
    return state(limits=tuple(rows), **changes)


def found(one: SystemCall, *denied: Denied, chain: tuple[str, ...] = ()) -> Reason | None:
    seen = Witnessed((one,), denied=denied)
    return reason_of(Scene(one, seen, Identity(one.uid, one.gid), chain=chain))


def failed(name: str, error: int, *, uid: int = OTHER, **changes: object) -> SystemCall:
    return call(name, error, time=9, uid=uid, **changes)


def text(reason: Reason | None) -> str:
    assert reason is not None
    return reason.text


def test_descriptors_are_used_up_if_all_are_or_the_kernel_looked_for_one() -> None:
    held = limited(resource.RLIMIT_NOFILE, 16, 4096, used=9)
    one = failed("inotify_init1", errno.EMFILE, state=held)
    assert limits.open_files(Scene(one, Witnessed((one,)), Identity(0, 0))) is None
    scene = Scene(one, Witnessed((one,)), Identity(0, 0), chain=("do_inotify_init", "alloc_fd"))
    assert limits.open_files(scene) is not None


def test_a_limit_is_named_as_ulimit_shows_it_with_the_way_to_raise_it() -> None:
    held = limited(resource.RLIMIT_NOFILE, 16, 4096, used=16)
    reason = found(failed("socket", errno.EMFILE, state=held))
    assert "RLIMIT_NOFILE (ulimit -n) is 16." in text(reason)
    assert reason is not None
    assert reason.kind == "rlimit"
    assert reason.advice[0] == "ulimit -n N in the shell that starts it (at most 4096)"
    hard = found(
        failed("socket", errno.EMFILE, state=limited(resource.RLIMIT_NOFILE, 16, 16, used=16))
    )
    assert hard is not None
    assert "raise the hard limit" in hard.advice[0]


def test_address_space_is_the_reason_only_where_the_numbers_say_so() -> None:
    args = (0, 50 << 20, 3, 2, 0, 0)
    held = limited(resource.RLIMIT_AS, 100 << 20, mapped=80 << 20)
    reason = found(failed("mmap", errno.ENOMEM, arguments=args, state=held))
    assert text(reason) == (
        "The process has 80 MiB of address space and asked for 50 MiB more: RLIMIT_AS (ulimit -v) "
        "is 100 MiB."
    )
    roomy = limited(resource.RLIMIT_AS, 900 << 20, mapped=80 << 20)
    chain = ("do_mmap", "mmap_region")
    assert found(failed("mmap", errno.ENOMEM, arguments=args, state=roomy), chain=chain) is None


def test_locked_memory_counts_without_the_capability_only() -> None:
    args = (0x1000, 128 << 10, 0, 0, 0, 0)
    held = limited(resource.RLIMIT_MEMLOCK, 64 << 10)
    assert "RLIMIT_MEMLOCK (ulimit -l) is 64 KiB" in text(
        found(failed("mlock", errno.ENOMEM, arguments=args, state=held))
    )
    able = limited(resource.RLIMIT_MEMLOCK, 64 << 10, capabilities=ALL)
    assert found(failed("mlock", errno.ENOMEM, arguments=args, state=able)) is None


def test_processes_of_a_user() -> None:
    held = limited(resource.RLIMIT_NPROC, 1)
    assert "RLIMIT_NPROC (ulimit -u) is 1" in text(found(failed("clone", errno.EAGAIN, state=held)))


def test_a_nice_value_and_what_it_takes() -> None:
    held = limited(resource.RLIMIT_NICE, 0)
    args = (0, 0, 0xFFFFFFFB, 0, 0, 0)
    assert "at least 25. The limit is 0." in text(
        found(failed("setpriority", errno.EACCES, arguments=args, state=held))
    )


@pytest.mark.parametrize(
    ("uid", "words", "advice"),
    [
        (OTHER, "runs as user 54321, and does not have it", "run it as root"),
        (0, "runs as root, and does not have it", "docker run --cap-add SYS_ADMIN"),
    ],
)
def test_a_capability_that_was_tested_in_this_call(uid: int, words: str, advice: str) -> None:
    number = CAPABILITIES.index("SYS_ADMIN")
    one = failed("sethostname", errno.EPERM, uid=uid, state=state())
    reason = found(one, Denied(7, 7, number))
    assert text(reason).startswith("This requires CAP_SYS_ADMIN.")
    assert words in text(reason)
    assert reason is not None
    assert any(advice in each for each in reason.advice)
    assert not reason.is_seen_later


def test_root_that_is_not_mapped_in_its_user_namespace() -> None:
    one = failed("setgroups", errno.EPERM, uid=0, state=replace(state(), namespace=1))
    reason = found(one, Denied(7, 7, CAPABILITIES.index("SETGID"), namespace=1))
    assert "root is not mapped" in text(reason)
    assert reason is not None
    assert reason.is_inferred
    assert reason.advice == ("map root: unshare --user --map-root-user COMMAND",)


@pytest.mark.parametrize(
    "denied",
    [Denied(3, 7, 21), Denied(7, 8, 21), Denied(7, 7, 21, is_silent=True), Denied(12, 7, 21)],
    ids=["before", "other thread", "silent", "behind"],
)
def test_a_capability_that_was_not_tested_in_this_call_is_no_reason(denied: Denied) -> None:
    assert found(failed("sethostname", errno.EPERM, state=state()), denied) is None


def test_a_setting_is_no_reason_where_the_kernel_tested_another_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctl, "_ROOT", tmp_path)
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/unprivileged_bpf_disabled").write_text("2\n")
    one = failed("bpf", errno.EPERM, state=state())
    bpf, admin = (Denied(7, 7, CAPABILITIES.index(name)) for name in ("BPF", "SYS_ADMIN"))
    assert "kernel.unprivileged_bpf_disabled is 2" in text(found(one, bpf, admin))
    assert text(found(one, admin)).startswith("This requires CAP_SYS_ADMIN.")
    # Debian's kernel tests only CAP_SYS_ADMIN for perf_event_paranoid = 3
    (tmp_path / "kernel/perf_event_paranoid").write_text("3\n")
    event = failed("perf_event_open", errno.EACCES, state=state())
    assert "kernel.perf_event_paranoid is 3" in text(found(event, admin))


def test_a_capability_of_another_user_namespace() -> None:
    one = failed("sethostname", errno.EPERM, uid=0, state=state(ALL, namespace=1))
    reason = found(one, Denied(7, 7, 21, namespace=0))
    assert "has it only in its own user namespace" in text(reason)
    assert reason is not None
    assert "--uts" in reason.advice[0]


def test_seccomp_is_the_reason_where_the_kernel_did_not_begin_the_call() -> None:
    one = failed("mkdir", errno.EPERM, is_filtered=True, was_entered=False)
    reason = found(one)
    assert reason is not None
    assert reason.kind == "seccomp"
    begun = failed("mkdir", errno.EPERM, is_filtered=True, was_entered=True)
    other = found(begun)
    assert other is None or other.kind != "seccomp"


def test_a_call_that_the_kernel_does_not_have() -> None:
    one = failed("system call 9999", errno.ENOSYS, was_entered=True)
    assert "has no system call 9999" in text(found(one))


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (("security_path_mkdir", "hook_path_mkdir"), "Landlock"),
        (("security_file_open", "apparmor_file_open"), "AppArmor"),
        (("ptrace_attach", "yama_ptrace_access_check"), "ptrace_scope"),
        (("security_file_open", "bpf_lsm_file_open"), "BPF"),
    ],
)
def test_a_security_module_by_its_function(chain: tuple[str, ...], words: str) -> None:
    reason = found(failed("mkdir", errno.EACCES, state=state()), chain=chain)
    assert reason is not None
    assert words in f"{reason.text} {reason.advice}"


@dataclass
class ProcSys:
    """A /proc/sys of the test's own."""

    root: Path

    def set(self, name: str, value: str) -> None:
        path = self.root / name.replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


@pytest.fixture
def proc_sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcSys:
    monkeypatch.setattr(sysctl, "_ROOT", tmp_path)
    return ProcSys(tmp_path)


def test_a_setting_is_named_with_its_value_and_the_command_that_raises_it(
    proc_sys: ProcSys,
) -> None:
    proc_sys.set("fs.inotify.max_user_watches", "100")
    reason = found(failed("inotify_add_watch", errno.ENOSPC, state=state()))
    assert text(reason).endswith("fs.inotify.max_user_watches allows: 100.")
    assert reason is not None
    assert reason.advice == ("sysctl fs.inotify.max_user_watches=200",)


def test_a_setting_is_no_reason_for_who_may_do_it_anyway(proc_sys: ProcSys) -> None:
    proc_sys.set("kernel.unprivileged_userns_clone", "0")
    one = failed("unshare", errno.EPERM, state=state())
    assert "kernel.unprivileged_userns_clone is 0" in text(found(one))
    able = failed("unshare", errno.EPERM, uid=0, state=state(ALL))
    assert found(able) is None
    proc_sys.set("kernel.unprivileged_userns_clone", "1")
    assert found(one) is None


def test_a_setting_needs_its_function_in_the_chain(proc_sys: ProcSys) -> None:
    proc_sys.set("kernel.pid_max", "4")
    one = failed("clone", errno.EAGAIN, state=state())
    assert "kernel.pid_max" in text(found(one, chain=("copy_process", "alloc_pid")))
    assert found(one, chain=("copy_process", "other")) is None


def test_ports_for_root(proc_sys: ProcSys) -> None:
    proc_sys.set("net.ipv4.ip_unprivileged_port_start", "1024")
    one = failed("bind", errno.EACCES, state=state(), address=Address(2, "0.0.0.0", 80))
    reason = found(one)
    assert text(reason).startswith("Ports below net.ipv4.ip_unprivileged_port_start (1024)")
    assert reason is not None
    assert reason.advice[0] == "sysctl net.ipv4.ip_unprivileged_port_start=80"


def test_a_socket_for_ping(proc_sys: ProcSys) -> None:
    proc_sys.set("net.ipv4.ping_group_range", "1\t0")
    one = failed("socket", errno.EACCES, state=state())
    assert found(one, chain=("inet_create", "other")) is None
    reason = found(one, chain=("inet_create", "ping_init_sock"))
    assert "The range is 1 0; the range 1 0 has no group." in text(reason)
    assert reason is not None
    assert reason.advice[0] == 'sysctl net.ipv4.ping_group_range="0 2147483647"'


def test_a_file_of_another_user_in_a_sticky_folder(proc_sys: ProcSys, tmp_path: Path) -> None:
    proc_sys.set("fs.protected_regular", "2")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "f").touch()
    os.chown(folder / "f", OTHER, OTHER)
    path = str(folder / "f")
    args = (0xFFFFFF9C, 0, os.O_WRONLY | os.O_CREAT, 0, 0, 0)
    one = call("openat", errno.EACCES, (1, path), time=9, arguments=args, state=state(ALL))
    reason = found(one)
    assert f"{path} belongs to {OTHER}" in text(reason)
    without = (0xFFFFFF9C, 0, os.O_WRONLY, 0, 0, 0)
    plain = call("openat", errno.EACCES, (1, path), time=9, arguments=without, state=state(ALL))
    assert found(plain) is None


def test_every_row_of_settings_has_a_text_that_can_be_written() -> None:
    fields = dict.fromkeys(
        (
            "name",
            "value",
            "user",
            "more",
            "raised",
            "room",
            "pages",
            "asked",
            "port",
            "folder",
            "path",
            "owner",
        ),
        "x",
    )
    for row in sysctl.settings():
        assert row.text.format(**fields)
        assert row.set.format(**fields) is not None
        assert set(row.lacks) <= set(CAPABILITIES)


def test_a_cgroups_memory_limit_kills(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "shop" / "web"
    folder.mkdir(parents=True)
    (tmp_path / "shop" / "memory.max").write_text("31457280\n")
    (tmp_path / "shop" / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (folder / "memory.max").write_text("max\n")
    monkeypatch.setattr(limits, "_mount_point", lambda: tmp_path)
    seen = Witnessed(victims={7: folder.stat().st_ino})
    reason = killed(seen, Ended(1, 7, "python3", 0, 9))
    assert reason is not None
    assert "its cgroup /shop reached memory.max, which is 30 MiB" in reason.text


def test_a_cgroups_number_of_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "pids.max").write_text("2\n")
    monkeypatch.setattr(limits, "_mount_point", lambda: tmp_path)
    one = failed("clone", errno.EAGAIN, state=state(cgroup=folder.stat().st_ino))
    chain = ("copy_process", "cgroup_can_fork", "pids_can_fork")
    assert "The cgroup /b has as many" in text(found(one, chain=chain))
    assert found(one, chain=("copy_process", "other")) is None


def test_sizes_as_people_write_them() -> None:
    sizes = [limits.size(one) for one in (17, 1 << 10, 3 << 19, 5 << 30)]
    assert sizes == ["17 bytes", "1 KiB", "1.5 MiB", "5 GiB"]
    assert capability_name(99) == "capability 99"


def test_a_descriptor_is_named_where_the_call_has_no_other() -> None:
    closed = failed("write", errno.EBADF, arguments=(7, 0, 0, 0, 0, 0))
    assert text(found(closed)) == "File descriptor 7 is not open, or not open for writing."
    assert found(failed("mmap", errno.EBADF, arguments=(0, 1, 1, 2, 7, 0))) is None


def test_a_size_beyond_a_setting(
    proc_sys: ProcSys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc_sys.set("kernel.msgmax", "8192")
    monkeypatch.setattr(ipc, "_TABLES", tmp_path)
    large, small = (failed("msgsnd", errno.EINVAL, arguments=(0, 0, n, 0, 0, 0)) for n in (9000, 5))
    assert "(8192, 8 KiB); 9000 were to be sent" in text(found(large))
    assert found(small) is None


def test_a_path_that_is_too_long_is_shown_by_its_start() -> None:
    one = call("openat", errno.ENAMETOOLONG, (1, "/tmp/" + "n" * 250))
    assert text(found(one)).startswith(f"The path /tmp/{'n' * 35}... has a name")


@pytest.mark.parametrize(
    ("flag", "name"),
    [(0x10000000, "user"), (0x40000000, "net"), (0x20000000, "pid"), (0x20000, "mnt")],
)
def test_the_kind_of_namespace_that_is_used_up(proc_sys: ProcSys, flag: int, name: str) -> None:
    for one in ("user", "net", "pid", "mnt"):
        proc_sys.set(f"user.max_{one}_namespaces", "3")
    call_of_it = failed("unshare", errno.ENOSPC, arguments=(flag, 0, 0, 0, 0, 0))
    assert f"as user.max_{name}_namespaces allows: 3" in text(
        found(call_of_it, chain=("inc_ucount",))
    )
    several = failed("unshare", errno.ENOSPC, arguments=(0x50000000, 0, 0, 0, 0, 0))
    assert found(several, chain=("inc_ucount",)) is None


def test_calls_that_create_a_descriptor_have_one_meaning_of_emfile() -> None:
    """The kernel shows only the lowest free descriptor, which may be too low."""
    held = limited(resource.RLIMIT_NOFILE, 3, 3, used=1)
    reason = found(failed("openat", errno.EMFILE, texts=((1, "/etc/hosts"),), state=held))
    assert reason is not None
    assert "RLIMIT_NOFILE (ulimit -n) is 3" in reason.text
    assert reason.is_inferred


def test_pseudo_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"max": "4", "nr": "4", "reserve": "1"}
    monkeypatch.setattr(limits, "read_of_kernel", lambda path: values[Path(path).name])
    reason = found(failed("openat", errno.ENOSPC, texts=((1, "/dev/ptmx"),)))
    assert reason is not None
    assert reason.text.startswith("4 pseudo-terminals are open, and kernel.pty.max allows 4")
    assert reason.advice[0] == "sysctl kernel.pty.max=1029"


@pytest.mark.parametrize(
    ("most", "words"),
    [("1000", "(1000); 1000000 were"), ("4096", "(4096, 4 KiB); 1000000 were")],
)
def test_a_limit_of_bytes_is_not_printed_twice(
    most: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctl, "_value", lambda _: most)
    reason = found(failed("shmget", errno.EINVAL, arguments=(0, 1000000, 0, 0, 0, 0)))
    assert reason is not None
    assert words in reason.text


def test_mounts_in_a_user_namespace_need_a_mount_namespace_too() -> None:
    admin = CAPABILITIES.index("SYS_ADMIN")
    texts = (0, "proc"), (1, "/")
    mount = failed("mount", errno.EPERM, texts=texts, state=state(ALL, namespace=1))
    reason = found(mount, Denied(7, mount.tid, admin))
    assert reason is not None
    assert "unshare --user --map-root-user --mount" in reason.advice[0]
    inside = found(replace(mount, is_elsewhere=True), Denied(7, mount.tid, admin))
    assert inside is not None
    assert inside.advice == ("run it outside of the user namespace (a rootless container is one)",)
