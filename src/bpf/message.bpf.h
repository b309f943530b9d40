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

/*
 * The session in whose calls something is said at stack place `place`, to be left behind it; NULL
 * if there is none.
 */
static __always_inline struct session *message_session(__u32 place)
{
	__u64 task;
	struct session *s;

	if (!ready)
		return NULL;
	task = bpf_get_current_task();
	s = session_of(task);
	/* what is said while a program of ours is at work is not the call's */
	if (!s || !s->at_rest)
		return NULL;
	s->at_rest = false;
	barrier();
	if (s->depth && !is_interrupt(s, task, place))
		return s;
	session_leave(s);
	return NULL;
}

/* The kernel says `text`, of `size` bytes as in message_send(), at stack place `place`. */
static __always_inline int message_said(void *ctx, __u32 place, __u32 source, __u64 text,
					__u64 size)
{
	struct session *s = message_session(place);

	if (!s)
		return 0;
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

/* --- what is not written out --- */

/*
 * A function that is given a format and what belongs to it, for a log that a loader of BPF may want.
 * Where it wants none nothing is written, and the error number is all that is left of it.
 */
struct speaker {
	__u64 address;
	__u32 level_at; /* from its first argument to the log's level */
	__s32 item_at; /* to what it is about: an instruction, a type; -1: to nothing */
	__u32 format; /* the argument that is the format, from 0 */
	__u32 source; /* enum rsn_message_source */
};

enum {
	RSN_SPEAKERS = 6,
	RSN_SPEAKER_BYTES = 32, /* from its beginning to where a probe may say it is */
	RSN_ARG_REGISTERS = 8, /* on arm64; six on x86-64 */
};

const volatile struct speaker speakers[RSN_SPEAKERS];

struct words {
	__u64 arguments[RSN_ARG_REGISTERS + RSN_WORDS]; /* registers, then the stack */
	struct rsn_part part;
	struct rsn_words said;
};

/* Of each CPU: no program of a kprobe interrupts another one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} words SEC(".maps");

static __always_inline struct words *words_room(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&words, &zero);
}

static __always_inline void words_send(void *ctx, struct session *s, struct words *w, __u32 source)
{
	part_send(ctx, &s->rec, &w->part, RSN_RECORD_MESSAGE, source,
		  sizeof(w->part) + sizeof(w->said));
}

/* The arguments of a function that takes as many as it is given, at its first instruction. */
static __always_inline void words_arguments(struct pt_regs *ctx, struct words *w)
{
	__u64 *to = w->arguments, stack = PT_REGS_SP(ctx);

	*to++ = PT_REGS_PARM1(ctx);
	*to++ = PT_REGS_PARM2(ctx);
	*to++ = PT_REGS_PARM3(ctx);
	*to++ = PT_REGS_PARM4(ctx);
	*to++ = PT_REGS_PARM5(ctx);
	*to++ = PT_REGS_PARM6(ctx);
#if defined(__TARGET_ARCH_arm64)
	*to++ = PT_REGS_PARM7(ctx);
	*to++ = PT_REGS_PARM8(ctx);
#else
	stack += sizeof(stack); /* where it returns to */
#endif
	bpf_probe_read_kernel(to, RSN_WORDS * sizeof(*to), (void *)stack);
}

static __noinline int words_take(struct pt_regs *ctx, struct session *s, __u32 number)
{
	struct words *w = words_room();
	__u32 first, level = 0;
	__u64 *word, from;
	char *text;
	int i;

	if (!w || number >= RSN_SPEAKERS)
		return 0;
	words_arguments(ctx, w);
	bpf_probe_read_kernel(&level, sizeof(level),
			      (void *)w->arguments[0] + speakers[number].level_at);
	if (level)
		return 0; /* it is written, and the loader has it */
	w->said.item = 0;
	if (speakers[number].item_at >= 0)
		bpf_probe_read_kernel(&w->said.item, sizeof(w->said.item),
				      (void *)w->arguments[0] + speakers[number].item_at);
	first = barrier_value(speakers[number].format) & 3;
	if (bpf_probe_read_kernel_str(w->said.format, sizeof(w->said.format),
				      (void *)w->arguments[first]) <= 0)
		return 0;
	for (i = 0; i < RSN_WORDS; i++) {
		word = &w->said.word0 + i;
		text = w->said.texts + i * RSN_WORD_BYTES;
		from = *word = w->arguments[first + 1 + i];
		*text = 0;
		if ((__s64)from < 0)
			bpf_probe_read_kernel_str(text, RSN_WORD_BYTES, (void *)from);
	}
	words_send(ctx, s, w, speakers[number].source);
	return 0;
}

SEC("kprobe.multi")
int rsn_message_words(struct pt_regs *ctx)
{
	struct session *s = message_session(stack_place(PT_REGS_SP(ctx)));
	__u64 here = PT_REGS_IP(ctx);
	int i;

	if (!s)
		return 0;
	misses_take(s);
	for (i = 0; i < RSN_SPEAKERS; i++)
		if (here - speakers[i].address < RSN_SPEAKER_BYTES)
			words_take(ctx, s, i);
	misses_note(s); /* what this program itself called is no loss */
	return session_leave(s);
}

/* (request as it was submitted, request, error) */
SEC("raw_tp/io_uring_req_failed")
int rsn_message_io_uring(struct bpf_raw_tracepoint_args *ctx)
{
	struct session *s = message_session(context_place(ctx));
	struct words *w = words_room();

	if (!s)
		return 0;
	if (w) {
		w->said.item = ctx->args[2];
		w->said.texts[0] = w->said.format[0] = 0;
		if (!bpf_probe_read_kernel(&w->said, RSN_WORDS * sizeof(w->said.word0),
					   (void *)ctx->args[0]))
			words_send(ctx, s, w, RSN_MESSAGE_IO_URING);
	}
	return session_leave(s);
}

#endif
