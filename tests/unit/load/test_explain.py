# SPDX-License-Identifier: BSD-2-Clause
"""Logs of real kernels and loaders, from 4.x to 7.3, and their explanations."""

from __future__ import annotations

import errno as errno_numbers
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retsnoop_py.cli import main as entry
from retsnoop_py.load.explain import explain_log
from retsnoop_py.load.model import Explained
from retsnoop_py.load.read_log import segments

#: Kernel messages, each with the id of the reason and the names in the explanation.
MESSAGES = [
    # in the words of 5.10 and 6.1
    (
        "map_value pointer offset -536870912 is not allowed",
        "pointer-arithmetic-unbounded",
        "map_value",
    ),
    ("invalid read from stack R1 off=-600 size=8", "stack-bounds", "8 bytes at -600"),
    (
        "invalid variable-offset read from stack R2 var_off=(0x0; 0xff) off=-16 size=1",
        "stack-bounds",
        "1 byte",
    ),
    ("invalid stack off=-520 size=8", "stack-bounds", "8 bytes at -520"),
    ("invalid stack off=8 size=8", "stack-bounds", "beyond the buffer"),
    ("bpf_spin_lock cannot be accessed directly by load/store", "special-field", "bpf_spin_lock"),
    ("insn 6910 cannot be patched due to 16-bit range", "jump-too-far", "16 bits"),
    ("div by zero", "operand", "constant 0"),
    ("frame pointer is read only", "operand", "frame"),
    ("cannot return stack pointer to the caller", "operand", "the frame's address"),
    ("LD_ABS is only allowed in functions that return 'int'.", "ld-abs", "(void)"),
    (
        "At program exit the register R0 has value (0x7b; 0x0) should have been 0 or 1",
        "result-range",
        "0 or 1",
    ),
    ("R0 not a scalar value (ptr_)", "result-range", "return"),
    ("cannot find address for kernel function bpf_foo", "kfunc-missing", "bpf_foo"),
    ("calling kernel function is not supported without CONFIG_DEBUG_INFO_BTF", "kernel-btf", "BTF"),
    ("ldimm64 failed to find the address for kernel symbol 'x'.", "ksym-missing", "'x'"),
    ("metadata kfuncs require device-bound program", "device-bound", "one device"),
    ("Invalid format string", "format", "format"),
    ("string is not zero-terminated", "format", ".rodata"),
    ("[12] STRUCT s size=8 vlen=2 Invalid member", "btf-refused", "Invalid member"),
    ("[21] Invalid kind:14", "btf-refused", "kind:14"),
    ("R4 invalid zero-sized read: u64=[0,191]", "size-unbounded", "0 to 191"),
    ("waitq type_id=109 bits_offset=6016 Invalid member", "btf-refused", "Invalid member"),
    ("fd 0 is not pointing to valid bpf_map", "unresolved-map", "descriptor"),
    ("R2 invalid sock access off=100 size=4", "context-access", "sock access"),
    ("misaligned context access off (0x0; 0x0)+0+1 size 4", "misaligned", "4 bytes"),
    (
        "bpf_probe_read_kernel() may write into memory pointed by R1 type=rdonly_mem",
        "read-only",
        "write",
    ),
    (
        "'struct bpf_map' access is allowed only to CAP_PERFMON and CAP_SYS_ADMIN",
        "unprivileged",
        "CAP",
    ),
    ("direct access to user is disallowed", "btf-access", "user"),
    ("cannot pass in iter at an offset=-64", "iterator", "offset"),
    ("held lock and object are not in the same allocation", "lock", "allocation"),
    ("The function foo has 13 arguments. Too many.", "attach-target", "13 arguments"),
    ("Subprog f doesn't exist", "attach-target", "Subprog f"),
    ("Extension program frobs the packet, while original does not", "attach-target", "it frobs"),
    ("R11 is invalid", "operand", "R11"),
    ("unknown opcode e5", "instruction-unknown", "may_goto, which came with Linux 6.9"),
    ("unknown opcode d7", "instruction-unknown", "byte swap (-mcpu=v4), which came with Linux 6.6"),
    ("unknown opcode 8f", "instruction-unknown", "does not support"),
    ("the call stack of 9 frames is too deep", "stack-size", "9 deep"),
    ("invalid read from stack R2 off=-2 size=4", "stack-bounds", "4 bytes at -2"),
    (
        "At callback return the register R0 has smin=5 smax=5 should have been in [0, 1]",
        "result-range",
        "A function that is called back may return only 0 to 1, but it returns 5 here",
    ),
    (
        "At program exit the register R0 has value (0x0; 0xfff) should have been in (0x0; 0x1)",
        "result-range",
        "returns 0 to 4,095, as far as the verifier knows",
    ),
    ("R1 is scalar expected STRUCT task_struct", "argument-type", "it takes STRUCT task_struct"),
    ("no write support to tcp_sock at off 0", "btf-access", "tcp_sock"),
    ("LSM programs must have a GPL compatible license", "helper-gpl", "of type LSM"),
    ("vfs_read() is not modifiable", "attach-target", "error_injection"),
    ("BPF_LD_[ABS|IND] cannot be mixed with socket references", "ld-abs", "acquired"),
    ("at the time of BPF_LD_ABS|IND R6 != pointer to skb", "ld-abs", "R6"),
    ("BPF_XADD stores into R1 ctx is not allowed", "read-only", "BPF_XADD"),
    ("read from map forbidden, value_size=4 off=0 size=4", "read-only", "read from map"),
    ("R2 unbounded size, use 'var &= const' or 'if (var < const)'", "size-unbounded", "R2"),
    ("JIT doesn't support bpf-to-bpf calls", "jit", "bpf-to-bpf"),
    ("Writes through BTF pointers are not allowed", "btf-access", "Writes"),
    ("struct task_struct doesn't have field at offset 8", "btf-access", "task_struct"),
    ("caller passes invalid args into func#1", "global-argument", "static"),
    (
        "Global function f() doesn't return scalar. Only those are supported.",
        "global-result",
        "f()",
    ),
    ("arg0 in foo() is not a pointer to context", "global-argument", "static"),
    ("invalid access to flow keys off=8 size=8", "context-access", "flow keys"),
    ("variable ctx access var_off=(0x0; 0xff) disallowed", "context-access", "var_off"),
    ("direct value offset of 8 is not allowed", "map-bounds", "index"),
    ("R1 must point to kernel BTF", "argument-type", "kernel BTF"),
    ("cannot update sockmap in this context", "map-use", "sockmap"),
    ("trace type BPF program uses run-time allocation", "map-use", "run-time"),
    ("tracing progs must use BPF_PROG_TYPE_TRACING", "attach-target", "TRACING"),
    ("invalid size of register fill", "stack-pointer", "register fill"),
    ("cannot spill pointers to stack into stack frame of the caller", "stack-pointer", "8 bytes"),
    ("helper access to the packet is not allowed", "packet-helper", "packet memory"),
    (
        "The function security_path_chown arg1 type STRUCT is unsupported.",
        "attach-target",
        "security_path_chown",
    ),
    ("invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)", "packet-bounds", "offset 12"),
    ("R1 offset is outside of the packet", "packet-bounds", "data_end"),
    ("R0 invalid mem access 'map_value_or_null'", "pointer-or-null", "NULL"),
    ("R6 invalid mem access 'ptr_sock_or_null'", "pointer-or-null", "NULL"),
    ("R1 type=map_value_or_null expected=fp", "pointer-or-null", "NULL"),
    ("R0 invalid mem access 'inv'", "not-a-pointer", "bpf_probe_read_kernel"),
    ("R0 invalid mem access 'scalar'", "not-a-pointer", "bpf_probe_read_kernel"),
    ("R8 invalid mem access 'ptr_'", "pointer-kind", "R8"),
    ("R3 !read_ok", "register-unset", "R3"),
    ("R2 max value is outside of the allowed memory range", "map-bounds", "upper side"),
    ("R2 min value is outside of the array range", "map-bounds", "lower side"),
    ("invalid access to map value, value_size=64 off=259 size=1", "map-bounds", "259 of 64"),
    (
        "R2 unbounded memory access, use 'var &= const' or 'if (var < const)'",
        "size-unbounded",
        "R2 is a size",
    ),
    (
        "R2 min value is negative, either use unsigned or 'var &= const'",
        "size-unbounded",
        "second argument",
    ),
    (
        "R2 unbounded memory access, make sure to bounds check any such access",
        "map-bounds",
        "upper side",
    ),
    ("invalid indirect read from stack off -16+1 size 16", "stack-uninitialised", "byte 1"),
    ("invalid indirect read from stack R2 off -16+1 size 16", "stack-uninitialised", "padding"),
    ("invalid stack type R1 off=-16 access_size=24", "stack-bounds", "stack"),
    ("invalid write to stack R1 off=-16 size=24", "stack-bounds", "24 bytes at -16"),
    (
        "math between map_value pointer and register with unbounded min value is not allowed",
        "pointer-arithmetic-unbounded",
        "map_value",
    ),
    ("invalid bpf_context access off=100 size=4", "context-access", "offset 100"),
    ("R1 type=fp expected=map_ptr", "argument-type", "takes map_ptr"),
    ("R1 type=inv expected=map_ptr", "not-a-pointer", "R1"),
    (
        "invalid func unknown#182",
        "helper-unknown",
        "bpf_strncmp(), helper 182, came with Linux 5.17",
    ),
    ("unknown func bpf_get_current_comm#16", "helper-unknown", "not for programs of this type"),
    (
        "program of this type cannot use helper bpf_get_current_comm#16",
        "helper-unknown",
        "not for programs of this type",
    ),
    ("invalid func unknown#195896080", "core-relocation", "bpf_core_field_exists"),
    ("<invalid CO-RE relocation>", "core-relocation", "bpf_core_field_exists"),
    (
        "calling kernel function bpf_task_acquire is not allowed",
        "kfunc-missing",
        "bpf_task_acquire",
    ),
    (
        "cannot call GPL-restricted function from non-GPL compatible program",
        "helper-gpl",
        "LICENSE",
    ),
    ("cannot call GPL only function from proprietary program", "helper-gpl", "LICENSE"),
    ("BPF program is too large. Processed 1000001 insn", "too-large", "million instructions"),
    ("The sequence of 8193 jumps is too complex.", "too-many-jumps", "8193 branches"),
    ("back-edge from insn 12 to 4", "endless-loop", "before 5.3"),
    ("infinite loop detected at insn 9", "endless-loop", "ever ends"),
    ("combined stack size of 2 calls is 640. Too large", "stack-size", "640 bytes"),
    ("last insn is not an exit or jmp", "no-exit", "missing return"),
    ("unreachable insn 2", "unreachable", "instruction 2"),
    (
        "At program exit the register R0 has value (0x7; 0x0) should have been in (0x0; 0x3)",
        "result-range",
        "may return only 0 to 3, but it returns 7 here",
    ),
    (
        "At program exit the register R0 has smin=7 smax=7 should have been in [0, 3]",
        "result-range",
        "0 to 3, but it returns 7 here",
    ),
    ("Unreleased reference id=2 alloc_insn=4", "reference-leak", "without releasing"),
    ("Arg#0 type PTR in global_sum() is not supported yet.", "global-argument", "5.12"),
    ("R1 pointer arithmetic on ctx prohibited, null-check it first", "pointer-arithmetic", "ctx"),
    ("dereference of modified ctx ptr R2 off=16 disallowed", "pointer-arithmetic", "ctx"),
    ("misaligned packet access off (0x0; 0x0)+14+2 size 4", "misaligned", "4 bytes"),
    ("unknown opcode db", "instruction-unknown", "5.12"),
    ("jump out of range from insn 1 to 2", "jump-outside", "loader"),
    ("BPF map 'events' is referenced but wasn't created", "unresolved-map", "'events'"),
    ("helper bpf_copy_from_user might sleep in non-sleepable prog", "sleepable", "sleep"),
    # what kernels follow since 5.17 and later
    ("R1 must be referenced or trusted", "trusted-pointer", "sure to live on"),
    ("R1 must be a rcu pointer", "trusted-pointer", "rcu"),
    (
        "release kernel function bpf_task_release expects refcounted PTR_TO_BTF_ID",
        "trusted-pointer",
        "bpf_task_release",
    ),
    ("Expected an initialized dynptr as arg #1", "dynptr", "arg #1"),
    ("cannot overwrite referenced dynptr", "dynptr", "overwrite"),
    ("expected an initialized iter_num as arg #0", "iterator", "iter_num"),
    ("map 'm' has to have BTF in order to use bpf_spin_lock", "map-use", "BTF"),
    ("function calls are not allowed while holding a lock", "lock", "holding"),
    ("bpf_rcu_read_unlock is missing", "region", "unlock"),
    (
        "global function calls are not allowed with preemption disabled,",
        "region",
        "preemption",
    ),
    ("sleepable helper bpf_copy_from_user#148 in rcu_read_lock region", "sleepable", "region"),
    (
        "kernel func bpf_copy_from_user_str is sleepable within rcu_read_lock region",
        "sleepable",
        "region",
    ),
    ("store to referenced kptr disallowed", "kptr", "store"),
    ("kptr access misaligned expected=8 off=4", "kptr", "misaligned"),
    ("operation on bpf_rb_root expects arg#1 bpf_rb_node at offset=0", "collection", "bpf_rb_node"),
    (
        "addr_space_cast insn can only be used in a program that has an associated arena",
        "arena",
        "associated",
    ),
    ("tracing progs cannot use bpf_timer yet", "timer", "tracing"),
    ("exception cb cannot return void", "callback", "void"),
    ("same insn cannot be used with different pointers", "two-kinds", "different"),
    ("write into map forbidden, value_size=4 off=0 size=4", "read-only", "forbidden"),
    ("R0 leaks addr as return value", "unprivileged", "CAP_PERFMON"),
    (
        "R1 tried to add from different maps, paths or scalars, prohibited for !root",
        "unprivileged",
        "different maps",
    ),
    ("R1 tried to subtract pointer from scalar", "pointer-arithmetic", "pointer"),
    ("R1 subtraction from stack pointer prohibited", "pointer-arithmetic", "pointer"),
    ("perf_event programs can only use preallocated hash map", "map-use", "preallocated"),
    (
        "tail_calls are not allowed when call stack of previous frames is 264 bytes. Too large",
        "stack-size",
        "264",
    ),
    ("Invalid line_info[3].insn_off:9 (prev_offset:9 prog->len:12)", "function-table", "line_info"),
    ("JIT does not support calling kfunc bpf_foo#7", "jit", "bpf_foo"),
    ("verifier bug: REG INVARIANTS VIOLATION (false_reg1)", "verifier-bug", "at odds with itself"),
    ("signed program cannot bind any BTF", "signature", "BTF"),
    ("attach_btf_id 12 points to wrong type name foo", "attach-target", "foo"),
    ("recursive call from f() to g()", "recursion", "f() to g()"),
    ("The total number of btfs per program has reached the limit of 64", "too-many-parts", "64"),
]
#: An instruction in front, in the two ways that kernels write it.
OLD = "0: (85) call bpf_probe_read#4\n R0=inv(id=0) R2=inv(id=0) R10=fp0\n"
NEW = "0: R1=ctx() R10=fp0\n0: (85) call bpf_probe_read#4        ; R0_w=scalar()\n"
END = "processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0\n"

