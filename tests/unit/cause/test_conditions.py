# SPDX-License-Identifier: BSD-2-Clause
"""The value that a condition rejected, where the caller passed that value."""

from __future__ import annotations

import errno
import re

import pytest
from tests.unit.cause.test_refused import failed

from retsnoop_py.cause.conditions import rejected_value
from retsnoop_py.cause.decisions import decision, decisions, usual
from retsnoop_py.cause.events import Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.flags import bits_of, flag_rows
from retsnoop_py.cause.kinds import KINDS
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.value import replace


def reason(condition: str, *arguments: int, **values: int) -> Reason | None:
    call = failed("bpf", errno.EINVAL, arguments=(*arguments, *(0,) * (6 - len(arguments))))
    named = tuple((name.replace("__", "->"), value) for name, value in values.items())
    scene = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), condition, named)
    return reason_of(scene)


@pytest.mark.parametrize(
    ("condition", "values", "text"),
    [
        ("attr->key_size != 4", {"attr__key_size": 8}, "key_size is 8. The value must be 4 here."),
        (
            "attr->sched_priority > 99",
            {"attr__sched_priority": 100},
            "sched_priority is 100. The value may be at most 99 here.",
        ),
        ("attr->size < 0x30", {"attr__size": 7}, "size is 7. The value must be at least 48 here."),
        (
            "attr->sched_deadline < attr->sched_runtime",
            {"attr__sched_deadline": 4, "attr__sched_runtime": 5},
            "sched_deadline is 4, and it may not be smaller than sched_runtime, which is 5.",
        ),
    ],
)
def test_a_value_and_what_is_allowed(condition: str, values: dict[str, int], text: str) -> None:
    found = reason(condition, **values)
    assert found is not None
    assert (found.kind, found.text) == ("out-of-range", text)
    assert not found.is_seen_later


def test_an_address_is_that_of_the_run_that_observed_it() -> None:
    call = failed("futex", errno.EINVAL, arguments=(0x7F0000001001, 0, 0, 0, 0, 0))
    tested = ("(uaddr & 3) != 0", (("uaddr", 0x7F7777771001),))
    scene = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), *tested)
    assert rejected_value(scene) is None
    found = rejected_value(replace(scene, again=(0x7F7777771001, 0, 0, 0, 0, 0)))
    assert found is not None
    assert found.text == "uaddr is not a multiple of 4."


@pytest.mark.parametrize("condition", ["flags > 7", "(flags & 0xfffffff8) != 0"])
def test_a_flag_that_the_kernel_does_not_know(condition: str) -> None:
    found = reason(condition, 0, 1 << 30, flags=1 << 30)
    assert found is not None
    assert found.kind == "unsupported"
    assert "flags of bpf() has the bit 30 set" in found.text


def flags_reason(name: str, condition: str, *arguments: int, **values: int) -> Reason | None:
    call = failed(name, errno.EINVAL, arguments=(*arguments, *(0,) * (6 - len(arguments))))
    named = tuple((one.replace("__", "->"), value) for one, value in values.items())
    return rejected_value(Scene(call, Witnessed((call,)), Identity(0, 0), (), (), condition, named))


