# SPDX-License-Identifier: BSD-2-Clause
"""Failures that a loader does not explain, goes on after, or that are the machine's."""

from __future__ import annotations

import io

import pytest

from retsnoop_py.load.explain import explain_log
from retsnoop_py.load.model import Explained


def explained(text: str) -> list[Explained]:
    return list(explain_log(io.BytesIO(text.encode())))


def only(text: str) -> Explained:
    found = explained(text)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Failed to attach my skeleton", "CAP_NET_ADMIN"),
        ("could not load the packet filter module (v7)", "verifier refuses"),
        ("ebpf sensor initialization failed", "verifier refuses"),
        ("error while creating maps of the sensor", "locked memory"),
        ("unable to update the map of ports", "the map is full"),
        ("cannot open object sensor.o", "not a BPF object"),
        ("failed to detach program of eth9", "nothing that still runs is lost"),
        ("program compilation failed", "headers are missing"),
        ("Frobnitz version not found, probe offsets unknown", "this version"),
        ("the ebpf sensor failed: a mark must be set", "a setting of its own"),
        ("could not instantiate the ring buffer for bpf events", "not a power of two"),
        ("failed to allocate the frob table of bpf", "Memory ran out"),
        ("overflow while guessing offsets, bailing out", "this version"),
        ("frob_update_elem failed", "the map is full"),
        ("failed to join the cgroup of frob", "cgroup v2"),
        ("can't get prog_fd of frob", "never loaded"),
        ("could not set bpf filter of frob", "the target does not exist"),
        ("error loading kprobe frob", "verifier refuses"),
        ("prog 'frob': failed to attach: frob", "CAP_NET_ADMIN"),
        ("failed to bpf_object__open_frob()", "not a BPF object"),
        ("could not discover where the kernel has its offsets", "this version"),
        ("manifest: malformed json in field frob", "of another release of the tool"),
    ],
)
def test_what_may_be_behind_a_failure_without_a_reason_is_listed(line: str, words: str) -> None:
    found = only(f"bpf sensor starts\n{line}\n").explanation
    assert found.id == "loader-words"
    assert words in found.reason
    assert "not known here" not in found.title


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("ERROR init of bpf agent failed: signal: killed", "memory"),
        ("bpf setup script failed: exit status 127", "file-missing"),
        ("exec /opt/bpf-agent: exec format error", "elf"),
        ("bpf-agent[77]: segfault at 10 ip 55d1 sp 7ffe error 4", "crashed"),
        ("bpf-agent: do_frob: Assertion `frobs > 0' failed.", "crashed"),
        ("loading of bpf programs failed: context deadline exceeded", "loader-words"),
    ],
)
def test_how_a_loader_ended_is_told(line: str, id_: str) -> None:
    found = only(f"{line}\n").explanation
    assert found.id == id_
    assert found.title == "Loader: The process ended"