#: Lines of loaders without a verifier log.
LOADERS = [
    # an operation and its errno, in words that no loader need use
    ("Error creating a umem of size 4096: Unknown error -97", "attach-unsupported", "EAFNOSUPPORT"),
    ("can't create /x/tracing/kprobe_events: nonexistent directory", "tracefs", "ENOENT"),
    ("read /x/tracing/available_filter_functions: No such file or directory", "tracefs", "ENOENT"),
    ("Unable create map base directory: mkdir /sys/fs/bpf/tc: no such file", "pin", "ENOENT"),
    ('volume "bpf-maps" : mkdir /sys/fs/bpf: operation not permitted', "pin", "EPERM"),
    ("BPF filesystem: multiple mount points detected at /sys/fs/bpf", "pin", ""),
    ("prog 'profile': invalid perf event FD -1", "perf-event", ""),
    ("Fail to set up performance monitor on a CPU/Core", "perf-event", ""),
    ("devices.c:supported:535 - The bpf syscall is not available", "no-bpf", ""),
    ("Cannot load eBPF program: Invalid system call number", "no-bpf", "ENOSYS"),
    ("error loading kprobe f: prog cannot be nil: invalid input", "name-missing", ""),
    ("ERROR: failed to create map: '@n': Permission denied", "rights", "EACCES"),
    ("load X: stat /sys/fs/bpf/x/xdp_y: no such file or directory", "pin", "ENOENT"),
    ("bpf agent: open /var/log/a.log: permission denied", "rights", "EACCES"),
    ("Kernel not support, error:Config not found,  item:CONFIG_BPF.", "kconfig", ""),
    ("failed to get symbol a.(*B).C: no symbols found", "uprobe-target", ""),
    ("Could not resolve symbol: /bin/sh:readline", "uprobe-target", ""),
    ("Could not resolve symbol: /proc/self/exe:BEGIN_trigger", "uprobe-target", ""),
    ("iptables: Incompatible with this kernel.", "unsupported", ""),
    ("Unable to load prog for endpoint: exit status 1, bpf", "loader-words", ""),
    ("bpf: No space left on device", "log-buffer", "ENOSPC"),
    ("Could not detach XDP program: No such file or directory", "attach-target-missing", "ENOENT"),
    ("failed to freeze map conf: device or resource busy", "map-entry", "EBUSY"),
    ("deleting from map conf: key does not exist", "map-entry", ""),
    ("unable to create dir /sys/fs/bpf/x: read-only file system", "pin", "EROFS"),
    ("bpf obj get (/sys/fs/bpf/x/y): No such file or directory", "pin", "ENOENT"),
    ("open /sys/kernel/tracing/trace_pipe: device or resource busy", "attach-busy", "EBUSY"),
    ("failed to parse kallsyms: permission denied", "rights", "EACCES"),
    ("error creating event on CPU 4: No such device", "perf-event", "ENODEV"),
    ("ioctl(PERF_EVENT_IOC_SET_BPF): Invalid argument", "attach-refused", "EINVAL"),
    ("failed to open event raw_syscalls/sys_enter. Exiting", "tracepoint-missing", ""),
    ("can't query bpf programs attached to /x: No such device or address", "unsupported", "ENXIO"),
    ("Error: Specified qdisc kind is unknown.", "qdisc-missing", ""),
    ('exec: "clang": executable file not found in $PATH', "file-missing", ""),
    ("this program requires kernel version 5.8 or newer", "unsupported", ""),
    ("kernel not compiled with CONFIG_FTRACE_SYSCALLS", "kconfig", ""),
    ("eBPF is not supported on this kernel", "unsupported", ""),
    ("You do not have permission to load eBPF programs", "rights", ""),
    ("failed to validate module [m] BTF: -22", "kernel-btf", "EINVAL"),
    ("Lockdown: tool: use of bpf to read kernel RAM is restricted", "rights", ""),
    ("loadPrograms() failed: map '' doesn't exist", "relocation", ""),
    ("loader: not an ELF file", "elf", ""),
    ("cannot attach kprobe, Resource busy", "attach-busy", "EBUSY"),
    ("could not enable uprobe probe_1: permission denied", "rights", "EACCES"),
    ("failed to open perf event for cpu 3: too many open files", "memory", "EMFILE"),
    (
        "hooking tracepoint sched:f failed: no such file or directory",
        "tracepoint-missing",
        "ENOENT",
    ),
    ("none of the required functions for F is found", "kprobe-target", ""),
    ("xsk_socket__create() of q 0 failed: Device or resource busy", "attach-busy", "EBUSY"),
    ("xsk_umem__create: error -95: Operation not supported", "attach-unsupported", "EOPNOTSUPP"),
    ("can't attach program (BPF_CGROUP_DEVICE): invalid argument", "attach-refused", "EINVAL"),
    ("unable to attach to cgroup /x: not a directory", "cgroup-missing", "ENOTDIR"),
    ("adding tc filter to eth7: no such device", "interface-missing", "ENODEV"),
    ("failed to update map conf: argument list too long", "map-entry", "E2BIG"),
    ("can't insert element into BPF map: Bad file descriptor", "descriptor", "EBADF"),
    ("can't create map: Permission denied", "rights", "EACCES"),
    ("setrlimit(RLIMIT_MEMLOCK): Operation not permitted", "rights", "EPERM"),
    ("creating perf event reader: too many open files", "memory", "EMFILE"),
    ("BPF test run failed: Unknown error 524", "test-run", "ENOTSUPP"),
    ("bpfGetFdProgId failed, ret: -1 [22]", "unsupported", "EINVAL"),
    ("mounting bpffs at /sys/fs/bpf: operation not permitted", "rights", "EPERM"),
    ("failed to open uprobe_events file: -2", "tracefs", "ENOENT"),
    ("loading bpf object x.o: failed to load BPF object: no such process", "kernel-btf", "ESRCH"),
    ('field F: missing program "kprobe__f"', "name-missing", ""),
    (
        "libbpf: prog 'xdp_pass': BPF program load failed: Invalid argument",
        "xdp-dispatcher",
        "EINVAL",
    ),
    ('error while loading "kprobe/f" (invalid argument):', "invalid", "EINVAL"),
    ("nlmsg error Operation not supported", "attach-unsupported", "EOPNOTSUPP"),
    ("Error: virtio_net: XDP expects header/data in single page", "attach-refused", ""),
    (
        "failed to set xdp to dev eth0, err is numerical result out of range",
        "attach-refused",
        "ERANGE",
    ),
    ("Runtime error: PERF_EVENT_IOC_SET_BPF: Errno 17.", "attach-busy", "EEXIST"),
    ("libbpf: kernel doesn't support global data", "global-data", ""),
    (
        "failed to fetch necessary BTF for CO-RE: Operation not supported",
        "kernel-btf",
        "EOPNOTSUPP",
    ),
    ("Error: ParseError(Reloc)", "elf", ""),
    ("GoTLS module initialization failed. error:no symbol section", "uprobe-target", ""),
    (
        "runc: bpf_prog_query(BPF_CGROUP_DEVICE) failed: function not implemented",
        "no-bpf",
        "ENOSYS",
    ),
    ("bpf-foreign: Failed to create foreign BPF program: Permission denied", "rights", "EACCES"),
    ('Error: unknown capability "CAP_BPF" to add', "rights", ""),
    ("map filter_map: load pinned map: permission denied", "pin", "EACCES"),
    ("cannot load program connect4: program type is unspecified", "section-unknown", ""),
    ("libbpf: failed to open ./test_xdp.o: No such file or directory", "file-missing", "ENOENT"),
    ("Error: Tail call map owned by prog type 3, but prog type is 6!", "map-use", ""),
    ("perf_event_open: No such file or directory", "perf-event", "ENOENT"),
    (
        "failed to load sched_switch: error loading BPF program: permission denied",
        "refused",
        "EACCES",
    ),
    ("Could not attach with DRV/native mode (Invalid argument)(-22).", "attach-refused", "EINVAL"),
    ("Error: failed to attach program foo: permission denied", "rights", "EACCES"),
    ("ERROR: Error attaching probe: 'kprobe:tnet_csk_accept'", "kprobe-target", ""),
    ("ERROR: Unable to attach probe: uprobe:/bin/bash:readlin.", "uprobe-target", ""),
    ("ERROR: Error attaching probe: kfunc:nf_tables:nft_trans_alloc_gfp", "attach-hook", ""),
    ("No probes to attach", "attach-target-missing", ""),
    (
        "ERROR: Could not resolve symbol pagecache_get_page. Use BPFTRACE_VMLINUX",
        "kprobe-target",
        "",
    ),
    ("libbpf: Netlink-based XDP prog detected, please unload it", "attach-busy", ""),
    ("libbpf: sec 'xdp_filter': failed to find program symbol at offset 0", "elf", ""),
    ("libbpf: Unsupported BTF_KIND:19", "kernel-btf", ""),
    ("Couldn't pin link FD at /sys/fs/bpf/x: No such file or directory", "pin", "ENOENT"),
    ("couldn't find program spec foo: no matching spec for bpf", "name-missing", ""),
    ("Stack size is too large. Try moving some scratch variables into maps", "stack-size", ""),
    (
        "libxdp: Failed to attach program to dispatcher: Operation not supported",
        "xdp-dispatcher",
        "EOPNOTSUPP",
    ),
    ("libxdp: Couldn't find a BPF file with name xdp-dispatcher.o", "xdp-dispatcher", ""),
    ("libbpf: elf: failed to open foo.bpf.o: No such file or directory", "file-missing", "ENOENT"),
    (
        "E0212 21:58:01.396488  1322 BpfLoader.cpp:97] Can't find prog with name: xdp-balancer",
        "name-missing",
        "",
    ),
    ("src/trace.c:1300:25: error: expected ')'", "compile", ""),
    (
        "ERROR: Error: Failed to load program, verification log buffer not big enough",
        "log-buffer",
        "",
    ),
    (
        "using replacement map .bss: Flags: 1024 changed to 0: map spec is incompatible",
        "map-replaced",
        "",
    ),
    ("Failed to attach struct_op", "struct-ops-refused", ""),
    ("libbpf: ringbuf: failed to mmap consumer page for map fd=3: -1", "buffer", "EPERM"),
    ("attach cgroup: cgroup2 not mounted", "cgroup-missing", ""),
    (
        "create_probe_event: open(/sys/kernel/tracing/kprobe_events): No such file or directory",
        "tracefs",
        "ENOENT",
    ),
    (
        "write: write /sys/kernel/debug/tracing/kprobe_events: device or resource busy",
        "attach-busy",
        "EBUSY",
    ),
    (
        "open /sys/kernel/tracing/kprobe_events: permission denied",
        "rights",
        "EACCES",
    ),
    ("Error: Unable to load simple LSM BPF program", "lsm-missing", ""),
    (
        "libbpf: extern (func ksym) 'scx_dsq': func_proto [1864] incompatible with x [6]",
        "kfunc-missing",
        "",
    ),
    (
        "libbpf: prog 'f': failed to create uprobe '/a:0x75' perf event: -524",
        "uprobe-target",
        "ENOTSUPP",
    ),
    (
        "libbpf: failed to create map (name: 'calico_v4'): Permission denied(-13)",
        "rights",
        "EACCES",
    ),
    ("map conns: map create: operation not supported", "unsupported", "EOPNOTSUPP"),
    ("error: could not open bpf map: Argument list too long", "map-too-large", "E2BIG"),
    ("libbpf: prog 'f': BPF program load failed: -E2BIG", "attributes-newer", "E2BIG"),
    ("map rb: map create: RingBuf not supported (requires >= v5.8)", "map-type-unsupported", ""),
    ("bpf_link_kprobe_multi not supported (requires >= v5.18)", "unsupported", ""),
    (
        "program x: load program: invalid argument: : (truncated, 896 line(s) omitted)",
        "log-cut",
        "EINVAL",
    ),
    ("libbpf: map 'm': key type [5] not found.", "map-definition", ""),
    (
        "libbpf: extern (kcfg) 'CONFIG_X': value 'y' implies bool, tristate, or char type",
        "kconfig",
        "",
    ),
    (
        "libbpf: prog 'f': relo #3: unexpected insn #7 (LDX/ST/STX) value: got 8, exp 16 -> 24",
        "core-relocation",
        "",
    ),
    ("libbpf: some new failure of BPF that nobody knows", "loader-words", ""),
    (
        "libbpf: Kernel error message: virtio_net: Too few free TX rings available",
        "attach-refused",
        "",
    ),
    (
        "libbpf: map '.rodata.str1.1': failed to create: Invalid argument(-22)",
        "global-data",
        "EINVAL",
    ),
    (
        "libbpf: prog 'x': section 'uprobe/readline' missing ':function[+offset]' specification",
        "attach-section",
        "",
    ),
    (
        "libbpf: prog 'x': invalid format of section definition 'uretprobe/readline'",
        "attach-section",
        "",
    ),
    (
        "bpf: Argument list too long. Program  too large (113 insns), at most 4096 insns",
        "too-large",
        "E2BIG",
    ),
    (
        "error on KProbe::attach_kprobe: IO(Os { code: 2, message: No such file or directory })",
        "kprobe-target",
        "ENOENT",
    ),
    ("Prog section 'egress' rejected: Permission denied (13)!", "refused", "EACCES"),
    (
        "libbpf: failed to find kernel BTF type ID of 'br_forward': -3",
        "attach-target-missing",
        "ESRCH",
    ),
    ("libbpf: map 'events': failed to create: Invalid argument(-22)", "map-refused", "EINVAL"),
    ("libbpf: map 'h': failed to create: Operation not permitted(-1)", "rights", "EPERM"),
    (
        "libbpf: map 'processes': failed to create: Cannot allocate memory(-12)",
        "map-too-large",
        "ENOMEM",
    ),
    (
        "prog 'x': failed to attach to raw tracepoint 'sys_enter': Invalid argument",
        "tracepoint-arguments",
        "EINVAL",
    ),
    ("prog 'x': failed to auto-attach: -22", "attach-refused", "EINVAL"),
    ("failed to create map `EVENTS` with code -1", "rights", "EPERM"),
    ("load program: bad address (hit verifier bug, increase LogSizeStart)", "fault", "EFAULT"),
    ("x: apply CO-RE relocations: no BTF found for kernel version 4.14", "kernel-btf", ""),
    ("cannot attach kprobe, probe entry may not exist", "kprobe-target", ""),
    ("creating perf_kprobe PMU: token do_fork: not found", "kprobe-target", ""),
    (
        'reading file "/sys/bus/event_source/devices/kprobe/type": no such file or directory',
        "kprobes-missing",
        "ENOENT",
    ),
    ("extern (var ksym) 'runqueues': failed to find BTF ID in kernel BTF(s).", "ksym-missing", ""),
    ("the kernel BTF is not available: No such file or directory", "kernel-btf", "ENOENT"),
    ("failed to find '.BTF' ELF section in /sys/kernel/btf/vmlinux", "kernel-btf", ""),
    ("load BTF for kmod sha1: read string section: string table is empty", "kernel-btf", ""),
    ("libbpf: Error in bpf_object__probe_loading():Invalid argument(22).", "no-bpf", "EINVAL"),
    ("Failed to attach BPF to kprobe", "kprobe-target", ""),
    ("Unable to find kernel headers. Try rebuilding kernel with", "kernel-headers", ""),
    ("Error: Kernel was compiled without CONFIG_BPF_SYSCALL", "no-bpf", ""),
    (
        "elf: legacy map definitions in 'maps' section are not supported by libbpf v1.0+",
        "map-definition",
        "",
    ),
    (
        "reading tracepoint ID: trace event sched/x: file does not exist",
        "tracepoint-missing",
        "ENOENT",
    ),
    ("program f: map m: map create: operation not permitted (MEMLOCK may be)", "rights", "EPERM"),
    (
        "libbpf: prog 'p': missing BPF prog type, check ELF section name 'kprobes/vfs_read'",
        "section-unknown",
        "",
    ),
    ("libbpf: failed to find valid kernel BTF", "kernel-btf", ""),
    (
        "libbpf: extern (func ksym) 'bpf_task_acquire': not found in kernel or module BTFs",
        "kfunc-missing",
        "",
    ),
    ("libbpf: extern (var ksym) 'runqueues': not found in kernel BTF", "ksym-missing", ""),
    (
        "libbpf: prog 'x': failed to find kernel BTF type ID of 'vfs_reed': -3",
        "attach-target-missing",
        "ESRCH",
    ),
    (
        "prog 'x': failed to create kprobe 'nope+0x0' perf event: No such file or directory",
        "kprobe-target",
        "ENOENT",
    ),
    ("libbpf: Error in bpf_object__probe_loading():Operation not permitted(1).", "rights", "EPERM"),
    (
        "libbpf: prog 'x': BPF program load failed: Argument list too long",
        "attributes-newer",
        "E2BIG",
    ),
    (
        "libbpf: struct_ops init_kern my_ops: Cannot find member dispatch_max_batch in kernel BTF",
        "struct-ops-member",
        "",
    ),
    (
        "libbpf: map 'ops': failed to create: Operation not supported(-95)",
        "unsupported",
        "EOPNOTSUPP",
    ),
    ("libbpf: failed to open system Kconfig", "kconfig", ""),
    ("libbpf: extern 'CONFIG_NOPE' (strong): not resolved", "kconfig", ""),
    ("ldimm64 failed to find the address for kernel symbol 'runqueues'.", "ksym-missing", ""),
    ("libbpf: usdt: no USDT notes section (.note.stapsdt) found in '/lib/libc.so.6'", "usdt", ""),
    ("libbpf: elf: failed to find symbol 'readline' in '/bin/bash': -2", "uprobe-target", "ENOENT"),
    ("creating uprobe: opening uprobe: symbol SSL_write: not found", "uprobe-target", ""),
    (
        "prog 'x': failed to create uprobe '/bin/bash:0x7' perf event: No such file or directory",
        "uprobe-target",
        "ENOENT",
    ),
    ("libbpf: failed to pin map: specified path /tmp/x is not on BPF FS", "pin", ""),
    ("Error: can't pin the object (/sys/fs/bpf/foo): File exists", "pin", "EEXIST"),
    ("RTNETLINK answers: Device or resource busy", "attach-busy", "EBUSY"),
    ("prog 'x': failed to attach: Device or resource busy", "attach-hook", "EBUSY"),
    # of a loader that was linked to musl, which has words of its own
    ("prog 'x': failed to attach: Resource busy", "attach-hook", "EBUSY"),
    ("libbpf: map 'm': failed to create: Value too large for data type", "errno", "EOVERFLOW"),
    ("prog 'x': failed to attach to xdp: Device or resource busy", "attach-busy", "EBUSY"),
    ("Error: Exclusivity flag on, cannot modify.", "attach-busy", ""),
    ("RTNETLINK answers: Operation not supported", "attach-unsupported", "EOPNOTSUPP"),
    ("Error: Parent Qdisc doesn't exists.", "qdisc-missing", ""),
    ("error: unknown network interface eth7", "interface-missing", ""),
    ("prog 'x': no BTF-based attach target is specified, use", "attach-section", ""),
    ("libbpf: handler is not found in prog's BTF", "freplace-target", ""),
    ("Error: function 296 not found while relocating `xdp_firewall`", "relocation", ""),
    ("error parsing BPF object: invalid program section `kprob/foo`", "section-unknown", ""),
    ("BTF debug data section '.BTF' rejected: Invalid argument (22)!", "btf-refused", "EINVAL"),
    (
        "systemd[1]: unit has an IP firewall, but the local system does not support BPF/cgroup",
        "no-cgroup-bpf",
        "",
    ),
    (
        "map m: map create: invalid argument (MaxEntries may be incorrectly set to zero)",
        "map-size",
        "EINVAL",
    ),
    ("libbpf: BTF is required, but is missing or corrupted.", "object-btf", ""),
    (
        "map r: map create: invalid argument (ring map size 4096 not a multiple of page size 8192)",
        "map-size",
        "EINVAL",
    ),
    (
        "libbpf: prog 'do_unlinkat': failed to attach: ERROR: strerror_r(-524)=22",
        "no-trampoline",
        "ENOTSUPP",
    ),
    ("libpman: tracing program type is not supported", "program-type-unsupported", ""),
    (
        "libbpf: kprobe perf_event_open() failed: No such file or directory",
        "kprobe-target",
        "ENOENT",
    ),
    (
        "libbpf: invalid relo for 'hists' in special section 0xfff2; forgot to initialize",
        "relocation",
        "",
    ),
    ("ELF contains non-{map,call} related relo data in entry 83", "relocation", ""),
    # the errno of Rust's loaders stands some lines below
    (
        "Error: `bpf_link_create` failed\n\nCaused by:\n    Device or resource busy (os error 16)",
        "attach-busy",
        "EBUSY",
    ),
    (
        "`/sys/kernel/tracing/events/sched/no/id`\n\n   0: No such file or directory (os error 2)",
        "tracepoint-missing",
        "ENOENT",
    ),
    (
        "libscap: bpf_load_program() err=28 event=filler/sys_autofill message=0",
        "log-buffer",
        "ENOSPC",
    ),
]