@pytest.mark.parametrize(
    ("name", "condition", "values", "text", "advice"),
    [
        (
            "clone3",
            "(args->flags & 0x800) != 0 && (args->flags & 0x100) == 0",
            {"args__flags": 0x800},
            "flags of clone3() has CLONE_SIGHAND, and lacks CLONE_VM.",
            ("add CLONE_VM to flags, or remove CLONE_SIGHAND",),
        ),
        (
            "io_uring_setup",
            "(ctx->flags & 0x3000) == 0x2000",
            {"ctx__flags": 0x2010},
            (
                "flags of io_uring_setup() has IORING_SETUP_DEFER_TASKRUN, and lacks "
                "IORING_SETUP_SINGLE_ISSUER."
            ),
            ("add IORING_SETUP_SINGLE_ISSUER to flags, or remove IORING_SETUP_DEFER_TASKRUN",),
        ),
        (
            "inotify_add_watch",
            "(mask & 0x30000000) != 0x30000000",
            {"mask": 0x10000000},
            "mask of inotify_add_watch() lacks IN_MASK_ADD.",
            ("add IN_MASK_ADD to mask",),
        ),
        (
            "openat2",
            "(~how->resolve & 0x18) == 0",
            {"how__resolve": 0x18},
            (
                "resolve of openat2() has RESOLVE_BENEATH and RESOLVE_IN_ROOT set (value 24). "
                "The kernel does not accept them together."
            ),
            ("remove one of them from resolve",),
        ),
        (
            "pidfd_open",
            "(flags & ~0x880) != 0",
            {"flags": 5},
            (
                "flags of pidfd_open() has the bits 0, 2 set (value 5). This kernel does not "
                "accept that there."
            ),
            ("remove the bits 0, 2 from flags, or use a newer kernel",),
        ),
        (
            "bpf",
            "(attr->mode & ~0xe000) > 6",
            {"attr__mode & ~0xe000": 9},
            "mode without its flags is 9. The value may be at most 6 here.",
            ("change mode",),
        ),
        (
            "bpf",
            "((attr->max_entries - 1) & attr->max_entries) != 0",
            {"attr__max_entries": 5000},
            "max_entries is 5000. The value must be a power of 2 here.",
            ("change max_entries",),
        ),
        (
            "bpf",
            "attr->key_size < 5 || attr->key_size > 260",
            {"attr__key_size": 4},
            "key_size is 4. The value must be from 5 to 260 here.",
            ("change key_size",),
        ),
        (
            "fallocate",
            "len <= 0",
            {"len": 0},
            "len is 0. The value must be at least 1 here.",
            ("change len",),
        ),
        (
            "mremap",
            "(addr & 0xfff) != 0",
            {"addr": 0x7001},
            "addr is 28673, which is not a multiple of 4096.",
            ("change addr to a multiple of 4096",),
        ),
        (
            "memfd_create",
            "(flags & 0x18) != 0",
            {"flags": 0x18},
            (
                "flags of memfd_create() has MFD_NOEXEC_SEAL and MFD_EXEC set (value 24). "
                "The kernel does not accept that here."
            ),
            ("remove MFD_NOEXEC_SEAL and MFD_EXEC from flags",),
        ),
        (
            "futex",
            "requeue_pi != 0 && uaddr1 == uaddr2",
            {"requeue_pi": 1, "uaddr1": 0x7FFFFFFFEA80, "uaddr2": 0x7FFFFFFFEA80},
            "requeue_pi is 1. uaddr1 and uaddr2 are the same address.",
            ("set requeue_pi to 0", "or change uaddr1 or uaddr2"),
        ),
        (
            "bpf",
            "attr->cmd == 1 && attr->aux != 0",
            {"attr__cmd": 1, "attr__aux": 5},
            "cmd is 1. aux is 5.",
            ("set aux to 0",),
        ),
        (
            "bpf",
            "attr->aux > 4 && attr->cmd == 0",
            {"attr__aux": 5, "attr__cmd": 0},
            "aux is 5. The value may be at most 4 here. cmd is 0.",
            ("change aux", "or change cmd"),
        ),
        (
            "bpf",
            "attr->cmd == 1 && attr->size == 0",
            {"attr__cmd": 1, "attr__size": 0},
            "cmd is 1. size is 0. The value must not be 0 here.",
            ("change size",),
        ),
        (
            "mremap",
            "(flags & 4) != 0 && old_len != new_len",
            {"flags": 5, "old_len": 8192, "new_len": 16384},
            (
                "flags of mremap() has MREMAP_DONTUNMAP set (value 4). old_len is 8192, and it "
                "must be equal to new_len, which is 16384."
            ),
            ("remove MREMAP_DONTUNMAP from flags", "or change old_len or new_len"),
        ),
    ],
)
def test_flags_have_their_names(
    name: str, condition: str, values: dict[str, int], text: str, advice: tuple[str, ...]
) -> None:
    found = flags_reason(name, condition, *values.values(), **values)
    assert found is not None
    assert (found.text, found.advice) == (text, advice)


