/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way a call takes through its function: which of the blocks ran that have a probe, and what
 * they compared. A session has a ring for each of its last few calls of such functions, which is
 * logged when the call returns.
 */
#ifndef RSN_PATH_BPF_H
#define RSN_PATH_BPF_H

#include "log.bpf.h"
#include "table.bpf.h"

enum {
	PATH_CALLS = 16, /* rings of a session; a call's is that of its depth, modulo */
	PATH_NO_REGISTER = 0xff,
	PATH_ROOMS_TRIED = 16,
	PATH_NO_ROOM = -1, /* of a session whose calls are not followed, for too many others are */
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

/*
 * Room for the paths of a session, which has it from the first hit to its end. Nothing is given back:
 * a session that is over is not at its place any more, which is looked at when another seeks room. So
 * the programs of calls and returns, which 5.10's verifier just takes, do nothing for it.
 */
struct path_rings {
	__u64 start_ts; /* of the session */
	__u64 task;
	__u64 place;
	__u32 claims; /* by those who would have it now; as a bucket's in table.bpf.h */
	__u32 unused;
	struct path_ring rings[PATH_CALLS];
};

/* Sessions whose paths are kept at a time. */
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

static __always_inline struct path_rings *path_rings_at(__u32 index)
{
	return bpf_map_lookup_elem(&paths, &index);
}

/* Whether the session that has the rings goes on. */
static __always_inline bool path_rings_in_use(const struct path_rings *rings)
{
	__u32 index = rings->place;
	struct bucket *bucket = bucket_at(index / BUCKET_SIZE);
	struct session *owner = bpf_map_lookup_elem(&sessions, &index);

	return bucket && owner && rings->task &&
	       bucket->tasks[index % BUCKET_SIZE] == rings->task &&
	       owner->rec.start_ts == rings->start_ts;
}

/* Has a session have rings that no running session has; false if others were faster. */
static __noinline bool path_rings_take(struct path_rings *rings, struct session *s, __u64 task)
{
	volatile __u32 *claims = &rings->claims;
	bool is_free = false;

	if (*claims || path_rings_in_use(rings))
		return false;
	add_in_order(&rings->claims, 1); /* whose they were is read behind it */
	if (*claims == 1 && !path_rings_in_use(rings)) {
		is_free = true;
		rings->task = task;
		rings->place = (__u32)s->place;
		rings->start_ts = s->rec.start_ts;
		for (int i = 0; i < PATH_CALLS; i++)
			rings->rings[i].cnt = rings->rings[i].seq = 0;
	}
	claim_release(&rings->claims);
	return is_free;
}

/* Room for the paths of session s, at its first hit: 1 + the index, or PATH_NO_ROOM. */
static __always_inline __u32 path_room(struct session *s, __u64 task)
{
	if (s->path_ts == s->rec.start_ts)
		return s->path_room;
	s->path_ts = s->rec.start_ts;
	s->path_room = PATH_NO_ROOM;
	for (__u32 tried = 0; tried < PATH_ROOMS_TRIED && tried < path_sessions; tried++) {
		__u32 index = (s->place + tried) % path_sessions;
		struct path_rings *rings = path_rings_at(index);

		if (rings && path_rings_take(rings, s, task)) {
			s->path_room = index + 1;
			return s->path_room;
		}
	}
	count(&stats.sessions_unfollowed);
	return s->path_room;
}

/* The rings of session s, NULL if it has none. */
static __always_inline struct path_rings *path_rings_of(struct session *s)
{
	if (s->path_ts != s->rec.start_ts || s->path_room == (__u32)PATH_NO_ROOM)
		return NULL;
	return path_rings_at(s->path_room - 1);
}

static __always_inline struct path_ring *path_ring_at(struct path_rings *rings, __u32 depth)
{
	return &rings->rings[depth & (PATH_CALLS - 1)];
}

/* Logs which blocks the call ran that is about to return, if it is known. */
static __noinline int path_log(void *ctx, struct session *s, __s64 result)
{
	struct path_rings *rings = path_rings_of(s);
	struct path_ring *ring;
	struct rsn_path *item;
	__u32 cnt, depth = s->depth - 1;
	__u64 size;

	if (!rings)
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