def explained(text: str) -> list[Explained]:
    return list(explain_log(io.BytesIO(text.encode())))


def only(text: str) -> Explained:
    found = explained(text)
    assert len(found) == 1, found
    return found[0]


def test_an_index_that_is_too_large_on_all_ways_is_not_called_negative() -> None:
    beyond = (
        "invalid access to map value, value_size=512 off=512 size=8\nR0 min value is outside of"
    )
    why = only(f"{OLD}{beyond} the allowed memory range\n{END}").explanation
    assert why.id == "map-bounds"
    assert "negative" not in why.reason
    assert "on its upper side" in why.suggestion


@pytest.mark.parametrize("before", [OLD, NEW, ""], ids=["before-5.18", "since-5.18", "alone"])
@pytest.mark.parametrize(("message", "reason", "named"), MESSAGES)
def test_a_message_is_explained(message: str, reason: str, named: str, before: str) -> None:
    why = only(f"{before}{message}\n{END}").explanation
    assert why.id == reason
    assert named in why.reason + why.suggestion
    assert "?" not in why.reason.replace("?)", "") or not before
    assert message in why.words[-1]


@pytest.mark.parametrize(("line", "reason", "errno"), LOADERS)
def test_a_loaders_line_is_explained(line: str, reason: str, errno: str) -> None:
    found = only(f"some program starts\n{line}\nlibbpf: failed to load object 'x'\n")
    assert (found.explanation.id, found.errno) == (reason, errno)


