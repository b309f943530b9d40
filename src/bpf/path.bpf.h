/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way a call takes through its function: which of the blocks ran that have a probe, and what
 * they compared. A session has a ring for each of its last few calls of such functions, which is
 * logged when the call returns.
 */
#ifndef RSN_PATH_BPF_H
#define RSN_PATH_BPF_H

#include "log.bpf.h"

enum {
	PATH_CALLS = 16, /* rings of a session; a call's is that of its depth, modulo */
	PATH_NO_REGISTER = 0xff,
};

/* Where an operand is. */
enum path_operand_kind {
	PATH_NONE, /* nowhere: a constant */
	PATH_REGISTER,
	PATH_MEMORY, /* at base + index * scale + disp */
};

struct path_operand {
	__u8 kind; /* enum path_operand_kind */
	__u8 size; /* bytes */
	__u8 base; /* of struct pt_regs: the register's offset, or PATH_NO_REGISTER */
	__u8 index;
	__u32 scale;
	__s64 disp;
};

/* A probe in a block, by its address. */
struct path_probe {
	__u32 number;
	__u32 func_id;
	__u32 condition; /* arm64: 1 + that on which the instruction compares; 0: always, if it does */
	__u32 calls; /* 1: left is where the instruction calls, or jumps to */
	struct path_operand left;
	struct path_operand right;
};

struct path_ring {
	__u32 seq; /* of the call */
	__u32 cnt; /* hits, those that were overwritten included */
	__u64 taken; /* from the call, by one that it made: hits before are lost */
	struct rsn_hit hits[RSN_PATH_HITS];
};

struct path_rings {
	__u64 start_ts; /* of the session */
	__u64 task;
	struct path_ring rings[PATH_CALLS];
};

/* Sessions whose paths are kept at a time: of two in one place the later has it. */
const volatile __u32 path_sessions = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_rings);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct path_probe);
} path_probes SEC(".maps");

/* The rings at the place of session s, whosever they are. */
static __always_inline struct path_rings *path_rings_at(struct session *s)
{
	__u32 index = s->place % path_sessions;

	return bpf_map_lookup_elem(&paths, &index);
}

static __always_inline struct path_ring *path_ring_at(struct path_rings *rings, __u32 depth)
{
	return &rings->rings[depth & (PATH_CALLS - 1)];
}

/* Logs which blocks the call ran that is about to return, if it is known. */
static __noinline int path_log(void *ctx, struct session *s, __s64 result)
{
	struct path_rings *rings = path_rings_at(s);
	struct path_ring *ring;
	struct rsn_path *item;
	__u32 cnt, depth = s->depth - 1;
	__u64 size;

	if (!rings || rings->start_ts != s->rec.start_ts || rings->task != bpf_get_current_task())
		return 0;
	ring = path_ring_at(rings, depth);
	if (!ring->cnt || ring->seq != slot_at(s, depth)->seq)
		return 0;
	cnt = ring->cnt < RSN_PATH_HITS ? ring->cnt : RSN_PATH_HITS;
	size = barrier_value(cnt * sizeof(struct rsn_hit));
	if (size > sizeof(ring->hits))
		return 0;
	item = log_room(ctx, s, sizeof(*item) + size);
	if (!item)
		return 0;
	item->size = sizeof(*item) + size;
	item->kind = RSN_EVENT_PATH;
	item->cnt = cnt;
	item->id = slot_at(s, depth)->func_id;
	item->seq = ring->seq;
	item->earlier = ring->cnt - cnt + ring->taken;
	item->result = result;
	bpf_probe_read_kernel(item + 1, size, ring->hits);
	ring->cnt = 0;
	return 0;
}

#endif