def test_the_recorded_value_may_be_that_of_the_tested_bits() -> None:
    call = failed("clone3", errno.EINVAL, arguments=(0,) * 6)
    values = (("args->flags & 0x900", 0x800),)
    scene = Scene(
        call, Witnessed((call,)), Identity(0, 0), (), (), "(args->flags & 0x900) == 2048", values
    )
    found = rejected_value(scene)
    assert found is not None
    assert found.text == "flags of clone3() has CLONE_SIGHAND, and lacks CLONE_VM."
    unknown = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), scene.condition, ())
    assert rejected_value(unknown) is None


def test_a_descriptor_of_another_kind_of_file() -> None:
    call = failed("inotify_add_watch", errno.EINVAL, arguments=(5, 0, 2, 0, 0, 0))
    condition = "fd_file(fdget())->f_op != &inotify_fops"
    scene = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), condition, ())
    found = reason_of(scene)
    assert found is not None
    assert found.kind == "descriptor"
    assert found.text == (
        "File descriptor 5 is not an inotify instance, and inotify_add_watch() needs one."
    )


def test_a_test_of_something_else_makes_the_reason_inferred() -> None:
    condition = "(flags & 4) != 0 && vma->vm_flags != 3"
    found = flags_reason("mremap", condition, 4, flags=4, vma__vm_flags=4)
    assert found is not None
    assert found.is_inferred
    assert found.text.endswith("Another value inside the kernel had a part in it.")
    assert found.advice == ("remove MREMAP_DONTUNMAP from flags",)
    only_a_case = "optname == 103 && vma->vm_flags != 3"
    assert flags_reason("mremap", only_a_case, 103, optname=103, vma__vm_flags=4) is None


@pytest.mark.parametrize(
    ("condition", "values", "text", "advice"),
    [
        (
            "type != 4 && type > 4 && type != 6 && type != 7 && type != 5",
            {"type": 20},
            "type is 20. The value may be at most 7 here.",
            "change type",
        ),
        (
            "type != 4 && type != 8 && type > 2",
            {"type": 20},
            "type is 20. The value may be at most 2 or must be 4 or must be 8 here.",
            "change type",
        ),
        (
            "type != 4 && type != 8 && type != 9",
            {"type": 20},
            "type is 20. The value must be 4 or from 8 to 9 here.",
            "change type",
        ),
        (
            "type != 4 && type != 8 && type != 1",
            {"type": 20},
            "type is 20. The value must be 1, 4 or 8 here.",
            "change type",
        ),
        (
            "type != 0 && type > 0x10000",
            {"type": 70000},
            "type is 70000. The value may be at most 65536 here.",
            "change type",
        ),
        ("type == 0", {"type": 0}, "type is 0. The value must not be 0 here.", "change type"),
        (
            "current->nsproxy->ipc_ns->sem_ctls[2] < type",
            {"type": 600, "current->nsproxy->ipc_ns->sem_ctls[2]": 500},
            "type is 600, and it may not be larger than sem_ctls[2], which is 500.",
            "change type",
        ),
        (
            "type >= current->signal->rlim[RLIMIT_NOFILE].rlim_cur",
            {"type": 4096, "current->signal->rlim[RLIMIT_NOFILE].rlim_cur": 1024},
            "type is 4096, and it must be smaller than RLIMIT_NOFILE (ulimit -n), which is 1024.",
            "change type",
        ),
        (
            "(mask & ~0x8ff1000) == 0",
            {"mask": 0},
            (
                "mask of inotify_add_watch() has none of the bits that the kernel needs here: "
                "IN_ACCESS, IN_MODIFY, IN_ATTRIB and others."
            ),
            "add one of them to mask",
        ),
        (
            "(mask & 4) == 0 && mask > 0xffffffff",
            {"mask": 0x200000000},
            (
                "mask of inotify_add_watch() has the bit 33 set (value 8589934592). This kernel "
                "does not accept that there."
            ),
            "remove the bit 33 from mask, or use a newer kernel",
        ),
        (
            "(mask & 4) == 0 && (mask & 8) != 0 && type == 1",
            {"mask": 8, "type": 1},
            ("mask of inotify_add_watch() has IN_CLOSE_WRITE, and lacks IN_ATTRIB. type is 1."),
            "remove IN_CLOSE_WRITE from mask|or change type",
        ),
        (
            "type == NULL && mask != NULL",
            {"type": 0, "mask": 1},
            "type is a NULL pointer. mask is no NULL pointer.",
            "pass the address of data in type|or pass NULL in mask",
        ),
        (
            "*type == 7 && mask > 0xffffffff",
            {"*type": 7, "mask": 0x100000001},
            (
                "mask of inotify_add_watch() has the bit 32 set (value 4294967296). The number at "
                "type is 7."
            ),
            "remove the bit 32 from mask",
        ),
        (
            "*type > 7 && *type != 0",
            {"*type": 9},
            "The number at type is 9. The value may be at most 7 here.",
            "change the number at type",
        ),
        (
            "*type > 7",
            {"*type": 9},
            "The number at type is 9. The value may be at most 7 here.",
            "change the number at type",
        ),
        (
            "(mask & 3) == 0 && (mask & 8) != 0",
            {"mask & 0xff": 8},
            "mask of inotify_add_watch() has IN_CLOSE_WRITE, and lacks IN_ACCESS and IN_MODIFY.",
            "add IN_ACCESS and IN_MODIFY to mask, or remove IN_CLOSE_WRITE",
        ),
    ],
)
def test_all_tests_of_a_number_are_one_sentence(
    condition: str, values: dict[str, int], text: str, advice: str
) -> None:
    call = failed("inotify_add_watch", errno.EINVAL, arguments=(0,) * 6)
    scene = Scene(
        call, Witnessed((call,)), Identity(0, 0), (), (), condition, tuple(values.items())
    )
    found = rejected_value(replace(scene, given=frozenset(("type", "*type", "mask"))))
    assert found is not None
    assert (found.text, found.advice) == (text, tuple(advice.split("|")))
    assert not found.is_inferred