LOG = f"""libbpf: prog 'on_open': BPF program load failed: Permission denied
libbpf: prog 'on_open': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; entry = bpf_map_lookup_elem(&entries, &key); @ open.bpf.c:41
0: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1,off=0,ks=4,vs=64,imm=0)
1: (bf) r6 = r0                       ; R0_w=map_value_or_null(id=1) R6_w=map_value_or_null(id=1)
; return entry->index; @ open.bpf.c:42
2: (61) r0 = *(u32 *)(r6 +0)
R6 invalid mem access 'map_value_or_null'
{END}-- END PROG LOAD LOG --
libbpf: prog 'on_open': failed to load: -13
"""


def around(form: str) -> str:
    """:data:`LOG` as it looks in ``form``, which stands around each of its lines."""
    return "".join(form.replace("LINE", line) + "\n" for line in LOG.splitlines())


@pytest.mark.parametrize(
    "form",
    [
        "LINE",
        "\tLINE",
        "2024-03-27T06:20:40.061Z LINE",
        "2026/11/22 10:00:00 LINE",
        "Jun 02 11:52:37 host agent[13871]: LINE",
        "[10:11:12] LINE",
        "[   12.345678] LINE",
        "\x1b[33mLINE\x1b[0m",
        "agent-1  | LINE",
        "> LINE",
        'level=warning msg="LINE" subsys=datapath-loader',
        "[DEBUG] LINE\r",
        "I0102 10:11:12.000000  4242 loader.go:12] LINE",
    ],
)
def test_what_others_put_around_a_log_does_not_matter(form: str) -> None:
    found = only(around(form))
    why = found.explanation
    assert (found.program, found.errno, found.instructions) == ("on_open", "EACCES", 1)
    assert why.id == "pointer-or-null"
    assert "bpf_map_lookup_elem()" in why.reason
    assert why.place is not None
    assert (why.place.file, why.place.line) == ("open.bpf.c", 42)
    assert [(step.role, step.instruction) for step in why.evidence] == [("made", 0)]


