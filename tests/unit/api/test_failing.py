# SPDX-License-Identifier: BSD-2-Clause
"""Which of the calls that fail a program complains of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from retsnoop_py.api import why
from retsnoop_py.api.asked import Asked
from retsnoop_py.api.failing import (
    Failing,
    FailingCalls,
    is_looked_for,
    presets_for,
    syscall_name,
)
from retsnoop_py.errors import UsageError


def call(function: str, error: str | None) -> Any:
    named = SimpleNamespace(name=function, module=None)
    return SimpleNamespace(function=named, error=error, arguments=None)


def session(
    *calls: Any, report: str = "final", failed: bool = True, process: str = "sh", pid: int = 7
) -> Any:
    ids = {"process": process, "pid": pid}
    return SimpleNamespace(calls=calls, report=report, failed=failed, **ids)


def failing(*said: tuple[str, str], asked: tuple[str, ...] = ()) -> FailingCalls:
    found = FailingCalls(asked)
    for name, error in said:
        found.add(session(call(f"__x64_sys_{name}", error)))
    return found


def test_names_of_system_calls() -> None:
    assert syscall_name("__x64_sys_bpf") == "bpf"
    assert syscall_name("__ia32_compat_sys_ioctl") == "ioctl"
    assert syscall_name("__arm64_sys_openat") == "openat"


def test_the_last_that_is_no_probing() -> None:
    found = failing(("mount", "EPERM"), ("bpf", "EINVAL"), ("openat", "ENOENT"))
    chosen = found.complained_of(failed=True)
    assert chosen is not None
    assert (chosen.syscall, chosen.error) == ("bpf", "EINVAL")
    assert [one.syscall for one in found] == ["mount", "bpf", "openat"]


def test_probing_counts_only_for_want_of_another() -> None:
    found = failing(("access", "ENOENT"), ("openat", "ENOENT"))
    assert found.complained_of(failed=False) is None
    chosen = found.complained_of(failed=True)
    assert chosen is not None
    assert chosen.syscall == "openat"
    asked = failing(("access", "ENOENT"), ("openat", "ENOENT"), asked=("access",))
    chosen = asked.complained_of(failed=False)
    assert chosen is not None
    assert chosen.syscall == "access"


def test_what_a_process_did_before_an_execve_is_not_what_it_complains_of() -> None:
    found = FailingCalls()
    for process, pid, name, error in (
        ("sh", 7, "prctl", "EPERM"),
        ("sh", 8, "setpgid", "EPERM"),
        ("tool", 7, "access", "ENOENT"),
        ("tool", 7, "statfs", "ENOENT"),
    ):
        found.add(session(call(f"__x64_sys_{name}", error), process=process, pid=pid))
    chosen = found.complained_of(failed=True)
    assert chosen is not None
    assert chosen.syscall == "setpgid", "of another process"
    alone = FailingCalls()
    alone.add(session(call("__x64_sys_prctl", "EPERM"), process="sh"))
    alone.add(session(call("__x64_sys_access", "ENOENT"), process="tool"))
    assert alone.complained_of(failed=False) is None
    named = FailingCalls(["prctl"])
    named.add(session(call("__x64_sys_prctl", "EPERM"), process="sh"))
    named.add(session(call("__x64_sys_access", "ENOENT"), process="tool"))
    chosen = named.complained_of(failed=False)
    assert chosen is not None


def test_a_new_name_alone_is_no_new_program() -> None:
    found = FailingCalls()
    found.add(session(call("__x64_sys_bind", "EACCES"), process="old"))
    found.add(session(call("__x64_sys_read", "EAGAIN"), process="new"))
    chosen = found.complained_of(failed=True)
    assert chosen is not None
    assert chosen.syscall == "bind"


def test_what_a_shell_asks_at_its_start_is_never_what_failed() -> None:
    assert failing(("getpeername", "ENOTSOCK")).complained_of(failed=True) is None
    asked = failing(("getpeername", "ENOTSOCK"), asked=("getpeername",))
    assert asked.complained_of(failed=False) is not None


def test_what_a_library_asks_for_a_message_is_no_failure_of_the_program() -> None:
    # Python writes, of a socket that nobody closed, who is at its other end
    refused = failing(("setsockopt", "EINVAL"), ("getpeername", "ENOTCONN"))
    chosen = refused.complained_of(failed=True)
    assert chosen is not None
    assert chosen.syscall == "setsockopt"
    alone = failing(("getpeername", "ENOTCONN")).complained_of(failed=True)
    assert alone is not None
    assert alone.syscall == "getpeername"


def test_that_ip_asks_for_links_is_never_what_failed() -> None:
    asked = Failing("rtnetlink_rcv_msg", "ENODEV", ("rtnetlink_rcv_msg", "rtnl_newlink"))
    assert asked.is_never_meant
    gone = Failing("rtnetlink_rcv_msg", "ENODEV", ("rtnetlink_rcv_msg", "rtnl_getlink"))
    assert gone.probing is None


def test_what_no_program_sees_is_no_failure() -> None:
    found = FailingCalls()
    assert found.add(session(call("__x64_sys_read", "ERESTARTSYS"))) is None
    assert found.add(session(call("__x64_sys_read", None))) is None
    assert found.add(session(call("__x64_sys_read", "EIO"), report="running")) is None
    assert found.add(session(call("__x64_sys_read", "EIO"), failed=False)) is None
    assert len(found) == 0


def test_calls_alike_are_counted_together() -> None:
    found = failing(("bpf", "EINVAL"), ("bpf", "EINVAL"), ("bpf", "EPERM"))
    assert [(one.error, one.count) for one in found] == [("EINVAL", 2), ("EPERM", 1)]


def test_reasons_for_probing() -> None:
    def probing_reason(syscall: str, error: str) -> str | None:
        return Failing(f"__x64_sys_{syscall}", error, ()).probing

    assert probing_reason("openat", "ENOENT") == "looks for a file"
    assert probing_reason("openat", "EACCES") is None
    assert probing_reason("bpf", "ENOENT") is None
    assert is_looked_for("/usr/lib/locale/C.utf8/LC_MESSAGES/coreutils.mo")
    assert is_looked_for("/lib/x86_64-linux-gnu/libc.so.6")
    assert is_looked_for("/lib/aarch64-linux-gnu/atomics")
    assert is_looked_for("/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3")
    assert not is_looked_for("/etc/passwd")


def test_a_file_of_the_programs_own_is_meant_sooner_than_one_that_libraries_look_for() -> None:
    """Though it was missed by another way: of what is missing the kernel remembers some names."""

    def opened(path: str, *inside: str) -> Any:
        first = call("__arm64_sys_openat", "ENOENT")
        first.arguments = [SimpleNamespace(name="filename", value=path)]
        return session(first, *(call(name, "ENOENT") for name in inside))

    own = opened("/nonexistent/x", "path_openat", "link_path_walk")
    theirs = opened("/usr/share/locale/C/libc.mo", "path_openat", "link_path_walk", "step_into")
    chain = ("__arm64_sys_openat", "path_openat", "link_path_walk", "step_into")
    assert why._best([theirs, own, theirs], chain) is own
    assert why._best([theirs, theirs], chain) is theirs
    assert why._best([], chain) is None


def test_a_keyword_that_is_none() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        Asked.of((), {"nonsense": 1})  # type: ignore[typeddict-unknown-key]
    assert Asked.of(("a",), {"pid": 1, "syscall": "bpf"}) == Asked(("a",), (1,), syscalls=("bpf",))


@pytest.mark.parametrize(
    ("function", "error", "expected"),
    [
        ("__x64_sys_mount", "EINVAL", ["mount"]),
        ("__arm64_sys_bpf", "ENOMEM", ["bpf", "bpf-attach", "btf"]),
        ("__x64_sys_socket", "EPERM", ["lsm", "socket"]),
        ("__x64_sys_getcpu", "EFAULT", []),
    ],
)
def test_presets_that_are_for_a_call(function: str, error: str, expected: list[str]) -> None:
    assert [one.name for one in presets_for(function, error)] == expected


def test_another_request_is_meant_sooner_than_asking_for_a_terminal() -> None:
    def asked(request: int, *inside: str) -> Any:
        first = call("__x64_sys_ioctl", "ENOTTY")
        first.arguments = [SimpleNamespace(name="cmd", value=request)]
        return session(first, *(call(name, "ENOTTY") for name in inside))

    terminal, flags = asked(0x5401), asked(0x80086601, "do_vfs_ioctl")
    assert why._best([flags, terminal], ("__x64_sys_ioctl",)) is flags
    assert why._is_asked_anyway(terminal)
    assert not why._is_asked_anyway(flags)


def test_a_system_call_that_makes_another_error_of_one_is_followed_itself() -> None:
    def inside(error: str) -> list[str]:
        calls = (call("__x64_sys_setns", "EINVAL"), call("pidfd_pid", error))
        for one in calls:
            one.function.size, one.result = 100, None
        return why._innermost(session(*calls))

    assert inside("EBADF") == ["pidfd_pid", "__x64_sys_setns"]
    assert inside("EINVAL") == ["pidfd_pid"]
