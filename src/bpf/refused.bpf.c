// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kernel's audit records when a security module denies an operation, and system calls that
 * restrict the calling process: seccomp filters, Landlock rule sets. `why` uses these records to
 * name the profile, the rule and the process that installed it.
 *
 * The records are of the whole machine: there are few, and the reader filters by the command's
 * threads.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	REFUSED_AUDIT = 1, /* the text is the record */
	REFUSED_INSTALLED = 2, /* `number`: the system call that succeeded */
	REFUSED_TEXT_BYTES = 1024,
	REFUSED_HEAD = 16, /* bytes of a netlink message's header */
	REFUSED_CALLS = 3,
	REFUSED_MOST = 2000, /* records of a run */
	PR_SET_SECCOMP = 22,
};

struct refused_event {
	__u64 time; /* CLOCK_MONOTONIC ns */
	__u32 tid;
	__u32 tgid;
	__u32 type; /* REFUSED_* */
	__u32 number;
	__u32 bytes; /* of the text */
	__u32 unused;
	char comm[16];
	char text[REFUSED_TEXT_BYTES];
};
const struct refused_event *refused_types __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* System calls that restrict a process: landlock_restrict_self, seccomp, prctl. */
const volatile __u32 numbers[REFUSED_CALLS];

__u64 lost;
__u64 sent;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff___refused {
	unsigned int len;
	unsigned char *data;
};

struct audit_buffer___refused {
	struct sk_buff___refused *skb;
};

#if defined(__TARGET_ARCH_arm64)
struct pt_regs___refused {
	struct user_pt_regs user_regs;
	__u64 orig_x0;
	__s32 syscallno;
};
#else
struct pt_regs___refused {
	unsigned long di, orig_ax;
};
#endif

#pragma clang attribute pop

static __always_inline struct refused_event *reserve(__u32 type)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct refused_event *event;

	if (__sync_fetch_and_add(&sent, 1) >= REFUSED_MOST)
		return NULL;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	event->time = bpf_ktime_get_ns();
	event->tid = id;
	event->tgid = id >> 32;
	event->type = type;
	event->number = 0;
	event->bytes = 0;
	event->unused = 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return event;
}

/* AppArmor, SELinux, Smack, IPE, and Landlock since 6.15; a record is a netlink message with a text. */
SEC("kprobe/audit_log_end")
int BPF_KPROBE(refused_audit, struct audit_buffer___refused *buffer)
{
	struct sk_buff___refused *message;
	struct refused_event *event;
	__u32 bytes;

	if (!buffer)
		return 0;
	message = BPF_CORE_READ(buffer, skb);
	bytes = BPF_CORE_READ(message, len);
	if (bytes <= REFUSED_HEAD)
		return 0;
	bytes -= REFUSED_HEAD;
	if (bytes > REFUSED_TEXT_BYTES)
		bytes = REFUSED_TEXT_BYTES;
	event = reserve(REFUSED_AUDIT);
	if (!event)
		return 0;
	event->bytes = bytes;
	if (bpf_probe_read_kernel(event->text, bytes, BPF_CORE_READ(message, data) + REFUSED_HEAD))
		event->bytes = 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* (registers, result) */
SEC("raw_tp/sys_exit")
int refused_call(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs___refused *regs = (void *)ctx->args[0];
	struct refused_event *event;
	__s64 result = ctx->args[1];
	__u32 number;
	__u64 first;

#if defined(__TARGET_ARCH_arm64)
	number = BPF_CORE_READ(regs, syscallno);
	first = BPF_CORE_READ(regs, orig_x0);
#else
	number = BPF_CORE_READ(regs, orig_ax);
	first = BPF_CORE_READ(regs, di);
#endif
	if (number != numbers[0] && number != numbers[1] && number != numbers[2])
		return 0;
	if (result < 0 || (number == numbers[2] && first != PR_SET_SECCOMP))
		return 0;
	event = reserve(REFUSED_INSTALLED);
	if (!event)
		return 0;
	event->number = number;
	bpf_ringbuf_submit(event, 0);
	return 0;
}
