# SPDX-License-Identifier: BSD-2-Clause
"""Loaders' words that no rule was written for, and what others write around a verifier's log."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest

from retsnoop_py import load
from retsnoop_py.load.explain import explain_log
from retsnoop_py.load.loader_rules import explain_line
from retsnoop_py.load.model import Explained


def explained(text: str) -> list[Explained]:
    return list(explain_log(io.BytesIO(text.encode())))


def only(text: str) -> Explained:
    found = explained(text)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        # what is missing, by the noun beside it
        ("ERR bpf sensor: tracefs is not available, it does not exist here", "tracefs", "mount"),
        ("bpf agent: no usable BTF found, giving up", "kernel-btf", "BTF"),
        (
            "xdp loader: could not determine the interface named wan7",
            "interface-missing",
            "ip link",
        ),
        ("ebpf: cannot locate tracepoint for exits", "tracepoint-missing", "tracepoint"),
        ("ebpf loader failed: section tc/out is missing", "name-missing", "section"),
        ("bpf tool failed: headers of 6.1.0-x could not be found", "kernel-headers", "headers"),
        # the last complaint counts
        ("bpf program cannot be used: file is there, but LSM is disabled", "unsupported", "kernel"),
        ("xdp setup failed: hook in use", "attach-busy", "attached there"),
        ("bpf setup refused: not enough privileges", "rights", "capability"),
        # no complaint: the errno, and what it means of anything
        ("bpf frobnication failed: Broken pipe", "loader-words", "EPIPE: the other side is gone"),
        ("ebpf ring adoption failed, errno 62", "loader-words", "errno 62"),
    ],
)
def test_what_no_rule_knows_is_told_by_its_complaint_or_errno(
    line: str, id_: str, word: str
) -> None:
    why = only(f"{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion
    assert why.words == (line,)


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        (
            "attach to cgroup /x: BPF_PROG_ATTACH (BPF_CGROUP_DEVICE): argument list too long",
            "attach-busy",
            "64 programs",
        ),
        ("binding SockaddrXDP failed: device or resource busy", "attach-busy", "queue"),
        ("xsk wakeup failed (6-ENXIO-no such device or address)", "attach-refused", "down"),
        ("debugfs (/sys/kernel/debug) is not mounted, ebpf off", "tracefs", "mount"),
        ("program for section 'uprobe.multi/x' not found", "name-missing", "uprobe.multi/x"),
        ("cannot open asset: open ebpf/code.o: file does not exist", "file-missing", "mount name"),
        ("The kernel does not support fentry programs, it is too old", "unsupported", "kernel"),
        (
            "program f: apply CO-RE relocations: load kernel spec: load vmlinux: bad header",
            "kernel-btf",
            "BTF",
        ),
        (
            "program f: apply CO-RE relocations: no BTF found for kernel version 5: not supported",
            "kernel-btf",
            "BTF",
        ),
    ],
)
def test_the_innermost_cause_is_told(line: str, id_: str, word: str) -> None:
    why = only(f"{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        ("cannot reach debugfs, which ebpf takes: unable to access debugfs", "tracefs", "mount"),
        (
            "x: attach Tracing/TraceRawTp: raw_tp irq_in not supported",
            "attach-target-missing",
            "irq_in",
        ),
        ("trace_kprobe: Event kprobes/r_x doesn't exist.", "attach-target-missing", "cleans up"),
        (
            "src/x.c:xsk_set_up:144: errno: 95/Operation not supported",
            "attach-unsupported",
            "AF_XDP",
        ),
        ("Error creating map: '@x'", "map-refused", "ulimit -l"),
        (
            "Couldn't attach XDP program: Kernel verifier blocks program loading(-4007)",
            "refused",
            "4007",
        ),
        ("flow loader: x.bpf does not have the BPF program 'out'", "name-missing", "llvm-objdump"),
        ("bpf maps: no obj for pinpath /opt/m", "pin", "mount -t bpf"),
        ("LoadEbpf: Invalid binary form of a map", "map-definition", ".maps"),
        ("libxdp: Couldn't load BTF from file './x.o', error: -2", "object-btf", "-g"),
        ("Error enabling probe: usdt:/bin/x:y:z", "usdt", "readelf"),
        ("cannot add eBPF: netlink receive: no such file or directory", "qdisc-missing", "clsact"),
        ("Error loading program: BEGIN (try -v)", "loader-words", "BEGIN"),
        ("tc: no ELF library support is compiled in; bpf", "unsupported", "build of the loader"),
        ("thread 'main' panicked at 'no path', bpf/src/a.rs:3:1", "loader-words", "panicked"),
        (
            "tracepoint x: cannot create bpf perf link: permission denied",
            "tracepoint-arguments",
            "record",
        ),
        ("Kernel error message: Cannot find specified qdisc here", "qdisc-missing", "clsact"),
        ("Error: another sched_ext scheduler is already running", "attach-busy", "already"),
        ("Couldn't attach XDP program on iface 'x': Permission denied(-13)", "refused", "load"),
        (
            "Exception: Failed to load BPF program b'tracepoint__a__b': Permission denied",
            "refused",
            "log",
        ),
        (
            "IOError: [Errno 2] No such file or directory: '/sys/kernel/debug/kprobes/blacklist'",
            "tracefs",
            "debugfs",
        ),
        ("bpf x: [Errno 13] Permission denied: '/var/lib/x/prog.o'", "rights", "its owner"),
        (
            "bpf(BPF_MAP_CREATE, {map_type=0x5 /* ? */, key_size=8}, 72) = -1 EINVAL (x)",
            "map-definition",
            "older than 4.6",
        ),
    ],
)
def test_an_operation_is_told_by_its_own_words(line: str, id_: str, word: str) -> None:
    why = only(f"{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion


def test_a_file_that_was_looked_for_in_vain_is_told_if_nothing_else_failed() -> None:
    looked = "Couldn't open pin directory /sys/fs/bpf/x: No such file or directory\n"
    assert only(looked).explanation.id == "pin"
    assert only(f"{looked}Error attaching XDP program: Out of memory\n").explanation.id == "memory"
    assert only(f"{looked}libbpf: prog 'f': failed to load: -13\n").explanation.id == "refused"


def test_what_stands_above_a_summary_says_why() -> None:
    why = only(
        "libbpf: opts of the object have non-zero extra bytes\n"
        "libbpf: failed to initialize skeleton BPF object 'x_bpf': -22\n"
        "Error: Invalid argument (os error 22)\n"
    ).explanation
    assert why.words == ("opts of the object have non-zero extra bytes",)


@pytest.mark.parametrize("call", ["bpf_skb_load_bytes#26", "bpf_trace_printk#6"])
def test_a_size_that_may_be_0_is_no_negative_index(call: str) -> None:
    why = only(
        f"195: (85) call {call}\ninvalid access to map value, value_size=1024 off=0 size=0\n"
        "R3 min value is outside of the allowed memory range\nprocessed 300 insns\n"
    ).explanation
    assert why.id == "map-bounds"
    assert "size that may be 0" in why.reason
    assert "negative" not in why.reason


def test_a_negative_index_without_a_bound_is_told_as_such() -> None:
    why = only(
        "9: (73) *(u8 *)(r1 +4095) = r2\n R1_w=map_value(id=0,off=0,vs=8192,smin_value=-4095)\n"
        "R1 unbounded memory access, make sure to bounds check any such access\n"
        "processed 300 insns\n"
    ).explanation
    assert "may be negative" in why.reason


def test_btf_that_cannot_be_completed_is_told_and_no_missing_file() -> None:
    found = only(
        "libbpf: Error finalizing .BTF: -2.\n"
        "Error: failed to open BPF object file: No such file or directory\n"
    )
    assert found.explanation.id == "object-btf"


def test_what_fails_for_want_of_rights_is_told_once_where_the_program_is_named_later() -> None:
    only(
        "libbpf: tracepoint 'a/b' perf_event_open() failed: -EPERM\n"
        "libbpf: prog 'f': failed to create tracepoint 'a/b' perf event: -EPERM\n"
        "libbpf: prog 'f': failed to auto-attach: -EPERM\n"
    )


def test_a_map_that_is_read_in_place_of_a_value_is_told() -> None:
    why = only(
        "5: (18) r1 = 0xffff8e21015e5a00       ; R1_w=map_ptr(off=0,ks=4,vs=8,imm=0)\n"
        "7: (79) r2 = *(u64 *)(r1 +0)          ; R1_w=map_ptr(off=0,ks=4,vs=8) R2_w=ptr_x(off=0)\n"
        "9: (7b) *(u64 *)(r1 +0) = r2\n"
        "only read from bpf_array is supported\nprocessed 8 insns (limit 1000000)\n"
    ).explanation
    assert why.id == "btf-access"
    assert "R1 is a map itself" in why.reason
    assert "global variable" in why.suggestion


VERIFIER = """libbpf: prog 'f': BPF program load failed: Permission denied
0: R1=ctx() R10=fp0
; x = bpf_map_lookup_elem(&m, &k); @ a.bpf.c:41
0: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1,off=0,ks=4,vs=64,imm=0)
; return x->i; @ a.bpf.c:42
1: (61) r0 = *(u32 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0
"""


@pytest.mark.parametrize(
    "form",
    [
        "2026-03-27T06:20:40.061123456Z stderr F LINE",
        '{"log":"LINE\\n","stream":"stderr","time":"2026-03-27T06:20:40.06Z"}',
        '{"level":"error","ts":1703707677.1487029,"msg":"LINE"}',
        "11-19 21:20:06.134    46    46 E Loader: LINE",
        "2026-01-01 10:00:00,123 - name - ERROR - LINE",
        "Feb 20 14:31:35 host app[9]: 2026-02-20T06:31:35.7Z  WARN Thread(1) a::b: x.rs:12: LINE",
        "[2026-02-27T16:32:07.061Z INFO  crate::mod] [eBPF] INFO LINE",
        "agent-1 | 2026-02-05 06:26:32 UTC | PROBE | ERROR | (file.go:60 in Register) | LINE",
        "#12 3.456 LINE",
        "ERRO[0010] LINE",
        "+LINE",
    ],
)
def test_what_stands_in_front_of_each_line_is_learnt_from_the_instructions(form: str) -> None:
    found = only("".join(form.replace("LINE", line) + "\n" for line in VERIFIER.splitlines()))
    why = found.explanation
    assert (found.program, found.errno, found.instructions) == ("f", "EACCES", 2)
    assert why.id == "pointer-or-null"
    assert "bpf_map_lookup_elem()" in why.reason
    assert why.place is not None
    assert (why.place.file, why.place.line) == ("a.bpf.c", 42)
    assert why.words == ("R0 invalid mem access 'map_value_or_null'",)


def test_registers_in_front_of_an_instruction_are_no_prefix() -> None:
    state = " R0=inv(id=0) R1=ctx(id=0,off=0,imm=0) R10=fp0"
    why = only(
        f"{state} 0: (85) call bpf_map_lookup_elem#1\n{state} 1: (61) r0 = *(u32 *)(r0 +0)\n"
        "regs=1 stack=0 before 1: (61) r0 = *(u32 *)(r0 +0)\n"
        "regs=1 stack=0 before 0: (85) call bpf_map_lookup_elem#1\n"
        "R0 invalid mem access 'map_value_or_null'\nprocessed 2 insns\n"
    ).explanation
    assert why.id == "pointer-or-null"


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_log_in_characters_of_two_bytes_is_read(coding: str) -> None:
    found = list(explain_log(io.BytesIO(VERIFIER.encode(coding))))
    assert [(one.program, one.line, one.instructions) for one in found] == [("f", 1, 2)]
    assert found[0].explanation.id == "pointer-or-null"


@pytest.mark.parametrize("end", ["\r\n", "\r", "\r\r\n"])
def test_returns_end_lines_too(end: str) -> None:
    assert only(VERIFIER.replace("\n", end)).explanation.evidence


def test_bytes_of_no_coding_do_no_harm() -> None:
    noise = b"caf\xe9 \xff\xfe\x00 \xf0\x28\x8c\x28\n"
    found = list(explain_log(io.BytesIO(noise + VERIFIER.encode() + noise)))
    assert [one.program for one in found] == ["f"]
    assert not list(explain_log(io.BytesIO(noise * 50)))


def test_the_log_of_another_loader_has_not_the_program_that_failed_before() -> None:
    found = explained(
        "libbpf: prog 'g': BPF program load failed: Permission denied\n"
        "libbpf: prog 'g': -- BEGIN PROG LOAD LOG --\n"
        "0: (95) exit\nR0 !read_ok\nprocessed 1 insns (limit 1000000)\n-- END PROG LOAD LOG --\n"
        "libbpf: prog 'g': failed to load: -13\n"
        "Error: the BPF_PROG_LOAD syscall failed. Verifier output: 0: (b7) r0 = 0\n"
        "1: (61) r0 = *(u32 *)(r0 +0)\nR0 invalid mem access 'scalar'\nprocessed 2 insns\n"
    )
    assert [(one.program, one.explanation.id) for one in found] == [
        ("g", "register-unset"),
        ("", "not-a-pointer"),
    ]


def test_a_message_that_is_not_known_is_quoted_where_the_numbers_behind_it_are_cut_off() -> None:
    why = only("271: (bf) r4 = r1\n272: (0f) r4 += r2\nmoving of that pointer is not allowed\n")
    assert why.explanation.id == "unknown"
    assert why.explanation.reason == "moving of that pointer is not allowed"


def test_a_map_whose_types_the_kernel_does_not_know_is_told_as_such() -> None:
    why = only(
        "9: (85) call bpf_timer_init#169\nmap 'm' has to have BTF in order to use bpf_timer\n"
        "processed 7 insns\n"
    ).explanation
    assert why.id == "map-use"
    assert "'m' has a bpf_timer" in why.reason
    assert "__type(value" in why.suggestion


def test_the_errno_of_an_object_is_no_second_reason() -> None:
    found = explained(
        "libbpf: failed to find kernel BTF type ID of 'gone_fn': -3\n"
        "libbpf: failed to load object 'x_bpf'\n"
        "libbpf: failed to load BPF skeleton 'x_bpf': -3\n"
    )
    assert [one.explanation.id for one in found] == ["attach-target-missing"]


def test_of_a_map_for_tail_calls_the_owner_is_told() -> None:
    why = only("Tail call map owned by prog type 3, but prog type is 6!\n").explanation
    assert why.reason.endswith("uses it: owned by prog type 3, but prog type is 6.")


def test_what_a_loader_tidies_up_counts_only_where_nothing_else_failed() -> None:
    tidied = "Error: Parent Qdisc doesn't exists.\nWe have an error talking to the kernel\n"
    (why,) = explained(
        f"{tidied}libbpf: map 'cpus': failed to create: Argument list too long(-7)\n"
    )
    assert why.explanation.id == "map-too-large"
    assert [one.explanation.id for one in explained(tidied)] == ["qdisc-missing"]


def test_a_probe_is_named_as_it_was_asked_for() -> None:
    why = only(
        'creating perf_kprobe PMU (arch-specific fallback for "fn"): token __x64_fn: not found'
        ": no such file or directory\n"
    ).explanation
    assert why.id == "kprobe-target"
    assert "function fn that" in why.reason


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("can't mount BPF filesystem: permission denied", "rights"),
        ("x: error while loading shared libraries: libbpf.so.1: cannot open", "file-missing"),
    ],
)
def test_a_loader_that_comes_not_even_to_loading_is_told(line: str, id_: str) -> None:
    assert only(line + "\n").explanation.id == id_


def test_where_in_the_loader_it_is_said_is_no_part_of_what_is_said() -> None:
    why = only(
        "agent  | 2024-01-02 03:04:05 UTC | PROBE | ERROR | (pkg/a/b.go:60 in Start) | cannot load"
        " BPF program f: operation not permitted\n"
    ).explanation
    assert why.words == ("cannot load BPF program f: operation not permitted",)


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        (
            "type=AVC msg=audit(1.2:3): avc:  denied  { map_create } for  pid=4 tclass=bpf",
            "rights",
            "SELinux",
        ),
        (
            "libxdp: Failed to attach program one to dispatcher: Operation not supported",
            "xdp-dispatcher",
            "freplace",
        ),
        (
            "libbpf: prog 'xdp_dispatcher': missing BPF prog type, check ELF section name 'xdp/d'",
            "xdp-dispatcher",
            "libxdp",
        ),
        (
            "bpf sockops: failed to find unified cgroup hierarchy: this has cgroups v1",
            "cgroup-missing",
            "cgroup2",
        ),
        (
            "bpf agent: failed to attach program one to cgroup /run/two",
            "attach-refused",
            "cgroup2fs",
        ),
        (
            "systemd[1]: Detaching ingress BPF program from cgroup failed: Invalid argument",
            "no-cgroup-bpf",
            "CONFIG_CGROUP_BPF",
        ),
        (
            "perf_event_open(/sys/kernel/tracing/events/uprobes/one/id): Interrupted system call",
            "loader-words",
            "*_sys_perf_event_open",
        ),
    ],
)
def test_what_refuses_is_told_by_what_the_line_names(line: str, id_: str, word: str) -> None:
    why = only(f"{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion


def test_a_reference_that_aya_cannot_resolve_is_told_by_what_it_refers_to() -> None:
    why = only(
        "Error: error relocating function\n\nCaused by:\n    0: error relocating `one`\n"
        "    1: section `6` not found, referenced by symbol `` #11\n"
    ).explanation
    assert why.id == "relocation"
    assert "section 6" in why.reason
    assert "privileges" in why.reason


def test_of_an_errno_in_a_line_of_its_own_that_line_is_quoted_too() -> None:
    last = "Exception: Failed to load BPF program f"
    why = only(f"bpf: Function not implemented\n\n{last}\n").explanation
    assert why.words == ("Function not implemented", last)


def test_a_probe_that_fails_in_three_lines_has_failed_once() -> None:
    why = only(
        "libbpf: failed to determine tracepoint 'a/b' perf event ID: No such file or directory\n"
        "libbpf: prog 'f': failed to create tracepoint 'a/b' perf event: -2\n"
        "libbpf: prog 'f': failed to auto-attach: -2\n"
    ).explanation
    assert why.id == "tracepoint-missing"


def test_of_two_lines_that_say_as_much_the_one_counts_that_is_called_an_error() -> None:
    error = "bpf.plugin ERROR : MAIN : Cannot load the default set"
    why = only(
        f"bpf.plugin INFO : MAIN : Cannot load the set of this kernel\n{error}\n"
    ).explanation
    assert why.words == (error,)


def test_what_libxdp_does_without_is_no_failure() -> None:
    why = only(
        "libbpf: prog 'xdp_pass': BPF program load failed: Invalid argument\n"
        "  libxdp: Kernel DOES NOT support XDP programs with frags\n"
    ).explanation
    assert why.id == "xdp-dispatcher"


def test_a_word_for_the_way_of_attaching_is_no_functions_name() -> None:
    why = only("Opening kprobe-multi: no such file or directory\n").explanation
    assert why.id == "kprobe-target"
    assert "function multi" not in why.reason
    assert "kptr_restrict" in why.reason


def test_a_name_that_several_functions_have_is_not_said_to_be_missing() -> None:
    why = only("Opening kprobe f: token f: opening perf event: cannot assign requested address\n")
    assert why.explanation.id == "kprobe-target"
    assert "several functions" in why.explanation.reason


def test_of_programs_that_are_listed_it_is_not_said_that_they_are_not_attached() -> None:
    why = only(
        "Error: can't query bpf programs attached to /sys/fs/cgroup/a: No such device or address\n"
    )
    assert why.explanation.id == "unsupported"


def test_that_attaching_failed_is_not_told_once_more_without_its_errno() -> None:
    why = only(
        "ioctl(PERF_EVENT_IOC_SET_BPF) failed: Bad file descriptor\n"
        "Traceback (most recent call last):\n"
        "Exception: Failed to attach BPF to perf event\n"
    ).explanation
    assert why.id == "descriptor"


def test_of_an_errno_alone_it_is_said_what_it_is_and_no_more() -> None:
    why = only(
        "WARN net::kernel] Attached an XDP program in generic mode\n"
        "Error: No such file or directory (os error 2)\n"
    ).explanation
    assert why.id == "loader-words"
    assert why.words == ("Error: No such file or directory (os error 2)",)


def test_too_few_queues_for_xdp_are_told_beside_memory() -> None:
    why = only(
        "Exception: Failed to attach BPF to device eth0: Cannot allocate memory\n"
    ).explanation
    assert "queues" in why.reason
    assert "cgroup" not in why.reason


def test_global_data_that_a_kernel_does_not_have_is_no_type_of_map() -> None:
    why = only(
        "program f: map .rodata: map create: read- and write-only maps not supported"
        " (requires >= v5.2)\n"
    ).explanation
    assert why.id == "global-data"
    assert "5.2" in why.reason


def test_the_type_at_which_a_list_of_btf_ends_is_quoted() -> None:
    why = only(
        "BTF debug data section '.BTF' rejected: Invalid argument (22)!\n - Length:       67\n"
        "Verifier analysis:\n\nmagic: 0xeb9f\n[1] PTR (anon) type_id=2\n"
        "[2] STRUCT s size=4 vlen=1\n\tm type_id=3 bits_offset=0\n"
        "[3] DATASEC license size=0 vlen=1 size == 0\n"
    ).explanation
    assert why.id == "btf-refused"
    assert why.words[-1].startswith("[3] DATASEC")


def test_a_kprobe_made_for_another_kernel_is_told_by_its_version() -> None:
    why = only(
        'bpf(BPF_PROG_LOAD, {prog_type=BPF_PROG_TYPE_KPROBE, insn_cnt=30, license="GPL",'
        " kern_version=KERNEL_VERSION(3, 10, 0), prog_flags=0}, 112)"
        " = -1 EINVAL (Invalid argument)\n"
    ).explanation
    assert why.id == "invalid"
    assert "3.10.0" in why.reason


def test_helpers_that_are_not_there_are_told_by_the_kernel_that_is_locked_down() -> None:
    log = (
        "program of this type cannot use helper bpf_probe_read#4\n"
        "processed 31 insns (limit 1000000) max_states_per_insn 0 total_states 2\n"
    )
    assert only(log).explanation.id == "helper-unknown"
    locked = "Lockdown: agent: use of bpf to read kernel RAM is restricted; see man 7\n"
    assert only(log + locked).explanation.id == "rights"


def test_libxdps_trial_is_no_second_reason_beside_what_the_verifier_said() -> None:
    why = only(
        "473: (85) call unknown#181\ninvalid func unknown#181\n"
        "processed 246 insns (limit 1000000) max_states_per_insn 0 total_states 15\n"
        "-- END PROG LOAD LOG --\n"
        "libbpf: prog 'xdp_pass': BPF program load failed: Invalid argument\n"
        "libbpf: prog 'xdp_pass': failed to load: -22\n"
    ).explanation
    assert why.id == "helper-unknown"


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        (
            "find target in modules: parse types for module m: can't read type names: empty",
            "kernel-btf",
            "module m ",
        ),
        ("find target in modules: not found", "attach-target-missing", "to a function,"),
        ("WARNING: g is not traceable (either non-existing, inlined)", "kprobe-target", "'*g*'"),
        (
            "bind(3, {sa_family=0x2c, ...}, 16) = -1 EOPNOTSUPP (Operation not supported)",
            "attach-unsupported",
            "zero copy",
        ),
        ("ERROR: failed to load prog: 'No such process'", "kernel-btf", "ESRCH"),
    ],
)
def test_the_innermost_cause_and_the_name_beside_it_are_told(
    line: str, id_: str, word: str
) -> None:
    why = only(f"{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion


def test_what_fails_beside_bpf_is_told_by_its_errno_and_no_more() -> None:
    line = "net_alloc: failed (errno:95) - passing on"
    why = only(f"AF_XDP: huge pages are left out\n{line}\n").explanation
    assert why.id == "loader-words"
    assert "EOPNOTSUPP" in why.reason


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("Error attaching USDT probes: the process might not have them", "usdt"),
        ("USDTException: Failed to enable USDT probe 'a':", "usdt"),
        ("Failed to attach uprobe: no such file or directory", "uprobe-target"),
        ("a.bpf.c:113:14: error: Looks like the BPF stack limit is exceeded.", "stack-size"),
        ("Exception: Failed to load BPF program b'bpf_lsm_f': Invalid argument", "invalid"),
    ],
)
def test_a_name_is_no_operation_and_what_is_meant_is_told(line: str, id_: str) -> None:
    assert only(f"{line}\n").explanation.id == id_


def test_what_panics_beside_programs_that_were_attached_is_told_by_its_errno() -> None:
    why = only(
        "did attach eBPF programs\n"
        "called `Result::unwrap()` on an `Err` value: Os { code: 13, kind: PermissionDenied,"
        ' message: "Permission denied" }\n'
    ).explanation
    assert why.id == "loader-words"
    assert "EACCES" in why.reason


def test_a_server_that_does_not_answer_has_nothing_to_do_with_bpf() -> None:
    log = "loaded BPF programs\nfailed to reach the server: Connection refused\n"
    assert explained(log) == []


def test_what_libbpf_leaves_out_is_not_what_failed() -> None:
    why = only(
        "libbpf: Kernel doesn't support BTF, skipping uploading it.\n"
        "libbpf: prog 'f': BPF program load failed: Argument list too long\n"
        "libbpf: prog 'f': failed to load: -7\n"
    ).explanation
    assert why.words == ("prog 'f': BPF program load failed: Argument list too long",)


def test_a_header_that_what_is_built_in_does_not_find_is_quoted() -> None:
    line = "<built-in>:1:10: fatal error: './include/linux/kconfig.h' file not found"
    why = only(f"{line}\nException: Failed to compile BPF module b'hello.c'\n").explanation
    assert why.id == "compile"
    assert why.words == (line,)


def test_a_call_in_a_line_of_its_own_has_the_errno_of_a_line_below() -> None:
    why = only(
        "[-] SYSTEM ERROR : Bpf Log:\n\n bpf(BPF_PROG_LOAD)\n"
        "        Location : load(), src/a.c:123\n"
        "      OS message : Argument list too long\n"
    )
    assert why.explanation.id == "too-large"
    assert why.errno == "E2BIG"


@pytest.mark.parametrize(
    "use", ["expected initialized handle for bpf_table", "bpf_table seen failed to open"]
)
@pytest.mark.parametrize(
    "cause", ["Cannot allocate memory", "Operation not permitted", "Invalid argument"]
)
def test_that_bcc_does_not_compile_without_its_map_is_not_told(cause: str, use: str) -> None:
    line = f"could not open bpf map: seen, error: {cause}"
    found = only(
        f"{line}\n/src/a.c:12:5: error: {use}\n"
        "Traceback (most recent call last):\nException: Failed to compile BPF module a.c\n"
    )
    assert found.explanation.words == (line,)


def test_a_source_that_is_wrong_is_told_beside_a_map_that_failed() -> None:
    ids = [
        one.explanation.id
        for one in explained(
            "could not open bpf map: seen, error: Cannot allocate memory\n"
            "/src/a.c:12:5: error: use of undeclared identifier 'frob'\n"
        )
    ]
    assert ids == ["map-too-large", "compile"]


def test_a_map_is_refused_with_eagain_by_a_filter_of_system_calls_alone() -> None:
    why = only("Error creating map: '@x': Resource temporarily unavailable\n").explanation
    assert why.id == "rights"
    assert "seccomp" in why.reason
    load = only("libbpf: prog 'f': BPF program load failed: Resource temporarily unavailable\n")
    assert "signal" in load.explanation.reason


@pytest.mark.parametrize(("call", "said"), [("skb_load_bytes#26", True), ("probe_read#4", False)])
def test_a_number_from_the_stack_may_have_been_a_packet_pointer(call: str, said: bool) -> None:
    why = only(
        f"40: (85) call bpf_{call}\n41: (79) r2 = *(u64 *)(r10 -24)\n"
        "42: (61) r1 = *(u32 *)(r2 +26)\nR2 invalid mem access 'inv'\nprocessed 40 insns\n"
    ).explanation
    assert why.id == "not-a-pointer"
    assert ("ctx->data_end again" in why.suggestion) is said


def test_a_place_beyond_the_stack_is_told_where_the_log_begins_there() -> None:
    why = only("invalid stack off=-520 size=8\n\nHINT: the stack is small\n").explanation
    assert why.id == "stack-bounds"
    assert "more than the 512 bytes of stack" in why.reason


def test_a_jit_that_is_switched_off_is_among_what_is_not_supported() -> None:
    log = "Error: Failed to load BPF program\n\nCaused by:\n    Unknown error 524 (os error 524)\n"
    assert "bpf_jit_enable=0" in only(log).explanation.reason


def test_a_kprobe_whose_function_is_not_named_says_no_more_than_that() -> None:
    why = only("bcc: Failed to attach BPF to kprobe\n").explanation
    assert why.reason.startswith("The kernel has no function of that name that a kprobe")


def test_a_map_with_a_name_may_be_one_for_a_later_kernel() -> None:
    call = "map_type=BPF_MAP_TYPE_HASH, key_size=4, value_size=8, max_entries=16, map_flags=0"
    log = "bpf(BPF_MAP_CREATE, {%s, map_name=%s}, 72) = -1 EINVAL (Invalid argument)\n"
    assert "older than 4.15" in only(log % (call, '"seen"')).explanation.reason
    assert "4.15" not in only(log % (call, '""')).explanation.reason


def test_a_summary_that_was_broken_into_lines_is_one() -> None:
    found = only(
        'error: starting operator "x": program f: load program: invalid argument: Unreleased \n'
        "reference id=5 alloc_insn=12 (30 line(s) omitted) \n"
    )
    assert found.explanation.id == "reference-leak"
    assert (found.line, found.program) == (1, "f")


def test_quotes_that_were_set_by_a_chat_are_quotes() -> None:
    found = only(
        "level=warning msg=\u201cProg section \u2018out6\u2019 rejected:"
        " Unknown error 524 (524)!\u201d\n"
    )
    assert found.explanation.id == "unsupported"
    assert "JIT" in found.explanation.reason


@pytest.mark.parametrize(
    "kind",
    ["005", "0x", "5" * 5000, "0x" + "f" * 6000, "\u0663", "\u00b2"],
    ids=["octal", "empty", "decimal", "hex", "arabic", "superscript"],
)
def test_a_number_that_is_none_of_the_kernels_is_no_bug(kind: str) -> None:
    """``make fuzz`` found the first one."""
    log = f"bpf(BPF_MAP_CREATE, {{map_type={kind} /* ? */, key_size=8}}, 72) = -1 EINVAL (x)\n"
    assert len(list(explain_log(io.BytesIO(log.encode())))) <= 1


@pytest.mark.parametrize("name", ["x;id>y", "x';id>y;'", "$(id>y)", "`id>y`", "--x;id>y"])
@pytest.mark.parametrize(
    "line",
    [
        "ERROR: specified module {} in probe kprobe:foo is not loaded",
        "error: map not found: /sys/fs/bpf/{}",
        "libbpf: prog 'p': attach target {} not found",
        "Unable to attach kprobe for {}",
        "Failed to attach probe: kprobe:{}.",
    ],
)
def test_a_log_puts_no_words_into_a_command(line: str, name: str) -> None:
    """People paste the commands of a suggestion into a shell."""
    told = explain_line(line.format(name))
    assert told is not None
    assert "id>y" not in told.suggestion
    same = explain_line(line.format("plain_name"))
    assert same is not None
    assert "plain_name" in same.suggestion


def test_the_texts_of_all_rules_take_their_words_from_one_place() -> None:
    """A text with a field is formatted only with values that a shell reads as one word."""
    folder = Path(load.__file__).parent
    calls = [
        ast.unparse(node)
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("suggestion.format_map", "step.format_map"))
    ]
    assert sorted(calls) == [
        "rule.suggestion.format_map(facts)",  # code of the verifier's rules, no commands
        "suggestion.format_map(facts.in_commands())",
    ]