def test_a_log_quoted_as_one_string_is_read() -> None:
    quoted = json.dumps(LOG)
    assert only(f'{{"level":"error","error":{quoted}}}').explanation.id == "pointer-or-null"


def test_several_failures_are_told_apart() -> None:
    second = LOG.replace("on_open", "on_close").replace("R6 invalid mem", "R6 !read_ok; no")
    found = explained(LOG + "noise\n" + second + "libbpf: failed to find valid kernel BTF\n")
    assert [(one.program, one.explanation.id) for one in found] == [
        ("on_open", "pointer-or-null"),
        ("on_close", "register-unset"),
        ("", "kernel-btf"),
    ]
    assert [one.line for one in found] == [2, 15, 26]


def test_a_summary_of_one_line_counts_and_poisoned_instructions_keep_their_source() -> None:
    found = only(
        "program p: load program: permission denied: invalid access to packet, off=0 size=4,"
        " R4(id=0,off=0,r=0): R4 offset is outside of the packet (200 line(s) omitted)\n"
        "Verifier log: load program: permission denied:\n\t0: R1=ctx() R10=fp0\n"
    )
    assert (found.explanation.id, found.program) == ("packet-bounds", "p")
    poisoned = only(
        "; return BPF_CORE_READ(tty, driver); @ types.h:83\n"
        "186: (85) call bpf_probe_read_kernel#113\n"
        f"; instruction poisoned by CO-RE @ :0\n187: (85) call unknown#195896080\n"
        f"invalid func unknown#195896080\n{END}"
    ).explanation
    assert poisoned.place is not None
    assert (poisoned.id, poisoned.place.line) == ("core-relocation", 83)


def test_a_packet_pointer_lost_by_a_call_is_told_from_a_number() -> None:
    found = only(
        "0: (61) r7 = *(u32 *)(r1 +0)\n1: (85) call bpf_xdp_adjust_head#44\n"
        f"2: (71) r1 = *(u8 *)(r7 +12)\nR7 invalid mem access 'inv'\n{END}"
    ).explanation
    assert "bpf_xdp_adjust_head()" in found.reason
    assert [step.role for step in found.evidence] == ["made", "lost"]


def test_going_back_to_a_branch_brings_its_values_back() -> None:
    found = only(
        "0: (85) call bpf_map_lookup_elem#1\n1: (15) if r1 == 0x0 goto pc+2\n"
        "2: (b7) r0 = 0\n3: (95) exit\nfrom 1 to 4: R0=map_value_or_null R10=fp0\n"
        f"4: (61) r0 = *(u32 *)(r0 +0)\nR0 invalid mem access 'map_value_or_null'\n{END}"
    ).explanation
    assert "bpf_map_lookup_elem()" in found.reason


KERNEL_BLOCK = """0: (95) exit
R0 !read_ok

Verification failed: Register Type Safety: Unreadable register

Reason:
  R0 has never been initialized on this path.

At:
  insn 0
        | ^-- error: R0 is not readable

Suggestion:
  Initialize R0 on every path.

verification time 5 usec
"""


def test_what_7_3_explains_itself_is_passed_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(KERNEL_BLOCK + END)
    assert entry.main(["explain", str(log)]) == 0
    block = KERNEL_BLOCK[KERNEL_BLOCK.index("Verification") : KERNEL_BLOCK.index("\nverif")]
    assert block in capsys.readouterr().out
    assert only(KERNEL_BLOCK + END).explanation.id == "register-unset"


