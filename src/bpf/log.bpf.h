/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of a session: its calls, returns, probe hits and arguments in order. The log has its own
 * map. It is sent in one record when the session is reported or when the log is full, so a session
 * that is not reported usually costs no record.
 */
#ifndef RSN_LOG_BPF_H
#define RSN_LOG_BPF_H

#include "settings.bpf.h"
#include "shadow.bpf.h"
#include "transport.bpf.h"

enum {
	RSN_LOG_BYTES = 4096, /* a power of two: events begin below and may end beyond */
};

/* The state of a capture of arguments. */
struct arg_source {
	__u64 at; /* position of the next bytes in the item */
	__u64 slots[16]; /* argument registers in their order; the last one: the stack pointer */
};

struct log {
	struct arg_source source;
	struct log_mark marks[RSN_MAX_DEPTH]; /* the log's position before each call of the stack */
	struct rsn_part part;
	char data[];
};

/* Bytes of data: the loader sets it so that any item that begins below RSN_LOG_BYTES fits. */
const volatile __u64 log_bytes = RSN_LOG_BYTES + sizeof(struct rsn_event);

/* One entry for each place of the session table; the loader sets the size if a log is used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct log) + RSN_LOG_BYTES + sizeof(struct rsn_event));
} logs SEC(".maps");

/* Whether this run uses logs. */
static __always_inline bool keeps_log(void)
{
	return emit_calls || capture_args || emit_paths;
}

/* Sends a part with its session's key; counts it as lost if the buffer is full. */
static __always_inline void part_send(void *ctx, struct rsn_session *rec, struct rsn_part *part,
				      __u32 type, __s32 cnt, __u64 size)
{
	part->type = type;
	part->size = size;
	part->start_ts = rec->start_ts;
	part->tid = rec->tid;
	part->cnt = cnt;
	if (transport_send(ctx, part, size))
		rec->dropped++;
	else
		rec->parts++;
}

static __always_inline struct log *log_of(struct session *s)
{
	__u32 index = s->place;

	return bpf_map_lookup_elem(&logs, &index);
}

/* Sends the contents of the log. */
static __noinline int log_flush(void *ctx, struct session *s)
{
	struct log *log = log_of(s);
	__u64 used = barrier_value(s->log.bytes);

	if (!log || !used || used > log_bytes)
		return 0;
	part_send(ctx, &s->rec, &log->part, RSN_RECORD_EVENTS, s->log.events,
		  sizeof(log->part) + used);
	s->log_sent.bytes += s->log.bytes;
	s->log_sent.events += s->log.events;
	s->log.bytes = 0;
	s->log.events = 0;
	return 0;
}

/* Returns the place for the next event of the log or NULL; the caller fills the whole event. */
static __always_inline void *log_room(void *ctx, struct session *s, __u32 size)
{
	struct log *log;
	__u64 used;

	if (s->log.bytes + size > RSN_LOG_BYTES)
		log_flush(ctx, s);
	log = log_of(s);
	if (!log)
		return NULL;
	used = barrier_value(s->log.bytes) & (RSN_LOG_BYTES - 1);
	s->log.bytes = used + size;
	s->log.events++;
	return log->data + used;
}

/* Logs a call, a return or a hit of a probe, the session's last_seq-th event. */
static __noinline int log_event(void *ctx, struct session *s, __u64 kind_id, __u64 now,
				__s64 result)
{
	struct rsn_event *event = log_room(ctx, s, sizeof(*event));

	if (!event)
		return 0;
	event->size = sizeof(*event);
	event->kind = kind_id >> 32;
	event->flags = s->interrupt_depth ? RSN_EVENT_INTERRUPT : kind_id >> 40;
	event->depth = s->depth + s->interrupt_depth + (event->kind == RSN_EVENT_PROBE);
	event->cpu = bpf_get_smp_processor_id();
	event->id = kind_id;
	event->seq = s->rec.last_seq;
	event->ts = now;
	event->result = result;
	return 0;
}

/* Packs several arguments of log_event() into one: a BPF function has at most five. */
static __always_inline __u64 event_of(enum rsn_event_kind kind, __u32 id)
{
	return (__u64)kind << 32 | id;
}

#endif