def test_no_advice_to_set_a_bit_without_a_name() -> None:
    condition = "(attr->sched_policy & 0x80000000) == 0"
    assert reason(condition, attr__sched_policy=3) is None


def test_flags_that_the_value_refutes_are_no_reason() -> None:
    assert flags_reason("mremap", "(flags & 4) != 0", 8, flags=8) is None


def test_each_row_of_flags_has_single_bits() -> None:
    for row in flag_rows():
        assert row.calls
        assert row.names
        assert all(bit and not bit & (bit - 1) for bit in row.bits.values())
        assert len(set(row.bits.values())) == len(row.bits)
    assert bits_of("clone3", "flags")["CLONE_VM"] == 0x100
    assert not bits_of("nosuchcall", "flags")


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("inode->i_size > 4", {"inode__i_size": 8}),
        ("ret != 1", {"ret": 7}),
        ("attr->key_size != 4", {}),
        ("path->dentry != path->mnt->mnt_root", {"path__dentry": 5}),
        ("__checkparam_dl() != 1", {"__checkparam_dl()": 0}),
    ],
)
def test_what_the_caller_did_not_pass_is_no_reason(condition: str, values: dict[str, int]) -> None:
    assert reason(condition, **values) is None


def meant(
    name: str, error: int, condition: str | None = None, *chain: str, first: int = 0, **values: int
) -> Reason | None:
    return decision(scene_of(name, error, (first,), condition, *chain, **values))


def scene_of(
    name: str,
    error: int,
    given: tuple[int, ...],
    condition: str | None = None,
    *chain: str,
    **values: int,
) -> Scene:
    one = failed(name, error, arguments=(*given, *(0,) * (6 - len(given))))
    named = tuple((name.replace("__", "->"), value) for name, value in values.items())
    return Scene(one, Witnessed((one,)), Identity(0, 0), (), chain, condition, named)