def test_an_explanation_has_the_form_of_7_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(LOG)
    assert entry.main(["explain", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "program 'on_open': line 2 of the log, EACCES, 1 instructions followed"
    assert lines[1] == "Verification failed: Register Type Safety: Pointer that may be NULL"
    assert [line for line in lines if line.endswith(":") and line[0] != " "] == [
        *("Reason:", "At:", "Causal path:", "Suggestion:", "Log:")
    ]
    assert "  >>> 42 | return entry->index;" in lines


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        lambda: b"hello\nworld\n",
        lambda: b"\0" * 3_000_000,
        lambda: bytes(range(256)) * 10_000,
        lambda: b"R1 " * 1_000_000,
        (NEW + "1: (95) exit\n" + END).encode,
    ],
    ids=["empty", "words", "zeros", "bytes", "one line", "a log of success"],
)
def test_what_tells_of_no_failure_is_an_error(
    make: Callable[[], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_bytes(make())
    assert entry.main(["explain", str(log)]) == 65
    assert "contains no failure of a BPF program or map" in capsys.readouterr().err


def test_a_log_that_is_missing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["explain", "/nowhere/log"]) == 66
    assert entry.main(["explain", "--object", "/nowhere/x.o", "-"]) == 66
    assert entry.main(["explain"]) == 64
    assert entry.main(["explain", "--format", "xml", "-"]) == 64


def test_memory_is_bounded_and_the_end_is_found() -> None:
    begin, end = LOG.split("2: (61)", 1)
    filler = "".join(f"{n}: (b7) r{n % 9} = {n}\n" for n in range(100)) * 1_400
    log = (begin + filler + "2: (61)" + end).encode()
    cut = [one for one in segments(io.BytesIO(log)) if one.dropped]
    assert len(cut) == 1
    assert cut[0].bytes > 2 << 20
    assert sum(map(len, cut[0].lines)) <= 2 << 20
    assert only(log.decode()).explanation.id == "pointer-or-null"


def test_nothing_of_a_log_is_obeyed_by_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(LOG.replace("entry->index", "entry\x07\x9b31m->index"))
    assert entry.main(["explain", str(log)]) == 0
    assert set("\x07\x9b").isdisjoint(capsys.readouterr().out)


def test_a_pointer_whose_place_on_the_stack_was_passed_is_told_as_lost() -> None:
    """As 6.12 refuses biosnoop: the pointer itself was the key of a lookup."""
    log = (
        "0: (bf) r6 = r1\n1: (79) r1 = *(u64 *)(r6 +0)\n2: (7b) *(u64 *)(r10 -8) = r1\n"
        "3: (bf) r2 = r10\n4: (07) r2 += -8\n5: (18) r1 = 0xffff888100000000\n"
        "7: (85) call bpf_map_lookup_elem#1\n8: (79) r1 = *(u64 *)(r10 -8)\n"
        f"9: (79) r2 = *(u64 *)(r1 +48)\nR1 invalid mem access 'scalar'\n{END}"
    )
    why = only(log).explanation
    assert why.id == "not-a-pointer"
    assert "bpf_map_lookup_elem() at instruction 7 was given its place" in why.reason
    assert [step.role for step in why.evidence] == ["made", "lost"]


def test_a_log_too_long_to_keep_still_names_its_program() -> None:
    line = "0: (85) call bpf_probe_read#4        ; R0_w=scalar()\n"
    text = (
        "libbpf: prog 'long_one': -- BEGIN PROG LOAD LOG --\n"
        + line * (3 << 20 >> 5)
        + f"R1 must be a rcu pointer\n{END}"
    )
    assert only(text).program == "long_one"


def test_a_log_of_many_loaders_has_a_map_and_programs_told_apart() -> None:
    text = (
        "agent[1]: libbpf: map 'events': failed to create: Invalid argument(-22)\n"
        "nothing failed here\n"
        "loading objects: field F: program f: load program: invalid argument: R1 must be referenced"
        " or trusted (23 line(s) omitted)\n"
        f"libbpf: prog 'g': -- BEGIN PROG LOAD LOG --\n{NEW}R0 invalid mem access 'scalar'\n{END}"
        "Error: `perf_event_open` failed\n\nCaused by:\n  No such file or directory (os error 2)\n"
    )
    found = explained(text)
    told = [(one.explanation.id, one.program, one.errno) for one in found]
    assert told == [
        ("map-refused", "", "EINVAL"),
        ("trusted-pointer", "f", "EINVAL"),
        ("not-a-pointer", "g", ""),
        ("kprobe-target", "", "ENOENT"),
    ]
    assert "before: R1 must be referenced or trusted." in found[1].explanation.reason
    assert "?" not in found[3].explanation.reason + found[3].explanation.suggestion


def test_a_relocation_is_named_by_the_lines_above() -> None:
    found = only(
        "libbpf: prog 'f': relo #8: <byte_off> [73] struct mm_struct.rss_stat[0] (0:0 @ offset 0)\n"
        "libbpf: prog 'f': relo #8: non-matching candidate #0 <byte_off> [7] struct mm_struct (0)\n"
        "libbpf: prog 'f': relo #8: no matching targets found\n"
        "libbpf: failed to perform CO-RE relocations: -22\n"
    )
    assert found.explanation.id == "core-relocation"
    assert "struct mm_struct.rss_stat[0]," in found.explanation.reason


def test_what_a_loader_says_once_more_is_told_once() -> None:
    refused = (
        "math between map_value pointer and register with unbounded min value is not allowed\n"
    )
    found = only(f"{refused}{END}libscap: bpf_load_program() f: Operation not permitted (1)\n")
    assert found.explanation.id == "pointer-arithmetic-unbounded"
    found = only(
        "create_probe_event: open(/sys/kernel/tracing/kprobe_events): No such file or directory\n"
        "Exception: Failed to attach BPF program b'f' to kprobe b'g', it's not traceable\n"
    )
    assert found.explanation.id == "tracefs"
    found = only(
        "libbpf: couldn't reuse pinned map at '/sys/fs/bpf/m': parameter mismatch\n"
        "libbpf: map 'm': error reusing pinned map\n"
        "libbpf: map 'm': failed to create: Invalid argument(-22)\n"
    )
    assert found.explanation.id == "map-pinned"
    summary = "program f: load program: permission denied: R0 !read_ok (2 line(s) omitted)\n"
    found = only(f"{NEW}1: (95) exit\nR0 !read_ok\n{END}{summary}")
    assert found.explanation.id == "register-unset"


def test_a_cause_below_a_line_counts() -> None:
    found = only("Error: netlink error while attaching ebpf\nCaused by:\nInvalid (os error 22)\n")
    assert found.explanation.id == "attach-refused"


def test_a_log_without_its_reason_is_told_as_cut() -> None:
    found = only(f"Error: bpf Load failed: load program: invalid argument:\n{END}")
    assert (found.explanation.id, found.errno) == ("log-cut", "EINVAL")
    log = f"-- BEGIN PROG LOAD LOG --\n{END}-- END PROG LOAD LOG --\n"
    found = only(f"{log}Error: libscap: bpf_load_program() f: Operation not permitted\n")
    assert found.explanation.id == "log-cut"
    found = only(f"libbpf: prog 'f': BPF program load failed: ERROR: strerror_r(524)=22\n{log}")
    assert (found.explanation.id, found.errno) == ("unsupported", "ENOTSUPP")


def test_a_map_that_a_loader_did_not_put_in_place_is_told() -> None:
    why = only(
        f"0: (18) r1 = 0x0\n2: (85) call bpf_map_lookup_elem#1\nR1 type=inv expected=map_ptr\n{END}"
    )
    assert "the loader put none" in why.explanation.reason


def test_a_frame_that_is_too_large_is_told_from_a_buffer() -> None:
    why = only(f"66: (7b) *(u64 *)(r10 -520) = r1\ninvalid stack off=-520 size=8\n{END}")
    assert "512 bytes" in why.explanation.reason
    assert why.explanation.words == ("invalid stack off=-520 size=8",)


def test_an_errno_in_a_line_of_its_own_is_that_of_the_load_that_failed_then() -> None:
    found = only("bpf: Invalid argument\n\nException: Failed to load BPF program kprobe__f\n")
    assert (found.program, found.errno, found.explanation.id) == ("kprobe__f", "EINVAL", "invalid")


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("libbpf: prog 'f': failed to attach to cgroup: Bad file descriptor", "descriptor"),
        (
            "[ERROR][74] d.go 7: BPF dataplane enabled but not supported by the kernel.",
            "unsupported",
        ),
        (
            "M\u00e4r 21 11:01:44 H systemd[1]: Failed to load BPF object: No such process",
            "kernel-btf",
        ),
        ("libbpf: f.o doesn't provide kernel version", "elf"),
    ],
)
def test_a_line_of_a_daemon_is_enough(line: str, id_: str) -> None:
    found = only(line)
    assert found.explanation.id == id_
    assert "refers to a map" not in found.explanation.reason


def test_a_tracepoint_that_may_not_be_opened_is_not_missing() -> None:
    tracepoint = "libbpf: tracepoint 'syscalls/f' perf_event_open() failed: -EPERM\n"
    created = "libbpf: prog 'f': failed to create tracepoint 'syscalls/f' pe"
    for log in (f"{tracepoint}{created}>\n", f"{created}rf event: -EPERM\n"):
        assert only(log).explanation.id == "rights"


def test_the_errno_of_a_load_may_be_below_it() -> None:
    found = only("Error: Failed to load BPF program\n\nCaused by:\n    Invalid (os error 22)\n")
    assert (found.explanation.id, found.errno) == ("invalid", "EINVAL")


def test_the_number_of_instructions_alone_says_that_a_program_is_too_large() -> None:
    assert only("processed 1000001 insns (limit 1000000) , couldn't load\n").explanation.id == (
        "too-large"
    )


def test_a_function_that_returned_minus_one_gave_no_errno() -> None:
    found = only(
        "bpf_prog_load lib call for /x/f.o (tracepoint_f) returned fd: -1 (Invalid argument)\n"
        "bpfloader: Failed to load object: /x/f.o, ret: Operation not permitted\n"
    )
    assert (found.program, found.errno, found.explanation.id) == (
        "tracepoint_f",
        "EINVAL",
        "invalid",
    )


def test_a_chain_of_causes_that_has_a_cut_log_is_told_as_cut() -> None:
    log = (
        "failed program load raw_tracepoint f\n\n    Caused by:\n"
        "        0: the BPF_PROG_LOAD syscall failed. Verifier output: func#0 @0\n"
        "        ... TRUNCATED ...\n        1: Permission denied (os error 13)\n"
    )
    found = only(log)
    assert (found.explanation.id, found.errno) == ("log-cut", "EACCES")


def test_what_fails_next_for_the_reason_that_was_told_is_told_once() -> None:
    found = only(
        "libbpf: Netlink-based XDP prog detected, please unload it\n"
        'ERROR: Can\'t setup AF_XDP socket "Invalid argument"\n'
    )
    assert found.explanation.id == "attach-busy"
    found = only(
        "libbpf: map 'flows': failed to create: Invalid argument(-22)\n"
        "some\nlines\nCan't find eBPF map fd for 'flows'\n"
    )
    assert found.explanation.id == "map-refused"


def test_of_a_chain_in_one_line_the_innermost_operation_counts() -> None:
    found = only(
        'Error attaching exporter: attach uprobes: attach probe "f": failed to attach BPF kprobe:'
        " no such file or directory\n"
    )
    assert found.explanation.id == "kprobe-target"
    long = "docker: OCI runtime create failed: " + "container init caused: " * 20
    found = only(f"{long}can't attach program to cgroup: invalid argument\n")
    assert (
        "can't attach program to cgroup: invalid argument: the kernel" in found.explanation.reason
    )


def test_a_probe_is_named_by_what_python_says_of_it() -> None:
    found = only(
        "cannot attach kprobe, probe entry may not exist\nTraceback (most recent call last):\n"
        '  File "t.py", line 1, in <module>\n'
        "Exception: Failed to attach BPF program b'f' to kprobe b'gone_function'\n"
    )
    assert "no function gone_function that" in found.explanation.reason


def test_the_summary_of_a_log_is_told_by_its_reason() -> None:
    line = "program f: load program: invalid argument: program of this type cannot use helper"
    found = only(f"{line} bpf_probe_read#4 (13 line(s) omitted)\n")
    assert (found.program, found.explanation.id) == ("f", "helper-unknown")
    assert "bpf_probe_read()" in found.explanation.reason


def test_the_attachment_of_a_function_may_be_busy_for_the_want_of_a_hook() -> None:
    log = (
        "Error: Failed to attach programs\nCaused by:\n    Device or resource busy (os error 16)\n"
    )
    found = only(log)
    assert found.explanation.id == "attach-busy"
    assert "ftrace" in found.explanation.reason
    assert "XDP" not in found.explanation.reason


def test_of_what_is_not_known_the_line_that_says_most_is_quoted() -> None:
    found = only("bpf plugin: something refused\nbpf plugin: error: gears: Protocol error\n")
    assert (found.errno, found.explanation.id) == ("EPROTO", "loader-words")
    assert "gears" in found.explanation.reason


def test_an_errno_may_stand_in_a_line_below_the_load() -> None:
    found = only("error  : failed to load BPF program (143 bytes):\n: Invalid argument\n")
    assert (found.explanation.id, found.errno) == ("invalid", "EINVAL")


def test_what_python_says_last_is_no_second_failure() -> None:
    found = only(
        "open(/sys/kernel/debug/tracing/kprobe_events): Permission denied\n"
        + "  line of a traceback\n" * 9
        + "Exception: Failed to attach BPF to kprobe\n"
    )
    assert found.explanation.id == "rights"


def test_netlink_of_a_firewall_is_not_of_bpf() -> None:
    line = "nftables rule: netlink receive: no such file or directory\n"
    assert explained(f"{line}open /x/y.o: no such file or directory\n")[0].line == 2