@pytest.mark.parametrize(
    ("line", "id_", "words"),
    [
        (
            'audit: apparmor="DENIED" operation="capable" profile="sensor" pid=1 capname="bpf"',
            "rights",
            "AppArmor denies it (capable of bpf): the profile sensor",
        ),
        (
            'audit: type=1326 audit(1.2:3): pid=9 comm="sensor" sig=0 syscall=321 code=0x50000',
            "rights",
            "seccomp filter keeps",
        ),
        ("kernel.perf_event_paranoid is 3, sensor cannot count", "rights", "CAP_PERFMON"),
        ("sensor: kptr_restrict hides what kprobes need, cannot go on", "rights", "kptr_restrict"),
        ("sensor runs in a rootless container: bpf denied", "rights", "user namespace"),
        ("bpf load failed, bpf_jit_limit reached", "memory", "net.core.bpf_jit_limit"),
        (
            "modprobe: FATAL: Module cls_frob not found in directory /lib/modules/1",
            "module-missing",
            "cls_frob",
        ),
        ("sensor: /lib/libc.so.6: version `GLIBC_2.99' not found", "library", "GLIBC_2.99"),
        ("sensor: undefined symbol: bpf_object__frob", "library", "bpf_object__frob"),
        (
            "llc: error: unknown target triple 'bpf', use --version",
            "compile",
            "without that target",
        ),
        ("fatal error: 'frob/types.h' file not found", "compile", "frob/types.h"),
        ("sensor: cgroup v1 is mounted, bpf needs cgroup v2", "cgroup-missing", "version 2"),
        ("sensor for bpf: minimum kernel version is 5.99", "unsupported", "5.99"),
        ("sensor: retrieving bpf ids failed, maybe running < 4.99", "unsupported", "4.99"),
        ("frobnic 0: XDP needs LRO off", "attach-unsupported", "as the interface is set up"),
        ("sensor: link not found: frob0 (bpf)", "interface-missing", "frob0"),
        ("object is big endian, this bpf loader is little endian", "elf", "not a BPF object"),
        ("fexit: function do_frob not found in BTF", "attach-target-missing", "do_frob"),
        (
            "map pinned at /sys/fs/bpf/frob has another size: 8 != 16",
            "map-pinned",
            "/sys/fs/bpf/frob",
        ),
        (
            "cannot locate the program /opt/frob/sensor.o: missing",
            "file-missing",
            "does not exist",
        ),
        (
            "starting frob: mkdir /sys/kernel/tracing: operation not permitted",
            "unsupported",
            "only the kernel can create",
        ),
        (
            "open map frob: pin by name: missing MapOptions.PinPath",
            "pin",
            "wants map frob pinned by its name",
        ),
        ("failed to write '-:kprobes/frob'", "tracefs", "cannot take its probe kprobes/frob away"),
        (
            "WARN BTF from /var/frob/btf/vmlinux: open /var/frob/btf/vmlinux: no such file",
            "kernel-btf",
            "the loader does not find it",
        ),
        (
            "download of BTF from the btfhub archive failed: 404",
            "kernel-btf",
            "for this release",
        ),
        ("/virtual/frob.c:7:1: error: unsupported map type: frob", "map-type-unsupported", "frob"),
        (
            "failed to set max entries of frob map: Device or resource busy",
            "map-definition",
            "made",
        ),
        ("libbpf: bpf_frob_opts has non-zero extra bytes", "library", "fields of bpf_frob_opts"),
        ("BPF map `bss` mmap pointer is NULL", "global-data", "Linux 5.5"),
        ("cannot open /sys/module/frob/parameters/x: Errno 2", "module-missing", "modprobe frob"),
        ("sh: 1: ntc: not found", "file-missing", "not there: ntc"),
        ("sensor: kernel symbols could not be loaded", "rights", "kptr_restrict"),
        (
            "frob.skel.h:7:9: error: no member named 'bss' in 'struct frob'",
            "compile",
            "has no member bss",
        ),
        ("sensor: error in netlink message: Invalid argument", "attach-refused", "driver"),
        (
            "libxdp: Failed to load program frob: Argument list too long",
            "xdp-dispatcher",
            "freplace",
        ),
    ],
)
def test_what_ails_the_machine_is_told_in_whatever_words(line: str, id_: str, words: str) -> None:
    found = only(f"bpf sensor starts\n{line}\n").explanation
    assert found.id == id_
    assert words in found.reason + found.suggestion


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            'sched_ext: BPF scheduler "frob" disabled (runnable task stall)\n',
            "runnable task stall",
        ),
        ("Error: EXIT: scx_bpf_error (frob 7 is none)\n", "scx_bpf_error (frob 7 is none)"),
        ("DEBUG DUMP\nscx_frob[7] triggered exit kind 1024:\n", "triggered exit kind 1024"),
        ("sched_ext: ops.init_task() failed (-12) for frob[7] while loading\n", "ops.init_task()"),
    ],
)
def test_a_scheduler_that_was_put_out_is_told(lines: str, words: str) -> None:
    found = only(lines).explanation
    assert found.id == "sched-ext-exit"
    assert words in found.reason


def test_a_scheduler_that_was_stopped_is_no_failure() -> None:
    assert not explained("scx_frob[7] triggered exit kind 64:\n")
    assert not explained("EXIT: unregistered from user space\n")
    assert not explained(
        'sched_ext: BPF scheduler "frob" disabled (unregistered from user space)\n'
    )


def test_what_a_loader_went_on_after_is_told_where_nothing_else_failed() -> None:
    light = "failed to open pinned map /sys/fs/bpf/frob: permission denied, skipping\n"
    assert only(light).explanation.id == "pin"
    found = only(f'{light}level=error msg="attach kprobe do_frob: no such file or directory"\n')
    assert found.explanation.id == "kprobe-target"


def test_what_a_loader_takes_for_no_error_counts_last() -> None:
    light = 'level=info msg="creating map frob: operation not permitted"\n'
    assert only(light).explanation.id == "rights"
    found = only(f'{light}level=error msg="attaching xdp: no such device"\n')
    assert found.explanation.id == "interface-missing"


def test_what_is_looked_up_without_a_failure_is_nothing() -> None:
    assert not explained("level=debug msg=\"pin file of bpf map 'frob' not found\"\n")
    assert not explained("bpf sensor: open /proc/77/cgroup: no such file or directory\n")
    assert not explained(
        "libbpf: struct_ops frob: member x not found in kernel, skipping it as it's set to zero\n"
    )