def test_a_condition_of_the_kernel_in_words_with_its_value() -> None:
    condition = "current->fs->users != 1"
    chain = ("__x64_sys_setns", "mntns_install")
    found = meant("setns", errno.EINVAL, condition, *chain, current__fs__users=2)
    assert found is not None
    assert found.kind == "namespace"
    assert found.text.startswith("2 threads share the root and current directory")
    assert not found.is_seen_later
    assert meant("setns", errno.EINVAL, condition, *chain) is None, "the value is not known"
    assert meant("setns", errno.EPERM, condition, *chain, current__fs__users=2) is None
    assert meant("setns", errno.EINVAL, condition, "cgroupns_install", current__fs__users=2) is None
    assert meant("setns", errno.EINVAL, "ns->mounts != 1", *chain, ns__mounts=2) is None
    assert meant("setns", errno.EINVAL, None, *chain) is None


@pytest.mark.parametrize(
    ("name", "error", "condition", "word"),
    [
        ("sched_setattr", errno.EPERM, "__bitmap_subset() == 0", "SCHED_DEADLINE"),
        ("mount_setattr", errno.EINVAL, "(type->fs_flags & 0x20) == 0", "ID-mapped"),
        ("mount_setattr", errno.EINVAL, "m->mnt_sb->s_type->fs_flags & 32 == 0", "ID-mapped"),
        ("splice", errno.EINVAL, "get_pipe_info() == NULL", "Neither descriptor is a pipe"),
        ("unshare", errno.EINVAL, "task->thread_node.next != &signal->thread_head", "threads"),
        ("perf_event_open", errno.ENOENT, None, "performance monitoring unit"),
        ("ptrace", errno.ESRCH, "child->ptrace == 0", "does not trace this process"),
        (
            "fallocate",
            errno.EOPNOTSUPP,
            "(mode & 0x7a) == 2 && (mode & 1) == 0",
            "must also have FALLOC_FL_KEEP_SIZE",
        ),
        ("write", errno.EPERM, "(info->seals & 0x18) != 0", "F_SEAL_WRITE"),
        (
            "epoll_ctl",
            errno.EINVAL,
            "fd_file(fdget(fd)) == fd_file(fdget(epfd))",
            "cannot watch itself",
        ),
        ("epoll_ctl", errno.EINVAL, "f.file == tf.file", "cannot watch itself"),
        ("tee", errno.EINVAL, "get_pipe_info(in, 1) == get_pipe_info(out, 1)", "the same pipe"),
        (
            "sched_setattr",
            errno.EINVAL,
            "(attr->sched_priority != 0) != (attr->sched_policy >= 1 && attr->sched_policy <= 2)",
            "SCHED_FIFO and SCHED_RR need",
        ),
        ("madvise", errno.EINVAL, "find_vma_prev()->vm_file == NULL", "no mapping of a file"),
        ("rseq", errno.EINVAL, "rseq != current->rseq", "C library"),
        ("ptrace", errno.EPERM, "current->signal == task->signal", "cannot trace itself"),
        ("ioctl", errno.EINVAL, "(ctx->features & 0x80000000) == 0", "UFFDIO_API"),
    ],
)
def test_conditions_of_several_calls(
    name: str, error: int, condition: str | None, word: str
) -> None:
    found = meant(name, error, condition, "perf_event_alloc", "userfaultfd_ioctl")
    assert found is not None
    assert word in found.text


def test_a_fuse_file_system_without_allow_other() -> None:
    found = meant("statx", errno.EACCES, "request_mask != 0", "fuse_getattr")
    assert found is not None
    assert "allow_other" in found.text
    assert meant("statx", errno.EACCES, None, "fuse_getattr") is None, "the server may refuse"


def test_a_row_may_be_for_one_operation_of_a_call() -> None:
    found = meant("prctl", errno.EACCES, first=22)
    assert found is not None
    assert "no_new_privs" in found.text
    assert meant("prctl", errno.EACCES, first=8) is None