def test_the_name_of_a_source_file_is_no_operation() -> None:
    found = only(
        "x cgroups/cgroup2_devices.c:load:3 - Invalid argument - Failed to load bpf program\n"
        "x cgroups/cgfsng.c:activate:4 - Cannot allocate memory - Failed to attach bpf program\n"
    )
    assert (found.explanation.id, found.errno) == ("invalid", "EINVAL")


def test_an_event_that_may_not_be_opened_is_told_with_its_switch() -> None:
    found = only("The perf_event_open syscall failed for PID 2: Operation not permitted\n")
    assert found.explanation.id == "rights"
    assert "perf_event_paranoid" in found.explanation.reason


@pytest.mark.parametrize(
    ("line", "id_", "said"),
    [
        ("stdin:1:1-27: ERROR: tracepoint not found: sys:gone", "tracepoint-missing", "sys:gone"),
        ("BTF discovery failed: aborting", "kernel-btf", "CONFIG_DEBUG_INFO_BTF"),
        (" /x/of.h:1:2: error: unterminated directive for bpf", "compile", "unterminated"),
        (
            "Error in bpf_object__probe_loading():Operation not permitted(1). RLIMIT_MEMLOCK?",
            "rights",
            "a capability is missing",
        ),
        (
            "libbpf: extern (func ksym) 'scx_gone': func_proto [1] incompatible with vmlinux [2]",
            "kfunc-missing",
            "other parameters",
        ),
        (
            "ldimm64 failed to find the address for kernel symbol 'a_variable'.",
            "ksym-missing",
            "CONFIG_KALLSYMS_ALL",
        ),
    ],
)
def test_an_object_that_failed_is_told_in_any_order_of_words(
    line: str, id_: str, said: str
) -> None:
    found = only(line + "\n")
    assert found.explanation.id == id_
    assert said in found.explanation.reason


def test_of_two_last_lines_the_one_that_says_why_is_quoted() -> None:
    found = only(
        f"{NEW}func 'tcp_f' doesn't have 4-th argument\ninvalid bpf_context access off=32"
        f" size=8\n{END}"
    )
    assert "4-th argument" in found.explanation.reason


def test_an_iterator_of_another_size_is_none_in_another_state() -> None:
    found = only(
        f"{NEW}cannot pass in iter at an offset=-64\nexpected uninitialized iter_x as arg #1\n{END}"
    )
    assert "another size" in found.explanation.title
    assert "-64" in found.explanation.reason


def test_a_size_that_may_be_negative_is_told_so_without_its_register() -> None:
    found = only("7: (85) call bpf_probe_read_str#45\nR2 min value is negative, either use\n")
    assert "may be negative" in found.explanation.reason


def test_what_the_kernel_said_of_an_attachment_is_not_told_again_by_its_errno() -> None:
    found = only(
        "libbpf: Kernel error message: nic: prog does not support XDP frags\n"
        "libxdp: Error attaching XDP program to ifindex 2: Operation not supported\n"
    )
    assert "frags" in found.explanation.reason


@pytest.mark.parametrize(
    ("event", "target", "id_"),
    [
        ("p" * 70, "/lib/a.so:0x10", "uprobe-target"),
        ("p__/sub_1", "./sub", "kprobe-target"),
    ],
)
def test_an_event_that_tracefs_refuses_for_its_name_is_told(
    event: str, target: str, id_: str
) -> None:
    found = only(f'write(5, "p:kprobes/{event} {target}", 35) = -1 EINVAL (Invalid argument)\n')
    assert found.explanation.id == id_
    assert "fewer than 64" in found.explanation.reason


def test_a_load_that_is_too_large_may_have_no_log_but_with_libbpf() -> None:
    for said in ("the BPF_PROG_LOAD syscall returned", "Failed to load BPF program b'f':"):
        assert only(f"{said} Argument list too long\n").explanation.id == "too-large"
    found = only("libbpf: prog 'f': BPF program load failed: -E2BIG\n")
    assert found.explanation.id == "attributes-newer"


def test_a_probe_is_named_by_what_bpftrace_says_of_it() -> None:
    found = only(
        "cannot attach kprobe, Invalid argument\nERROR: Error attaching probe: 'kprobe:close_x'\n"
    )
    assert "kprobe:close_x" in found.explanation.reason
    assert "puts no kprobe there" in found.explanation.reason


def test_an_old_kernel_takes_an_argument_from_the_stack_alone() -> None:
    found = only("R1 type=map_value expected=fp\nprocessed 3 insns\n")
    assert "copy it there" in found.explanation.suggestion


def test_a_verifiers_words_in_a_summary_are_not_taken_for_the_operation_in_the_programs_name() -> (
    None
):
    found = only(
        "Verifier error: program netdev_xdp: load program: permission denied: invalid access to"
        " packet, off=0 size=4, R4(id=0,off=0,r=0): R4 offset is outside of the packet"
        " (20 line(s) omitted)\n"
    )
    assert found.explanation.id == "packet-bounds"


def test_a_pointer_on_the_stack_is_no_padding() -> None:
    log = (
        "11: (7b) *(u64 *)(r10 -24) = r1\n18: (85) call bpf_map_update_elem#2\n"
        "invalid indirect read from stack off -24+0 size 8\n"
    )
    assert "byte 0 is of a pointer" in only(log).explanation.reason
    padding = only(log.replace("-24+0", "-32+4"))
    assert "byte 4 was never written" in padding.explanation.reason


def test_what_is_read_inside_of_the_stack_below_all_that_was_written_is_uninitialised() -> None:
    within = only("94: (79) r2 = *(u64 *)(r10 -32)\ninvalid read from stack R10 off=-32 size=8\n")
    assert within.explanation.id == "stack-uninitialised"
    assert "8 bytes of the stack that nobody wrote" in within.explanation.reason
    assert only("invalid read from stack R1 off=-32 size=40\n").explanation.id == "stack-bounds"


def test_a_copy_that_was_checked_is_told_from_what_nobody_checked() -> None:
    log = (
        "6: (85) call bpf_map_lookup_elem#1\n7: (bf) r7 = r0\n8: (15) if r0 == 0x0 goto pc+9\n"
        "9: (85) call bpf_ktime_get_ns#5\n10: (79) r9 = *(u64 *)(r7 +0)\n"
        "R7 invalid mem access 'map_value_or_null'\n"
    )
    found = only(log)
    assert "The program checks a copy of it ('if r0 == 0x0 goto pc+9')" in found.explanation.reason
    unchecked = only(log.replace("r0 == 0x0", "r6 == 0x0"))
    assert "does not check it on this path" in unchecked.explanation.reason


def test_a_program_that_was_left_out_cannot_be_attached() -> None:
    found = only(
        "libbpf: prog 'on_wait': can't attach BPF program without FD (was it loaded?)\n"
        "Error: failed to attach BPF program\n\nCaused by:\n    Invalid argument (os error 22)\n"
    )
    assert found.explanation.id == "descriptor"
    assert "'on_wait'" in found.explanation.reason


def test_a_helper_of_some_functions_alone_is_named() -> None:
    found = only(
        "15: (85) call bpf_d_path#147\nhelper call is not allowed in probe\nprocessed 16 insns\n"
    )
    assert found.explanation.reason.startswith("bpf_d_path() is for some functions alone")


@pytest.mark.parametrize(
    "line",
    [
        "WARN loader: Failed to load BTF but BTF is optional. Ignore it",
        "libbpf: Error loading ELF section .BTF: -22. Ignored and continue.",
        "bpf(BPF_MAP_GET_NEXT_KEY, {map_fd=4}, 64) = -1 ENOENT (No such file or directory)",
    ],
)
def test_what_failed_and_does_not_matter_is_not_told(line: str) -> None:
    assert not explained(f"{line}\n")


def test_what_is_said_of_the_object_last_is_told_where_nothing_else_was() -> None:
    last = "thread 'main' panicked at 'error on load: ParseError(Map)', src/main.rs:1\n"
    assert only(last).explanation.id == "elf"
    before = "failed to load map .rodata: Operation not permitted (os error 1)\n"
    assert only(before + last).explanation.id == "rights"


def test_a_cgroup_of_version_1_is_no_programs() -> None:
    assert not explained("app: failed to mount cgroupv1 controller: operation not permitted\n")


def test_a_type_without_a_name_is_not_called_by_its_errno() -> None:
    found = only("libbpf: prog 'f': relo #3: target candidate search failed for [8] struct : -22\n")
    assert "by a struct that has no name" in found.explanation.reason
    assert "-22" not in found.explanation.reason


def test_a_module_that_does_not_compile_for_want_of_headers_is_told_once() -> None:
    missing = "chdir(/lib/modules/6.1.0-9-amd64/build): No such file or directory\n"
    compiled = 'level=error err="failed to attach: error compiling module for program \\"x\\""\n'
    assert only(missing + compiled).explanation.id == "kernel-headers"
    assert only(compiled).explanation.id == "compile"


@pytest.mark.parametrize(
    "line",
    [
        "libbpf: prog 'f': failed to create BPF link for perf_event FD 7: -13 (Permission denied)",
        "libbpf: prog 'f': failed to attach to perf_event FD 7: -EACCES",
        "ioctl(7, PERF_EVENT_IOC_SET_BPF, 5) = -1 EACCES (Permission denied)",
        "bpf(BPF_LINK_CREATE, {link_create={attach_type=BPF_PERF_EVENT}}, 64) = -1 EACCES (x)",
    ],
)
def test_a_program_that_reads_beyond_a_tracepoints_record_has_rights_enough(line: str) -> None:
    assert only(f"{line}\n").explanation.id == "tracepoint-arguments"


