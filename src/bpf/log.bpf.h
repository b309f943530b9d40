/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of a session: its calls, returns, probe hits and arguments, in the order in which they
 * happen. It lies in a map beside the session's and is sent in one record when the session is
 * reported, or when it is full: a session that is not reported in the end mostly costs no record.
 */
#ifndef RSN_LOG_BPF_H
#define RSN_LOG_BPF_H

#include "settings.bpf.h"
#include "transport.bpf.h"

enum {
	RSN_LOG_BYTES = 4096, /* a power of two: events begin below it and may go past it */
};

struct log {
	struct rsn_part part;
	char data[RSN_LOG_BYTES + sizeof(struct rsn_event)];
};

/* One for each place of the session table; the loader makes it so where anything is logged. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct log);
} logs SEC(".maps");

/* Fills in whose part it is and sends it; what does not fit the buffer is counted as lost. */
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

#endif