@pytest.mark.parametrize(
    ("name", "error", "given", "functions", "word"),
    [
        ("membarrier", errno.EPERM, (8,), (), "not registered"),
        ("epoll_ctl", errno.ELOOP, (3, 1, 4), (), "in a circle"),
        ("fcntl", errno.EBUSY, (3, 1033, 8), (), "writable shared mapping"),
        ("lseek", errno.ENXIO, (3, 0, 3), (), "no data at or after"),
        ("munmap", errno.EPERM, (), ("can_modify_mm",), "sealed"),
        ("setsockopt", errno.ENOENT, (3, 6, 31), (), "tcp_available_ulp"),
        ("connect", errno.EPROTOTYPE, (3,), ("unix_find_other",), "another type"),
        ("wait4", errno.ECHILD, (1,), (), "no child process"),
        ("prctl", errno.EPERM, (47, 2, 21), (), "inheritable"),
        ("pidfd_open", errno.EINVAL, (7, 0), ("pidfd_prepare",), "that of a thread"),
        ("name_to_handle_at", errno.EOVERFLOW, (), (), "handle_bytes"),
    ],
)
def test_errors_with_one_meaning_for_these_arguments(
    name: str, error: int, given: tuple[int, ...], functions: tuple[str, ...], word: str
) -> None:
    scene = scene_of(name, error, given, None, *functions)
    found = decision(scene) or usual(scene)
    assert found is not None
    assert word in " ".join((found.text, *found.advice))


@pytest.mark.parametrize(
    ("name", "error", "given"),
    [
        ("fcntl", errno.EBUSY, (3, 4)),
        ("lseek", errno.ENXIO, (3, 0, 0)),
        ("munmap", errno.EPERM, ()),
        ("setsockopt", errno.ENOENT, (3, 6, 13)),
        ("prctl", errno.EPERM, (47, 3)),
    ],
)
def test_other_arguments_have_another_meaning(
    name: str, error: int, given: tuple[int, ...]
) -> None:
    scene = scene_of(name, error, given)
    found = decision(scene) or usual(scene)
    assert found is None or found.is_inferred


def test_a_row_explains_half_of_a_condition() -> None:
    found = meant("mremap", errno.EINVAL, "old_len != new_len", old_len=8192, new_len=16384)
    assert found is not None
    assert "MREMAP_DONTUNMAP keeps the size" in found.text
    assert "8192 and new_len is 16384" in found.text
    found = meant("renameat2", errno.EINVAL, "(flags & 2) != 0", flags=3)
    assert found is not None
    assert "RENAME_EXCHANGE together with" in found.text


def test_each_row_of_conditions_is_complete() -> None:
    for row in decisions():
        assert row.kind in KINDS
        assert row.text.endswith(".")
        assert row.advice
        groups = re.compile(row.condition).groups
        assert row.text == row.text.format(*[f"{{{number}}}" for number in range(groups)])
        assert all(hasattr(errno, one) for one in row.errors)


def test_a_case_of_a_switch_is_not_the_only_accepted_value() -> None:
    call = failed("membarrier", errno.EINVAL, arguments=(40, 0, 0, 0, 0, 0))
    scene = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), "cmd != 512", (("cmd", 40),))
    found = rejected_value(scene)
    assert found is not None
    assert (found.text, found.advice) == (
        "cmd is 40. The value must be 512 here.",
        ("set cmd to 512",),
    )
    found = rejected_value(replace(scene, is_case=True))
    assert found is not None
    assert (found.text, found.advice) == (
        "cmd is 40. The kernel does not accept this value here.",
        ("change cmd",),
    )
    found = rejected_value(replace(scene, untold=2))
    assert found is not None
    assert found.is_inferred


def test_a_rejected_value_of_the_caller_counts_more_than_a_look_afterwards() -> None:
    """There is no message queue 0, but the kernel tested the type of the message before."""
    call = failed("msgsnd", errno.EINVAL, arguments=(0, 0x7000, 8, 0, 0, 0))
    values = (("mtype", 0),)
    scene = Scene(call, Witnessed((call,)), Identity(0, 0), (), (), "mtype <= 0", values)
    found = reason_of(scene)
    assert found is not None
    assert "no message queue" in found.text
    found = reason_of(replace(scene, given=frozenset(("mtype",))))
    assert found is not None
    assert found.text == "mtype is 0. The value must be at least 1 here."
    beside = (*values, ("ns->msg_ctlmax", 3))
    found = reason_of(replace(scene, given=frozenset(("mtype",)), values=beside))
    assert found is not None
    assert "no message queue" in found.text
