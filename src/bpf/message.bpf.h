/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel messages during a session: each message that the kernel writes in the session's thread,
 * outside interrupts, is a part of the session. Calls have no overhead from this.
 */
#ifndef RSN_MESSAGE_BPF_H
#define RSN_MESSAGE_BPF_H

#include "log.bpf.h"
#include "session.bpf.h"

struct message {
	__u64 fs_log; /* the log that logfc() writes to */
	struct rsn_part part;
	char text[RSN_MESSAGE_BYTES];
};

/* One entry for each place of the session table; the loader sets the size for messages. */
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

/* The address of vprintk_store()'s text, before Linux 5.12. */
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
 * Returns the session with the calls that wrote a message at stack place `place`, or NULL. The
 * caller has to leave the session afterwards.
 */
static __always_inline struct session *message_session(__u32 place)
{
	__u64 task;
	struct session *s;

	if (!ready)
		return NULL;
	task = bpf_get_current_task();
	s = session_of(task);
	/* A message written while a program of ours runs does not belong to the call. */
	if (!s || !s->at_rest)
		return NULL;
	s->at_rest = false;
	barrier();
	if (s->depth && !is_interrupt(s, task, place))
		return s;
	session_leave(s);
	return NULL;
}

/* The kernel writes `text`, of `size` bytes as in message_send(), at stack place `place`. */
static __always_inline int message_said(void *ctx, __u32 place, __u32 source, __u64 text,
					__u64 size)
{
	struct session *s = message_session(place);

	if (!s)
		return 0;
	message_send(ctx, s, source, text, size);
	return session_leave(s);
}

/* (text, its size in bytes); since Linux 5.19 in the thread that writes the message */
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

/* Returns the address of a log's last message; 0 without a message. */
static __always_inline __u64 fs_log_text(struct fc_log *log)
{
	__u64 last = (BPF_CORE_READ(log, head) + 7u) & 7, text = 0;

	bpf_probe_read_kernel(&text, sizeof(text),
			      (void *)log + bpf_core_field_offset(struct fc_log, buffer) +
				      last * sizeof(text));
	return text;
}

/* Without a log, logfc() writes to the kernel log, and rsn_console handles the message. */
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

/* --- messages that the kernel does not format --- */

/*
 * A function that writes a format and its arguments to a log for a BPF loader. If the loader did
 * not request a log, the kernel writes nothing and returns only an error number.
 */
struct speaker {
	__u64 address;
	__u32 level_at; /* from its first argument to the log's level */
	__s32 item_at; /* to the instruction or type of the message; -1: none */
	__u32 format; /* the argument that is the format, from 0 */
	__u32 source; /* enum rsn_message_source */
};

enum {
	RSN_SPEAKERS = 6,
	RSN_SPEAKER_BYTES = 32, /* from its beginning to a possible address of a probe in it */
	RSN_ARG_REGISTERS = 8, /* on arm64; six on x86-64 */
};

const volatile struct speaker speakers[RSN_SPEAKERS];

struct words {
	__u64 arguments[RSN_ARG_REGISTERS + RSN_WORDS]; /* registers, then the stack */
	struct rsn_part part;
	struct rsn_words said;
};

/* Per CPU: a program of a kprobe never interrupts another program of a kprobe. */
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

/* Reads the arguments of a variadic function at its first instruction. */
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
	stack += sizeof(stack); /* skip the return address */
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
		return 0; /* the loader gets the message in its log */
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
	misses_note(s); /* calls of this program itself are not missed calls */
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
