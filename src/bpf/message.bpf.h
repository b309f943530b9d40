/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel itself says in words while a thread has a session: of what it writes in that
 * thread, not in an interrupt of it, each message is a part of the session. Calls pay nothing for it.
 */
#ifndef RSN_MESSAGE_BPF_H
#define RSN_MESSAGE_BPF_H

#include "log.bpf.h"
#include "session.bpf.h"

struct message {
	__u64 fs_log; /* what logfc() is writing to */
	struct rsn_part part;
	char text[RSN_MESSAGE_BYTES];
};

/* One for each place of the session table; the loader makes it so where there are messages. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct message);
} messages SEC(".maps");

static __always_inline struct message *message_of(struct session *s)
{
	__u32 index = s->place;

	return bpf_map_lookup_elem(&messages, &index);
}

/* Where vprintk_store() has its text, before Linux 5.12. */
const volatile __u64 printk_text = 0;

/* size: bytes of the text; 0: it ends in NUL */
static __noinline int message_send(void *ctx, struct session *s, __u32 source, __u64 text,
				   __u64 size)
{
	struct message *message = message_of(s);
	long bytes;

	if (!message)
		return 0;
	if (size) {
		size = barrier_value(size);
		if (size > sizeof(message->text))
			size = sizeof(message->text);
		bytes = bpf_probe_read_kernel(message->text, size, (void *)text) ? 0 : size;
	} else {
		bytes = bpf_probe_read_kernel_str(message->text, sizeof(message->text),
						  (void *)text);
	}
	size = barrier_value(bytes > 0 ? bytes : 0);
	if (!size || size > sizeof(message->text))
		return 0;
	part_send(ctx, &s->rec, &message->part, RSN_RECORD_MESSAGE, source,
		  sizeof(message->part) + size);
	return 0;
}

/* The kernel says `text`, of `size` bytes as in message_send(), at stack place `place`. */
static __always_inline int message_said(void *ctx, __u32 place, __u32 source, __u64 text,
					__u64 size)
{
	__u64 task;
	struct session *s;

	if (!ready)
		return 0;
	task = bpf_get_current_task();
	s = session_of(task);
	/* what is said while a program of ours is at work is not the call's */
	if (!s || !s->at_rest)
		return 0;
	s->at_rest = false;
	barrier();
	if (s->depth && !is_interrupt(s, task, place))
		message_send(ctx, s, source, text, size);
	return session_leave(s);
}

/* (text, bytes of it); since Linux 5.19 in the thread that says it */
SEC("raw_tp/console")
int rsn_message_printk(struct bpf_raw_tracepoint_args *ctx)
{
	return message_said(ctx, context_place(ctx), RSN_MESSAGE_PRINTK, ctx->args[0],
			    ctx->args[1]);
}

SEC("kretprobe/vprintk_store")
int rsn_message_stored(struct pt_regs *ctx)
{
	return message_said(ctx, stack_place(PT_REGS_SP(ctx)), RSN_MESSAGE_PRINTK, printk_text, 0);
}

/* (text) */
SEC("raw_tp/netlink_extack")
int rsn_message_netlink(struct bpf_raw_tracepoint_args *ctx)
{
	return message_said(ctx, context_place(ctx), RSN_MESSAGE_NETLINK, ctx->args[0], 0);
}

/* The log of a file system context (fs/fs_context.c): the last messages, `head` the next one's number. */
struct fc_log {
	__u8 head;
	char *buffer[8];
} __attribute__((preserve_access_index));

/* Where the last message of a log is; 0: nowhere. */
static __always_inline __u64 fs_log_text(struct fc_log *log)
{
	__u64 last = (BPF_CORE_READ(log, head) + 7u) & 7, text = 0;

	bpf_probe_read_kernel(&text, sizeof(text),
			      (void *)log + bpf_core_field_offset(struct fc_log, buffer) +
				      last * sizeof(text));
	return text;
}

/* Without a log logfc() writes to the kernel's, and that is seen there. */
SEC("kprobe/logfc")
int rsn_message_fs_begin(struct pt_regs *ctx)
{
	struct session *s = ready ? session_of(bpf_get_current_task()) : NULL;
	struct message *message = s ? message_of(s) : NULL;

	if (message)
		message->fs_log = PT_REGS_PARM1(ctx);
	return 0;
}

SEC("kretprobe/logfc")
int rsn_message_fs_end(struct pt_regs *ctx)
{
	struct session *s = ready ? session_of(bpf_get_current_task()) : NULL;
	struct message *message = s ? message_of(s) : NULL;
	__u64 text;

	if (!message || !message->fs_log)
		return 0;
	text = fs_log_text((struct fc_log *)message->fs_log);
	message->fs_log = 0;
	return message_said(ctx, stack_place(PT_REGS_SP(ctx)), RSN_MESSAGE_FS_CONTEXT, text, 0);
}

#endif
