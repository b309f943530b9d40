# SPDX-License-Identifier: BSD-2-Clause
"""Which of the calls that fail a program complains of."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retsnoop_py.api import why
from retsnoop_py.api.failing import (
    Failing,
    FailingCalls,
    is_looked_for,
    ordinary,
    presets_for,
    syscall_globs,
    syscall_name,
)
from retsnoop_py.api.why_request import WhyRequest
from retsnoop_py.cause.complaint import Evidence
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.settings import OutputFormat, Settings, ViewSettings
from retsnoop_py.value import replace


def call(function: str, error: str | None) -> Any:
    named = SimpleNamespace(name=function, module=None)
    return SimpleNamespace(function=named, error=error, arguments=None)


def session(
    *calls: Any, report: str = "final", failed: bool = True, tid: int = 7, end: int = 0
) -> Any:
    ids = {"process": "sh", "pid": 7, "tid": tid, "end_ns": end}
    shown = {"calls": calls, "report": report, "failed": failed}
    return SimpleNamespace(traced=lambda function: function, **shown, **ids)


def failing(*said: tuple[str, str], asked: tuple[str, ...] = ()) -> FailingCalls:
    found = FailingCalls(asked)
    for name, error in said:
        found.add(session(call(f"__x64_sys_{name}", error)))
    return found


def test_names_of_system_calls() -> None:
    assert syscall_name("__x64_sys_bpf") == "bpf"
    assert syscall_name("__ia32_compat_sys_ioctl") == "ioctl"
    assert syscall_name("__arm64_sys_openat") == "openat"


def test_a_machine_has_only_globs_that_name_its_system_calls() -> None:
    """On arm64 all functions __do_sys_* may be inline ones, which the kernel does not trace."""
    assert syscall_globs("aarch64", compat=False) == ["__arm64_sys_*"]
    assert syscall_globs("x86_64", compat=False) == ["__x64_sys_*", "__do_sys_*"]


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


def made(name: str, error: str, time: int, tid: int = 7, path: str = "") -> SystemCall:
    number = next(one for one, known in ERRNO_NAMES.items() if known == error)
    texts = ((0, path),) if path else ()
    return SystemCall(
        *(time, tid, 7, "sh", name, number, (0,) * 6, texts, None, 0, 0, "/", False),
    )


def test_calls_are_matched_to_functions_by_thread_and_time() -> None:
    found = FailingCalls()
    first = found.add(session(call("__x64_sys_bpf", "EINVAL"), end=10))
    found.add(session(call("__x64_sys_bpf", "EPERM"), end=30, tid=8))
    last = found.add(session(call("__x64_sys_mount", "EPERM"), end=50))
    calls = [
        made("bpf", "EINVAL", 11),
        made("clone3", "ENOSYS", 20),  # the kernel has no function of it
        made("socket", "EPERM", 40),  # a seccomp filter's: the other thread's is not this one
        made("mount", "EPERM", 51),
    ]
    assert found.of_calls(calls) == {calls[0]: first, calls[3]: last}


def test_what_programs_try_anyway() -> None:
    assert ordinary(made("ioctl", "ENOTTY", 0)) is Evidence.ORDINARY
    looked_for = made("openat", "ENOENT", 0, path="/usr/share/locale/de/LC_MESSAGES/sed.mo")
    assert ordinary(looked_for) is Evidence.ORDINARY
    assert ordinary(made("openat", "ENOENT", 0, path="/etc/my.conf")) is Evidence.LOOKS
    created = made("openat", "ENOENT", 0, path="/none/x")
    created = replace(created, arguments=(0, 0, os.O_CREAT, 0, 0, 0))
    assert ordinary(created) is None
    assert ordinary(made("getpeername", "ENOTSOCK", 0)) is Evidence.NEVER
    assert ordinary(made("openat", "EACCES", 0, path="/etc/shadow")) is None
    assert ordinary(made("stat", "ENOENT", 0, path="/x")) is Evidence.LOOKS


def test_a_call_is_asked_for_by_either_name() -> None:
    assert FailingCalls(("umount2",)).is_wanted(made("umount2", "EBUSY", 0))
    assert FailingCalls(("umount",)).is_wanted(made("umount2", "EBUSY", 0))
    assert not FailingCalls(("mount",)).is_wanted(made("umount2", "EBUSY", 0))
    assert not FailingCalls((), ("EPERM",)).is_wanted(made("umount2", "EBUSY", 0))


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


def test_of_a_further_run_the_one_by_the_same_functions_is_meant() -> None:
    """Or to the same end: of what is missing the kernel remembers some names."""

    def opened(*inside: str) -> Any:
        return session(*(call(name, "ENOENT") for name in ("__arm64_sys_openat", *inside)))

    other = opened("path_openat", "link_path_walk")
    same, near = opened("path_openat", "step_into"), opened("step_into")
    chain = ("__arm64_sys_openat", "path_openat", "step_into")
    assert why._best([same, near, other], chain) is same
    assert why._best([near, other], chain) is near
    assert why._best([other], chain) is other
    assert why._best([], chain) is None


def test_a_keyword_that_is_none() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        WhyRequest.of((), {"nonsense": 1})  # type: ignore[typeddict-unknown-key]
    assert WhyRequest.of(("a",), {"pid": 1, "syscall": "bpf"}) == WhyRequest(
        ("a",), (1,), syscalls=("bpf",)
    )
    with pytest.raises(UsageError, match="needs a command"):
        WhyRequest.of((), {"pid": 1, "user": "nobody"})
    with pytest.raises(UsageError, match="not a process id"):
        WhyRequest.of((), {"pid": -1})
    with pytest.raises(InputError, match="no source tree"):
        WhyRequest.of(("a",), {"source": "/nonexistent"})


def test_each_run_is_of_the_command_or_of_the_processes() -> None:
    views = ViewSettings(call_trace=True)
    command = WhyRequest(("a",), user="nobody", keep_env=True, kernel=Path("/v"), aside=True)
    found = command.placed_in(Settings(views=views))
    assert (found.command, found.user, found.keep_env) == (("a",), "nobody", True)
    assert (found.kernel_image, found.filters.pids) == (Path("/v"), ())
    assert found.views == ViewSettings(call_trace=True, format=OutputFormat.JSON)
    found = WhyRequest(pids=(3, 4), source=Path("/s")).placed_in(Settings(views=views))
    assert (found.command, found.filters.pids, found.source) == ((), (3, 4), Path("/s"))
    assert found.views == views


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


def test_a_system_call_that_makes_another_error_of_one_is_followed_itself() -> None:
    def inside(error: str) -> list[str]:
        calls = (call("__x64_sys_setns", "EINVAL"), call("pidfd_pid", error))
        for one in calls:
            one.function.size, one.result = 100, None
        return why._innermost(session(*calls))

    assert inside("EBADF") == ["pidfd_pid", "__x64_sys_setns"]
    assert inside("EINVAL") == ["pidfd_pid"]


def test_the_function_that_made_the_error_is_followed_whatever_failed_below_it() -> None:
    """As copy_process() is, which is large: what a clean-up below it returned says nothing."""
    calls = [
        *(call("__x64_sys_clone", "ENOMEM"), call("kernel_clone", "ENOMEM")),
        *(call("copy_process", "ENOMEM"), call("free_task", "NULL")),
    ]
    for one, size in zip(calls, (100, 900, 9000, 300), strict=True):
        one.function.size, one.result = size, object()
    assert why._innermost(session(*calls)) == ["copy_process"]
    calls[2].function.size = 500
    assert why._innermost(session(*calls)) == ["free_task", "copy_process", "kernel_clone"]
