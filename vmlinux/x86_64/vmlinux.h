/* SPDX-License-Identifier: BSD-2-Clause */
/* Made by vmlinux/generate.py for x86_64: change its tables, not this file. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef unsigned char __u8;
typedef signed char __s8;
typedef short unsigned int __u16;
typedef short int __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef long long unsigned int __u64;
typedef long long int __s64;
typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int __kernel_pid_t;
typedef __kernel_pid_t pid_t;
typedef u8 kprobe_opcode_t;

enum {
	false = 0,
	true = 1,
	BPF_F_CURRENT_CPU = 4294967295,
	BPF_ANY = 0,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
	BPF_F_USER_STACK = 256,
	BPF_F_USER_BUILD_ID = 2048,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

struct files_struct;

struct signal_struct;

struct seq_file;

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[0];
};

struct task_struct {
	void *stack;
	pid_t pid;
	pid_t tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	long unsigned int nvcsw;
	long unsigned int nivcsw;
	char comm[16];
	struct files_struct *files;
	struct signal_struct *signal;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct kprobe {
	kprobe_opcode_t *addr;
};

struct pt_regs {
	long unsigned int bp;
	long unsigned int r9;
	long unsigned int r8;
	long unsigned int ax;
	long unsigned int cx;
	long unsigned int dx;
	long unsigned int si;
	long unsigned int di;
	long unsigned int ip;
	long unsigned int sp;
};

#pragma clang attribute pop

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#endif