@pytest.mark.parametrize(
    ("call", "errno", "id_", "word"),
    [
        (
            "bpf(BPF_MAP_CREATE, {map_type=BPF_MAP_TYPE_RINGBUF, max_entries=5000}, 8)",
            "EINVAL",
            "map-size",
            "5000",
        ),
        (
            "[pid 7] bpf(BPF_MAP_CREATE, {map_type=0x7b /* BPF_MAP_TYPE_??? */, key_size=4}, 72)",
            "EINVAL",
            "map-type-unsupported",
            "type 123",
        ),
        ("bpf(BPF_MAP_CREATE, {map_type=BPF_MAP_TYPE_HASH}, 72)", "EPERM", "rights", "RLIMIT"),
        ("bpf(BPF_PROG_LOAD, {prog_type=BPF_PROG_TYPE_XDP}, 72)", "EINVAL", "invalid", "EINVAL"),
        ("bpf(BPF_PROG_LOAD, {prog_type=BPF_PROG_TYPE_XDP}, 72)", "EPERM", "rights", "RLIMIT"),
        ("bpf(BPF_BTF_LOAD, {btf_size=41}, 32)", "EINVAL", "btf-refused", "EINVAL"),
        ("bpf(BPF_MAP_UPDATE_ELEM, {map_fd=4}, 72)", "E2BIG", "map-entry", "full"),
        ("perf_event_open({type=PERF_TYPE_HARDWARE}, -1, 0)", "ENOENT", "perf-event", "counters"),
        ("perf_event_open({type=PERF_TYPE_SOFTWARE}, -1, 0)", "EACCES", "rights", "paranoid"),
    ],
)
def test_a_call_that_strace_shows_is_told_by_what_it_is_for(
    call: str, errno: str, id_: str, word: str
) -> None:
    found = only(f"{call} = -1 {errno} ({os.strerror(getattr(errno_numbers, errno))})\n")
    assert (found.explanation.id, found.errno) == (id_, errno)
    assert word in found.explanation.reason


def test_a_call_that_worked_another_time_is_not_told() -> None:
    failed = (
        "bpf(BPF_MAP_CREATE, {map_type=BPF_MAP_TYPE_HASH, max_entries=1}, 72) = -1 EINVAL (x)\n"
    )
    assert explained(failed)
    assert not explained(failed + failed.replace("-1 EINVAL (x)", "3"))
    other = failed.replace("HASH", "ARRAY").replace("-1 EINVAL (x)", "3")
    assert explained(failed + other)


def test_a_message_without_a_line_end_of_its_own_is_told_from_the_numbers_behind_it() -> None:
    why = only(
        "libbpf: prog 'one': missing .BTF.ext function info for the main program, skipping it.\n"
        "libbpf: prog 'xdp_dispatcher': BPF program load failed: Invalid argument\n"
        "libbpf: prog 'xdp_dispatcher': -- BEGIN PROG LOAD LOG --\n"
        "same or smaller insn offset (0) than previous func info record (0)processed 0 insns"
        " (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n"
        "-- END PROG LOAD LOG --\n"
    ).explanation
    assert why.id == "function-table"
    assert why.words == ("same or smaller insn offset (0) than previous func info record (0)",)


def test_what_a_dispatcher_is_refused_for_is_told_where_no_log_follows() -> None:
    line = "libbpf: prog 'xdp_dispatcher': BPF program load failed: Invalid argument"
    assert only(f"{line}\nlibbpf: failed to load object 'x.o'\n").explanation.id == "xdp-dispatcher"


def test_a_helper_that_only_this_kernel_has_goes_by_the_name_it_has_there() -> None:
    why = only(f"9: (85) call bpf_frob#136\nunknown func bpf_frob#136\n{END}").explanation
    assert why.id == "helper-unknown"
    assert why.reason.startswith("bpf_frob() is helper 136 of this kernel alone")


def test_a_call_through_a_register_is_no_matter_of_the_kernels_age() -> None:
    why = only(f"unknown opcode 8d\n{END}").explanation
    assert "callx" in why.reason
    assert "-mcpu" not in why.suggestion
    assert "-mcpu" in only(f"unknown opcode dc\n{END}").explanation.suggestion


def test_a_log_that_was_escaped_twice_ends_its_lines_without_backslashes() -> None:
    why = only(
        r"error \"can't load program: permission denied: 0: (69) r1 = *(u16 *)(r2 +0)\\nR2 !read_ok"
        r"\\nprocessed 1 insns (limit 1000000)\"" + "\n"
    ).explanation
    assert (why.id, why.words) == ("register-unset", ("R2 !read_ok",))


def test_the_errno_that_stands_for_a_verifiers_log_is_no_second_failure() -> None:
    last = (
        "Couldn't attach XDP program on iface 'x': Kernel verifier blocks program loading(-4007)\n"
    )
    why = only(f"0: (95) exit\nR0 !read_ok\n{END}{last}").explanation
    assert why.id == "register-unset"
    assert only(last).explanation.id == "refused"


def test_of_a_log_without_a_complaint_eperm_is_told_as_it_may_be() -> None:
    why = only(
        "-- BEGIN PROG LOAD LOG --\nprocessed 43 insns (limit 1000000) total_states 4\n"
        "-- END PROG LOAD LOG --\n"
        "Error: libscap: bpf_load_program() event=filler/one: Operation not permitted\n"
    ).explanation
    assert why.id == "rights"
    assert "has no complaint" in why.reason
    assert why.words[0].endswith("Operation not permitted")


def _calls_to_explain(failures: int) -> int:
    """How many functions are called to explain that many different failures."""
    log = "".join(
        f"libbpf: prog 'p{n}': BPF program load failed: Permission denied\n"
        f"libbpf: prog 'p{n}': -- BEGIN PROG LOAD LOG --\n"
        "1: (71) r1 = *(u8 *)(r1 +12)\n"
        "invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)\n"
        "processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0\n"
        f"libbpf: prog 'p{n}': failed to load: -EACCES\n"
        for n in range(failures)
    )
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = sum(1 for _ in explain_log(io.BytesIO(log.encode())))
    finally:
        sys.setprofile(None)
    assert found == failures
    return calls


def test_many_failures_cost_as_much_each_as_few() -> None:
    """45,000 failures once took a quarter of an hour: each one searched all earlier failures."""
    _calls_to_explain(200)  # patterns are compiled once
    assert _calls_to_explain(1600) < 2.2 * _calls_to_explain(800)


#: Logs and pages without a rejected BPF object, although they have similar words.
NO_FAILURE = (
    # a build: a package that is not there, and the programs' own errors
    (
        "#7 RUN apt-get install -y libbpf-dev\n#7 1.2 E: Unable to locate package libbpf-dev\n"
        "#7 ERROR: process did not complete successfully: exit code: 100\n"
        'docker: exec: "/agent": permission denied: unknown.\n'
    ),
    (
        "Setting up bpftrace (0.17.0-1) ...\n"
        "installed web package post-installation script subprocess returned error exit status 1\n"
    ),
    "main.c:12:5: error: use of undeclared identifier 'map'\nmake: *** [main.o] Error 1\n",
    # messages of the kernel and of services about other programs
    'audit: apparmor="DENIED" operation="open" profile="/usr/sbin/timed" name="/etc/x.cnf"\n',
    "Lockdown: logind: hibernation is restricted; see man kernel_lockdown.7\n",
    "FileNotFoundError: [Errno 2] No such file or directory: '/srv/app/map.json'\n",
    (
        "ERROR cannot open config /etc/app.toml: permission denied\n"
        "INFO attaching debugger failed: operation not permitted\n"
    ),
    # pages and manuals
    (
        "<!DOCTYPE html>\n<p>The verifier rejects a program that reads memory\n"
        "without a check; too complex ones are rejected as well.</p>\n"
        "<li>a ring buffer needs Linux 5.8.</li>\n<footer>Failed to load comments.</footer>\n"
    ),
    (
        "# flows\nA small eBPF program counts flows.\n"
        "If the program does not load, run it with -v and send us the verifier log.\n"
    ),
    (
        "A program is loaded by bpf(2). If it is refused, you get EPERM or EINVAL.\n"
        "Attaching a kprobe may fail with ENOENT when the function is inlined.\n"
    ),
)


@pytest.mark.parametrize("text", NO_FAILURE)
def test_where_nothing_of_bpf_was_refused_nothing_is_explained(text: str) -> None:
    assert not explained(text)


@pytest.mark.parametrize(
    ("log", "id_", "said", "unsaid"),
    [
        (
            "x: map.Create() failed: objPin to '/sys/fs/bpf/y': File exists",
            "pin",
            "exists",
            "mount",
        ),
        ("error attaching socket filter: raise net.core.optmem_max", "memory", "options", "cgroup"),
        (
            "failed to attach lsm probe: create raw tracepoint: not supported",
            "attach-hook",
            "lsm=",
            "XDP",
        ),
        (
            (
                "libbpf: prog 'f': -- BEGIN PROG LOAD LOG --\n"
                "JIT does not support calling kernel function\n"
                "processed 0 insns\n"
            ),
            "jit",
            "architecture lacks",
            "bpf_jit_enable",
        ),
        (
            "7: (85) call bpf_probe_read#4\nunknown func bpf_probe_read#4\nprocessed 8 insns\n",
            "helper-unknown",
            "locked down",
            "came to a type later",
        ),
    ],
)
def test_the_reason_that_the_line_proves_stands_alone(
    log: str, id_: str, said: str, unsaid: str
) -> None:
    found = only(f"{log}\n").explanation
    assert found.id == id_
    assert said in found.reason + found.suggestion
    assert unsaid not in found.reason + found.suggestion
