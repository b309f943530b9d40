# SPDX-License-Identifier: BSD-2-Clause
"""What loaders refuse by themselves, and bpftrace of a script."""

from __future__ import annotations

import io

import pytest

from retsnoop_py.load.explain import explain_log
from retsnoop_py.load.model import Explained


def only(text: str) -> Explained:
    found = list(explain_log(io.BytesIO(text.encode())))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("line", "id_", "word"),
    [
        ("ERROR: kfunc/kretfunc not available for your kernel version.", "no-trampoline", "BTF"),
        (
            "apply CO-RE relocations: bad magic number '[159 235 1 0]' in record at byte 0x0",
            "kernel-btf",
            "ELF file",
        ),
        (
            "x.bt:1:1-9: ERROR: iter:frobs not available for your kernel version.",
            "unsupported",
            "iter:frobs",
        ),
        ("x.bt:1:1-9: ERROR: Missing required kernel feature: frob", "unsupported", "frob"),
        (
            "x.bt:2:3: ERROR: Struct/union of type 'frob' does not contain a field named 'x'",
            "core-relocation",
            "member x",
        ),
        ("x.bt:2:3-9: ERROR: Unknown struct/union: 'struct frob'", "kernel-btf", "struct frob"),
        ("x.bt:2:3-9: ERROR: Unknown identifier: 'AF_FROB'", "compile", "AF_FROB"),
        ("x.bt:1:1-2: ERROR: syntax error, unexpected }", "compile", "unexpected }"),
        (
            'x.bt:1:1-2: ERROR: frob can not be used with "fentry" probes',
            "compile",
            "calls the kernel: frob can not",
        ),
        (
            "x.bt:1:1-2: ERROR: Possible attachment attempt in the middle of an instruction",
            "uprobe-target",
            "--unsafe",
        ),
        (
            "ERROR: Can't attach to 2000 probes because it exceeds the current limit of 512 probes",
            "loader-words",
            "BPFTRACE_MAX_PROBES",
        ),
        (
            "ERROR: specified module frob in probe fentry:frob:f is not loaded.",
            "module-missing",
            "modprobe frob",
        ),
        ("ERROR: usdt probe must specify at least path or pid to probe.", "usdt", "-p PID"),
        ("ERROR: Build hash mismatch! Is it another bpftrace?", "compile", "ahead of time"),
        ("ERROR: bpftrace only supports running as the root user.", "rights", "root alone"),
    ],
)
def test_what_bpftrace_refuses_is_told(line: str, id_: str, word: str) -> None:
    why = only(f"$ sudo bpftrace x.bt\n{line}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion
    assert ": :" not in why.reason


@pytest.mark.parametrize(
    ("lines", "id_", "word"),
    [
        # tc
        ("Map specification differs from pinned file!", "map-pinned", "pinned"),
        (" - Max elems:    7 (obj) != 9 (pin)", "map-pinned", "Max elems"),
        (
            "Prog section 'x' rejected: E2BIG!\n - Instructions: 5000 (904 over limit)",
            "program-size",
            "5000 instructions",
        ),
        ("Number BPF map symbols are not multiple of struct bpf_elf_map!", "map-definition", "tc"),
        ("No ELF library support compiled in.", "unsupported", "libelf"),
        ("Error creating map ELF section", "loader-words", "ELF section"),
        # libxdp
        ("libxdp: Not enough free slots in the dispatcher.", "attach-busy", "takes ten"),
        ("libxdp: XDP dispatcher attached in mode 2, requested 1", "attach-busy", "another mode"),
        (
            "libxdp: XDP dispatcher version 3 higher than supported 2",
            "xdp-dispatcher",
            "another release",
        ),
        ("No XDP program loaded on wan7", "attach-target-missing", "xdp-loader status"),
        ("Can't use zero-copy and skb mode together.", "attach-refused", "generic XDP"),
        (
            "Couldn't attach XDP program on iface 'wan7': No space left on device(-28)",
            "attach-busy",
            "no room",
        ),
        # cilium/ebpf
        (
            "loading ebpf: map m: spec and map not compatible: Flags: 1 changed to 2",
            "map-pinned",
            "earlier",
        ),
        ("loading collection: program f: unsatisfied map reference", "relocation", "a map that"),
        (
            "load kconfig: neither /boot/config-6.0 nor /proc/config.gz provide a kconfig: cannot",
            "kconfig",
            "CONFIG_IKCONFIG_PROC",
        ),
        ("loading ebpf: program f: token insufficiently privileged", "rights", "delegate_cmds"),
        ("loading ebpf: program f: instruction poisoned by CO-RE", "core-relocation", "Guard"),
        ("ebpf: invalid program type Kprobe, expected Tracing", "attach-refused", "type Tracing"),
        (
            "attach uprobe: the given file is not an executable or a shared object",
            "uprobe-target",
            "or wrapper",
        ),
        ("loading ebpf: map m: value_size must be 0 or 4", "map-definition", "sizes"),
        (
            "loading ebpf: struct_ops: unmatched member type a != b",
            "struct-ops-member",
            "unmatched",
        ),
        ("panic: ebpf: section kprobe/f: no symbols", "elf", "newer or an older clang"),
        ("loading ebpf: type id 9: unknown kind: 21", "object-btf", "later release"),
        # aya
        ("Error: eBPF map: invalid value size 16, expected 24", "map-entry", "16, where 24"),
        ("Error: eBPF: the program is already loaded", "loader-words", "loads or attaches twice"),
    ],
)
def test_what_a_loader_refuses_by_itself_is_told(lines: str, id_: str, word: str) -> None:
    why = only(f"loading bpf\n{lines}\n").explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion
    assert ": :" not in why.reason


@pytest.mark.parametrize("level", ["level=fatal msg=", "FATA[0003] ", "Error: ", "panic: "])
def test_the_level_of_a_line_says_that_it_failed(level: str) -> None:
    text = (
        '"loading bpf: frobs of another shape"'
        if level.endswith("=")
        else "loading bpf: frobs of another shape"
    )
    assert "frobs of another shape" in only(f"{level}{text}\n").explanation.reason


def test_what_is_there_already_and_is_no_hook_is_not_said_to_be_attached() -> None:
    why = only("bpf agent failed: pid file /run/frob.pid exists already\n").explanation
    assert "attached" not in why.reason
    assert "another instance" in why.reason
    why = only("bpf agent failed: the hook is taken already\n").explanation
    assert why.id == "attach-busy"


@pytest.mark.parametrize(
    ("text", "id_", "word"),
    [
        (
            "pwr: failed to attach multi kprobes: invalid argument\n",
            "kprobe-target",
            "kprobe.multi came with 5.18",
        ),
        (
            "x: cannot attach bpf object to filter egress: invalid argument\n",
            "attach-refused",
            "cls_bpf",
        ),
        (
            "cannot attach frob with options [-DSIZE=9]: bpf: <nil>\n",
            "compile",
            "bcc compiles the program",
        ),
        (
            "libbpf: prog 'f': BPF program load failed: -524\n",
            "unsupported",
            "bpf_jit_harden",
        ),
        (
            (
                "libbpf: Failed to bump RLIMIT_MEMLOCK (err = -1), you might need it\n"
                "libbpf: failed to load object 'x'\nERROR: failed to load prog: EPERM\n"
            ),
            "rights",
            "a capability is missing",
        ),
        (
            (
                "No XDP program loaded on device\n"
                "libbpf: prog 'f': failed to attach to xdp: Device or resource busy\n"
            ),
            "attach-busy",
            "attached there",
        ),
        (
            (
                "bpf: failed to load module: stat /opt/x.bpf.o: no such file or directory\n"
                "bpf: failed to start: nothing left to try\n"
            ),
            "file-missing",
            "does not exist",
        ),
        (
            "Error: failed to load BTF from /sys/kernel/btf/vmlinux: Unknown error -4001\n",
            "kernel-btf",
            "takes /sys/kernel/btf/vmlinux for an ELF file",
        ),
        (
            "libbpf: failed to find skeleton map '.rodata.frob'\nFailed to open BPF object\n",
            "name-missing",
            "gen skeleton",
        ),
        ("libbpf: map 'm': error reusing pinned map\n", "map-pinned", "at m that"),
        (
            (
                "# tc filter add dev wan7 ingress bpf da obj x.o\n"
                "Log buffer too small to dump verifier log 99 bytes!\nUnable to load\n"
            ),
            "log-buffer",
            "too complex",
        ),
        (
            "bpf: clang-9: error: unable to execute command: Killed\n",
            "memory",
            "memory is short",
        ),
        (
            "bpf: unable to load module (frobopen.o). Your kernel might not be compatible.\n",
            "loader-words",
            "blames the kernel",
        ),
        (
            "loading bpf: program f: load program: invalid argument: fro>\n",
            "log-cut",
            "does not include the reason",
        ),
        ("libbpf: failed to parse target BTF: -5\n", "kernel-btf", "is a directory"),
        ("bpf: open executable: file /lib/libfrob.so is not executable\n", "uprobe-target", "0644"),
        ("load_progs failed\ndebuginfo_offset failed\n", "kernel-btf", "debug information"),
        ("bpf: read_available_filter_functions failed\n", "tracefs", "mount -t tracefs"),
        (
            'bpf: error="open /hostproc/77/maps: permission denied"\n',
            "rights",
            "CAP_SYS_PTRACE",
        ),
        (
            (
                "libbpf: Kernel error message: Invalid handle\ntc: hook destroy failed\n"
                "libbpf: specified path /opt/x is not on BPF FS\n"
            ),
            "pin",
            "BPF file system",
        ),
        ("bpf agent starts\nterminate called after throwing\n", "crashed", "bug in the loader"),
        (
            "frob[77]: ERROR: bpf: frobs are not attached\n",
            "loader-words",
            "frobs are not attached",
        ),
    ],
)
def test_what_stands_beside_is_not_what_failed(text: str, id_: str, word: str) -> None:
    why = only(text).explanation
    assert why.id == id_
    assert word in why.reason + why.suggestion


def test_an_object_whose_name_ends_like_a_word_of_elf_is_one() -> None:
    text = (
        "BPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns\n"
        "-- END PROG LOAD LOG --\nlibbpf: failed to load object 'frobsystem_bpf'\n"
    )
    assert only(text).explanation.id == "too-large"


def test_where_a_process_crashed_is_no_errno() -> None:
    found = only("EBPF X[7]: segfault at 58 ip 44 sp b6 error 4 in bpfd[423000+2d000]\n")
    assert (found.explanation.id, found.errno) == ("crashed", "")


def test_of_a_probe_in_a_module_the_function_is_named() -> None:
    text = "$ bpftrace x\nERROR: Unable to attach probe: kprobe:frobmod:frob_f.\n"
    assert "functions '*frob_f*'" in only(text).explanation.suggestion


@pytest.mark.parametrize(
    ("text", "id_", "word"),
    [
        (
            'Error: Aborted, message: "error parsing BPF object", details: []\n',
            "elf",
            "section name",
        ),
        (
            "bpftool: Error: object file doesn't contain any bpf program\n",
            "elf",
            "No program in it",
        ),
        ("libbpf: failed to find BTF for extern 'htonl': -2\n", "relocation", "bpf_htons()"),
        (
            "libbpf: prog 'frob': relo #3: target candidate search failed for [7] union : -22\n",
            "core-relocation",
            "that has no name",
        ),
        (
            "ERROR: Could not resolve symbol frob_it. Use BPFTRACE_VMLINUX env variable\n",
            "kprobe-target",
            "offset",
        ),
        ("Error: frob: invalid BPF filesystem path: /run/bpf\n", "pin", ": /run/bpf"),
        (
            'level=warning msg="BPF root is not a BPF filesystem (0x1 != 0x2)"\n',
            "pin",
            "no BPF file",
        ),
        (
            (
                "/virtual/main.c:7:1: error: map not found: /sys/fs/bpf/frobs\n1 error generated.\n"
                "Exception: Failed to compile BPF module <text>\n"
            ),
            "pin",
            "pinned at /sys/fs/bpf/frobs",
        ),
        (
            "cni: failed to set xdp to dev p0: numerical result out of range\n",
            "attach-refused",
            "MTU",
        ),
        (
            (
                "Error: netlink error while attaching ebpf frob to tc\n"
                "Caused by:\n No such device (os error 19)\n"
            ),
            "interface-missing",
            "no interface of that name",
        ),
        (
            "RTNETLINK answers: Invalid argument\nWe have an error talking to the kernel\n",
            "attach-refused",
            "cls_bpf",
        ),
        ("libbpf: failed to pin map: Operation not permitted\n", "rights", "no BPF file system"),
        (
            (
                'cannot read tracepoint id "/sys/kernel/tracing/events/syscalls/sys_enter_frob/id":'
                " open: no such file or directory\n"
            ),
            "tracepoint-missing",
            "no tracepoint syscalls/sys_enter_frob,",
        ),
        ("libbpf: map 'frobs': unsupported map linkage static.\n", "map-definition", "static away"),
        (
            (
                "failed to attach perf module with options [-DN=4]: failed to load f: error loading"
                " BPF program: permission denied\nperf_event_open: No such file or directory\n"
                "Successfully load eBPF module\n"
            ),
            "perf-event",
            "hardware counters",
        ),
        ("Error: eBPF not supported: OCI runtime error\n", "unsupported", "crun was built"),
        ("Error: crun: bpf create ``: Invalid argument\n", "no-cgroup-bpf", "CONFIG_CGROUP_BPF"),
        ("building: bpf create ``: Bad address\n: exit status 1\n", "fault", "32-bit runtime"),
        (
            "frob: eBPF module failed: couldn't find asset open user/frob.o: file does not exist\n",
            "file-missing",
            "contains its objects",
        ),
        ("libbpf: sec 'tc': failed to find program symbol at offset 8\n", "elf", "llvm-strip"),
        ("Error: failed to pin program kprobe/frob_it\n", "pin", "5.15"),
        (
            "WARNING: bpftool not found for kernel 6.6.0-frob\n",
            "file-missing",
            "Ubuntu's script",
        ),
    ],
)
def test_what_the_fourth_to_the_ninth_lot_showed(text: str, id_: str, word: str) -> None:
    why = only(text).explanation
    assert why.id == id_
    assert word in why.title + why.reason + why.suggestion


def test_a_context_that_the_kernel_has_no_btf_for_is_no_matter_of_its_release() -> None:
    text = (
        "libbpf: prog 'frobs': -- BEGIN PROG LOAD LOG --\nValidating frob0() func#1...\n"
        "btf_vmlinux is malformed\nArg#0 type PTR in frob0() is not supported yet.\n"
        "processed 0 insns (limit 1000000)\n-- END PROG LOAD LOG --\n"
    )
    why = only(text).explanation
    assert why.id == "kernel-btf"
    assert "Arg#0" in why.words[0]
    assert only(text.replace("btf_vmlinux is malformed\n", "")).explanation.id == "global-argument"


def test_a_reference_to_data_that_an_old_libbpf_does_not_relocate_is_told() -> None:
    line = "Program 'kprobe/f' contains non-map related relo data pointing to section 7"
    why = only(f"libbpf: {line}\nError: failed to open object file\n").explanation
    assert why.id == "elf"
    assert why.words == (line,)
    assert "section 7" in why.reason
    assert ".rodata" in why.reason