def test_rights_that_are_told_first_are_no_repetition() -> None:
    found = explained(
        "Error: map create failed: Operation not permitted\n"
        "failed to load BPF program (/tmp/frob): stat /sys/fs/bpf/frob: no such file or directory\n"
    )
    assert [one.explanation.id for one in found] == ["rights"]


def test_the_source_that_a_verifier_quotes_is_no_complaint() -> None:
    assert not explained('bpf\n; if (!ptr) return fail("cannot attach kprobe"); @ frob.c:7\n')


def test_a_heading_without_a_word_is_no_failure() -> None:
    found = only("bpf sensor\nERROR:\nERROR: sensor refused by its switch\nERROR:\n").explanation
    assert found.words == ("sensor refused by its switch",)


def test_a_killed_process_says_more_than_who_waited_for_it() -> None:
    found = only(
        'level=error msg="command failed" cmd="/var/lib/bpf/x.sh" error="signal: killed"\n'
        'level=error msg="cannot start" error="while loading bpf: /x/bpf.sh: context canceled"\n'
    )
    assert found.explanation.id == "memory"


def test_what_is_left_out_of_a_line_may_say_that_it_is_of_bpf() -> None:
    found = only(
        'level=debug msg="command failed" command="cc -target bpf" error="signal: killed"\n'
    )
    assert found.explanation.id == "memory"


def test_the_first_that_was_tried_counts() -> None:
    found = only(
        "bpf: failed to load programs: loading and attaching programs failed\n"
    ).explanation
    assert "the verifier refuses" in found.reason


def test_of_words_that_say_nothing_it_is_listed_what_mostly_fails() -> None:
    found = only("bpf sensor\nfrobbing of the bpf wheel failed\n").explanation
    assert found.title == "Loader: Unknown message"
    assert "Usual causes" in found.reason


def test_a_file_that_was_looked_for_is_no_reason_where_more_failed() -> None:
    found = only(
        "bpf sensor\nbpf module failed: no hook to frob\n"
        "looking for libs: stat /usr/lib/libfrob.so: no such file or directory\n"
    ).explanation
    assert found.words == ("bpf module failed: no hook to frob",)


def test_the_innermost_cause_of_a_list_counts() -> None:
    found = only(
        "Error: the bpf sensor failed\n\nCaused by:\n"
        "    0: while it looked around\n    1: the hook of frobs is in use, already\n\nNote: none\n"
    ).explanation
    assert found.id == "attach-busy"
    assert "the bpf sensor failed: the hook of frobs is in use, already" in found.reason


def test_of_lines_that_weigh_the_same_the_one_counts_that_says_what_failed() -> None:
    found = only(
        "bpf sensor\nthe frobs of the bpf sensor failed\ncannot attach the bpf sensor\n"
        "the knobs of the bpf sensor failed\n"
    ).explanation
    assert found.words == ("cannot attach the bpf sensor",)


@pytest.mark.parametrize(
    ("below", "ids"),
    [
        ("Can't find prog with name: frob", ["name-missing"]),
        (
            "libbpf: map 'frob': failed to create: Invalid argument(-22)",
            ["map-refused", "btf-refused"],
        ),
        ("libbpf: failed to load object 'frob'", ["btf-refused"]),
    ],
)
def test_btf_that_was_refused_is_no_reason_where_another_is_told(
    below: str, ids: list[str]
) -> None:
    found = explained(f"libbpf: Error loading ELF section .BTF: -22.\n{below}\n")
    assert [one.explanation.id for one in found] == ids


def test_what_systemd_asks_the_kernel_by_a_bad_descriptor_is_told_where_nothing_else_failed() -> (
    None
):
    asked = "libbpf: prog 'sd_frob': failed to attach to cgroup: -EBADF\n"
    assert only(asked).explanation.id == "descriptor"
    found = only(
        f"{asked}libbpf: prog 'frob': failed to attach: -EBUSY\n"
        "bpf-frob: Failed to link program; assuming BPF LSM is not available.\n"
    )
    assert found.explanation.id == "attach-hook"
    assert found.program == "frob"


def test_a_summary_below_what_is_no_failure_stands_for_itself() -> None:
    found = only("bpf agent starts\nFailed to load BPF skeleton: frob\n").explanation
    assert found.words == ("Failed to load BPF skeleton: frob",)


def test_data_in_a_line_is_no_word_of_it() -> None:
    data = "object_" * 500
    found = only(f"bpf failed to load program {data}\n").explanation
    assert found.words == ("bpf failed to load program ...",)
