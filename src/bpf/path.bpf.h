/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The executed path of a call: the executed blocks with a probe, and the operands of their
 * comparisons. A session has a ring for each of its last few calls of such functions. The ring is
 * logged when the call returns.
 */
#ifndef RSN_PATH_BPF_H
#define RSN_PATH_BPF_H

#include "log.bpf.h"
#include "table.bpf.h"

enum {
	PATH_CALLS = 16, /* rings of a session; a call uses ring depth % PATH_CALLS */
	PATH_NO_REGISTER = 0xff,
	PATH_ROOMS_TRIED = 16,
	PATH_NO_ROOM = -1, /* this session's calls are not followed: other sessions use all rings */
};

/* The location of an operand. */
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
	__u32 condition; /* arm64: 1 + condition of a conditional comparison; 0: unconditional */
	__u32 calls; /* 1: left is the target of the instruction's call or jump */
	struct path_operand left;
	struct path_operand right;
};

struct path_ring {
	__u32 seq; /* of the call */
	__u32 cnt; /* hits, including overwritten hits */
	__u64 taken; /* another call, made by this one, took the ring: earlier hits are lost */
	struct rsn_hit hits[RSN_PATH_HITS];
};

/*
 * The rings of a session, from its first hit to its end. A session does not release its rings. A
 * session that needs rings checks whether the old owner is still at its place in the table. So the
 * entry and return programs, which barely pass 5.10's verifier, need no code for this.
 */
struct path_rings {
	__u64 start_ts; /* of the session */
	__u64 task;
	__u64 place;
	__u32 claims; /* by sessions that want the rings now; as a bucket's in table.bpf.h */
	__u32 unused;
	struct path_ring rings[PATH_CALLS];
};

/* The maximum number of sessions with rings at a time. */
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

/* Whether the session that owns the rings still runs. */
static __always_inline bool path_rings_in_use(const struct path_rings *rings)
{
	__u32 index = rings->place;
	struct bucket *bucket = bucket_at(index / BUCKET_SIZE);
	struct session *owner = bpf_map_lookup_elem(&sessions, &index);

	return bucket && owner && rings->task &&
	       bucket->tasks[index % BUCKET_SIZE] == rings->task &&
	       owner->rec.start_ts == rings->start_ts;
}

/* Takes rings that no running session owns; false if another session was faster. */
static __noinline bool path_rings_take(struct path_rings *rings, struct session *s, __u64 task)
{
	volatile __u32 *claims = &rings->claims;
	bool is_free = false;

	if (*claims || path_rings_in_use(rings))
		return false;
	add_in_order(&rings->claims, 1); /* the old owner is read after this */
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

/* Finds rings for session s at its first hit: returns 1 + their index, or PATH_NO_ROOM. */
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

/* Returns the rings of session s, NULL without rings. */
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

/* Logs the executed blocks of the call that is about to return, if they were recorded. */
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
